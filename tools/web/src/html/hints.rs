//! Pages whose text is elsewhere: at another address, or written by scripts.

use dom_query::Document;
use url::Url;

/// Pages with less text than this are checked for scripts.
const LITTLE_TEXT_CHARS: usize = 200;

/// Returns the address that a page moves to with `<meta http-equiv="refresh">`, unless it is the page's own.
pub fn refresh(html: &str, base: &Url) -> Option<Url> {
    if !html.to_ascii_lowercase().contains("refresh") {
        return None;
    }
    let page = Document::from(html);
    let moves = page.select("meta[http-equiv][content]").iter().find_map(|meta| {
        let content = meta.attr("http-equiv").filter(|name| name.trim().eq_ignore_ascii_case("refresh")).and(meta.attr("content"))?;
        let (_, target) = content.split_once([';', ','])?;
        let target = target.trim();
        let named = target.get(..3).filter(|name| name.eq_ignore_ascii_case("url")).and_then(|_| target[3..].trim().strip_prefix('='));
        base.join(named.unwrap_or(target).trim().trim_matches(['"', '\''])).ok()
    });
    moves.filter(|url| url != base && matches!(url.scheme(), "http" | "https"))
}

pub fn note(html: &str, markdown: &str, moves: bool) -> Option<&'static str> {
    if moves {
        return Some("the page moves to another address by itself: fetch moved_to to read that page");
    }
    let is_short = markdown.chars().take(LITTLE_TEXT_CHARS).count() < LITTLE_TEXT_CHARS;
    let has_scripts = is_short && html.to_ascii_lowercase().contains("<script");
    has_scripts.then_some("the page has little text without its scripts, which are not run")
}
