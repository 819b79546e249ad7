//! `web_fetch`: the text of a page.

use kit::bindings::wasmrt::tool::http::{self, Header, Method, Request, Response};
use kit::{input, Failure, FailureKind};
use serde::Deserialize;
use serde_json::{json, Value};
use url::Url;

use crate::content::{header, Content};
use crate::failed;
use crate::html;
use crate::request::{check_way, in_ascii, timeout_ms};
use crate::robots::Robots;

pub const NAME: &str = "web_fetch";
const MAX_REDIRECTS: usize = 5;
const USUAL_CHARS: usize = 50_000;
const ACCEPT: &str = "text/markdown, text/html, application/xhtml+xml, text/plain;q=0.9, */*;q=0.5";

#[derive(Deserialize, Default, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Format {
    #[default]
    Markdown,
    Raw,
}

#[derive(Deserialize)]
pub struct Params {
    url: String,
    #[serde(default)]
    format: Format,
    #[serde(default)]
    offset: usize,
    max_chars: Option<usize>,
    timeout_secs: Option<u32>,
}

/// What the operator has set, which the host writes into the context of the call.
#[derive(Deserialize, Default)]
struct Settings {
    #[serde(default)]
    robots_txt: bool,
}

enum Found {
    Page(Response),
    Elsewhere(u16, Url),
}

pub fn web_fetch(params: &str, context: Option<&str>) -> Result<Value, Failure> {
    let settings: Settings = match context {
        Some(text) => serde_json::from_str(text).map_err(|error| failed("invalid-settings", error.to_string()))?,
        None => Settings::default(),
    };
    let params = serde_json::from_str(params).map_err(|error| input("invalid-params", error.to_string()))?;
    read(params, settings.robots_txt.then(Robots::default))
}

fn read(params: Params, mut robots: Option<Robots>) -> Result<Value, Failure> {
    let mut at = in_ascii(&params.url);
    check_way(&at)?;
    let response = match follow(&mut at, params.timeout_secs, &mut robots)? {
        Found::Page(response) => response,
        Found::Elsewhere(status, next) => return Ok(elsewhere(&at, status, &next)),
    };
    let status = response.status;
    if status >= 400 {
        let kind = if status < 500 { FailureKind::Client } else { FailureKind::OperationFailed };
        return Err(Failure { kind, code: Some("http-status".into()), message: format!("the server answered {status}") });
    }
    let content = Content::of(response, &at);
    let Some(text) = &content.text else {
        let message = format!("the answer is {}: expected HTML or other text, which is all that this tool reads", content.in_words());
        return Err(failed("not-text", message));
    };
    let mut answer = json!({ "url": at, "status": status, "content_type": content.media_type });
    if content.is_html() && params.format == Format::Markdown {
        let base = Url::parse(&at).map_err(|_| input("invalid-url", "url is an https address"))?;
        let page = html::readable(text, &base)?;
        answer["title"] = page.title.into();
        if let Some(next) = page.moved_to {
            answer["moved_to"] = next.as_str().into();
        }
        if let Some(note) = page.note {
            answer["note"] = note.into();
        }
        put_part(&mut answer, &page.markdown, params.offset, params.max_chars);
    } else {
        put_part(&mut answer, text, params.offset, params.max_chars);
    }
    Ok(answer)
}

/// Asks for a page and follows redirects on its own site. Every one of these requests is decided anew by the host.
fn follow(at: &mut String, timeout_secs: Option<u32>, robots: &mut Option<Robots>) -> Result<Found, Failure> {
    for _ in 0..=MAX_REDIRECTS {
        if let (Some(robots), Ok(url)) = (robots.as_mut(), Url::parse(at)) {
            robots.check(&url, timeout_ms(timeout_secs))?;
        }
        let response = http::fetch(&get(at, ACCEPT, timeout_ms(timeout_secs)))?;
        let location = header(&response, "location").filter(|_| matches!(response.status, 301 | 302 | 303 | 307 | 308));
        let (Some(location), Ok(here)) = (location, Url::parse(at)) else {
            return Ok(Found::Page(response));
        };
        let next = here.join(location).map_err(|_| failed("redirect", "the page is moved to no address".into()))?;
        if !same_site(&here, &next) {
            return Ok(Found::Elsewhere(response.status, next));
        }
        *at = next.into();
    }
    Err(failed("redirect", format!("the page is moved more than {MAX_REDIRECTS} times")))
}

pub fn get(url: &str, accept: &str, timeout_ms: Option<u32>) -> Request {
    let accept = Header { name: "Accept".into(), value: accept.into() };
    Request { method: Method::Get, url: url.into(), headers: vec![accept], body: None, timeout_ms }
}

/// The same host, with and without `www.`, by HTTPS. Another site is for whoever asked to decide on.
fn same_site(here: &Url, next: &Url) -> bool {
    let bare = |url: &Url| url.host_str().map(|host| host.strip_prefix("www.").unwrap_or(host).to_owned());
    next.scheme() == "https" && here.port() == next.port() && bare(here) == bare(next)
}

fn elsewhere(at: &str, status: u16, next: &Url) -> Value {
    json!({
        "url": at,
        "status": status,
        "moved_to": next.as_str(),
        "content": "",
        "note": "the page is moved to another site, which was not asked: fetch moved_to if it is to be read",
    })
}

fn put_part(answer: &mut Value, text: &str, offset: usize, max_chars: Option<usize>) {
    let total = text.chars().count();
    let part: String = text.chars().skip(offset).take(max_chars.unwrap_or(USUAL_CHARS)).collect();
    let end = offset.min(total) + part.chars().count();
    answer["content"] = part.into();
    answer["total_chars"] = total.into();
    if end < total {
        answer["next_offset"] = end.into();
    }
}
