//! `apply_diff`: edits of one or several files, all of them or none.

use kit::{input, Failure};
use serde::Deserialize;
use serde_json::{json, Value};

use crate::edits::{fit, parse, Change, FileEdit, Misfit};
use crate::host::{file_path, look, read_text};
use crate::patch::nearest;
use crate::preview::{preview, Approval};
use crate::steps::{carry_out, Step};

const MAX_NEAR_CHARS: usize = 1500;
const MAX_SHOWN_CHARS: usize = 20_000;
const MAX_LINE_CHARS: usize = 300;
/// Lines that are shown around a changed region.
const AROUND: usize = 2;

#[derive(Deserialize)]
pub struct Params {
    diff: String,
    path: Option<String>,
    dry_run: Option<bool>,
}

pub const NAME: &str = "apply_diff";

pub fn apply_diff(params: &str, context: Option<&str>) -> Result<Value, Failure> {
    let params: Params = serde_json::from_str(params).map_err(|error| input("invalid-params", error.to_string()))?;
    let approval = Approval::read(context)?;
    let edits = parse(&params.diff, params.path.as_deref())
        .map_err(|mistake| input("invalid-diff", format!("{mistake}; nothing was changed")))?;
    let steps = edits.iter().map(plan).collect::<Result<Vec<Step>, Failure>>()?;
    let mut names: Vec<&str> = steps.iter().flat_map(|step| [Some(step.path.as_str()), step.to.as_deref()]).flatten().collect();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(input("invalid-diff", format!("the diff changes {} twice; nothing was changed: put its hunks together", twice[0])));
    }
    if approval.preview {
        return preview(&edits, &steps);
    }
    if !params.dry_run.unwrap_or(false) {
        approval.check(&steps)?;
        carry_out(&steps)?;
    }
    let mut room = MAX_SHOWN_CHARS;
    let files: Vec<Value> = edits.iter().zip(&steps).map(|(edit, step)| describe(edit, step, &mut room)).collect();
    Ok(json!({ "files": files }))
}

/// What an edit does to the workspace as it is.
fn plan(edit: &FileEdit) -> Result<Step, Failure> {
    let mut path = file_path(&edit.path)?;
    let mut there = look(&path)?.is_some();
    if let Some(stripped) = edit.stripped.as_ref().filter(|_| !there) {
        path = file_path(stripped)?;
        there = look(&path)?.is_some();
    }
    if edit.change == Change::Create || (!there && edit.change == Change::Update && edit.only_adds() && edit.move_to.is_none()) {
        if there {
            return Err(input("already-exists", format!("the diff creates {path}, which exists; nothing was changed: change it by a diff of its lines")));
        }
        return Ok(Step { content: Some(edit.added()), is_new: true, ..Step::of(path) });
    }
    if edit.change == Change::Delete && !edit.shows_removed {
        look(&path)?.ok_or_else(|| input("not-found", format!("the diff removes {path}, which does not exist; nothing was changed")))?;
        return Ok(Step { removes: true, ..Step::of(path) });
    }
    let text = read_text(&path)?;
    let to = edit.move_to.as_deref().map(file_path).transpose()?;
    if let Some(to) = to.as_ref().filter(|to| **to != path) {
        if look(to)?.is_some() {
            return Err(input("already-exists", format!("the diff renames {path} to {to}, which exists; nothing was changed")));
        }
    }
    let fitted = fit(&text, edit).map_err(|misfit| failure(&path, &text, edit, misfit))?;
    if edit.change == Change::Delete {
        if !fitted.content.is_empty() {
            return Err(input("invalid-diff", format!("the diff removes {path}, but has not all of its lines; nothing was changed: read the file again")));
        }
        return Ok(Step { removes: true, ..Step::of(path) });
    }
    if fitted.content == text && to.is_none() {
        return Err(input("no-change", format!("{path} would stay as it is: expected a diff that changes it")));
    }
    let content = (fitted.content != text).then_some(fitted.content);
    Ok(Step { old: text, content, to, regions: fitted.regions, ..Step::of(path) })
}

fn failure(path: &str, text: &str, edit: &FileEdit, misfit: Misfit) -> Failure {
    let named = |hunk: usize| format!("hunk {} of {path} (line {} of the diff)", hunk + 1, edit.hunks[hunk].at);
    match misfit {
        Misfit::Several { hunk, lines } => {
            let lines = lines.iter().map(usize::to_string).collect::<Vec<_>>().join(" and ");
            let hint = "nothing was changed: give more lines of context, or the first line of its function after @@";
            input("not-unique", format!("{} fits at lines {lines}; {hint}", named(hunk)))
        }
        Misfit::NoLines { hunk } => {
            input("no-match", format!("{} only adds lines; nothing was changed: give the lines before and after them", named(hunk)))
        }
        Misfit::Overlap { hunk } => {
            input("no-match", format!("{} fits only over another hunk; nothing was changed: join the two", named(hunk)))
        }
        Misfit::NoHeading { hunk, heading } => {
            let hint = "nothing was changed: write a line of the file after @@, or nothing";
            input("no-match", format!("{}: {path} has no line {heading:?}; {hint}", named(hunk)))
        }
        Misfit::Nowhere { hunk } => {
            let wanted: Vec<&str> = edit.hunks[hunk].old().map(|line| line.text.as_str()).collect();
            let near = nearest(text, &wanted.join("\n")).map(|(line, near)| {
                format!("; the nearest place is at line {line}:\n{}", near.chars().take(MAX_NEAR_CHARS).collect::<String>())
            });
            let hint = "nothing was changed: read the file and write the hunk again";
            input("no-match", format!("{} does not fit; {hint}{}", named(hunk), near.unwrap_or_default()))
        }
    }
}

fn describe(edit: &FileEdit, step: &Step, room: &mut usize) -> Value {
    let mut file = json!({ "path": step.path, "hunks": edit.hunks.len(), "created": step.is_new });
    if step.removes {
        file["deleted"] = true.into();
    }
    if let Some(to) = &step.to {
        file["moved_to"] = to.as_str().into();
    }
    if let Some(mode) = &edit.mode {
        file["mode_not_set"] = mode.as_str().into();
    }
    let lines: Vec<&str> = step.content.iter().flat_map(|content| content.lines()).collect();
    let shown = step.regions.iter().map(|region| region_of(&lines, *region, room)).collect::<Vec<Value>>();
    if !shown.is_empty() && !step.removes {
        file["regions"] = shown.into();
    }
    file
}

/// A changed region of the new file, with numbered lines as long as there is room for them.
fn region_of(lines: &[&str], (first, count): (usize, usize), room: &mut usize) -> Value {
    let from = first.saturating_sub(AROUND + 1).min(lines.len());
    let until = (first + count + AROUND - 1).min(lines.len());
    let numbered = lines[from..until].iter().enumerate().map(|(at, line)| {
        format!("{}: {}\n", from + at + 1, line.chars().take(MAX_LINE_CHARS).collect::<String>())
    });
    let text: String = numbered.take_while(|line| { *room = room.saturating_sub(line.len()); *room > 0 }).collect();
    json!({ "start_line": first, "lines": count, "text": text })
}
