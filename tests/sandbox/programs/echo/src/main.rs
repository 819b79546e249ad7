//! The plugin `echo`: protocol version 0, one request on standard input, one response on standard output. The same
//! source is built for this machine and for WASI. Text that begins with `@` asks for more than an echo.

use serde_json::{json, Value};
use std::fs;
use std::io::{self, Read};

fn main() {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text).expect("a request");
    let request: Value = serde_json::from_str(&text).expect("JSON");
    let args: Value = serde_json::from_str(request["args_json"].as_str().unwrap_or("{}")).expect("JSON");
    let said = args["text"].as_str().unwrap_or("");
    let data = match said.split_once(' ') {
        Some(("@read", path)) => told(fs::read_to_string(path)),
        Some(("@write", path)) => told(fs::write(path, "written").map(|()| "written".into())),
        _ if said == "@request" => request.clone(),
        _ if said == "@spin" => loop {
            std::hint::black_box(0);
        },
        _ if said == "@flood" => loop {
            println!("{}", "x".repeat(1000));
        },
        _ => json!({"text": said}),
    };
    let response = json!({
        "protocol_version": 0, "request_id": request["request_id"], "ok": true, "data_json": data.to_string(),
    });
    println!("{response}");
}

fn told(outcome: io::Result<String>) -> Value {
    match outcome {
        Ok(text) => json!({"done": text}),
        Err(error) => json!({"failed": error.to_string()}),
    }
}
