//! A guest that asks a server through wasi:http, with nothing in between: what it may not do it says in the
//! package's own words.

use serde::Deserialize;
use serde_json::{json, Value};
use wasip2::http::outgoing_handler::handle;
use wasip2::http::types::{
    http_error_code, Fields, FutureIncomingResponse, IncomingResponse, Method, OutgoingBody, OutgoingRequest,
    RequestOptions, Scheme,
};
use wasip2::io::streams::{OutputStream, StreamError};

wit_bindgen::generate!({ path: "../../../../../wit/near-agent/0.3.0", world: "sandboxed-tool" });

use exports::near::agent::tool::{Guest, Request, Response};

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Params {
    method: String,
    scheme: String,
    authority: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Option<String>,
    /// A body of so many bytes, written piece by piece after the request was handed over.
    body_bytes: usize,
    first_byte_timeout_ms: Option<u64>,
    /// Leaves the body unfinished.
    hang: bool,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            method: "GET".into(),
            scheme: "https".into(),
            authority: String::new(),
            path: "/".into(),
            headers: Vec::new(),
            body: None,
            body_bytes: 0,
            first_byte_timeout_ms: None,
            hang: false,
        }
    }
}

struct Tool;

impl Guest for Tool {
    fn execute(req: Request) -> Response {
        let outcome = serde_json::from_str::<Params>(&req.params).map_err(|error| error.to_string()).and_then(ask);
        match outcome {
            Ok(value) => Response { output: Some(value.to_string()), error: None },
            Err(error) => Response { output: None, error: Some(error) },
        }
    }

    fn schema() -> String {
        r#"{"type": "object"}"#.into()
    }

    fn description() -> String {
        "Asks a server.".into()
    }
}

fn ask(params: Params) -> Result<Value, String> {
    let request = request(&params)?;
    let body = match (&params.body, params.body_bytes, params.hang) {
        (None, 0, false) => None,
        _ => Some(request.body().map_err(|()| "no body")?),
    };
    let options = RequestOptions::new();
    options
        .set_first_byte_timeout(params.first_byte_timeout_ms.map(|ms| ms * 1_000_000))
        .map_err(|()| "no timeout")?;
    let future = handle(request, Some(options)).map_err(|error| format!("handle: {error:?}"))?;
    if params.hang {
        future.subscribe().block();
    }
    if let Some(body) = body {
        send(body, &params)?;
    }
    receive(wait(&future)?)
}

fn request(params: &Params) -> Result<OutgoingRequest, String> {
    let fields = Fields::new();
    for (name, value) in &params.headers {
        fields.append(name, value.as_bytes()).map_err(|error| format!("{name}: {error:?}"))?;
    }
    let request = OutgoingRequest::new(fields);
    let method = match params.method.as_str() {
        "GET" => Method::Get,
        "POST" => Method::Post,
        other => Method::Other(other.into()),
    };
    let scheme = if params.scheme == "http" { Scheme::Http } else { Scheme::Https };
    request.set_method(&method).map_err(|()| "no method")?;
    request.set_scheme(Some(&scheme)).map_err(|()| "no scheme")?;
    request.set_authority(Some(&params.authority)).map_err(|()| "no authority")?;
    request.set_path_with_query(Some(&params.path)).map_err(|()| "no path")?;
    Ok(request)
}

fn send(body: OutgoingBody, params: &Params) -> Result<(), String> {
    let text = params.body.clone().unwrap_or_default().into_bytes();
    {
        let stream = body.write().map_err(|()| "no stream")?;
        for piece in text.chunks(4096) {
            write(&stream, piece)?;
        }
        let filler = [b'x'; 4096];
        let mut left = params.body_bytes;
        while left > 0 {
            let count = left.min(filler.len());
            write(&stream, &filler[..count])?;
            left -= count;
        }
    }
    OutgoingBody::finish(body, None).map_err(|error| format!("finish: {error:?}"))
}

fn write(stream: &OutputStream, mut piece: &[u8]) -> Result<(), String> {
    while !piece.is_empty() {
        let room = stream.check_write().map_err(told)? as usize;
        let count = room.min(piece.len());
        stream.write(&piece[..count]).map_err(told)?;
        piece = &piece[count..];
        stream.flush().map_err(told)?;
    }
    Ok(())
}

fn told(error: StreamError) -> String {
    match error {
        StreamError::Closed => "closed".into(),
        StreamError::LastOperationFailed(error) => format!("write: {:?}", http_error_code(&error)),
    }
}

fn wait(future: &FutureIncomingResponse) -> Result<IncomingResponse, String> {
    loop {
        match future.get() {
            Some(Ok(Ok(response))) => return Ok(response),
            Some(Ok(Err(error))) => return Err(format!("response: {error:?}")),
            Some(Err(())) => return Err("taken".into()),
            None => future.subscribe().block(),
        }
    }
}

fn receive(response: IncomingResponse) -> Result<Value, String> {
    let headers: Vec<_> = response
        .headers()
        .entries()
        .into_iter()
        .map(|(name, value)| (name, String::from_utf8_lossy(&value).into_owned()))
        .collect();
    let body = response.consume().map_err(|()| "no body")?;
    let stream = body.stream().map_err(|()| "no stream")?;
    let (mut bytes, mut pieces, mut largest) = (Vec::new(), 0, 0);
    loop {
        match stream.blocking_read(1 << 20) {
            Ok(piece) => {
                pieces += 1;
                largest = largest.max(piece.len());
                bytes.extend(piece);
            }
            Err(StreamError::Closed) => break,
            Err(error) => return Err(told(error)),
        }
    }
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4096)]).into_owned();
    Ok(json!({
        "status": response.status(), "headers": headers, "body": text, "body_bytes": bytes.len(),
        "pieces": pieces, "largest": largest,
    }))
}

export!(Tool);
