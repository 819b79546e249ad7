//! The body of an answer: its media type, and its text where it is text.

use chardetng::EncodingDetector;
use encoding_rs::{Encoding, UTF_16BE, UTF_16LE, UTF_8, WINDOWS_1252};
use kit::bindings::wasmrt::tool::http::Response;
use url::Url;

/// ISO-2022-JP consists of ASCII, with escapes.
const ESCAPE: u8 = 0x1b;
const FEW_LETTERS: usize = 8;

/// Where browsers look for the encoding that a page names itself (HTML, "prescan a byte stream").
const PRESCAN_BYTES: usize = 16 * 1024;

/// Formats by their first bytes: servers send some with another type, and some consist of ASCII alone.
const NOT_TEXT: &[(&[u8], &str)] = &[
    (b"%PDF-", "application/pdf"),
    (b"%!PS", "application/postscript"),
    (b"{\\rtf", "application/rtf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"\x89PNG", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
];

pub struct Content {
    /// In lower case, without parameters; empty where nothing was said.
    pub media_type: String,
    /// None for what is not text, whatever it was called.
    pub text: Option<String>,
    pub bytes: usize,
}

impl Content {
    /// Reads the answer of a URL.
    pub fn of(response: Response, url: &str) -> Content {
        let said = header(&response, "content-type").unwrap_or_default().to_owned();
        let media_type = said.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let (body, bytes) = (&response.body, response.body.len());
        if let Some((_, format)) = NOT_TEXT.iter().find(|(start, _)| body.starts_with(start)) {
            return Content { media_type: (*format).into(), text: None, bytes };
        }
        Content { text: decoded(body, charset_of(&said), url).filter(|_| !is_media(&media_type)), media_type, bytes }
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

/// SVG is text, the other types of media are not, whatever their bytes are.
fn is_media(media_type: &str) -> bool {
    let group = media_type.split('/').next().unwrap_or_default();
    matches!(group, "image" | "audio" | "video" | "font") && !media_type.ends_with("+xml") || media_type == "application/pdf"
}

/// The text in the encoding that a byte order mark, the server, or the page names, in this order; without a name, in the
/// encoding that browsers would guess.
fn decoded(body: &[u8], charset: Option<&str>, url: &str) -> Option<String> {
    let start = &body[..body.len().min(PRESCAN_BYTES)];
    let named = charset.and_then(|name| Encoding::for_label(name.as_bytes())).or_else(|| named_by_page(start));
    let (text, _, _) = named.unwrap_or_else(|| guess(body, url)).decode(body);
    is_text(&text).then(|| text.into_owned())
}

fn guess(body: &[u8], url: &str) -> &'static Encoding {
    match body {
        [b'<', 0, ..] => return UTF_16LE,
        [0, b'<', ..] => return UTF_16BE,
        _ if std::str::from_utf8(body).is_ok() && !body.contains(&ESCAPE) => return UTF_8,
        _ if has_few_letters(body) => return WINDOWS_1252,
        _ => {}
    }
    let url = Url::parse(url).ok();
    let country = url.as_ref().and_then(Url::domain).and_then(|host| host.rsplit('.').next());
    let mut detector = EncodingDetector::new();
    detector.feed(body, true);
    detector.guess(country.map(str::as_bytes), false)
}

/// A few accented letters within ASCII decide nothing.
fn has_few_letters(body: &[u8]) -> bool {
    let is_alone = !body.windows(2).any(|pair| !pair[0].is_ascii() && !pair[1].is_ascii());
    let letters = body.iter().filter(|byte| !byte.is_ascii()).take(FEW_LETTERS).count();
    is_alone && letters > 0 && letters < FEW_LETTERS
}

fn charset_of(content_type: &str) -> Option<&str> {
    content_type.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches('"'))
    })
}

/// The encoding of an XML declaration, or of the first `meta` element that names one outside comments.
fn named_by_page(start: &[u8]) -> Option<&'static Encoding> {
    let start = String::from_utf8_lossy(start).to_ascii_lowercase();
    let declaration = start.trim_start().strip_prefix("<?xml").and_then(|rest| rest.split("?>").next());
    let parts = start.split("<!--").enumerate();
    let outside = parts.map(|(at, part)| if at == 0 { part } else { part.split_once("-->").map_or("", |(_, after)| after) });
    let tags = outside.flat_map(|part| part.split("<meta").skip(1)).filter_map(|rest| rest.split('>').next());
    let label = declaration.and_then(|tag| value_of(tag, "encoding")).or_else(|| tags.filter_map(|tag| value_of(tag, "charset")).next())?;
    // A page whose tag can be read as ASCII is not in UTF-16, whatever it says.
    Encoding::for_label(label.as_bytes()).map(Encoding::output_encoding)
}

fn value_of<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    tag.split(name).skip(1).find_map(|after| {
        let value = after.trim_start().strip_prefix('=')?.trim_start().trim_start_matches(['"', '\'']);
        value.split(['"', '\'', ';', ' ', '/']).next()
    })
}

fn is_text(text: &str) -> bool {
    !text.chars().any(|c| c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\x0c' | '\x1b' | '\u{80}'..='\u{9f}'))
}
