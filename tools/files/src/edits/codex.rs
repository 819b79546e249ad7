//! The format of Codex's `apply_patch`: `*** Begin Patch`, then files, then `*** End Patch`.

use super::{hunk, Change, FileEdit, Hunk, Mistake};

pub const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const END_OF_FILE: &str = "*** End of File";

pub fn parse(lines: &[&str], _path: Option<&str>) -> Result<Vec<FileEdit>, Mistake> {
    let marks = |mark| move |line: &&str| line.trim() == mark;
    let begin = lines.iter().position(marks(BEGIN)).unwrap_or(0);
    let Some(end) = lines.iter().rposition(marks(END)).filter(|end| *end > begin) else {
        return Err(format!("the patch is cut off: expected {END} as its last line"));
    };
    if lines[begin + 1..].iter().any(marks(BEGIN)) {
        return Err(format!("the text has more than one {BEGIN}: put all files into one patch"));
    }
    let mut reader = Reader { edits: Vec::new(), open: None };
    for (at, line) in lines.iter().enumerate().take(end).skip(begin + 1) {
        reader.line(line, at + 1)?;
    }
    reader.close();
    Ok(reader.edits)
}

struct Reader {
    edits: Vec<FileEdit>,
    open: Option<Hunk>,
}

impl Reader {
    fn line(&mut self, line: &str, number: usize) -> Result<(), Mistake> {
        if let Some((word, name)) = line.trim_end().strip_prefix("*** ").and_then(|rest| rest.split_once(": ")) {
            return self.file(word, name.trim(), number);
        }
        let Some(change) = self.edits.last().map(|edit| edit.change) else {
            return if line.trim().is_empty() { Ok(()) } else { Err(misplaced(line, number)) };
        };
        if line.trim_end() == END_OF_FILE {
            self.open.as_mut().ok_or_else(|| misplaced(line, number))?.at_end = true;
            self.close();
            return Ok(());
        }
        if let Some(heading) = line.strip_prefix("@@").filter(|_| change == Change::Update) {
            self.heading(heading.trim(), number);
            return Ok(());
        }
        let fits = match change {
            Change::Update => true,
            Change::Create => line.starts_with('+'),
            Change::Delete => false,
        };
        if !fits {
            return if line.trim().is_empty() { Ok(()) } else { Err(misplaced(line, number)) };
        }
        if line.trim().is_empty() && self.open.is_none() {
            return Ok(());
        }
        hunk::push(self.open.get_or_insert_with(|| opened(number)), line, number)
    }

    fn file(&mut self, word: &str, name: &str, number: usize) -> Result<(), Mistake> {
        if word == "Move to" {
            let is_new = self.open.is_none();
            let edit = self.edits.last_mut().filter(|edit| {
                is_new && edit.change == Change::Update && edit.hunks.is_empty() && edit.move_to.is_none()
            });
            edit.ok_or_else(|| format!("line {number}: '*** Move to' must follow '*** Update File'"))?.move_to = Some(name.into());
            return Ok(());
        }
        self.close();
        let change = match word {
            "Add File" => Change::Create,
            "Update File" => Change::Update,
            "Delete File" => Change::Delete,
            _ => return Err(format!("line {number}: expected Add File, Update File, Delete File or Move to, got {word:?}")),
        };
        self.edits.push(FileEdit::new(name, change));
        Ok(())
    }

    /// Begins a hunk. Several `@@` lines in a row name a place step by step, as a class and then its method.
    fn heading(&mut self, text: &str, number: usize) {
        if self.open.as_ref().is_some_and(|hunk| !hunk.lines.is_empty()) {
            self.close();
        }
        let text = text.strip_suffix("@@").unwrap_or(text).trim();
        let hunk = self.open.get_or_insert_with(|| opened(number));
        if text.chars().any(char::is_alphabetic) {
            hunk.headings.push(text.into());
        }
    }

    fn close(&mut self) {
        let Some(mut hunk) = self.open.take() else { return };
        // An empty line before the next marker is not part of the file.
        while hunk.lines.last().is_some_and(|line| line.sign == ' ' && line.text.trim().is_empty()) {
            hunk.lines.pop();
        }
        if let Some(edit) = self.edits.last_mut() {
            edit.hunks.push(hunk);
        }
    }
}

fn opened(at: usize) -> Hunk {
    Hunk { at, needs_headings: true, ..Hunk::default() }
}

fn misplaced(line: &str, number: usize) -> Mistake {
    format!("line {number} belongs to no file of the patch: {line:?}; expected '*** Update File: NAME' before it")
}
