//! `robots.txt` (RFC 9309). If the operator's setting requires it, `web_fetch` reads only pages that the file allows.

use kit::bindings::wasmrt::tool::http;
use kit::Failure;
use url::Url;

use crate::failed;
use crate::fetch::get;

const AGENT: &str = "wasmrt";
const SETTING: &str = "the setting web_fetch.robots_txt = true applies it";
/// RFC 9309, section 2.5: the part of the file that a reader has to parse at least.
const MAX_BYTES: usize = 500 * 1024;
const MAX_REDIRECTS: usize = 5;

#[derive(Clone)]
struct Rule {
    allows: bool,
    pattern: String,
}

/// The rules of the last site that was asked.
#[derive(Default)]
pub struct Robots {
    origin: String,
    rules: Vec<Rule>,
}

impl Robots {
    /// Checks an address against its site's file, which is fetched first if it is of another site than the last one.
    pub fn check(&mut self, url: &Url, timeout_ms: Option<u32>) -> Result<(), Failure> {
        let origin = url.origin().ascii_serialization();
        if origin != self.origin {
            self.rules = rules(&read(url, timeout_ms)?);
            self.origin = origin;
        }
        let path = normalized(&url[url::Position::BeforePath..url::Position::AfterQuery]);
        let best = self.rules.iter().filter(|rule| matches(&rule.pattern, &path));
        // RFC 9309, section 2.2.2: the longest pattern counts, and of equally long ones the one that allows.
        match best.max_by_key(|rule| (rule.pattern.len(), rule.allows)) {
            Some(rule) if !rule.allows && path != "/robots.txt" => Err(denied(url, &format!("Disallow: {}", rule.pattern))),
            _ => Ok(()),
        }
    }
}

fn denied(url: &Url, rule: &str) -> Failure {
    let host = url.host_str().unwrap_or_default();
    failed("robots-txt", format!("robots.txt of {host} does not allow this page ({rule}); {SETTING}"))
}

/// The text of a site's file. A file that does not exist allows everything; a server that fails allows nothing.
fn read(page: &Url, timeout_ms: Option<u32>) -> Result<String, Failure> {
    let mut at = page.join("/robots.txt").map_err(|_| denied(page, "it has no address"))?;
    for _ in 0..=MAX_REDIRECTS {
        let response = http::fetch(&get(at.as_str(), "text/plain, */*;q=0.5", timeout_ms))?;
        match response.status {
            200..=299 => {
                let part = &response.body[..response.body.len().min(MAX_BYTES)];
                return Ok(String::from_utf8_lossy(part).into_owned());
            }
            301 | 302 | 303 | 307 | 308 => match crate::content::header(&response, "location").map(|to| at.join(to)) {
                Some(Ok(next)) if next.scheme() == "https" => at = next,
                _ => return Ok(String::new()),
            },
            500.. => return Err(denied(page, &format!("the server answered {}, which disallows all pages", response.status))),
            _ => return Ok(String::new()),
        }
    }
    Ok(String::new())
}

/// The rules for this agent: those of all groups that name it, or else of the groups for every agent.
fn rules(text: &str) -> Vec<Rule> {
    let (mut own, mut general, mut named) = (Vec::new(), Vec::new(), false);
    let (mut for_us, mut for_all, mut in_rules) = (false, false, false);
    for line in text.trim_start_matches('\u{feff}').split(['\n', '\r']) {
        let line = line.split('#').next().unwrap_or_default();
        let Some((key, value)) = line.split_once(':') else { continue };
        let value = value.trim();
        match key.trim().to_ascii_lowercase().as_str() {
            "user-agent" => {
                if in_rules {
                    (for_us, for_all, in_rules) = (false, false, false);
                }
                let token = value.split(|c: char| !(c.is_ascii_alphabetic() || c == '_' || c == '-')).next().unwrap_or_default();
                for_us |= token.eq_ignore_ascii_case(AGENT);
                for_all |= value == "*";
                named |= for_us;
            }
            key @ ("allow" | "disallow") => {
                in_rules = true;
                if !value.is_empty() {
                    let rule = Rule { allows: key == "allow", pattern: normalized(value) };
                    if for_us {
                        own.push(rule.clone());
                    }
                    if for_all {
                        general.push(rule);
                    }
                }
            }
            _ => (),
        }
    }
    if named { own } else { general }
}

/// A path in one spelling: letters outside ASCII percent-encoded, escapes of unreserved characters decoded.
fn normalized(path: &str) -> String {
    let bytes = path.as_bytes();
    let (mut text, mut at) = (String::with_capacity(path.len()), 0);
    while at < bytes.len() {
        let escape = bytes.get(at + 1..at + 3).filter(|_| bytes[at] == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        match escape.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                at += 3;
                if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                    text.push(char::from(byte));
                } else {
                    text.push_str(&format!("%{byte:02X}"));
                }
            }
            None => {
                let byte = bytes[at];
                at += 1;
                if byte.is_ascii() {
                    text.push(char::from(byte));
                } else {
                    text.push_str(&format!("%{byte:02X}"));
                }
            }
        }
    }
    text
}

/// Whether a pattern matches the start of a path: `*` stands for any characters, a final `$` for the end.
fn matches(pattern: &str, path: &str) -> bool {
    let (body, to_end) = pattern.strip_suffix('$').map_or((pattern, false), |body| (body, true));
    let mut parts = body.split('*').peekable();
    let Some(mut rest) = path.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    while let Some(part) = parts.next() {
        if to_end && parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(found) = rest.find(part) else { return false };
        rest = &rest[found + part.len()..];
    }
    !to_end || rest.is_empty()
}
