//! Several tools in one component of `wasmrt:tool@0.1.0`, one for every host interface and one for every failure.

use serde::de::DeserializeOwned;
use serde::Deserialize;
use serde_json::json;

wit_bindgen::generate!({ path: "../../../../../wit/wasmrt-tool", world: "tool" });

use exports::wasmrt::tool::provider::{Annotations, Guest, Tool};
use wasmrt::tool::types::{Failure, FailureKind};
use wasmrt::tool::{clock, http, log, progress, secrets, tools, workspace};

struct Provider;

const NOTHING: &str = r#"{"type": "object", "properties": {}}"#;

const PATH: &str = r#"{"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}"#;

const NAME: &str = r#"{"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}"#;

const FETCH: &str = r#"{
  "type": "object",
  "properties": {
    "url": {"type": "string"},
    "method": {"type": "string", "enum": ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]},
    "headers": {"type": "array", "items": {"type": "array", "items": {"type": "string"}}},
    "body": {"type": "string"},
    "timeout_ms": {"type": "integer"}
  },
  "required": ["url"]
}"#;

const INVOKE: &str = r#"{
  "type": "object",
  "properties": {"alias": {"type": "string"}, "params": {"type": "object"}},
  "required": ["alias"]
}"#;

const LOG: &str = r#"{
  "type": "object",
  "properties": {"message": {"type": "string"}, "times": {"type": "integer"}},
  "required": ["message"]
}"#;

const FAIL: &str = r#"{
  "type": "object",
  "properties": {
    "kind": {
      "type": "string",
      "enum": ["auth-required", "input", "output-too-large", "executor", "network-denied", "client", "operation-failed"]
    },
    "code": {"type": "string"},
    "message": {"type": "string"}
  },
  "required": ["kind", "message"]
}"#;

#[derive(Deserialize)]
struct Named {
    #[serde(alias = "path")]
    name: String,
}

#[derive(Deserialize)]
struct Fetch {
    url: String,
    method: Option<String>,
    #[serde(default)]
    headers: Vec<(String, String)>,
    body: Option<String>,
    timeout_ms: Option<u32>,
}

#[derive(Deserialize)]
struct Invoke {
    alias: String,
    #[serde(default)]
    params: serde_json::Value,
}

#[derive(Deserialize)]
struct Log {
    message: String,
    times: Option<u32>,
}

#[derive(Deserialize)]
struct Fail {
    kind: String,
    code: Option<String>,
    message: String,
}

impl Guest for Provider {
    fn describe() -> Vec<Tool> {
        vec![
            tool("fetch", "Make one HTTP request.", FETCH, false, true),
            tool("read-file", "Read a workspace file as text.", PATH, true, false),
            tool("list-files", "List a workspace folder.", PATH, true, false),
            tool("has-secret", "Tell whether a secret is set.", NAME, true, false),
            tool("invoke", "Invoke another tool.", INVOKE, false, false),
            tool("log", "Log a message at every level.", LOG, true, false),
            tool("clock", "Read both clocks.", NOTHING, true, false),
            tool("progress", "Report progress three times.", NOTHING, true, false),
            tool("context", "Answer with the call's context.", NOTHING, true, false),
            tool("fail", "Fail as told.", FAIL, true, false),
        ]
    }

    fn call(name: String, params: String, context: Option<String>) -> Result<String, Failure> {
        match name.as_str() {
            "fetch" => fetch(parse(&params)?),
            "read-file" => read(&parse::<Named>(&params)?.name),
            "list-files" => list(&parse::<Named>(&params)?.name),
            "has-secret" => Ok(secrets::exists(&parse::<Named>(&params)?.name).to_string()),
            "invoke" => parse::<Invoke>(&params).and_then(|to| tools::invoke(&to.alias, &to.params.to_string())),
            "log" => say(parse(&params)?),
            "clock" => Ok(json!({ "now": clock::now(), "monotonic": clock::monotonic() }).to_string()),
            "progress" => advance(),
            "context" => Ok(context.unwrap_or_else(|| "null".into())),
            "fail" => Err(failure(parse(&params)?)),
            _ => Err(input(format!("no tool {name:?}"))),
        }
    }
}

fn tool(name: &str, description: &str, schema: &str, read_only: bool, network: bool) -> Tool {
    Tool {
        name: name.into(),
        description: description.into(),
        schema: schema.into(),
        annotations: Annotations { read_only, destructive: false, network },
    }
}

fn parse<T: DeserializeOwned>(params: &str) -> Result<T, Failure> {
    serde_json::from_str(params).map_err(|error| input(error.to_string()))
}

fn input(message: String) -> Failure {
    Failure { kind: FailureKind::Input, code: None, message }
}

fn fetch(wanted: Fetch) -> Result<String, Failure> {
    let method = match wanted.method.as_deref().unwrap_or("GET") {
        "GET" => http::Method::Get,
        "HEAD" => http::Method::Head,
        "POST" => http::Method::Post,
        "PUT" => http::Method::Put,
        "PATCH" => http::Method::Patch,
        "DELETE" => http::Method::Delete,
        "OPTIONS" => http::Method::Options,
        other => return Err(input(format!("no method {other:?}"))),
    };
    let headers = wanted.headers.into_iter().map(|(name, value)| http::Header { name, value }).collect();
    let body = wanted.body.map(String::into_bytes);
    let answer = http::fetch(&http::Request { method, url: wanted.url, headers, body, timeout_ms: wanted.timeout_ms })?;
    let headers: Vec<_> = answer.headers.iter().map(|header| (&header.name, &header.value)).collect();
    let body = String::from_utf8_lossy(&answer.body);
    Ok(json!({ "status": answer.status, "headers": headers, "body": body }).to_string())
}

fn read(path: &str) -> Result<String, Failure> {
    workspace::read(path).map(|bytes| json!(String::from_utf8_lossy(&bytes)).to_string())
}

fn list(path: &str) -> Result<String, Failure> {
    let entries = workspace::list(path)?;
    let kind = |entry: &workspace::Entry| match entry.kind {
        workspace::EntryKind::File => "file",
        workspace::EntryKind::Directory => "directory",
    };
    let shown: Vec<_> =
        entries.iter().map(|entry| json!({ "name": entry.name, "kind": kind(entry), "size": entry.size })).collect();
    Ok(json!(shown).to_string())
}

fn say(wanted: Log) -> Result<String, Failure> {
    use log::Level::{Debug, Error, Info, Trace, Warn};
    for _ in 0..wanted.times.unwrap_or(1) {
        for level in [Trace, Debug, Info, Warn, Error] {
            log::log(level, &wanted.message);
        }
    }
    Ok("null".into())
}

fn advance() -> Result<String, Failure> {
    progress::report(1, None, None);
    progress::report(2, Some(3), Some("two of three"));
    progress::report(3, Some(3), Some(""));
    Ok("null".into())
}

fn failure(wanted: Fail) -> Failure {
    let kind = match wanted.kind.as_str() {
        "auth-required" => FailureKind::AuthRequired,
        "input" => FailureKind::Input,
        "output-too-large" => FailureKind::OutputTooLarge,
        "executor" => FailureKind::Executor,
        "network-denied" => FailureKind::NetworkDenied,
        "client" => FailureKind::Client,
        _ => FailureKind::OperationFailed,
    };
    Failure { kind, code: wanted.code, message: wanted.message }
}

export!(Provider);
