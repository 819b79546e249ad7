//! The page as a tree: bounded, without what is not for readers, its links absolute, the language of code where
//! Markdown looks for it.

use dom_query::{Document, NodeRef, Selection};
use kit::{input, Failure};
use url::Url;

use super::formulas;

/// Elements in elements. Pages that people write have some dozens; what comes after works by recursion.
const MAX_DEPTH: usize = 256;
const NOT_FOR_READERS: &str = "script, style, noscript, template, iframe, object, embed, svg, canvas, form, input, \
    button, select, textarea, dialog, link, meta[http-equiv], [hidden], .mw-editsection";

pub fn read(html: &str) -> Result<Document, Failure> {
    let page = Document::from(html);
    if depth(&page) > MAX_DEPTH {
        return Err(input("too-deep", format!("the page has elements in elements more than {MAX_DEPTH} deep")));
    }
    Ok(page)
}

/// Without recursion: the depth is what is not known yet.
fn depth(page: &Document) -> usize {
    let mut deepest = 0;
    let mut open: Vec<(NodeRef, usize)> = vec![(page.root(), 0)];
    while let Some((node, at)) = open.pop() {
        deepest = deepest.max(at);
        if deepest > MAX_DEPTH {
            break;
        }
        let mut child = node.first_child();
        while let Some(next) = child {
            child = next.next_sibling();
            if next.is_element() {
                open.push((next, at + 1));
            }
        }
    }
    deepest
}

pub fn tidy(page: &Document, base: Option<&Url>) {
    for code in page.select("pre").iter() {
        name_language(&code);
    }
    let declared = page.select("base[href]").attr("href");
    formulas::keep(page);
    page.select(NOT_FOR_READERS).remove();
    for hidden in page.select("[aria-hidden=true]").iter() {
        // An image with a text instead is for readers, such as the image of a formula.
        match hidden.attr("alt") {
            Some(alt) if hidden.is("img") && !alt.trim().is_empty() => hidden.remove_attr("aria-hidden"),
            _ => hidden.remove(),
        }
    }
    for image in page.select("img[src]").iter().filter(|image| image.attr("src").is_some_and(|source| source.trim().is_empty())) {
        image.remove_attr("src");
    }
    let base = match (base, declared) {
        (Some(base), Some(declared)) => base.join(&declared).ok().or_else(|| Some(base.clone())),
        (base, _) => base.cloned(),
    };
    for (selector, attribute) in [("a[href]", "href"), ("img[src]", "src")] {
        for element in page.select(selector).iter() {
            follow(&element, attribute, base.as_ref());
        }
    }
    for image in page.select("img[data-src]:not([src]), img[src^='data:'][data-src]").iter() {
        if let Some(source) = image.attr("data-src") {
            image.set_attr("src", &absolute(&source, base.as_ref()).unwrap_or_default());
        }
    }
    page.select("img[src^='data:'], img:not([src])").remove();
}

fn follow(element: &Selection, attribute: &str, base: Option<&Url>) {
    let value = element.attr(attribute).unwrap_or_default();
    match absolute(&value, base) {
        Some(address) => element.set_attr(attribute, &address),
        None => element.remove_attr(attribute),
    }
}

/// None for what is no address to follow, such as `javascript:`.
fn absolute(value: &str, base: Option<&Url>) -> Option<String> {
    let value = value.trim();
    match base.map_or_else(|| Url::parse(value), |base| base.join(value)) {
        Ok(url) => matches!(url.scheme(), "http" | "https" | "mailto" | "tel" | "data" | "ftp").then(|| url.into()),
        // Without an address of the page a relative link stays what it is.
        Err(_) => base.is_none().then(|| value.to_owned()),
    }
}

/// Makes a code block plain text in one `code` element, with the class `language-NAME` that Markdown takes it from.
fn name_language(block: &Selection) {
    let code = block.select("code");
    let mut places = vec![block.clone(), block.parent(), block.parent().parent()];
    if code.exists() {
        places.insert(0, code.clone());
    }
    let language = places.iter().find_map(language_of);
    for breaks in block.select("br").iter() {
        breaks.replace_with_html("\n");
    }
    let text = block.text();
    let class = language.map(|name| format!(" class=\"language-{name}\"")).unwrap_or_default();
    block.set_html(format!("<code{class}></code>"));
    block.select("code").set_text(&text);
}

fn language_of(place: &Selection) -> Option<String> {
    for name in ["data-lang", "data-language", "lang-name"] {
        if let Some(language) = place.attr(name).and_then(|value| named(&value)) {
            return Some(language);
        }
    }
    let class = place.attr("class")?;
    let words: Vec<&str> = class.split_whitespace().collect();
    let prefixed = words.iter().find_map(|word| {
        ["language-", "lang-", "highlight-source-", "highlight-", "brush:", "sourceCode-"]
            .iter()
            .find_map(|prefix| word.strip_prefix(prefix))
            .filter(|name| !name.is_empty())
    });
    prefixed.or_else(|| after(&words, &["sourceCode", "hljs", "brush:", "prettyprint"])).and_then(named)
}

fn after<'a>(words: &[&'a str], marks: &[&str]) -> Option<&'a str> {
    words.windows(2).find(|pair| marks.contains(&pair[0])).map(|pair| pair[1])
}

fn named(word: &str) -> Option<String> {
    let word = word.trim().trim_end_matches(';');
    let plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "+#._-".contains(c));
    (plain && !word.is_empty() && word.len() <= 32 && !matches!(word, "none" | "text" | "default")).then(|| word.to_lowercase())
}
