//! The interpreter: one context, one program, and its end as JSON.

use std::rc::Rc;

use boa_engine::builtins::promise::PromiseState;
use boa_engine::context::time::FixedClock;
use boa_engine::context::{ContextBuilder, HostHooks};
use boa_engine::job::SimpleJobExecutor;
use boa_engine::module::IdleModuleLoader;
use boa_engine::object::builtins::JsPromise;
use boa_engine::{Context, JsError, JsNativeError, JsResult, JsString, JsValue, NativeFunction, Source};
use crate::bindings::wasmrt::tool::types::Failure;
use crate::input;
use serde_json::value::RawValue;
use serde_json::Value;

use crate::host;

const RECURSION: usize = 400;
const STACK_VALUES: usize = 64 * 1024;
const MAX_BUFFER_BYTES: u64 = 16 * 1024 * 1024;
const SHOWN_BYTES: usize = 600;

struct Hooks {
    start_ms: u64,
}

impl HostHooks for Hooks {
    fn utc_now(&self) -> i64 {
        self.start_ms as i64
    }

    fn local_timezone_offset_seconds(&self, _: i64) -> i32 {
        0
    }

    fn max_buffer_size(&self, _: &mut Context) -> u64 {
        MAX_BUFFER_BYTES
    }
}

/// Runs a program to its end: `{"result": ..., "printed": ...}`, each where there is any.
pub fn run(code: &str, start_ms: u64) -> Result<String, Failure> {
    let mut context = context(start_ms).map_err(|error| input("broken", error.to_string()))?;
    match finished(code, &mut context) {
        Ok(result) => answer(result),
        Err(failure) => Err(failure),
    }
}

fn context(start_ms: u64) -> JsResult<Context> {
    let mut context = ContextBuilder::new()
        .host_hooks(Rc::new(Hooks { start_ms }))
        .clock(Rc::new(FixedClock::from_millis(start_ms)))
        .job_executor(Rc::new(SimpleJobExecutor::new()))
        .module_loader(Rc::new(IdleModuleLoader))
        .build()?;
    let limits = context.runtime_limits_mut();
    limits.set_recursion_limit(RECURSION);
    limits.set_stack_size_limit(STACK_VALUES);
    Ok(context)
}

fn finished(code: &str, context: &mut Context) -> Result<Option<String>, Failure> {
    let prelude = context.eval(Source::from_bytes(include_str!("prelude.js"))).expect("the prelude is ours");
    let call = NativeFunction::from_fn_ptr(call).to_js_function(context.realm());
    let print = NativeFunction::from_fn_ptr(print).to_js_function(context.realm());
    let arguments = [call.into(), print.into(), JsString::from(code).into()];
    let make = prelude.as_callable().expect("the prelude is a function");
    let program = make
        .call(&JsValue::undefined(), &arguments, context)
        .map_err(|error| input("syntax", said(error, context)))?;
    let started = program.as_callable().expect("the prelude returns a function");
    let started = started
        .call(&JsValue::undefined(), &[], context)
        .map_err(|error| threw(error, context))?;
    context.run_jobs().map_err(|error| threw(error, context))?;
    let promise = started.as_object().and_then(|object| JsPromise::from_object(object.clone()).ok());
    match promise.expect("an async function returns a promise").state() {
        PromiseState::Fulfilled(value) => Ok(value.as_string().map(|text| text.to_std_string_lossy())),
        PromiseState::Rejected(reason) => Err(threw(JsError::from_opaque(reason), context)),
        PromiseState::Pending => {
            Err(input("never-ended", format!("the program waits for a promise that nothing settles{}", tail())))
        }
    }
}

fn answer(result: Option<String>) -> Result<String, Failure> {
    let (printed, cut) = host::printed();
    let mut parts = Vec::new();
    if let Some(result) = result {
        let read: Result<&RawValue, _> = serde_json::from_str(&result);
        let result = if read.is_ok() { result } else { Value::from(result).to_string() };
        parts.push(format!("\"result\":{result}"));
    }
    if !printed.is_empty() {
        parts.push(format!("\"printed\":{}", Value::from(printed)));
    }
    if cut {
        parts.push("\"printed_cut\":true".into());
    }
    Ok(format!("{{{}}}", parts.join(",")))
}

fn call(_: &JsValue, arguments: &[JsValue], _: &mut Context) -> JsResult<JsValue> {
    let text = |at: usize| arguments.get(at).and_then(JsValue::as_string).map(|text| text.to_std_string_lossy());
    match (text(0), text(1)) {
        (Some(name), Some(params)) => Ok(JsString::from(host::call(&name, &params)).into()),
        _ => Err(JsNativeError::typ().with_message("a tool is called by its name").into()),
    }
}

fn print(_: &JsValue, arguments: &[JsValue], _: &mut Context) -> JsResult<JsValue> {
    if let Some(line) = arguments.first().and_then(JsValue::as_string) {
        host::print(&line.to_std_string_lossy());
    }
    Ok(JsValue::undefined())
}

fn threw(error: JsError, context: &mut Context) -> Failure {
    let message = said(error, context);
    input("threw", format!("the program threw {message}{}", tail()))
}

/// An error in a line. A program's own `toString` may throw, too: then there is nothing more to say.
fn said(error: JsError, context: &mut Context) -> String {
    let text = match error.into_opaque(context) {
        Ok(value) => match value.to_string(context) {
            Ok(text) => text.to_std_string_lossy(),
            Err(_) => "something that cannot be written".into(),
        },
        Err(limit) => limit.to_string(), // of the interpreter's own, which no program catches
    };
    shortened(&text, SHOWN_BYTES)
}

/// The end of what was printed before a failure.
fn tail() -> String {
    let (printed, _) = host::printed();
    let printed = printed.trim_end();
    if printed.is_empty() {
        return String::new();
    }
    let from = printed.len().saturating_sub(SHOWN_BYTES);
    let from = (from..printed.len()).find(|&at| printed.is_char_boundary(at)).unwrap_or(0);
    format!("; before it printed: {}", &printed[from..])
}

fn shortened(text: &str, most: usize) -> String {
    let end = (0..=most.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    if end < text.len() { format!("{}...", &text[..end]) } else { text.into() }
}
