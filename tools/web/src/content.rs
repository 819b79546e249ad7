//! The body of an answer: its media type, and its text where it is text.

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};
use kit::bindings::wasmrt::tool::http::Response;

/// Where browsers look for the encoding that a page names itself (HTML, "prescan a byte stream").
const PRESCAN_BYTES: usize = 1024;

pub struct Content {
    /// In lower case, without parameters; empty where nothing was said.
    pub media_type: String,
    /// None for what is not text, whatever it was called.
    pub text: Option<String>,
    pub bytes: usize,
}

impl Content {
    pub fn of(response: Response) -> Content {
        let said = header(&response, "content-type").unwrap_or_default().to_owned();
        let media_type = said.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let text = decoded(&response.body, charset_of(&said));
        Content { media_type, text, bytes: response.body.len() }
    }

    pub fn is_json(&self) -> bool {
        self.media_type == "application/json" || self.media_type.ends_with("+json")
    }

    /// True for HTML by its type; where there is no type, by its first tag.
    pub fn is_html(&self) -> bool {
        match self.media_type.as_str() {
            "text/html" | "application/xhtml+xml" => true,
            "" => self.text.as_deref().is_some_and(|text| {
                let start: String = text.trim_start().chars().take(14).collect::<String>().to_ascii_lowercase();
                start.starts_with("<!doctype html") || start.starts_with("<html")
            }),
            _ => false,
        }
    }

    pub fn in_words(&self) -> String {
        let kind = if self.media_type.is_empty() { "an unnamed type" } else { &self.media_type };
        format!("{} bytes of {kind}", self.bytes)
    }
}

pub fn header<'a>(response: &'a Response, name: &str) -> Option<&'a str> {
    response.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name)).map(|header| header.value.as_str())
}

/// The text in the encoding that a byte order mark, the server, or the page names, in this order; where nobody does, UTF-8
/// or what pages without a word about it are in.
fn decoded(body: &[u8], charset: Option<&str>) -> Option<String> {
    let start = &body[..body.len().min(PRESCAN_BYTES)];
    let named = charset.and_then(|name| Encoding::for_label(name.as_bytes())).or_else(|| named_by_page(start));
    let guess = if std::str::from_utf8(body).is_ok() { UTF_8 } else { WINDOWS_1252 };
    let (text, _, _) = named.unwrap_or(guess).decode(body);
    is_text(&text).then(|| text.into_owned())
}

fn charset_of(content_type: &str) -> Option<&str> {
    content_type.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches('"'))
    })
}

fn named_by_page(start: &[u8]) -> Option<&'static Encoding> {
    let start = String::from_utf8_lossy(start).to_ascii_lowercase();
    let tag = start.split("<meta").skip(1).find(|rest| rest.split('>').next().unwrap_or_default().contains("charset"))?;
    let (_, value) = tag.split('>').next()?.split_once("charset")?;
    let value = value.trim_start().strip_prefix('=')?.trim_start().trim_start_matches(['"', '\'']);
    let label = value.split(['"', '\'', ';', ' ', '/']).next()?;
    // A page whose tag can be read as ASCII is not in UTF-16, whatever it says.
    Encoding::for_label(label.as_bytes()).map(Encoding::output_encoding)
}

fn is_text(text: &str) -> bool {
    !text.chars().any(|c| c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\x0c' | '\x1b' | '\u{80}'..='\u{9f}'))
}
