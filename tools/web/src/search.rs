//! `web_search`: one search at the provider that the operator chose, whose answer is brought into one form.
//!
//! The host says in the context of the call which provider it is, and puts the credential into the request.

use kit::bindings::wasmrt::tool::http::{self, Header, Method, Request, Response};
use kit::{input, Failure, FailureKind};
use serde::Deserialize;
use serde_json::{json, Value};
use url::Url;

use crate::failed;

pub const NAME: &str = "web_search";
const USUAL_RESULTS: usize = 10;
const MAX_RESULTS: usize = 20;
const MAX_TEXT_CHARS: usize = 1000;
const TIMEOUT_MS: u32 = 20_000;

#[derive(Deserialize)]
struct Params {
    query: String,
    max_results: Option<usize>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum Provider {
    Brave,
    Tavily,
    Searxng,
}

#[derive(Deserialize)]
struct Settings {
    provider: Provider,
    url: String,
}

pub fn web_search(params: &str, context: Option<&str>) -> Result<Value, Failure> {
    let settings: Settings = context
        .and_then(|text| serde_json::from_str(text).ok())
        .ok_or_else(|| failed("no-provider", "no search provider is configured".into()))?;
    let params: Params = serde_json::from_str(params).map_err(|error| input("invalid-params", error.to_string()))?;
    let query = params.query.trim();
    if query.is_empty() {
        return Err(input("invalid-params", "query is empty: say what to search for"));
    }
    let count = params.max_results.unwrap_or(USUAL_RESULTS).clamp(1, MAX_RESULTS);
    let response = http::fetch(&asked(&settings, query, count)?)?;
    check_status(settings.provider, response.status)?;
    Ok(json!({ "query": query, "results": results(settings.provider, response, count)? }))
}

fn asked(settings: &Settings, query: &str, count: usize) -> Result<Request, Failure> {
    let mut url = Url::parse(&settings.url).map_err(|_| failed("no-provider", "the provider has no address".into()))?;
    let mut headers = vec![Header { name: "Accept".into(), value: "application/json".into() }];
    let (mut method, mut body) = (Method::Get, None);
    match settings.provider {
        Provider::Brave => {
            url.query_pairs_mut().append_pair("q", query).append_pair("count", &count.to_string());
        }
        Provider::Searxng => {
            url.query_pairs_mut().append_pair("q", query).append_pair("format", "json");
        }
        Provider::Tavily => {
            method = Method::Post;
            headers.push(Header { name: "Content-Type".into(), value: "application/json".into() });
            body = Some(json!({ "query": query, "max_results": count }).to_string().into_bytes());
        }
    }
    Ok(Request { method, url: url.into(), headers, body, timeout_ms: Some(TIMEOUT_MS) })
}

fn check_status(provider: Provider, status: u16) -> Result<(), Failure> {
    let (kind, code, message) = match (provider, status) {
        (_, 200..=299) => return Ok(()),
        (Provider::Searxng, 403) => (
            FailureKind::OperationFailed,
            "provider-refused",
            "the search provider answered 403: a SearxNG answers programs where its settings.yml has json under \
             search.formats"
                .into(),
        ),
        (_, 401 | 403) => {
            (FailureKind::AuthRequired, "provider-refused", format!("the search provider answered {status}: it refuses the key"))
        }
        (_, 429) => (
            FailureKind::OperationFailed,
            "provider-busy",
            "the search provider answered 429: too many searches, or none left; search less, and later".into(),
        ),
        _ => (FailureKind::OperationFailed, "provider-failed", format!("the search provider answered {status}")),
    };
    Err(Failure { kind, code: Some(code.into()), message })
}

fn results(provider: Provider, response: Response, count: usize) -> Result<Vec<Value>, Failure> {
    let strange = || failed("provider-failed", "the search provider answered what is no list of results".into());
    let answer: Value = serde_json::from_slice(&response.body).map_err(|_| strange())?;
    let (list, snippet, date) = match provider {
        // Brave leaves out what it has found nothing for.
        Provider::Brave if answer["type"] == "search" && answer["web"].is_null() => return Ok(Vec::new()),
        Provider::Brave => (&answer["web"]["results"], "description", "page_age"),
        Provider::Tavily => (&answer["results"], "content", "published_date"),
        Provider::Searxng => (&answer["results"], "content", "publishedDate"),
    };
    let found = list.as_array().ok_or_else(strange)?.iter().filter_map(|result| {
        // What has no address to read on at is nothing that was found.
        let url = Url::parse(result["url"].as_str()?).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
        let mut shown = json!({
            "title": cut(&result["title"]),
            "url": url.as_str(),
            "snippet": cut(&result[snippet]),
        });
        if let Some(date) = result[date].as_str() {
            shown["published"] = date.chars().take(40).collect::<String>().into();
        }
        Some(shown)
    });
    Ok(found.take(count).collect())
}

fn cut(text: &Value) -> String {
    text.as_str().unwrap_or_default().chars().take(MAX_TEXT_CHARS).collect()
}
