//! `read_file`.

use kit::{input, Failure, FailureKind};
use serde::Deserialize;
use serde_json::{json, Value};

use crate::host::{file_path, read_text};

pub const MAX_READ_SIZE: usize = 1024 * 1024;

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
    let text = read_text(&path)?;
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let first = (params.offset.unwrap_or(1).max(1) - 1).min(lines.len() as u64) as usize;
    let last = first + params.limit.unwrap_or(u64::MAX).min((lines.len() - first) as u64) as usize;
    let size: usize = lines[first..last].iter().map(|line| line.len()).sum();
    if size > MAX_READ_SIZE {
        let message = format!(
            "{path} has {size} bytes in lines {} to {last}, and at most {MAX_READ_SIZE} are read at a time: read a part \
             with offset and limit",
            first + 1,
        );
        return Err(Failure { kind: FailureKind::OutputTooLarge, code: Some("too-large".into()), message });
    }
    Ok(json!({
        "path": path,
        "content": lines[first..last].concat(),
        "start_line": first + 1,
        "lines": last - first,
        "total_lines": lines.len(),
    }))
}
