//! A component with the tools of a package: the context says which, and params with an `action` are refused.
//! Each tool sends one request, to where its params say, or to its own place; desk/ has the package.

use serde_json::{json, Value};

wit_bindgen::generate!({ path: "../../../../wit/near-agent/0.4.1", world: "sandboxed-tool" });

use exports::near::agent::tool::{ErrorKind, Guest, GuestFailure, Request, Response};
use near::agent::host;

const SCHEMA: &str = r##"{
  "type": "object",
  "required": ["action"],
  "oneOf": [
    { "properties": { "action": { "const": "list_tickets" }, "state": { "type": "string" } }, "required": ["action"] },
    { "properties": { "action": { "const": "purge_tickets" }, "who": { "$ref": "#/$defs/gone" } }, "required": ["action"] }
  ]
}"##;

struct Tool;

impl Guest for Tool {
    fn execute(req: Request) -> Response {
        let context: Value = req.context.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        let params: Value = serde_json::from_str(&req.params).unwrap_or_default();
        let Some(id) = context["capability_id"].as_str() else {
            return failure("missing_invocation_context", "the context names no tool");
        };
        if params.get("action").is_some() {
            return failure("invalid_params", "the context says which tool; action is not a param");
        }
        if let Some(alias) = params["invoke"].as_str() {
            return match host::tool_invoke(alias, &params["with"].to_string()) {
                Ok(text) => Response::Success(text),
                Err(error) => failure("invoke", &error),
            };
        }
        match id.rsplit('.').next().unwrap_or("") {
            "whoami_context" => Response::Success(context.to_string()),
            "list_tickets" => send(&params, "GET", "/tickets?state=open", None),
            "purge_tickets" => send(&params, "DELETE", "/tickets/closed", None),
            "send_message" => send(&params, "POST", "/messages", Some(params["text"].to_string())),
            _ => failure("unknown_tool", id),
        }
    }

    fn schema() -> String {
        SCHEMA.into()
    }

    fn description() -> String {
        "The tools of a help desk.".into()
    }
}

/// Sends one request: to the host in `host` (or in a `conversation` that is one), by the method and path in the params.
fn send(params: &Value, method: &str, path: &str, body: Option<String>) -> Response {
    let host = params["host"].as_str().or(params["conversation"].as_str()).unwrap_or("");
    let method = params["method"].as_str().unwrap_or(method);
    let url = format!("https://{host}{}", params["path"].as_str().unwrap_or(path));
    let headers = params.get("headers").cloned().unwrap_or(json!({})).to_string();
    match host::http_request(method, &url, &headers, body.as_deref().map(str::as_bytes), Some(5_000)) {
        Ok(answer) => {
            let body = String::from_utf8_lossy(&answer.body);
            Response::Success(json!({ "status": answer.status, "body": body }).to_string())
        }
        Err(error) => failure(&error.code.unwrap_or_default(), &error.message.unwrap_or_default()),
    }
}

fn failure(code: &str, message: &str) -> Response {
    Response::Failure(GuestFailure {
        kind: ErrorKind::Input,
        code: Some(code.into()),
        message: Some(message.into()),
    })
}

export!(Tool);
