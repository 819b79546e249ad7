//! `read_file`.

use kit::{input, Failure, FailureKind};
use serde::Deserialize;
use serde_json::{json, Value};

use crate::host::{file_path, read_text_part};

pub const MAX_READ_SIZE: usize = 1024 * 1024;
const PART_SIZE: u32 = 1024 * 1024;
/// The lines of a larger file are not counted beyond those that were asked for.
const MAX_COUNTED_SIZE: u64 = 5 * 1024 * 1024;

#[derive(Deserialize)]
pub struct Params {
    path: String,
    offset: Option<u64>,
    limit: Option<u64>,
}

pub fn read_file(params: Params) -> Result<Value, Failure> {
    let path = file_path(&params.path)?;
    if params.limit == Some(0) {
        return Err(input("invalid-params", "limit is the number of lines, 1 or more"));
    }
    let first = params.offset.unwrap_or(1).max(1) - 1;
    let last = first.saturating_add(params.limit.unwrap_or(u64::MAX));
    let mut content = String::new();
    // Bytes that were read, lines that ended in them, and whether another line has begun.
    let (mut at, mut ended, mut begun, mut complete) = (0, 0, false, false);
    while !complete && (ended < last || at <= MAX_COUNTED_SIZE) {
        let part = read_text_part(&path, at, PART_SIZE)?;
        complete = part.is_empty();
        at += part.len() as u64;
        for piece in part.split_inclusive('\n') {
            if (first..last).contains(&ended) {
                content.push_str(piece);
            }
            begun = !piece.ends_with('\n');
            ended += u64::from(!begun);
        }
        if content.len() > MAX_READ_SIZE {
            let message = format!(
                "{path} has more than {MAX_READ_SIZE} bytes in the lines from {}, and at most {MAX_READ_SIZE} are read at \
                 a time: read a part with offset and limit",
                first + 1,
            );
            return Err(Failure { kind: FailureKind::OutputTooLarge, code: Some("too-large".into()), message });
        }
    }
    let total = ended + u64::from(begun);
    let mut answer = json!({
        "path": path,
        "content": content,
        "start_line": first.min(total) + 1,
        "lines": last.min(total) - first.min(total),
    });
    if complete {
        answer["total_lines"] = total.into();
    } else {
        answer["note"] = "total_lines is not known: the file is large, and was not read to its end".into();
    }
    Ok(answer)
}
