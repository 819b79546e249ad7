//! A guest that answers HTTP requests, with nothing in between: the path selects what it does.

use serde_json::json;
use wasip2::exports::http::incoming_handler::Guest;
use wasip2::http::types::{
    ErrorCode, Fields, IncomingRequest, OutgoingBody, OutgoingResponse, ResponseOutparam,
};

wit_bindgen::generate!({ path: "../../wit/config.wit", world: "config" });

struct Handler;

impl Guest for Handler {
    fn handle(request: IncomingRequest, out: ResponseOutparam) {
        let path = request.path_with_query().unwrap_or_default();
        match path.as_str() {
            "/nothing" => (),
            "/error" => ResponseOutparam::set(out, Err(ErrorCode::LoopDetected)),
            "/empty" => ResponseOutparam::set(out, Ok(response(204, &[]))),
            "/unfinished" => {
                let answer = response(200, &[]);
                let body = answer.body().unwrap();
                ResponseOutparam::set(out, Ok(answer));
                body.write().unwrap().blocking_write_and_flush(b"half").unwrap();
            }
            "/bytes" => send(out, response(200, &[]), &[0xff, 0]),
            "/flood" => send(out, response(200, &[]), &vec![b'x'; 1 << 22]),
            "/wrong-length" => send(out, response(200, &[("content-length", "9")]), b"short"),
            "/config" => {
                let units = wasi::config::store::get("units").unwrap();
                let all = wasi::config::store::get_all().unwrap();
                send(out, response(200, &[]), json!({"units": units, "all": all}).to_string().as_bytes())
            }
            _ => echo(request, out, &path),
        }
    }
}

fn response(status: u16, headers: &[(&str, &str)]) -> OutgoingResponse {
    let fields = Fields::new();
    for (name, value) in headers {
        fields.append(name, value.as_bytes()).unwrap();
    }
    let response = OutgoingResponse::new(fields);
    response.set_status_code(status).unwrap();
    response
}

fn send(out: ResponseOutparam, response: OutgoingResponse, content: &[u8]) {
    let body = response.body().unwrap();
    ResponseOutparam::set(out, Ok(response));
    let stream = body.write().unwrap();
    for piece in content.chunks(4096) {
        if stream.blocking_write_and_flush(piece).is_err() {
            return;
        }
    }
    drop(stream);
    let _ = OutgoingBody::finish(body, None);
}

fn echo(request: IncomingRequest, out: ResponseOutparam, path: &str) {
    let headers: Vec<_> = request
        .headers()
        .entries()
        .into_iter()
        .map(|(name, value)| (name, String::from_utf8_lossy(&value).into_owned()))
        .collect();
    let body = request.consume().unwrap();
    assert!(request.consume().is_err());
    let mut content = Vec::new();
    {
        let stream = body.stream().unwrap();
        while let Ok(piece) = stream.blocking_read(1 << 16) {
            content.extend(piece);
        }
    }
    let seen = json!({
        "method": format!("{:?}", request.method()), "path": path, "authority": request.authority(),
        "headers": headers, "body": String::from_utf8_lossy(&content), "body_bytes": content.len(),
    });
    let headers = [("content-type", "application/json"), ("x-part", "a"), ("X-Part", "b")];
    send(out, response(201, &headers), seen.to_string().as_bytes())
}

wasip2::http::proxy::export!(Handler with_types_in wasip2);
