//! HTML to Markdown.

use htmd::element_handler::Handlers;
use htmd::options::{BulletListMarker, Options};
use htmd::{Element, HtmlToMarkdown};
use kit::{Failure, FailureKind};

pub fn of(html: &str) -> Result<String, Failure> {
    let options = Options {
        bullet_list_marker: BulletListMarker::Dash,
        ul_bullet_spacing: 1,
        ol_number_spacing: 1,
        ..Options::default()
    };
    let formula = |handlers: &dyn Handlers, element: Element| {
        let attribute = |name: &str| element.attrs.iter().find(|each| &*each.name.local == name).map(|each| &*each.value);
        let mark = if attribute("display") == Some("block") { "$$" } else { "$" };
        Some(match attribute("alttext") {
            Some(tex) => format!("{mark}{tex}{mark}").into(),
            None => handlers.walk_children(element.node),
        })
    };
    let skipped = vec!["head", "script", "style"];
    let converter = HtmlToMarkdown::builder().options(options).skip_tags(skipped).add_handler(vec!["math"], formula).build();
    converter.convert(html).map_err(|error| Failure {
        kind: FailureKind::OperationFailed,
        code: Some("not-converted".into()),
        message: format!("the page could not be converted: {error}"),
    })
}
