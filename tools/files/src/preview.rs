//! The preview of a diff for the person who approves it, and the check that the approved result is still the result.

use diffy::DiffOptions;
use kit::{input, Failure};
use serde::Deserialize;
use serde_json::{json, Value};
use sha1_smol::Sha1;

use crate::edits::FileEdit;
use crate::host::{code, look, read_text};
use crate::steps::Step;

const MAX_PREVIEW_BYTES: usize = 256 * 1024;
/// Lines of a file times changed lines: the time that the comparison may take.
const MAX_COMPARED: usize = 100_000_000;

/// What the host says about the approval of a call, in its context.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Approval {
    /// Whether only the preview is wanted.
    pub preview: bool,
    /// The digest of the result that an approver saw.
    shown_sha1: Option<String>,
}

impl Approval {
    pub fn read(context: Option<&str>) -> Result<Approval, Failure> {
        let read = context.map_or_else(|| Ok(Approval::default()), serde_json::from_str);
        read.map_err(|error| input("invalid-context", error.to_string()))
    }

    // SECURITY: an approval covers only the result that it showed, and a file may have changed since.
    pub fn check(&self, steps: &[Step]) -> Result<(), Failure> {
        match &self.shown_sha1 {
            Some(shown) if *shown != digest(steps)? => Err(input(
                "changed-since-approval",
                "a file has changed since the approval, so that the result would differ from what the approver saw; nothing \
                 was changed: call apply_diff again, and the new result is shown",
            )),
            _ => Ok(()),
        }
    }
}

/// A unified diff of the present files and the result, and the digest of the result.
pub fn preview(edits: &[FileEdit], steps: &[Step]) -> Result<Value, Failure> {
    let mut text = String::new();
    for (edit, step) in edits.iter().zip(steps) {
        text.push_str(&shown(edit, step)?);
        if text.len() > MAX_PREVIEW_BYTES {
            return Err(too_large());
        }
    }
    Ok(json!({ "preview": text.trim_end(), "sha1": digest(steps)? }))
}

fn shown(edit: &FileEdit, step: &Step) -> Result<String, Failure> {
    let path = &step.path;
    let to = step.to.as_ref().unwrap_or(path);
    if step.removes {
        return Ok(match removed_text(path)? {
            Ok(text) => format!("delete {path}\n{}", compared(&text, "", format!("a/{path}"), "/dev/null".into())),
            Err(size) => format!("delete {path}: {size} bytes, not shown\n"),
        });
    }
    let Some(content) = &step.content else { return Ok(format!("rename {path} to {to}\n")) };
    if step.is_new {
        return Ok(format!("create {path}\n{}", compared("", content, "/dev/null".into(), format!("b/{path}"))));
    }
    let lines = step.old.lines().count() + content.lines().count();
    let changed = edit.hunks.iter().flat_map(|hunk| &hunk.lines).filter(|line| line.sign != ' ').count();
    if lines.saturating_mul(changed) > MAX_COMPARED {
        return Err(too_large());
    }
    let action = if to == path { format!("change {path}") } else { format!("rename {path} to {to} and change it") };
    Ok(format!("{action}\n{}", compared(&step.old, content, format!("a/{path}"), format!("b/{to}"))))
}

fn compared(old: &str, new: &str, from: String, to: String) -> String {
    DiffOptions::new().set_original_filename(from).set_modified_filename(to).create_patch(old, new).to_string()
}

/// The text of a file that is removed, or the size of one that is not text or too large.
fn removed_text(path: &str) -> Result<Result<String, u64>, Failure> {
    match read_text(path) {
        Ok(text) if text.len() <= MAX_PREVIEW_BYTES => Ok(Ok(text)),
        Ok(text) => Ok(Err(text.len() as u64)),
        Err(failure) if matches!(code(&failure), "not-text" | "file-too-large") => {
            Ok(Err(look(path)?.map_or(0, |entry| entry.size)))
        }
        Err(failure) => Err(failure),
    }
}

/// SHA-1, as in git: to use a collision, an attacker would have to write to the file, and then needs none.
fn digest(steps: &[Step]) -> Result<String, Failure> {
    let mut hash = Sha1::new();
    let mut add = |part: &str| {
        hash.update(&(part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    };
    for step in steps {
        add(&step.path);
        add(step.to.as_deref().unwrap_or(""));
        add(if step.removes { "removed" } else { "kept" });
        match &step.content {
            _ if step.removes => match removed_text(&step.path)? {
                Ok(text) => add(&text),
                Err(size) => add(&size.to_string()),
            },
            // A file that is only renamed is not read.
            content => add(content.as_deref().unwrap_or("")),
        }
    }
    Ok(hash.digest().to_string())
}

fn too_large() -> Failure {
    let message = format!(
        "the changes are too large to be shown for approval (at most {} KiB); nothing was changed: split the diff",
        MAX_PREVIEW_BYTES / 1024
    );
    input("too-large", message)
}
