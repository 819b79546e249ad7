//! The body of a hunk, which unified diffs and Codex patches share.

use super::{Hunk, Line, Mistake};

/// Adds a line of a hunk's body. An empty line is an empty line of context whose space was cut.
pub fn push(hunk: &mut Hunk, line: &str, number: usize) -> Result<(), Mistake> {
    if line.starts_with('\\') {
        match hunk.lines.last().map(|last| last.sign) {
            Some('-') => hunk.old_unterminated = true,
            Some('+') => hunk.new_unterminated = true,
            Some(_) => (hunk.old_unterminated, hunk.new_unterminated) = (true, true),
            None => return Err(format!("line {number} says that a line has no newline, but there is no line before it")),
        }
        return Ok(());
    }
    if hunk.old_unterminated && (hunk.new_unterminated || !line.starts_with('+')) || hunk.new_unterminated {
        return Err(format!("line {number} follows the end of the file in its hunk"));
    }
    let sign = line.chars().next().filter(|sign| *sign != '\r').unwrap_or(' ');
    if !matches!(sign, ' ' | '-' | '+') {
        return Err(format!("line {number} is not part of a hunk: expected a space, -, + or @@ first, got {line:?}"));
    }
    let text = if line.starts_with(sign) { &line[1..] } else { line };
    hunk.lines.push(Line { sign, text: text.into() });
    Ok(())
}

/// Removes empty lines from the end that may not be part of the hunk. `raw` are its lines as written.
pub fn without_trailing_blanks<'a>(mut raw: &'a [&'a str]) -> &'a [&'a str] {
    while raw.last().is_some_and(|line| line.trim_end_matches('\r').is_empty()) {
        raw = &raw[..raw.len() - 1];
    }
    raw
}
