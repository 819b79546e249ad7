//! `apply_diff`: a unified diff of one or several files, all of it or nothing.

use diffy::patch_set::{FileOperation, ParseOptions, PatchSet};
use diffy::{apply, Patch};
use kit::{input, workspace, Failure};
use serde::Deserialize;
use serde_json::{json, Value};

use crate::host::{file_path, look, make_folders, parent, read_text};

#[derive(Deserialize)]
pub struct Params {
    diff: String,
    path: Option<String>,
}

struct Changed {
    path: String,
    content: String,
    is_new: bool,
    hunks: usize,
}

pub fn apply_diff(params: Params) -> Result<Value, Failure> {
    let changed = match &params.path {
        Some(path) => vec![one(path, &params.diff)?],
        None => several(&params.diff)?,
    };
    let mut names: Vec<&str> = changed.iter().map(|each| each.path.as_str()).collect();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(input("invalid-diff", format!("the diff changes {} twice", twice[0])));
    }
    for (number, each) in changed.iter().enumerate() {
        write(each).map_err(|failure| Failure {
            message: format!("{} of {} files were written, then: {}", number, changed.len(), failure.message),
            ..failure
        })?;
    }
    let files: Vec<Value> = changed
        .iter()
        .map(|each| json!({ "path": each.path, "hunks": each.hunks, "created": each.is_new }))
        .collect();
    Ok(json!({ "files": files }))
}

fn one(path: &str, diff: &str) -> Result<Changed, Failure> {
    let path = file_path(path)?;
    let patch = Patch::from_str(diff).map_err(|error| input("invalid-diff", format!("it is no unified diff: {error}")))?;
    modified(path, &patch)
}

fn several(diff: &str) -> Result<Vec<Changed>, Failure> {
    let options = if diff.contains("diff --git ") { ParseOptions::gitdiff() } else { ParseOptions::unidiff() };
    let mut changed = Vec::new();
    for file in PatchSet::parse(diff, options) {
        let file = file.map_err(|error| input("invalid-diff", format!("it is no unified diff: {error}")))?;
        let Some(patch) = file.patch().as_text() else {
            return Err(input("invalid-diff", "a part of the diff is for a file that is not text"));
        };
        changed.push(match file.operation() {
            FileOperation::Modify { original, modified: name } => {
                if stripped(original) != stripped(name) {
                    return Err(input("invalid-diff", format!("{original} becomes {name}: use files.move_glob to rename")));
                }
                modified(file_path(stripped(name))?, patch)?
            }
            FileOperation::Create(name) => created(file_path(stripped(name))?, patch)?,
            FileOperation::Delete(name) => {
                return Err(input("invalid-diff", format!("the diff removes {name}: use file_delete for that")));
            }
            _ => return Err(input("invalid-diff", "the diff renames or copies a file, which is not done here")),
        });
    }
    if changed.is_empty() {
        return Err(input("invalid-diff", "it is no unified diff: it needs lines like '--- a/FILE' and '+++ b/FILE'"));
    }
    Ok(changed)
}

/// git's names begin with `a/` and `b/`.
fn stripped(name: &str) -> &str {
    name.strip_prefix("a/").or_else(|| name.strip_prefix("b/")).unwrap_or(name)
}

fn modified(path: String, patch: &Patch<str>) -> Result<Changed, Failure> {
    let text = read_text(&path)?;
    let content = applied(&path, &text, patch)?;
    Ok(Changed { path, content, is_new: false, hunks: patch.hunks().len() })
}

fn created(path: String, patch: &Patch<str>) -> Result<Changed, Failure> {
    if look(&path)?.is_some() {
        return Err(input("already-exists", format!("the diff makes {path}, which is there already")));
    }
    let content = applied(&path, "", patch)?;
    Ok(Changed { path, content, is_new: true, hunks: patch.hunks().len() })
}

fn applied(path: &str, text: &str, patch: &Patch<str>) -> Result<String, Failure> {
    apply(text, patch).map_err(|error| {
        input("no-match", format!("the diff does not fit {path} ({error}); nothing was changed: read the file and make it anew"))
    })
}

fn write(changed: &Changed) -> Result<(), Failure> {
    if changed.is_new {
        make_folders(parent(&changed.path))?;
    }
    workspace::write_text(&changed.path, &changed.content, changed.is_new)
}
