//! `html_to_markdown`: what a page is about, found as browsers' reader views find it, as Markdown.

use dom_smoothie::{Config, Readability};
use kit::{input, Failure};
use serde::Deserialize;
use serde_json::{json, Value};
use url::Url;

use crate::failed;

mod formulas;
mod hints;
mod markdown;
mod page;

/// The most that the http tool hands over.
const MAX_PAGE_BYTES: usize = 5 * 1024 * 1024;
/// What comes before this bound fits into the memory that the capability file gives.
const MAX_TAGS: usize = 200_000;

#[derive(Deserialize, Default, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[default]
    Article,
    Page,
    Off,
}

#[derive(Deserialize)]
pub struct Params {
    html: String,
    url: Option<String>,
    #[serde(default)]
    mode: Mode,
}

/// A page as Markdown; what is not said in it is empty.
#[derive(Default)]
pub struct Converted {
    pub title: String,
    byline: Option<String>,
    published: Option<String>,
    pub markdown: String,
    /// The address that the page moves to by itself.
    pub moved_to: Option<Url>,
    /// The reason why text is missing.
    pub note: Option<&'static str>,
}

pub fn html_to_markdown(Params { html, url, mode }: Params) -> Result<Value, Failure> {
    if mode == Mode::Off {
        return Ok(json!({ "markdown": html, "converted": false }));
    }
    let base = url.as_deref().map(read_url).transpose()?;
    if mode == Mode::Page {
        let Converted { title, markdown, .. } = whole_page(&html, base.as_ref())?;
        return Ok(json!({ "title": title, "markdown": markdown, "converted": true }));
    }
    let Converted { title, byline, published, markdown, .. } = article(&html, base.as_ref())?;
    Ok(json!({ "title": title, "byline": byline, "published": published, "markdown": markdown, "converted": true }))
}

/// The article of a page, or all of it where it has none.
pub fn readable(html: &str, base: &Url) -> Result<Converted, Failure> {
    let found = match article(html, Some(base)) {
        Err(failure) if failure.code.as_deref() == Some("no-content") => whole_page(html, Some(base)),
        found => found,
    };
    let found = found?;
    let moved_to = hints::refresh(html, base);
    let note = hints::note(html, &found.markdown, moved_to.is_some());
    Ok(Converted { moved_to, note, ..found })
}

fn whole_page(html: &str, base: Option<&Url>) -> Result<Converted, Failure> {
    let page = open(html, base)?;
    let title = page.select("title").text().trim().to_owned();
    Ok(Converted { title, markdown: markdown::of(&page.html())?, ..Converted::default() })
}

fn article(html: &str, base: Option<&Url>) -> Result<Converted, Failure> {
    let page = open(html, base)?;
    let config = Config { keep_classes: true, ..Config::default() };
    let found = Readability::with_document(page, base.map(Url::as_str), Some(config)).and_then(|mut page| page.parse());
    let article = found.map_err(|error| no_content(&error.to_string()))?;
    let markdown = markdown::of(&article.content)?;
    if markdown.trim().is_empty() {
        return Err(no_content("it has no text"));
    }
    let (title, byline, published) = (article.title, article.byline, article.published_time);
    Ok(Converted { title, byline, published, markdown, ..Converted::default() })
}

fn open(html: &str, base: Option<&Url>) -> Result<dom_query::Document, Failure> {
    if html.len() > MAX_PAGE_BYTES {
        let size = html.len();
        let message = format!("the page has {size} bytes, and at most {MAX_PAGE_BYTES} are converted");
        return Err(input("page-too-large", message));
    }
    if html.bytes().filter(|byte| *byte == b'<').count() > MAX_TAGS {
        return Err(input("page-too-large", format!("the page has more than {MAX_TAGS} tags, which are not converted")));
    }
    let page = page::read(html)?;
    page::tidy(&page, base);
    Ok(page)
}

fn no_content(why: &str) -> Failure {
    failed("no-content", format!("no article was found in the page ({why}): mode \"page\" converts all of it"))
}

fn read_url(text: &str) -> Result<Url, Failure> {
    match Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => Ok(url),
        _ => Err(input("invalid-url", "url is the http or https address of the page")),
    }
}
