//! Formulas as TeX. MathML as such loses its fractions, roots and exponents in text.

use dom_query::{Document, NodeRef};

/// Leaves of each formula either an image that has its TeX as text, or a `math` element with its TeX in `alttext`.
pub fn keep(page: &Document) {
    for formula in page.select("math").nodes() {
        let Some(tex) = tex_of(formula) else { continue };
        if has_image(formula, &tex) {
            formula.remove_from_parent();
        } else {
            let is_block = formula.attr("display").is_some_and(|value| value.eq_ignore_ascii_case("block"));
            show(formula, &tex, is_block);
        }
    }
    for script in page.select("script[type^='math/tex']").nodes() {
        let is_block = script.attr("type").is_some_and(|value| value.contains("mode=display"));
        show(script, script.text().trim(), is_block);
    }
}

fn tex_of(formula: &NodeRef) -> Option<String> {
    let annotation = formula.descendants_it().find(|node| {
        node.has_name("annotation") && node.attr("encoding").is_some_and(|value| value.to_ascii_lowercase().contains("tex"))
    });
    let tex = annotation.map(|node| node.text()).or_else(|| formula.attr("alttext"))?;
    let tex = tex.trim();
    (!tex.is_empty()).then(|| tex.to_owned())
}

/// Wikis put an image after hidden MathML, for browsers without MathML.
fn has_image(formula: &NodeRef, tex: &str) -> bool {
    let places = [formula.next_element_sibling(), formula.parent().and_then(|parent| parent.next_element_sibling())];
    places.iter().flatten().any(|next| next.has_name("img") && next.attr("alt").is_some_and(|alt| alt.trim() == tex))
}

fn show(node: &NodeRef, tex: &str, is_block: bool) {
    // Styles hide MathML next to an image or a drawing that is not in the page.
    if let Some(parent) = node.parent().filter(|parent| parent.attr("style").is_some_and(|style| style.contains("none"))) {
        parent.remove_attr("style");
    }
    let text = tex.replace('&', "&amp;").replace('<', "&lt;");
    let display = if is_block { "block" } else { "inline" };
    node.replace_with_html(format!("<math display=\"{display}\" alttext=\"{}\">{text}</math>", text.replace('"', "&quot;")));
}
