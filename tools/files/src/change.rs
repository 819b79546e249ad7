//! Tools that make, move and remove files.

use globset::GlobMatcher;
use kit::workspace::{self, EntryKind};
use kit::{input, Failure};
use serde::Deserialize;
use serde_json::{json, Value};

use crate::host::{base, failed, file_path, is_folder, joined, look, make_folders, open_path, parent, plain, VAULT};
use crate::search::matcher_of;

const MAX_WRITE_SIZE: usize = 5 * 1024 * 1024;
/// Names that one call removes or moves.
const MAX_NAMES: usize = 1000;
/// Folders that the vault is copied to.
const OPEN_FOLDERS: &[&str] = &["shared", "tmp"];

#[derive(Deserialize)]
pub struct Writing {
    path: String,
    content: String,
}

pub fn write_file(params: Writing) -> Result<Value, Failure> {
    let path = file_path(&params.path)?;
    if params.content.len() > MAX_WRITE_SIZE {
        let size = params.content.len();
        return Err(input("too-large", format!("content has {size} bytes, and a file at most {MAX_WRITE_SIZE}")));
    }
    let folders = make_folders(parent(&path))?;
    let created = look(&path)?.is_none();
    workspace::write_text(&path, &params.content, false)?;
    Ok(json!({ "path": path, "bytes": params.content.len(), "created": created, "folders": folders }))
}

#[derive(Deserialize)]
pub struct Place {
    path: String,
}

pub fn ensure_dir(params: Place) -> Result<Value, Failure> {
    let path = file_path(&params.path)?;
    let made = make_folders(&path)?;
    Ok(json!({ "path": path, "created": made }))
}

#[derive(Deserialize)]
pub struct Removing {
    path: String,
    recursive: Option<bool>,
}

pub fn file_delete(params: Removing) -> Result<Value, Failure> {
    let path = file_path(&params.path)?;
    let Some(entry) = look(&path)? else {
        return Err(input("not-found", format!("there is no {path}")));
    };
    if !is_folder(&entry) {
        workspace::remove(&path, EntryKind::File)?;
        return Ok(json!({ "path": path, "files": 1, "folders": 0 }));
    }
    if !params.recursive.unwrap_or(false) && !workspace::list(&path)?.is_empty() {
        return Err(input("not-empty", format!("{path} is a folder that is not empty: set recursive to remove all of it")));
    }
    let mut names = Vec::new();
    gather(&path, &mut names)?;
    let files = names.iter().filter(|(_, kind)| *kind == EntryKind::File).count();
    for (number, (name, kind)) in names.iter().enumerate() {
        workspace::remove(name, *kind).map_err(|failure| Failure {
            message: format!("{} of {} names were removed, then {name}: {}", number, names.len(), failure.message),
            ..failure
        })?;
    }
    Ok(json!({ "path": path, "files": files, "folders": names.len() - files }))
}

/// All below a folder and the folder itself, each after what is in it.
fn gather(folder: &str, names: &mut Vec<(String, EntryKind)>) -> Result<(), Failure> {
    for entry in workspace::list(folder)? {
        let path = joined(folder, &entry.name);
        if is_folder(&entry) {
            gather(&path, names)?;
        } else {
            names.push((path, EntryKind::File));
        }
        if names.len() > MAX_NAMES {
            return Err(failed("too-many", format!("{folder} holds more than {MAX_NAMES} names: remove its parts first")));
        }
    }
    names.push((folder.into(), EntryKind::Directory));
    Ok(())
}

#[derive(Deserialize)]
pub struct Moving {
    from: String,
    patterns: Vec<String>,
    to: String,
}

pub fn move_glob(params: Moving) -> Result<Value, Failure> {
    let (from, to) = (open_path(&params.from)?, open_path(&params.to)?);
    if params.patterns.is_empty() {
        return Err(input("missing-param", "patterns is empty: name files, as in [\"*.log\"]"));
    }
    let globs = params.patterns.iter().map(|pattern| matcher_of(pattern.trim_start_matches("./"))).collect::<Result<Vec<GlobMatcher>, _>>()?;
    let names: Vec<String> = workspace::list(&from)?
        .into_iter()
        .filter(|entry| !is_folder(entry) && globs.iter().any(|glob| glob.is_match(&entry.name)))
        .map(|entry| entry.name)
        .collect();
    if names.len() > MAX_NAMES {
        return Err(failed("too-many", format!("{} files match, and at most {MAX_NAMES} are moved", names.len())));
    }
    if from == to {
        return Err(input("invalid-params", "from and to are the same folder"));
    }
    for name in &names {
        if look(&joined(&to, name))?.is_some() {
            return Err(input("already-exists", format!("{} is there already; nothing was moved", joined(&to, name))));
        }
    }
    if !names.is_empty() {
        make_folders(&to)?;
    }
    for (number, name) in names.iter().enumerate() {
        workspace::rename(&joined(&from, name), &joined(&to, name)).map_err(|failure| Failure {
            message: format!("{} of {} files were moved, then {name}: {}", number, names.len(), failure.message),
            ..failure
        })?;
    }
    Ok(json!({ "from": from, "to": to, "moved": names }))
}

#[derive(Deserialize)]
pub struct Copying {
    source: String,
    destination: String,
}

pub fn vault_copyto(params: Copying) -> Result<Value, Failure> {
    let (source, destination) = (plain(&params.source), plain(&params.destination));
    if !source.starts_with(&format!("{VAULT}/")) {
        return Err(input("not-in-vault", "source is a file below vault/"));
    }
    let to = if look_open(&destination)? { joined(&destination, base(&source)) } else { destination };
    make_folders(parent(&to))?;
    let size = workspace::copy(&source, &to)?;
    Ok(json!({ "source": source, "destination": to, "bytes": size }))
}

/// Tells whether a destination is a folder; what is not below an open one is refused.
fn look_open(destination: &str) -> Result<bool, Failure> {
    if OPEN_FOLDERS.contains(&destination) {
        return Ok(true);
    }
    if !OPEN_FOLDERS.iter().any(|folder| destination.starts_with(&format!("{folder}/"))) {
        return Err(input("not-open", "destination is a file or folder below shared/ or tmp/"));
    }
    Ok(look(destination)?.is_some_and(|entry| is_folder(&entry)))
}
