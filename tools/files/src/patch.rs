//! `apply_patch`: one text becomes another, where it stands exactly and only once.

use diffy::create_patch;
use kit::{input, workspace, Failure};
use serde::Deserialize;
use serde_json::{json, Value};

use crate::host::{file_path, read_text};

/// Above this no diff is made of the change.
const MAX_SHOWN_BYTES: usize = 256 * 1024;
const MAX_DIFF_CHARS: usize = 20_000;
const MAX_NEAR_CHARS: usize = 1500;
const NAMED_LINES: usize = 10;

#[derive(Deserialize)]
pub struct Params {
    path: String,
    old_string: String,
    new_string: String,
    replace_all: Option<bool>,
}

pub fn apply_patch(params: Params) -> Result<Value, Failure> {
    let path = file_path(&params.path)?;
    if params.old_string.is_empty() {
        return Err(input("invalid-params", "old_string is empty: to make a file use write_file"));
    }
    if params.old_string == params.new_string {
        return Err(input("invalid-params", "old_string and new_string are the same"));
    }
    let text = read_text(&path)?;
    let places: Vec<usize> = text.match_indices(&params.old_string).map(|(at, _)| at).collect();
    if places.is_empty() {
        return Err(input("no-match", not_found(&path, &text, &params.old_string)));
    }
    if places.len() > 1 && !params.replace_all.unwrap_or(false) {
        let lines: Vec<String> = places.iter().take(NAMED_LINES).map(|at| line_of(&text, *at).to_string()).collect();
        let more = if places.len() > NAMED_LINES { " and more" } else { "" };
        return Err(input(
            "not-unique",
            format!(
                "old_string is {} times in {path}, in lines {}{more}: give more of the text around it, or set replace_all",
                places.len(),
                lines.join(", "),
            ),
        ));
    }
    let changed = text.replace(&params.old_string, &params.new_string);
    workspace::write_text(&path, &changed, false)?;
    Ok(json!({ "path": path, "replacements": places.len(), "diff": shown_diff(&text, &changed) }))
}

/// A unified diff for whoever reads the answer; nothing where it would be long.
pub fn shown_diff(old: &str, new: &str) -> Option<String> {
    if old.len().max(new.len()) > MAX_SHOWN_BYTES {
        return None;
    }
    let diff = create_patch(old, new).to_string();
    (diff.len() <= MAX_DIFF_CHARS).then_some(diff)
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

fn not_found(path: &str, text: &str, wanted: &str) -> String {
    if text.contains("\r\n") && text.replace("\r\n", "\n").contains(&wanted.replace("\r\n", "\n")) {
        return format!("old_string is in {path}, but its lines end in CR LF there: write \\r\\n for the ends of lines");
    }
    match nearest(text, wanted) {
        None => format!("old_string is not in {path}, and nothing like it"),
        Some((first, near)) => {
            let near: String = near.chars().take(MAX_NEAR_CHARS).collect();
            format!("old_string is not in {path}; the nearest place is at line {first}:\n{near}")
        }
    }
}

/// The lines of a text that have most in common with those wanted, and the number of the first.
pub fn nearest(text: &str, wanted: &str) -> Option<(usize, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let wanted: Vec<&str> = wanted.lines().map(str::trim).take(64).collect();
    let at = (0..lines.len())
        .map(|start| {
            let window = lines[start..].iter().zip(&wanted);
            (window.map(|(line, want)| likeness(line.trim(), want)).sum::<usize>(), start)
        })
        .max_by_key(|(score, start)| (*score, usize::MAX - start))
        .filter(|(score, _)| *score > 0)?
        .1;
    let end = (at + wanted.len()).min(lines.len());
    Some((at + 1, lines[at..end].join("\n")))
}

/// 100 for the same line; less for one with the same beginning and end, in percent of the longer one.
fn likeness(line: &str, wanted: &str) -> usize {
    if line == wanted {
        return if line.is_empty() { 1 } else { 100 };
    }
    let begins = line.bytes().zip(wanted.bytes()).take_while(|(a, b)| a == b).count();
    let ends = line.bytes().rev().zip(wanted.bytes().rev()).take_while(|(a, b)| a == b).count();
    let shorter = line.len().min(wanted.len());
    let same = (begins + ends).min(shorter);
    if same * 3 < wanted.len() { 0 } else { 99 * same / line.len().max(wanted.len()) }
}
