//! `run_code`: a program of the model's in JavaScript, which calls the tools of its caller through the host.
//!
//! Time stands still and randomness comes from a seed, so that a program asks the same again whenever it is answered
//! the same: a run that waited for a person is continued by running it once more.

mod engine;
mod host;

use kit::several::READS;
use kit::{input, Description, Failure, Guest};
use serde::Deserialize;

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
    fn describe() -> Vec<Description> {
        vec![Description {
            name: NAME.into(),
            description: "Run a JavaScript program that calls the other tools.".into(),
            schema: include_str!("schema.json").into(),
            annotations: READS,
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

kit::bindings::export!(Provider with_types_in kit::bindings);
