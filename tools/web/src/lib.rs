//! `web`: tools that ask the web, and the one that makes Markdown of its pages.
//!
//! Which hosts may be asked, by which methods and with which credential is the host's to decide, for each tool by its own
//! capability file; no credential enters here.

use kit::several::{call_one, describe_all, with_params, Offer, READS};
use kit::{Annotations, Description, Failure, FailureKind, Guest};

mod content;
mod fetch;
mod html;
mod request;
mod robots;
mod search;

const FETCHES: Annotations = Annotations { read_only: true, destructive: false, network: true };
/// Of a search: a provider may take it by POST, which the host can tell from no other.
const ASKS: Annotations = Annotations { read_only: false, destructive: false, network: true };
const SENDS: Annotations = Annotations { read_only: false, destructive: true, network: true };

const OFFERS: &[Offer] = &[
    Offer {
        name: "html_to_markdown",
        description: "Converts an HTML page to Markdown: by default the article that the page is about, \
            without menus and advertisements; with mode 'page' all of it. Tables, lists, code blocks with their language, \
            links and images are kept; with 'url', links and images become absolute.",
        schema: include_str!("schemas/html_to_markdown.json"),
        annotations: READS,
        run: |params| with_params(params, html::html_to_markdown),
    },
    Offer {
        name: "http",
        description: "Sends one HTTPS request to a public host and returns status, headers and body. Redirects are not \
            followed: the answer has their 'location'. With 'markdown' an HTML page comes back as Markdown. To read a \
            page, web_fetch is simpler.",
        schema: include_str!("schemas/http.json"),
        annotations: SENDS,
        run: |params| with_params(params, request::http),
    },
    Offer {
        name: fetch::NAME,
        description: "Reads a page of the web, by HTTPS, and returns its text: HTML as Markdown, other text as it is. Of a \
            long page a part; 'offset' reads on.",
        schema: include_str!("schemas/web_fetch.json"),
        annotations: FETCHES,
        run: |params| fetch::web_fetch(params, None),
    },
    Offer {
        name: search::NAME,
        description: "Searches the web and returns titles, addresses and snippets of what was found. web_fetch reads a \
            page that was found.",
        schema: include_str!("schemas/web_search.json"),
        annotations: ASKS,
        run: |params| search::web_search(params, None),
    },
];

pub fn failed(code: &str, message: String) -> Failure {
    Failure { kind: FailureKind::OperationFailed, code: Some(code.into()), message }
}

struct Provider;

impl Guest for Provider {
    fn describe() -> Vec<Description> {
        describe_all(OFFERS)
    }

    fn call(name: String, params: String, context: Option<String>) -> Result<String, Failure> {
        match name.as_str() {
            search::NAME => search::web_search(&params, context.as_deref()).map(|answer| answer.to_string()),
            fetch::NAME => fetch::web_fetch(&params, context.as_deref()).map(|answer| answer.to_string()),
            _ => call_one(OFFERS, &name, &params),
        }
    }
}

kit::bindings::export!(Provider with_types_in kit::bindings);
