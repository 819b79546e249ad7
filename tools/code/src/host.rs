//! The program's way out: calls of tools, what it prints, and randomness.

use std::cell::{Cell, RefCell};

use serde_json::{json, value::RawValue};

const MAX_PRINTED_BYTES: usize = 64 * 1024;

thread_local! {
    static PRINTED: RefCell<String> = const { RefCell::new(String::new()) };
    static CUT: Cell<bool> = const { Cell::new(false) };
    static STATE: Cell<u64> = const { Cell::new(0) };
}

/// Calls a tool: JSON with its `result`, or with the `failure` that the program can catch.
pub fn call(name: &str, params: &str) -> String {
    match crate::bindings::wasmrt::tool::tools::invoke(name, params) {
        Ok(answer) => match serde_json::from_str::<&RawValue>(&answer) {
            Ok(_) => format!("{{\"result\":{answer}}}"),
            Err(_) => json!({ "result": answer }).to_string(),
        },
        Err(failure) => {
            let code = failure.code.unwrap_or_else(|| "failed".into());
            json!({ "failure": { "code": code, "message": failure.message } }).to_string()
        }
    }
}

pub fn print(line: &str) {
    PRINTED.with_borrow_mut(|printed| {
        let left = MAX_PRINTED_BYTES.saturating_sub(printed.len());
        if line.len() >= left {
            CUT.set(true);
            let end = (0..=left.min(line.len())).rev().find(|&at| line.is_char_boundary(at)).unwrap_or(0);
            printed.push_str(&line[..end]);
        } else if !CUT.get() {
            printed.push_str(line);
            printed.push('\n');
        }
    });
}

/// What was printed, and whether a part of it is missing.
pub fn printed() -> (String, bool) {
    (PRINTED.take(), CUT.get())
}

pub fn seed(seed: u64) {
    STATE.set(seed);
}

/// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
fn next() -> u64 {
    let state = STATE.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
    STATE.set(state);
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// The source that `rand` asks on a target that has none.
#[no_mangle]
unsafe extern "Rust" fn __getrandom_v03_custom(target: *mut u8, length: usize) -> Result<(), getrandom::Error> {
    for at in 0..length {
        // SAFETY: getrandom gives room for `length` bytes.
        unsafe { target.add(at).write((next() >> 56) as u8) };
    }
    Ok(())
}
