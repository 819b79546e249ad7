//! `echo`: the plumbing test.

use kit::{Failure, Pure};
use serde::Deserialize;
use serde_json::Value;

struct Echo;

#[derive(Deserialize)]
struct Params {
    message: String,
}

impl Pure for Echo {
    const NAME: &'static str = "echo";
    const DESCRIPTION: &'static str = "Answers with the message it was given.";
    const SCHEMA: &'static str = include_str!("schema.json");
    type Params = Params;

    fn run(params: Params) -> Result<Value, Failure> {
        Ok(Value::String(params.message))
    }
}

kit::provide!(Echo);
