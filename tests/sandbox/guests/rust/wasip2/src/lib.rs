//! A guest for wasm32-wasip2 that asks the operating system for everything a std program may ask for.
//! `{"op": "...", "arg": "..."}` in, through near:agent@0.3.0.

use serde::Deserialize;
use serde_json::{json, Value};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

wit_bindgen::generate!({ path: "../../../../../wit/near-agent/0.3.0", world: "sandboxed-tool" });

use exports::near::agent::tool::{Guest, Request, Response};

#[derive(Deserialize)]
struct Params {
    op: String,
    #[serde(default)]
    arg: String,
}

struct Tool;

impl Guest for Tool {
    fn execute(req: Request) -> Response {
        let outcome = serde_json::from_str::<Params>(&req.params)
            .map_err(|error| error.to_string())
            .and_then(|params| run(&params.op, &params.arg));
        match outcome {
            Ok(value) => Response { output: Some(value.to_string()), error: None },
            Err(error) => Response { output: None, error: Some(error) },
        }
    }

    fn schema() -> String {
        r#"{"type": "object", "properties": {"op": {"type": "string"}, "arg": {"type": "string"}}, "required": ["op"]}"#
            .into()
    }

    fn description() -> String {
        "Asks the operating system.".into()
    }
}

fn run(op: &str, arg: &str) -> Result<Value, String> {
    match op {
        "clock" => clock(),
        "sleep" => sleep(arg),
        "random" => Ok(random()),
        "print" => print(arg),
        "stdin" => stdin(),
        "env" => Ok(json!(std::env::vars().collect::<HashMap<_, _>>())),
        "args" => Ok(json!(std::env::args().collect::<Vec<_>>())),
        "cwd" => std::env::current_dir().map(|path| json!(path)).map_err(text),
        "read" => std::fs::read_to_string(arg).map(Value::from).map_err(text),
        "write" => std::fs::write(arg, "written").map(Value::from).map_err(text),
        "list" => list(arg),
        "connect" => TcpStream::connect(arg).map(|_| json!("connected")).map_err(text),
        "listen" => TcpListener::bind(arg).map(|_| json!("listening")).map_err(text),
        "udp" => UdpSocket::bind(arg).map(|_| json!("bound")).map_err(text),
        "resolve" => arg.to_socket_addrs().map(|found| json!(found.count())).map_err(text),
        "exit" => std::process::exit(arg.parse().unwrap_or(0)),
        "panic" => panic!("{arg}"),
        _ => Err(format!("no operation {op:?}")),
    }
}

fn text(error: std::io::Error) -> String {
    format!("{:?}: {error}", error.kind())
}

fn clock() -> Result<Value, String> {
    let before = Instant::now();
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|error| error.to_string())?;
    Ok(json!({ "unix_millis": since_epoch.as_millis() as u64, "monotonic": Instant::now() >= before }))
}

fn sleep(arg: &str) -> Result<Value, String> {
    let millis = arg.parse().map_err(|_| "arg must be a number of milliseconds")?;
    let before = Instant::now();
    std::thread::sleep(Duration::from_millis(millis));
    Ok(json!({ "slept_millis": before.elapsed().as_millis() as u64 }))
}

/// A HashMap takes its seed from the host's random source, and so orders its keys.
fn random() -> Value {
    let keys: HashMap<u32, ()> = (0..64).map(|key| (key, ())).collect();
    json!(keys.keys().collect::<Vec<_>>())
}

fn print(arg: &str) -> Result<Value, String> {
    println!("{arg}");
    eprintln!("{arg}");
    std::io::stdout().flush().map_err(text)?;
    Ok(Value::Null)
}

fn stdin() -> Result<Value, String> {
    let mut read = String::new();
    std::io::stdin().read_to_string(&mut read).map_err(text)?;
    Ok(json!(read))
}

fn list(arg: &str) -> Result<Value, String> {
    let entries = std::fs::read_dir(arg).map_err(text)?;
    let names = entries.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()));
    names.collect::<Result<Vec<_>, _>>().map(|names| json!(names)).map_err(text)
}

export!(Tool);
