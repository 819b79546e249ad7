//! A guest that does on request what a test wants to see: every host import, and every way to misbehave.
//! `{"op": "...", "arg": "..."}` in; tests/sandbox/guests/README.md lists the operations.

use serde::Deserialize;
use serde_json::{json, Value};
use std::sync::atomic::{AtomicU32, Ordering};

#[cfg(feature = "unversioned")]
wit_bindgen::generate!({ path: "../../../../../wit/near-agent/unversioned", world: "sandboxed-tool" });
#[cfg(feature = "v0_2_0")]
wit_bindgen::generate!({ path: "../../../../../wit/near-agent/0.2.0", world: "sandboxed-tool" });
#[cfg(feature = "v0_3_0")]
wit_bindgen::generate!({ path: "../../../../../wit/near-agent/0.3.0", world: "sandboxed-tool" });
#[cfg(feature = "v0_4_1")]
wit_bindgen::generate!({ path: "../../../../../wit/near-agent/0.4.1", world: "sandboxed-tool" });

use exports::near::agent::tool::{Guest, Request, Response};
use near::agent::host;

static CALLS: AtomicU32 = AtomicU32::new(0);

const SCHEMA: &str = r#"{
  "type": "object",
  "properties": {
    "op": { "type": "string", "description": "What to do" },
    "arg": { "type": "string", "description": "What to do it with" }
  }
}"#;

#[derive(Deserialize)]
struct Params {
    #[serde(default)]
    op: String,
    #[serde(default)]
    arg: String,
}

struct Tool;

impl Guest for Tool {
    fn execute(req: Request) -> Response {
        match serde_json::from_str::<Params>(&req.params) {
            Ok(params) if params.op.is_empty() || params.op == "echo" => answer(Ok(req.params)),
            Ok(params) if params.op == "context" => answer(Ok(req.context.unwrap_or_else(|| "null".into()))),
            Ok(params) => answer(run(&params.op, &params.arg)),
            Err(error) => answer(Err(error.to_string())),
        }
    }

    fn schema() -> String {
        SCHEMA.into()
    }

    fn description() -> String {
        "Does on request what a test wants to see.".into()
    }
}

#[cfg(not(feature = "v0_4_1"))]
fn answer(result: Result<String, String>) -> Response {
    match result {
        Ok(output) => Response { output: Some(output), error: None },
        Err(error) => Response { output: None, error: Some(error) },
    }
}

#[cfg(feature = "v0_4_1")]
fn answer(result: Result<String, String>) -> Response {
    use exports::near::agent::tool::{ErrorKind, GuestFailure};
    match result {
        Ok(output) => Response::Success(output),
        Err(error) => Response::Failure(GuestFailure {
            kind: ErrorKind::OperationFailed,
            code: Some("test".into()),
            message: Some(error),
        }),
    }
}

fn run(op: &str, arg: &str) -> Result<String, String> {
    match op {
        "now" => Ok(json!({ "now": host::now_millis() }).to_string()),
        "workspace" => Ok(json!({ "text": host::workspace_read(arg) }).to_string()),
        "http" => http(arg),
        "invoke" => host::tool_invoke(arg, "{}"),
        "secret" => Ok(host::secret_exists(arg).to_string()),
        "log" => log(arg),
        "fail" => Err(arg.into()),
        "count" => Ok((CALLS.fetch_add(1, Ordering::Relaxed) + 1).to_string()),
        _ => misbehave(op, arg),
    }
}

fn log(message: &str) -> Result<String, String> {
    use host::LogLevel::{Debug, Error, Info, Trace, Warn};
    for level in [Trace, Debug, Info, Warn, Error] {
        host::log(level, message);
    }
    Ok("null".into())
}

fn http(url: &str) -> Result<String, String> {
    let response = host::http_request("GET", url, r#"{"accept": "*/*"}"#, None, Some(5_000)).map_err(failed)?;
    let headers = serde_json::from_str::<Value>(&response.headers_json).map_err(|error| error.to_string())?;
    let body = String::from_utf8_lossy(&response.body);
    Ok(json!({ "status": response.status, "headers": headers, "body": body }).to_string())
}

#[cfg(not(feature = "v0_4_1"))]
fn failed(error: String) -> String {
    error
}

#[cfg(feature = "v0_4_1")]
fn failed(error: host::HttpFailure) -> String {
    json!({
        "kind": format!("{:?}", error.kind),
        "code": error.code,
        "message": error.message,
        "request_sent": error.request_sent,
    })
    .to_string()
}

fn misbehave(op: &str, arg: &str) -> Result<String, String> {
    match op {
        "trap" => panic!("{arg}"),
        "spin" => loop {
            std::hint::spin_loop();
        },
        "grow" => grow(),
        "recurse" => Ok(recurse(1).to_string()),
        "invalid" => Ok("this is not JSON".into()),
        "big" => Ok(format!("\"{}\"", "x".repeat(arg.parse().map_err(|_| "arg must be a number of bytes")?))),
        _ => Err(format!("no operation {op:?}")),
    }
}

fn grow() -> ! {
    let mut kept = Vec::new();
    loop {
        kept.push(std::hint::black_box(vec![1u8; 1 << 20]));
    }
}

fn recurse(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 64]);
    if depth == u64::MAX {
        return 0;
    }
    recurse(depth + 1) + frame[0]
}

export!(Tool);
