//! `run_code`: a program of the model's in JavaScript, which calls the tools of its caller through the host.
//!
//! Time stands still and randomness comes from a seed, so that a program asks the same again whenever it is answered
//! the same: a run that waited for a person is continued by running it once more.

mod engine;
mod host;

use bindings::exports::wasmrt::tool::provider::{Annotations, Guest, Tool};
use bindings::wasmrt::tool::types::{Failure, FailureKind};
use serde::Deserialize;

mod bindings {
    wit_bindgen::generate!({ path: "../../wit/wasmrt-tool", world: "tool" });
}

const NAME: &str = "run_code";

#[derive(Deserialize)]
struct Params {
    code: String,
}

/// What the host chose for the run.
#[derive(Deserialize, Default)]
struct Circumstances {
    #[serde(default)]
    seed: u64,
    #[serde(default)]
    start_ms: u64,
}

struct Provider;

impl Guest for Provider {
    fn describe() -> Vec<Tool> {
        vec![Tool {
            name: NAME.into(),
            description: "Run a JavaScript program that calls the other tools.".into(),
            schema: include_str!("schema.json").into(),
            annotations: Annotations { read_only: true, destructive: false, network: false },
        }]
    }

    fn call(name: String, params: String, context: Option<String>) -> Result<String, Failure> {
        if name != NAME {
            return Err(input("unknown-tool", format!("this component has no tool named {name:?}")));
        }
        let params: Params = read(&params)?;
        let chosen: Circumstances = context.as_deref().map(read).transpose()?.unwrap_or_default();
        host::seed(chosen.seed);
        engine::run(&params.code, chosen.start_ms)
    }
}

fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Failure> {
    serde_json::from_str(text).map_err(|error| input("invalid-params", error.to_string()))
}

/// The caller's mistake: `code` is for programs, `message` for the model that will try again.
fn input(code: &str, message: String) -> Failure {
    Failure { kind: FailureKind::Input, code: Some(code.into()), message }
}

bindings::export!(Provider with_types_in bindings);
