//! The choice of the format, and rules for all formats.

use super::{blocks, codex, unified, FileEdit, Mistake};

const MAX_FILES: usize = 200;
const MAX_HUNKS: usize = 2000;
const EXPECTED: &str = "expected a unified diff with --- and +++ lines and hunks that begin with @@, a patch that begins \
    with *** Begin Patch, or <<<<<<< SEARCH blocks";

/// Reads all edits of a text. `path` is the file of a text that names none.
pub fn parse(text: &str, path: Option<&str>) -> Result<Vec<FileEdit>, Mistake> {
    let text = without_transport_returns(text);
    let mut lines: Vec<&str> = text.split('\n').collect();
    let ended = lines.last() == Some(&"");
    if ended {
        lines.pop();
    }
    let repaired = if ended { None } else { last_with_return(&lines) };
    if let (Some(repaired), Some(last)) = (&repaired, lines.last_mut()) {
        *last = repaired;
    }
    let first = lines.iter().enumerate().find_map(|(at, _)| format_at(&lines, at)).ok_or(EXPECTED)?;
    let mut edits = first(&lines, path)?;
    if let Some(path) = path {
        name_file(&mut edits, path)?;
    }
    check(&edits, ended)?;
    Ok(edits)
}

type Format = fn(&[&str], Option<&str>) -> Result<Vec<FileEdit>, Mistake>;

/// The format whose first marker is this line.
fn format_at(lines: &[&str], at: usize) -> Option<Format> {
    let line = lines[at].trim_end();
    if line.trim_start() == codex::BEGIN {
        return Some(codex::parse);
    }
    if blocks::is_search(line) {
        return Some(blocks::parse);
    }
    let names = unified::is_header(lines, at) || line.starts_with("diff --git ");
    (names || line.starts_with("@@")).then_some(unified::parse)
}

/// Removes the carriage returns of a text in which every line ends with one.
fn without_transport_returns(text: &str) -> String {
    let mut lines = text.split('\n').collect::<Vec<_>>();
    let last = lines.pop().unwrap_or("");
    if lines.is_empty() || !lines.iter().all(|line| line.ends_with('\r')) {
        return text.into();
    }
    let mut plain: String = lines.iter().flat_map(|line| [&line[..line.len() - 1], "\n"]).collect();
    plain.push_str(last.strip_suffix('\r').unwrap_or(last));
    plain
}

/// The last line with the carriage return that it lost together with its newline.
fn last_with_return(lines: &[&str]) -> Option<String> {
    let (last, others) = lines.split_last()?;
    let mut body = others.iter().filter(|line| line.starts_with([' ', '+', '-']) && !unified::is_name(line)).peekable();
    let all = body.peek().is_some() && body.all(|line| line.ends_with('\r'));
    (all && last.starts_with([' ', '+', '-']) && !last.ends_with('\r')).then(|| format!("{last}\r"))
}

fn name_file(edits: &mut [FileEdit], path: &str) -> Result<(), Mistake> {
    let [edit] = edits else {
        return Err(format!("the text changes {} files, and 'path' names one: leave 'path' out", edits.len()));
    };
    if edit.move_to.is_some() {
        return Err("the text moves a file, and 'path' names only one: leave 'path' out".into());
    }
    (edit.path, edit.stripped) = (path.into(), None);
    Ok(())
}

fn check(edits: &[FileEdit], ended: bool) -> Result<(), Mistake> {
    if edits.is_empty() {
        return Err(EXPECTED.into());
    }
    let hunks: usize = edits.iter().map(|edit| edit.hunks.len()).sum();
    if edits.len() > MAX_FILES || hunks > MAX_HUNKS {
        return Err(format!("expected at most {MAX_FILES} files and {MAX_HUNKS} hunks, got {} and {hunks}", edits.len()));
    }
    for edit in edits {
        if let Some(hunk) = edit.hunks.iter().find(|hunk| !hunk.changes()) {
            return Err(format!("the hunk at line {} changes nothing: mark lines with - and +", hunk.at));
        }
        if let Some(hunk) = edit.hunks.iter().find(|hunk| hunk.is_short && !ended) {
            let hint = "end the text with a newline, or count the lines right";
            return Err(format!("the text seems cut off in the hunk at line {}, which counts more lines: {hint}", hunk.at));
        }
        for (at, hunk) in edit.hunks.iter().enumerate() {
            let same = |other: &&super::Hunk| other.line.is_some() && other.line == hunk.line && other.lines == hunk.lines;
            if let Some(first) = edit.hunks[..at].iter().find(same) {
                return Err(format!("the hunks at lines {} and {} are the same: remove one", first.at, hunk.at));
            }
        }
        if edit.hunks.is_empty() && edit.change == super::Change::Update && edit.move_to.is_none() {
            return Err(format!("{} has no hunks: expected lines that begin with @@ and then the changes", edit.path));
        }
        if edit.change == super::Change::Create && !edit.only_adds() {
            return Err(format!("{} is a new file, but not all of its lines begin with +", edit.path));
        }
    }
    Ok(())
}
