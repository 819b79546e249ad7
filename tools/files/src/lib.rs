//! `files`: tools that read, search and change files of the workspace.
//!
//! What may be read and written is the host's to decide, for each tool by its own part of the capability file. The one
//! rule of ours is that `vault/` belongs to `vault_copyto`.

use kit::several::{call_one, describe_all, with_params, Offer, DESTROYS, READS, WRITES};
use kit::{Description, Failure, Guest};

mod change;
mod diff;
mod edits;
mod folder;
mod host;
mod ignores;
mod patch;
mod preview;
mod read;
mod search;
mod steps;

const OFFERS: &[Offer] = &[
    Offer {
        name: "read_file",
        description: "Reads a text file of the workspace, at most 1 MiB at a time. With 'offset' (the first line, from 1) \
            and 'limit' (lines) a part of it, of a file of any size.",
        schema: include_str!("schemas/read_file.json"),
        annotations: READS,
        run: |params| with_params(params, read::read_file),
    },
    Offer {
        name: "list_dir",
        description: "Lists a folder of the workspace, at most 500 entries. 'recursive' goes into folders, as deep as \
            'max_depth' (3 where nothing is said), but not into node_modules, target, .git and the like, nor into what \
            .gitignore names.",
        schema: include_str!("schemas/list_dir.json"),
        annotations: READS,
        run: |params| with_params(params, folder::list_dir),
    },
    Offer {
        name: "file_search",
        description: "Searches files of the workspace. 'pattern' is a regular expression that is looked for in each line; \
            'glob' chooses files by their path ('**/*.py'). With 'glob' alone it lists the files. Skips what .gitignore \
            names, and files that are not text.",
        schema: include_str!("schemas/file_search.json"),
        annotations: READS,
        run: |params| with_params(params, search::file_search),
    },
    Offer {
        name: "write_file",
        description: "Makes a text file of the workspace that holds 'content', at most 5 MiB, or replaces the whole of one. \
            Folders on the way are made.",
        schema: include_str!("schemas/write_file.json"),
        annotations: WRITES,
        run: |params| with_params(params, change::write_file),
    },
    Offer {
        name: "apply_patch",
        description: "Replaces 'old_string' with 'new_string' in a text file. 'old_string' must be in it exactly as given, \
            and only once, unless 'replace_all' is true.",
        schema: include_str!("schemas/apply_patch.json"),
        annotations: WRITES,
        run: |params| with_params(params, patch::apply_patch),
    },
    Offer {
        name: diff::NAME,
        description: "Changes one or several text files by a unified diff, a patch that begins with '*** Begin Patch', or \
            <<<<<<< SEARCH blocks: all of it, or nothing if a part does not fit in exactly one place. Places are found by \
            the lines, so give three lines of context; line numbers may be wrong. It may also create, delete and rename \
            files. 'dry_run' only reports the changes.",
        schema: include_str!("schemas/apply_diff.json"),
        annotations: WRITES,
        run: |params| diff::apply_diff(params, None),
    },
    Offer {
        name: "file_delete",
        description: "Removes a file of the workspace, or with 'recursive' a folder and all that is in it.",
        schema: include_str!("schemas/file_delete.json"),
        annotations: DESTROYS,
        run: |params| with_params(params, change::file_delete),
    },
    Offer {
        name: "ensure_dir",
        description: "Makes a folder of the workspace, and those on the way to it, where they are not there.",
        schema: include_str!("schemas/path.json"),
        annotations: WRITES,
        run: |params| with_params(params, change::ensure_dir),
    },
    Offer {
        name: "move_glob",
        description: "Moves the files of a folder whose names match one of the glob patterns to another folder, which is \
            made where it is not there. Nothing is replaced: where a name is taken, no file is moved.",
        schema: include_str!("schemas/move_glob.json"),
        annotations: WRITES,
        run: |params| with_params(params, change::move_glob),
    },
    Offer {
        name: "vault_copyto",
        description: "Copies a file from the folder vault/ to the folder shared/ or tmp/, without showing its content. \
            Nothing is replaced.",
        schema: include_str!("schemas/vault_copyto.json"),
        annotations: WRITES,
        run: |params| with_params(params, change::vault_copyto),
    },
];

struct Provider;

impl Guest for Provider {
    fn describe() -> Vec<Description> {
        describe_all(OFFERS)
    }

    fn call(name: String, params: String, context: Option<String>) -> Result<String, Failure> {
        if name == diff::NAME {
            return diff::apply_diff(&params, context.as_deref()).map(|answer| answer.to_string());
        }
        call_one(OFFERS, &name, &params)
    }
}

kit::bindings::export!(Provider with_types_in kit::bindings);
