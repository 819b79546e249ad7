//! `list_dir`, and the walk through folders that it shares with the search.

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ignore::Match;
use kit::workspace::{self, Entry};
use kit::Failure;
use serde::Deserialize;
use serde_json::{json, Value};

use crate::host::{code, is_folder, is_skipped, joined, open_path, parent, VAULT};
use crate::ignores::as_in_git;

const MAX_DIR_ENTRIES: usize = 500;
const DEFAULT_DEPTH: u64 = 3;
const EXCLUDE: &str = ".git/info/exclude";
/// Folders in folders that a walk enters at all.
pub const MAX_DEPTH: u64 = 64;

#[derive(Deserialize)]
pub struct Params {
    path: Option<String>,
    recursive: Option<bool>,
    max_depth: Option<u64>,
}

/// What becomes of an entry that a walk meets.
#[derive(Clone, Copy, PartialEq)]
pub enum Met {
    File,
    Entered,
    /// A folder that is not entered, and why.
    Left(&'static str),
    IgnoredFile,
}

/// Paths that were not read, by the reason.
#[derive(Default)]
pub struct Unread {
    unreadable: Vec<String>,
    too_large: Vec<String>,
    /// Paths outside of the grant.
    hidden: Vec<String>,
}

impl Unread {
    pub fn add(&mut self, path: String, failure: &Failure) {
        match code(failure) {
            "file-too-large" => self.too_large.push(path),
            "prefix-not-allowed" => self.hidden.push(path),
            _ => self.unreadable.push(path),
        }
    }

    pub fn append(&mut self, mut other: Unread) {
        self.unreadable.append(&mut other.unreadable);
        self.too_large.append(&mut other.too_large);
        self.hidden.append(&mut other.hidden);
    }

    pub fn add_to(self, answer: &mut Value) {
        answer["unreadable"] = self.unreadable.into();
        for (name, paths) in [("too_large", self.too_large), ("hidden", self.hidden)] {
            if !paths.is_empty() {
                answer[name] = paths.into();
            }
        }
    }
}

/// A walk through the folders of the workspace, in the order of names.
pub struct Walk {
    ignores: Vec<Gitignore>,
    pub unread: Unread,
    pub include_ignored: bool,
}

impl Walk {
    pub fn new(include_ignored: bool) -> Walk {
        Walk { ignores: Vec::new(), unread: Unread::default(), include_ignored }
    }

    /// Visits all below a folder, as deep as `depth`; `visit` returns false to end it.
    pub fn through(
        &mut self,
        folder: &str,
        depth: u64,
        visit: &mut dyn FnMut(&str, &Entry, Met) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        if !self.include_ignored {
            self.read_ignores_above(folder);
        }
        let entries = workspace::list(folder)?;
        self.level(folder, entries, depth, visit).map(|_| ())
    }

    fn level(
        &mut self,
        folder: &str,
        entries: Vec<Entry>,
        depth: u64,
        visit: &mut dyn FnMut(&str, &Entry, Met) -> Result<bool, Failure>,
    ) -> Result<bool, Failure> {
        let known = self.ignores.len();
        if !self.include_ignored && entries.iter().any(|entry| entry.name == ".gitignore" && !is_folder(entry)) {
            self.read_ignore(folder, &joined(folder, ".gitignore"));
        }
        for entry in &entries {
            let path = joined(folder, &entry.name);
            let met = self.meet(folder, &path, entry, depth);
            if !visit(&path, entry, met)? {
                return Ok(false);
            }
            if met == Met::Entered {
                match workspace::list(&path) {
                    Ok(inside) => {
                        if !self.level(&path, inside, depth - 1, visit)? {
                            return Ok(false);
                        }
                    }
                    Err(failure) => self.unread.add(path, &failure),
                }
            }
        }
        self.ignores.truncate(known);
        Ok(true)
    }

    fn meet(&self, folder: &str, path: &str, entry: &Entry, depth: u64) -> Met {
        let ignored = self.is_ignored(path, is_folder(entry));
        if !is_folder(entry) {
            return if ignored { Met::IgnoredFile } else { Met::File };
        }
        if is_skipped(&entry.name) {
            Met::Left("skipped")
        } else if folder.is_empty() && entry.name.eq_ignore_ascii_case(VAULT) {
            Met::Left("vault")
        } else if ignored {
            Met::Left("ignored")
        } else if depth == 0 {
            Met::Left("deeper")
        } else {
            Met::Entered
        }
    }

    /// The last file that says something decides, and in it the last line (gitignore(5)).
    fn is_ignored(&self, path: &str, is_folder: bool) -> bool {
        for rules in self.ignores.iter().rev() {
            match rules.matched(path, is_folder) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
        false
    }

    /// Reads the rules that apply to a folder from above it. git's own file for a clone has the least weight.
    fn read_ignores_above(&mut self, folder: &str) {
        if workspace::stat(EXCLUDE).is_ok() {
            self.read_ignore("", EXCLUDE);
        }
        let mut above = Vec::new();
        let mut at = folder;
        while !at.is_empty() {
            at = parent(at);
            above.push(at);
        }
        for folder in above.into_iter().rev() {
            let path = joined(folder, ".gitignore");
            if workspace::stat(&path).is_ok() {
                self.read_ignore(folder, &path);
            }
        }
    }

    fn read_ignore(&mut self, folder: &str, path: &str) {
        let text = match workspace::read_text(path) {
            Ok(text) => text,
            Err(failure) => return self.unread.add(path.into(), &failure),
        };
        let mut builder = GitignoreBuilder::new(folder);
        for line in text.trim_start_matches('\u{feff}').lines().filter_map(as_in_git) {
            let _ = builder.add_line(None, &line); // a line that is no pattern says nothing, as in git
        }
        if let Ok(rules) = builder.build() {
            self.ignores.push(rules);
        }
    }
}

pub fn list_dir(params: Params) -> Result<Value, Failure> {
    let path = open_path(params.path.as_deref().unwrap_or(""))?;
    let recursive = params.recursive.unwrap_or(false);
    let depth = if recursive { params.max_depth.unwrap_or(DEFAULT_DEPTH).clamp(1, MAX_DEPTH) - 1 } else { 0 };
    let mut walk = Walk::new(!recursive);
    let mut entries: Vec<Value> = Vec::new();
    let mut truncated = false;
    walk.through(&path, depth, &mut |found, entry, met| {
        if entries.len() == MAX_DIR_ENTRIES {
            truncated = true;
            return Ok(false);
        }
        let shown = found.strip_prefix(path.as_str()).unwrap_or(found).trim_start_matches('/');
        entries.push(match met {
            Met::IgnoredFile => return Ok(true),
            Met::File => json!({ "path": shown, "kind": "file", "size": entry.size }),
            Met::Left(why) if recursive => json!({ "path": shown, "kind": "directory", "not_entered": why }),
            _ => json!({ "path": shown, "kind": "directory" }),
        });
        Ok(true)
    })?;
    let mut answer = json!({ "path": path, "entries": entries, "truncated": truncated });
    walk.unread.add_to(&mut answer);
    Ok(answer)
}
