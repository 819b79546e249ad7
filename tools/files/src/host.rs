//! Paths, and the workspace as the host gives it.

use kit::workspace::{self, Entry, EntryKind};
use kit::{input, Failure, FailureKind};

/// Folders that a search never enters: made by tools, and larger than what people write.
const SKIPPED: &[&str] = &[
    "node_modules", "target", ".git", ".hg", ".svn", "__pycache__", ".venv", "venv", ".tox", ".nox", ".mypy_cache",
    ".pytest_cache", ".ruff_cache", ".gradle", ".terraform", "bower_components",
];
pub const VAULT: &str = "vault";

pub fn is_skipped(name: &str) -> bool {
    SKIPPED.contains(&name)
}

/// A path without its empty and `.` words, as the host reads it; `""` is the workspace.
pub fn plain(path: &str) -> String {
    let words: Vec<&str> = path.split('/').filter(|word| !matches!(*word, "" | ".")).collect();
    let whole = words.join("/");
    // The host refuses an absolute path; ours must not become a relative one before it has seen it.
    if path.starts_with('/') { format!("/{whole}") } else { whole }
}

/// A path that is not in the vault.
pub fn open_path(path: &str) -> Result<String, Failure> {
    let path = plain(path);
    if path.split('/').next().is_some_and(|word| word.eq_ignore_ascii_case(VAULT)) {
        return Err(input("vault", "files of vault/ are copied with vault_copyto, and not read or written otherwise"));
    }
    Ok(path)
}

/// The path of a file: not the workspace itself.
pub fn file_path(path: &str) -> Result<String, Failure> {
    let path = open_path(path)?;
    if path.is_empty() {
        return Err(input("missing-param", "path is empty: name a file of the workspace"));
    }
    Ok(path)
}

pub fn joined(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.into() } else { format!("{folder}/{name}") }
}

pub fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

pub fn base(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

pub fn is_folder(entry: &Entry) -> bool {
    entry.kind == EntryKind::Directory
}

/// What is at a path; None where there is nothing.
pub fn look(path: &str) -> Result<Option<Entry>, Failure> {
    match workspace::stat(path) {
        Ok(entry) => Ok(Some(entry)),
        Err(failure) if code(&failure) == "not-found" => Ok(None),
        Err(failure) => Err(failure),
    }
}

pub fn code(failure: &Failure) -> &str {
    failure.code.as_deref().unwrap_or("")
}

pub fn read_text(path: &str) -> Result<String, Failure> {
    workspace::read_text(path).map_err(|failure| not_text(path, failure))
}

/// The characters from byte `at`; none at the end of the file.
pub fn read_text_part(path: &str, at: u64, length: u32) -> Result<String, Failure> {
    workspace::read_text_part(path, at, length).map_err(|failure| not_text(path, failure))
}

fn not_text(path: &str, failure: Failure) -> Failure {
    match code(&failure) {
        "not-text" => input("not-text", format!("{path} is not UTF-8 text")),
        _ => failure,
    }
}

/// Makes a folder and those on the way to it, and returns those that were not there.
pub fn make_folders(path: &str) -> Result<Vec<String>, Failure> {
    let mut made = Vec::new();
    let mut missing = Vec::new();
    let mut folder = path;
    while !folder.is_empty() {
        match look(folder)? {
            Some(entry) if is_folder(&entry) => break,
            Some(_) => return Err(input("not-a-folder", format!("{folder} is a file, and no folder"))),
            None => missing.push(folder),
        }
        folder = parent(folder);
    }
    for folder in missing.into_iter().rev() {
        workspace::make_directory(folder)?;
        made.push(folder.to_owned());
    }
    Ok(made)
}

pub fn failed(code: &str, message: String) -> Failure {
    Failure { kind: FailureKind::OperationFailed, code: Some(code.into()), message }
}
