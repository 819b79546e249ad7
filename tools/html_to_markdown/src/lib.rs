//! `html_to_markdown`: what a page is about, found as browsers' reader views find it, as Markdown.

use dom_smoothie::{Config, Readability};
use kit::{input, Failure, FailureKind, Pure};
use serde::Deserialize;
use serde_json::{json, Value};
use url::Url;

mod markdown;
mod page;

/// The most that the http tool hands over.
const MAX_PAGE_BYTES: usize = 5 * 1024 * 1024;
/// What comes before this bound fits into the memory that the capability file gives.
const MAX_TAGS: usize = 200_000;

struct HtmlToMarkdown;

#[derive(Deserialize, Default, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[default]
    Article,
    Page,
    Off,
}

#[derive(Deserialize)]
struct Params {
    html: String,
    url: Option<String>,
    #[serde(default)]
    mode: Mode,
}

impl Pure for HtmlToMarkdown {
    const NAME: &'static str = "html_to_markdown";
    const DESCRIPTION: &'static str = "Converts an HTML page to Markdown: by default the article that the page is about, \
        without menus and advertisements; with mode 'page' all of it. Tables, lists, code blocks with their language, \
        links and images are kept; with 'url', links and images become absolute.";
    const SCHEMA: &'static str = include_str!("schema.json");
    type Params = Params;

    fn run(Params { html, url, mode }: Params) -> Result<Value, Failure> {
        if mode == Mode::Off {
            return Ok(json!({ "markdown": html, "converted": false }));
        }
        if html.len() > MAX_PAGE_BYTES {
            let size = html.len();
            let message = format!("the page has {size} bytes, and at most {MAX_PAGE_BYTES} are converted");
            return Err(input("page-too-large", message));
        }
        if html.bytes().filter(|byte| *byte == b'<').count() > MAX_TAGS {
            return Err(input("page-too-large", format!("the page has more than {MAX_TAGS} tags, which are not converted")));
        }
        let base = url.as_deref().map(read_url).transpose()?;
        let page = page::read(&html)?;
        drop(html);
        page::tidy(&page, base.as_ref());
        if mode == Mode::Page {
            let title = page.select("title").text().trim().to_owned();
            return Ok(json!({ "title": title, "markdown": markdown::of(&page.html())?, "converted": true }));
        }
        article(page, base.as_ref())
    }
}

fn article(page: dom_query::Document, base: Option<&Url>) -> Result<Value, Failure> {
    let config = Config { keep_classes: true, ..Config::default() };
    let found = Readability::with_document(page, base.map(Url::as_str), Some(config)).and_then(|mut page| page.parse());
    let article = found.map_err(|error| no_content(&error.to_string()))?;
    let markdown = markdown::of(&article.content)?;
    if markdown.trim().is_empty() {
        return Err(no_content("it has no text"));
    }
    Ok(json!({
        "title": article.title,
        "byline": article.byline,
        "published": article.published_time,
        "markdown": markdown,
        "converted": true,
    }))
}

fn no_content(why: &str) -> Failure {
    let message = format!("no article was found in the page ({why}): mode \"page\" converts all of it");
    Failure { kind: FailureKind::OperationFailed, code: Some("no-content".into()), message }
}

fn read_url(text: &str) -> Result<Url, Failure> {
    match Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => Ok(url),
        _ => Err(input("invalid-url", "url is the http or https address of the page")),
    }
}

kit::provide!(HtmlToMarkdown);
