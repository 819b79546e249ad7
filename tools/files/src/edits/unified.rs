//! Unified diffs, as `diff -u` and `git diff` print them and as models write them.

use super::git::{self, GitHeader};
use super::{hunk, Change, FileEdit, Hunk, Mistake};

const NOTHING: &str = "/dev/null";

/// Whether a line is the first of a `---` and `+++` pair.
pub fn is_header(lines: &[&str], at: usize) -> bool {
    lines[at].starts_with("--- ") && lines.get(at + 1).is_some_and(|next| next.starts_with("+++ "))
}

pub fn is_name(line: &str) -> bool {
    line.starts_with("--- ") || line.starts_with("+++ ")
}

pub fn parse(lines: &[&str], path: Option<&str>) -> Result<Vec<FileEdit>, Mistake> {
    let mut reader = Reader { lines, at: 0, edits: Vec::new() };
    let mut header: Option<GitHeader> = None;
    while reader.at < lines.len() {
        let line = lines[reader.at].trim_end();
        if let Some(names) = line.strip_prefix("diff --git ") {
            reader.finish(header.take())?;
            header = Some(GitHeader::named(names));
        } else if is_header(lines, reader.at) {
            let edit = named(lines[reader.at], lines[reader.at + 1], header.take())?;
            reader.edits.push(edit);
            reader.at += 1;
        } else if line.starts_with("@@") {
            if reader.edits.is_empty() || header.is_some() {
                let Some(path) = path.filter(|_| reader.edits.is_empty()) else {
                    return Err(format!("the hunk at line {} names no file: add --- and +++ lines", reader.at + 1));
                };
                reader.edits.push(FileEdit::new(path, Change::Update));
            }
            reader.hunk()?;
            continue;
        } else if let Some(header) = &mut header {
            header.read(line)?;
        } else if !reader.edits.is_empty() && !line.is_empty() {
            reader.check_rest()?;
            break;
        }
        reader.at += 1;
    }
    reader.finish(header)?;
    reader.edits.iter_mut().for_each(|edit| edit.shows_removed = true);
    Ok(reader.edits)
}

struct Reader<'a> {
    lines: &'a [&'a str],
    at: usize,
    edits: Vec<FileEdit>,
}

impl Reader<'_> {
    /// Adds the edit of a git header without `---` and `+++` lines: an empty file, or only another name.
    fn finish(&mut self, header: Option<GitHeader>) -> Result<(), Mistake> {
        self.edits.extend(header.map(GitHeader::into_edit).transpose()?);
        Ok(())
    }

    fn hunk(&mut self) -> Result<(), Mistake> {
        let (ranges, heading) = read_head(self.lines[self.at].trim_end(), self.at + 1)?;
        let first = self.at + 1;
        let end = ranges.and_then(|ranges| self.end_by_counts(first, ranges)).unwrap_or_else(|| self.end_by_marks(first));
        let line = ranges.map(|ranges| ranges.line);
        let mut found = Hunk { at: self.at + 1, line, headings: heading.into_iter().collect(), ..Hunk::default() };
        for (number, line) in hunk::without_trailing_blanks(&self.lines[first..end]).iter().enumerate() {
            hunk::push(&mut found, line, first + number + 1)?;
        }
        let is_last = end == self.lines.len() && found.lines.last().is_some_and(|line| line.sign != ' ');
        found.is_short = is_last && ranges.is_some_and(|ranges| ranges.exceed(&found));
        if let Some(edit) = self.edits.last_mut() {
            edit.hunks.push(found);
        }
        self.at = end;
        Ok(())
    }

    /// Where the hunk ends if its header counts its lines rightly.
    fn end_by_counts(&self, first: usize, ranges: Ranges) -> Option<usize> {
        let Ranges { mut old, mut new, .. } = ranges;
        let mut at = first;
        while old > 0 || new > 0 {
            let line = self.lines.get(at).filter(|_| !self.begins_file(at))?;
            match line.chars().next().unwrap_or(' ') {
                ' ' | '\r' => (old, new) = (old.checked_sub(1)?, new.checked_sub(1)?),
                '-' => old = old.checked_sub(1)?,
                '+' => new = new.checked_sub(1)?,
                '\\' => {}
                _ => return None,
            }
            at += 1;
        }
        while self.lines.get(at).is_some_and(|line| line.starts_with('\\')) {
            at += 1;
        }
        let next = (at..self.lines.len()).find(|at| !self.lines[*at].trim_end().is_empty());
        next.is_none_or(|next| self.ends_hunk(next) || self.is_signature(next)).then_some(at)
    }

    fn end_by_marks(&self, first: usize) -> usize {
        (first..self.lines.len()).find(|at| self.ends_hunk(*at)).unwrap_or(self.lines.len())
    }

    fn ends_hunk(&self, at: usize) -> bool {
        let line = self.lines[at];
        self.begins_file(at) || ["@@", "diff ", "index ", "Index: ", "```"].iter().any(|mark| line.starts_with(mark))
    }

    /// A removed line that begins with `--` next to an added one that begins with `++` looks the same, without the hunk.
    fn begins_file(&self, at: usize) -> bool {
        let hunk = self.lines.get(at + 2).is_some_and(|line| line.starts_with("@@"));
        self.lines[at].starts_with("diff --git ") || (is_header(self.lines, at) && hunk)
    }

    /// The end of a mail that `git format-patch` wrote.
    fn is_signature(&self, at: usize) -> bool {
        let rest = &self.lines[at + 1..];
        self.lines[at].trim_end() == "--" && rest.iter().filter(|line| !line.trim().is_empty()).count() <= 1
    }

    /// After the last hunk there is nothing, the end of a code block with prose after it, or a mail's signature.
    fn check_rest(&self) -> Result<(), Mistake> {
        let rest = &self.lines[self.at..];
        let is_edit = |at: &usize| self.ends_hunk(*at) && !self.lines[*at].starts_with("```");
        let fence = rest[0].starts_with("```") && !(self.at..self.lines.len()).any(|at| is_edit(&at));
        if fence || self.is_signature(self.at) {
            return Ok(());
        }
        let first = rest.iter().position(|line| !line.starts_with("```") && !line.trim().is_empty()).unwrap_or(0);
        let number = self.at + first + 1;
        Err(format!("line {number} belongs to no hunk: {:?}; begin each hunk with @@", rest[first]))
    }
}

