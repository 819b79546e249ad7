//! Edits of files in the formats that models write: unified diffs, Codex patches, and Aider's SEARCH/REPLACE blocks.
//!
//! `parse` reads the text, `fit` finds the one place of each hunk. Neither guesses: an edit that is not certain is an
//! error. No function here reaches the workspace, so that `apply_diff` and its dry run cannot read a text differently.

mod blocks;
mod codex;
mod fit;
mod git;
mod hunk;
mod parse;
mod unified;

pub use fit::{fit, Misfit};
pub use parse::parse;

/// What an edit does to its file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    Update,
    Create,
    Delete,
}

/// All changes of one file.
#[derive(Debug)]
pub struct FileEdit {
    pub path: String,
    /// The path without `a/` or `b/`, if the text does not show which of the two is meant.
    pub stripped: Option<String>,
    pub change: Change,
    pub move_to: Option<String>,
    pub hunks: Vec<Hunk>,
    /// Whether a removed file must have exactly the lines of the hunks.
    pub shows_removed: bool,
    /// The abbreviated git hash of the new content.
    pub new_hash: Option<String>,
    /// A mode that the text sets and that the workspace does not.
    pub mode: Option<String>,
}

impl FileEdit {
    pub fn new(path: &str, change: Change) -> FileEdit {
        FileEdit {
            path: path.into(),
            stripped: None,
            change,
            move_to: None,
            hunks: Vec::new(),
            shows_removed: false,
            new_hash: None,
            mode: None,
        }
    }

    /// The added lines as a file's content.
    pub fn added(&self) -> String {
        let lines: Vec<&str> = self.hunks.iter().flat_map(|hunk| &hunk.lines).map(|line| line.text.as_str()).collect();
        let open = self.hunks.last().is_some_and(|hunk| hunk.new_unterminated);
        if lines.is_empty() { String::new() } else { lines.join("\n") + if open { "" } else { "\n" } }
    }

    pub fn only_adds(&self) -> bool {
        self.hunks.iter().flat_map(|hunk| &hunk.lines).all(|line| line.sign == '+')
    }
}

/// Lines that stand together in a file, and what becomes of them.
#[derive(Debug, Default)]
pub struct Hunk {
    /// The line of the text that begins the hunk, from 1.
    pub at: usize,
    pub lines: Vec<Line>,
    /// The line of the file that its header names, from 1. It may be wrong.
    pub line: Option<usize>,
    /// Lines that precede the hunk in its file, such as a function's first line.
    pub headings: Vec<String>,
    /// Whether a heading that is not in the file is an error.
    pub needs_headings: bool,
    /// Whether the hunk must be the end of the file.
    pub at_end: bool,
    /// Whether the text ends with a changed line of this hunk, although its header counts more lines.
    pub is_short: bool,
    pub old_unterminated: bool,
    pub new_unterminated: bool,
}

/// A line of a hunk: its sign is a space, `-` or `+`.
#[derive(Debug, PartialEq)]
pub struct Line {
    pub sign: char,
    pub text: String,
}

impl Hunk {
    /// The lines that must be in the file.
    pub fn old(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| line.sign != '+')
    }

    fn changes(&self) -> bool {
        self.lines.iter().any(|line| line.sign != ' ')
    }
}

/// A mistake in the text, as a sentence.
pub type Mistake = String;
