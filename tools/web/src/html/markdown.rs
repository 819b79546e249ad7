//! HTML to Markdown.

use htmd::options::{BulletListMarker, Options};
use htmd::HtmlToMarkdown;
use kit::{Failure, FailureKind};

pub fn of(html: &str) -> Result<String, Failure> {
    let options = Options {
        bullet_list_marker: BulletListMarker::Dash,
        ul_bullet_spacing: 1,
        ol_number_spacing: 1,
        ..Options::default()
    };
    let converter = HtmlToMarkdown::builder().options(options).skip_tags(vec!["head", "script", "style"]).build();
    converter.convert(html).map_err(|error| Failure {
        kind: FailureKind::OperationFailed,
        code: Some("not-converted".into()),
        message: format!("the page could not be converted: {error}"),
    })
}
