//! `http`: one request, and its answer.

use std::collections::BTreeMap;

use kit::bindings::wasmrt::tool::http::{self, Header, Method, Request, Response};
use kit::{input, Failure};
use serde::Deserialize;
use serde_json::{json, Value};
use url::Url;

use crate::content::Content;
use crate::html;

const TIMEOUT_SECONDS: u32 = 30;

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "UPPERCASE")]
enum Verb {
    Get,
    Post,
    Put,
    Delete,
    Patch,
}

#[derive(Deserialize)]
struct NamedValue {
    name: String,
    value: String,
}

#[derive(Deserialize)]
pub struct Params {
    method: Verb,
    url: String,
    #[serde(default)]
    headers: Vec<NamedValue>,
    body: Option<Value>,
    timeout_secs: Option<u32>,
    #[serde(default)]
    markdown: bool,
}

pub fn http(params: Params) -> Result<Value, Failure> {
    let url = in_ascii(&params.url);
    check_way(&url)?;
    let mut headers: Vec<Header> =
        params.headers.into_iter().map(|NamedValue { name, value }| Header { name, value }).collect();
    let body = params.body.map(|body| {
        let (kind, bytes) = match body {
            Value::String(text) => ("text/plain; charset=utf-8", text.into_bytes()),
            other => ("application/json", other.to_string().into_bytes()),
        };
        if !headers.iter().any(|header| header.name.eq_ignore_ascii_case("content-type")) {
            headers.push(Header { name: "Content-Type".into(), value: kind.into() });
        }
        bytes
    });
    let method = match params.method {
        Verb::Get => Method::Get,
        Verb::Post => Method::Post,
        Verb::Put => Method::Put,
        Verb::Delete => Method::Delete,
        Verb::Patch => Method::Patch,
    };
    let request = Request { method, url: url.clone(), headers, body, timeout_ms: timeout_ms(params.timeout_secs) };
    answer(http::fetch(&request)?, &url, params.markdown)
}

/// Writes an international host in IDNA's ASCII, and other letters outside ASCII percent-encoded. Nothing else changes, so that
/// the host still refuses ambiguous addresses; it decides about the address that this returns, which is the one that is sent.
pub fn in_ascii(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://").filter(|_| !url.is_ascii() && !url.contains(['\\', ' '])) else {
        return url.into();
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let host = match Url::parse(&format!("https://{authority}/")) {
        _ if authority.is_ascii() => authority.to_owned(),
        Ok(read) if !authority.contains(['@', '%', ':']) => read.host_str().unwrap_or(authority).to_owned(),
        _ => return url.into(),
    };
    let mut ascii = format!("{scheme}://{host}");
    for c in path.chars() {
        match c {
            _ if c.is_ascii() => ascii.push(c),
            _ if c.is_whitespace() || c.is_control() => return url.into(),
            _ => ascii.extend(c.encode_utf8(&mut [0; 4]).bytes().map(|byte| format!("%{byte:02X}"))),
        }
    }
    ascii
}

/// What is sent goes by HTTPS to port 443 alone; whatever else is wrong with an address is the host's to say. The host
/// would refuse this too, but with a line for a capability file that is not the caller's.
pub fn check_way(url: &str) -> Result<(), Failure> {
    match Url::parse(url) {
        Ok(read) if read.scheme() != "https" => {
            Err(input("insecure-scheme", format!("only https is asked, and not {}: write https://", read.scheme())))
        }
        Ok(read) if read.port().is_some() => {
            Err(input("other-port", "only port 443 is asked; another needs a tool whose capability file names it"))
        }
        _ => Ok(()),
    }
}

pub fn timeout_ms(seconds: Option<u32>) -> Option<u32> {
    Some(seconds.unwrap_or(TIMEOUT_SECONDS).saturating_mul(1000))
}

fn answer(response: Response, url: &str, markdown: bool) -> Result<Value, Failure> {
    let (status, headers) = (response.status, by_name(&response.headers));
    let content = Content::of(response, url);
    let mut answer = json!({ "status": status, "headers": headers });
    let Some(text) = &content.text else {
        answer["body"] = Value::Null;
        answer["omitted"] = format!("{}, which is not text", content.in_words()).into();
        return Ok(answer);
    };
    if markdown && content.is_html() {
        let base = Url::parse(url).map_err(|_| input("invalid-url", "url is an https address"))?;
        let page = html::readable(text, &base)?;
        answer["title"] = page.title.into();
        answer["body"] = page.markdown.into();
        if let Some(note) = page.note {
            answer["note"] = note.into();
        }
        return Ok(answer);
    }
    let parsed = if content.is_json() { serde_json::from_str(text).ok() } else { None };
    answer["body"] = parsed.unwrap_or_else(|| Value::from(text.as_str()));
    Ok(answer)
}

/// Values of one name are joined, as RFC 9110 5.3 has it.
fn by_name(headers: &[Header]) -> BTreeMap<String, String> {
    let mut joined: BTreeMap<String, String> = BTreeMap::new();
    for header in headers {
        joined
            .entry(header.name.to_ascii_lowercase())
            .and_modify(|value| {
                value.push_str(", ");
                value.push_str(&header.value);
            })
            .or_insert_with(|| header.value.clone());
    }
    joined
}
