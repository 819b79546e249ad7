//! Aider's blocks: a file's name, `<<<<<<< SEARCH`, lines of the file, `=======`, the new lines, `>>>>>>> REPLACE`.

use super::{Change, FileEdit, Hunk, Line, Mistake};

pub fn is_search(line: &str) -> bool {
    mark(line, '<', " SEARCH").is_some()
}

/// The number of times that a marker's character is repeated.
fn mark(line: &str, repeated: char, end: &str) -> Option<usize> {
    let count = line.len() - line.trim_start_matches(repeated).len();
    ((5..=9).contains(&count) && line[count..].trim_end() == end).then_some(count)
}

pub fn parse(lines: &[&str], path: Option<&str>) -> Result<Vec<FileEdit>, Mistake> {
    let mut edits: Vec<FileEdit> = Vec::new();
    let (mut at, mut after) = (0, 0);
    while at < lines.len() {
        let Some(width) = mark(lines[at], '<', " SEARCH") else {
            at += 1;
            continue;
        };
        let above = check_outside(&lines[after..at], after)?;
        let name = file_name(above).or_else(|| edits.last().map(|edit| edit.path.clone()));
        let Some(name) = name.or_else(|| path.map(str::to_owned)) else {
            return Err(format!("the block at line {} names no file: write its name on the line above", at + 1));
        };
        let (hunk, end) = block(lines, at, width)?;
        // An empty search makes a file; in one that has lines it fits nowhere.
        match edits.iter_mut().find(|edit| edit.path == name) {
            Some(edit) => edit.hunks.push(hunk),
            None => {
                let change = if hunk.old().next().is_none() { Change::Create } else { Change::Update };
                edits.push(FileEdit { hunks: vec![hunk], ..FileEdit::new(&name, change) });
            }
        }
        (at, after) = (end + 1, end + 1);
    }
    check_outside(&lines[after..], after)?;
    Ok(edits)
}

fn block(lines: &[&str], at: usize, width: usize) -> Result<(Hunk, usize), Mistake> {
    let find = |repeated, end, from: usize| {
        (from..lines.len()).find(|number| mark(lines[*number], repeated, end) == Some(width))
    };
    let Some(end) = find('>', " REPLACE", at + 1) else {
        return Err(format!("the block at line {} is cut off: expected >>>>>>> REPLACE", at + 1));
    };
    let divider = find('=', "", at + 1).filter(|divider| *divider < end);
    let Some(divider) = divider else {
        return Err(format!("the block at line {} has no line ======= before line {}", at + 1, end + 1));
    };
    if find('=', "", divider + 1).is_some_and(|next| next < end) || find('<', " SEARCH", at + 1).is_some_and(|next| next < end) {
        let message = "has more than one ======= or SEARCH line, so that its parts are not certain: use a unified diff";
        return Err(format!("the block at line {} {message}", at + 1));
    }
    let (old, new) = (&lines[at + 1..divider], &lines[divider + 1..end]);
    let begins = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let most = old.len().min(new.len()) - begins;
    let ends = old.iter().rev().zip(new.iter().rev()).take(most).take_while(|(old, new)| old == new).count();
    let mut hunk = Hunk { at: at + 1, ..Hunk::default() };
    let mut push = |sign, lines: &[&str]| {
        hunk.lines.extend(lines.iter().map(|text| Line { sign, text: (*text).into() }));
    };
    push(' ', &old[..begins]);
    push('-', &old[begins..old.len() - ends]);
    push('+', &new[begins..new.len() - ends]);
    push(' ', &old[old.len() - ends..]);
    Ok((hunk, end))
}

/// Lines between blocks may be prose; a half of a block is a mistake.
fn check_outside<'a>(lines: &'a [&'a str], first: usize) -> Result<&'a [&'a str], Mistake> {
    let is_half = |line: &&str| mark(line, '>', " REPLACE").is_some() || mark(line, '=', "").is_some();
    match lines.iter().position(is_half) {
        None => Ok(lines),
        Some(at) => Err(format!("line {} belongs to no block: expected <<<<<<< SEARCH before it", first + at + 1)),
    }
}

/// The name on the last line above a block that is not the beginning of a code block; a sentence is not a name.
fn file_name(above: &[&str]) -> Option<String> {
    let mut lines = above.iter().rev().map(|line| line.trim()).filter(|line| !line.is_empty());
    let line = lines.find(|line| !line.starts_with("```"))?;
    let name = line.trim_start_matches('#').trim().trim_end_matches(':').trim_matches(['*', '`']).trim_end_matches(':').trim();
    let is_sentence = name.contains(char::is_whitespace) && line.ends_with([':', '.', '!', ',']);
    (!name.is_empty() && !is_sentence).then(|| name.into())
}
