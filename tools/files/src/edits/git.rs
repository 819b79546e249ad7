//! What `git diff` writes above the hunks of a file.

use super::{Change, FileEdit, Mistake};

const PLAIN_MODE: &str = "100644";
const LINK_MODE: &str = "120000";

/// The lines between `diff --git` and `---`.
#[derive(Debug, Default)]
pub struct GitHeader {
    from: Option<String>,
    to: Option<String>,
    made: bool,
    removed: bool,
    mode: Option<String>,
    new_hash: Option<String>,
    names: String,
}

impl GitHeader {
    pub fn read(&mut self, line: &str) -> Result<(), Mistake> {
        let (word, rest) = line.split_at(line.rfind(' ').map_or(line.len(), |at| at + 1));
        match word.trim_end() {
            "new file mode" => (self.made, self.mode) = (true, Some(rest.into())),
            "new mode" => self.mode = Some(rest.into()),
            "deleted file mode" => self.removed = true,
            _ if line.starts_with("rename from ") => self.from = Some(name(&line["rename from ".len()..])?),
            _ if line.starts_with("rename to ") => self.to = Some(name(&line["rename to ".len()..])?),
            _ if line.starts_with("index ") => self.new_hash = new_hash(line),
            "old mode" | "similarity index" | "dissimilarity index" | "" => {}
            _ if line.starts_with("Binary files ") || line == "GIT binary patch" => {
                return Err("a part of the diff is for a file that is not text: write such a file another way".into());
            }
            _ if line.starts_with("copy ") => return Err("the diff copies a file: add the copy as a new file".into()),
            _ => return Err(format!("expected a line of a git header, --- or @@, got {line:?}")),
        }
        if self.mode.as_deref() == Some(LINK_MODE) {
            return Err("the diff makes a symbolic link, and only files can be made".into());
        }
        Ok(())
    }

    pub fn named(names: &str) -> GitHeader {
        GitHeader { names: names.into(), ..GitHeader::default() }
    }

    pub fn renames(&self) -> bool {
        self.from.is_some() && self.to.is_some()
    }

    pub fn add_to(self, edit: &mut FileEdit) -> Result<(), Mistake> {
        if (self.made && edit.change != Change::Create) || (self.removed && edit.change != Change::Delete) {
            return Err(format!("{}: the git header and the --- and +++ lines contradict each other", edit.path));
        }
        if self.renames() && (self.from.as_ref() != Some(&edit.path) || self.to != edit.move_to) {
            return Err(format!("{}: 'rename from' and 'rename to' differ from the --- and +++ lines", edit.path));
        }
        edit.new_hash = self.new_hash;
        edit.mode = self.mode.filter(|mode| mode != PLAIN_MODE);
        Ok(())
    }

    /// The edit of a header without hunks.
    pub fn into_edit(self) -> Result<FileEdit, Mistake> {
        if let (Some(from), Some(to)) = (&self.from, &self.to) {
            let mut edit = FileEdit::new(from, Change::Update);
            edit.move_to = Some(to.clone());
            return Ok(edit);
        }
        let change = match (self.made, self.removed) {
            (true, false) => Change::Create,
            (false, true) => Change::Delete,
            _ => return Err(format!("'diff --git {}' has no hunks, and names no file that is made or removed", self.names)),
        };
        // Both names are the same, so that the line is `a/NAME b/NAME`.
        let half = self.names.len() / 2;
        let twins = self.names.is_char_boundary(half).then(|| self.names.split_at(half));
        match twins.map(|(old, new)| (old.strip_prefix("a/"), new.strip_prefix(" b/"))) {
            Some((Some(old), Some(new))) if old == new => {
                Ok(FileEdit { mode: self.mode.filter(|mode| mode != PLAIN_MODE), ..FileEdit::new(new, change) })
            }
            _ => Err(format!("'diff --git {}' does not name one file with a/ and b/", self.names)),
        }
    }
}

/// The hash after the dots of `index 1234567..89abcde 100644`, if it is long enough to mean something.
fn new_hash(line: &str) -> Option<String> {
    let hashes = line.split_whitespace().nth(1)?;
    let new = hashes.split_once("..")?.1;
    let is_hash = (7..=40).contains(&new.len()) && new.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash.then(|| new.to_ascii_lowercase())
}

/// A name without its `a/` or `b/`.
pub fn stripped(name: &str) -> &str {
    name.strip_prefix("a/").or_else(|| name.strip_prefix("b/")).unwrap_or(name)
}

/// A file name of a header: up to a tab, which a time may follow, and without git's quotes.
pub fn name(text: &str) -> Result<String, Mistake> {
    let text = text.split('\t').next().unwrap_or("").trim();
    let Some(quoted) = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) else {
        return Ok(text.into());
    };
    unquoted(quoted).ok_or_else(|| format!("the file name {text} cannot be read: write it without quotes"))
}

fn unquoted(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        let (escaped, after) = rest.split_first()?;
        rest = after;
        bytes.push(match escaped {
            b'"' | b'\\' => *escaped,
            b'0'..=b'3' => {
                let (digits, after) = rest.split_at_checked(2)?;
                rest = after;
                let digits = [*escaped, digits[0], digits[1]];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 8).ok()?
            }
            _ => return None, // a control character, which no name of the workspace has
        });
    }
    String::from_utf8(bytes).ok()
}