/// The numbers of a `@@` line: the first old line, and how many lines are old and new.
#[derive(Clone, Copy)]
struct Ranges {
    line: usize,
    old: usize,
    new: usize,
}

impl Ranges {
    /// Whether a hunk has fewer old and fewer new lines.
    fn exceed(self, hunk: &Hunk) -> bool {
        let lines_without = |sign| hunk.lines.iter().filter(|line| line.sign != sign).count();
        lines_without('+') < self.old && lines_without('-') < self.new
    }
}

/// The numbers of a `@@` line, if it has them, and the line of the file that it names.
fn read_head(line: &str, number: usize) -> Result<(Option<Ranges>, Option<String>), Mistake> {
    if line.starts_with("@@@") {
        return Err(format!("line {number} is of a diff of a merge: expected a diff of two files"));
    }
    let rest = line[2..].trim();
    let (ranges, heading) = rest.split_once("@@").map_or((rest, ""), |(ranges, heading)| (ranges.trim(), heading.trim()));
    let mut words = ranges.split_whitespace();
    let old = words.next().and_then(|word| range_of(word.strip_prefix('-')?));
    let new = words.next().and_then(|word| range_of(word.strip_prefix('+')?));
    if let (Some((line, old)), Some((_, new))) = (old, new) {
        return Ok((Some(Ranges { line, old, new }), named_line(heading)));
    }
    Ok((None, named_line(if heading.is_empty() { ranges } else { heading })))
}

fn named_line(heading: &str) -> Option<String> {
    (heading.chars().any(char::is_alphanumeric)).then(|| heading.into())
}

fn range_of(range: &str) -> Option<(usize, usize)> {
    let (start, count) = range.split_once(',').unwrap_or((range, "1"));
    Some((start.parse().ok()?, count.parse().ok()?))
}

fn named(old: &str, new: &str, header: Option<GitHeader>) -> Result<FileEdit, Mistake> {
    let (old, new) = (git::name(&old[4..])?, git::name(&new[4..])?);
    let (mut old, mut new) = (old.as_str(), new.as_str());
    let mut stripped = None;
    let prefix = |name: &str, letter: &str| name == NOTHING || name.starts_with(letter);
    if old == NOTHING && new == NOTHING {
        return Err("a diff from /dev/null to /dev/null names no file".into());
    }
    if prefix(old, "a/") && prefix(new, "b/") {
        (old, new) = (git::stripped(old), git::stripped(new));
    } else if old == new {
        stripped = (git::stripped(new) != new).then(|| git::stripped(new).to_owned());
    }
    let mut edit = match (old, new) {
        (NOTHING, path) => FileEdit::new(path, Change::Create),
        (path, NOTHING) => FileEdit::new(path, Change::Delete),
        (path, _) => FileEdit::new(path, Change::Update),
    };
    edit.stripped = stripped;
    let renames = header.as_ref().is_some_and(GitHeader::renames);
    if edit.change == Change::Update && old != new {
        if !renames {
            return Err(format!("{old} becomes {new}: to rename a file, add 'rename from' and 'rename to' lines"));
        }
        edit.move_to = Some(new.into());
    }
    if let Some(header) = header {
        header.add_to(&mut edit)?;
    }
    Ok(edit)
}
