//! Changes of several files, which are all made or all taken back.

use kit::workspace::{self, EntryKind};
use kit::Failure;

use crate::host::{look, make_folders, parent};

/// The change of one file.
pub struct Step {
    pub path: String,
    pub old: String,
    /// The new content, if it differs.
    pub content: Option<String>,
    pub is_new: bool,
    pub removes: bool,
    /// The new path.
    pub to: Option<String>,
    /// The changed lines of the new content: the first, from 1, and their number.
    pub regions: Vec<(usize, usize)>,
}

impl Step {
    pub fn of(path: String) -> Step {
        Step { path, old: String::new(), content: None, is_new: false, removes: false, to: None, regions: Vec::new() }
    }
}

/// How a change that was made is taken back.
enum Reverse {
    Remove(String, EntryKind),
    Write(String, String),
    Rename(String, String),
}

/// Carries out all steps. Files are removed last, and are only renamed until all other changes have succeeded, so that a
/// failure can take every change back without losing permissions.
pub fn carry_out(steps: &[Step]) -> Result<(), Failure> {
    let mut made = Vec::new();
    let mut spare = Vec::new();
    let done = steps.iter().try_for_each(|step| carry_out_one(step, &mut made, &mut spare));
    let mut removed = Vec::new();
    let done = done.and_then(|()| {
        spare.iter().zip(steps.iter().filter(|step| step.removes)).try_for_each(|(name, step)| {
            workspace::remove(name, EntryKind::File)?;
            removed.push(step.path.as_str());
            Ok(())
        })
    });
    made.retain(|each| !matches!(each, Reverse::Rename(_, to) if removed.contains(&to.as_str())));
    done.map_err(|failure| {
        let mut kept = take_back(made);
        kept.extend(removed.iter().map(|path| (*path).to_owned()));
        let left = if kept.is_empty() { "nothing was changed".into() } else { format!("{} changed", kept.join(", ")) };
        Failure { message: format!("{}; {left}", failure.message), ..failure }
    })
}

fn carry_out_one(step: &Step, made: &mut Vec<Reverse>, spare: &mut Vec<String>) -> Result<(), Failure> {
    let path = step.to.as_ref().unwrap_or(&step.path);
    if step.removes {
        let name = unused_name(path)?;
        workspace::rename(path, &name)?;
        made.push(Reverse::Rename(name.clone(), path.clone()));
        spare.push(name);
        return Ok(());
    }
    if step.is_new || step.to.is_some() {
        let folders = make_folders(parent(path))?;
        made.extend(folders.into_iter().map(|folder| Reverse::Remove(folder, EntryKind::Directory)));
    }
    if let Some(to) = step.to.as_ref().filter(|to| **to != step.path) {
        workspace::rename(&step.path, to)?;
        made.push(Reverse::Rename(to.clone(), step.path.clone()));
    }
    if let Some(content) = &step.content {
        workspace::write_text(path, content, step.is_new)?;
        made.push(match step.is_new {
            true => Reverse::Remove(path.clone(), EntryKind::File),
            false => Reverse::Write(path.clone(), step.old.clone()),
        });
    }
    Ok(())
}

fn unused_name(path: &str) -> Result<String, Failure> {
    let mut number = 0;
    loop {
        let name = format!("{path}.removed{number}");
        if look(&name)?.is_none() {
            return Ok(name);
        }
        number += 1;
    }
}

/// Takes changes back, the last first. Returns the paths where that failed.
fn take_back(made: Vec<Reverse>) -> Vec<String> {
    let mut failed = Vec::new();
    for each in made.into_iter().rev() {
        let (path, done) = match each {
            Reverse::Remove(path, kind) => (path.clone(), workspace::remove(&path, kind)),
            Reverse::Write(path, content) => (path.clone(), workspace::write_text(&path, &content, false)),
            Reverse::Rename(from, to) => (to.clone(), workspace::rename(&from, &to)),
        };
        failed.extend(done.err().map(|_| path));
    }
    failed
}
