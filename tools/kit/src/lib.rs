//! The world `wasmrt:tool@0.1.0` for a component that offers one tool which touches nothing outside itself, or several.
//! It does not validate params against the schema: the host does, and serde says what is left.

use serde::de::DeserializeOwned;
use serde_json::Value;

pub mod several;

pub mod bindings {
    wit_bindgen::generate!({
        path: "../../wit/wasmrt-tool",
        world: "tool",
        pub_export_macro: true,
    });
}

pub use bindings::exports::wasmrt::tool::provider::{Annotations, Guest, Tool as Description};
pub use bindings::wasmrt::tool::{clock, workspace};
pub use bindings::wasmrt::tool::types::{Failure, FailureKind};

/// A tool that only computes: params in, an answer out.
pub trait Pure {
    const NAME: &'static str;
    const DESCRIPTION: &'static str;
    /// JSON Schema of the params.
    const SCHEMA: &'static str;
    type Params: DeserializeOwned;

    fn run(params: Self::Params) -> Result<Value, Failure>;
}

/// The caller's mistake; `code` is for programs, `message` for the model that will try again.
pub fn input(code: &str, message: impl Into<String>) -> Failure {
    Failure { kind: FailureKind::Input, code: Some(code.into()), message: message.into() }
}

pub fn describe<T: Pure>() -> Vec<Description> {
    vec![Description {
        name: T::NAME.into(),
        description: T::DESCRIPTION.into(),
        schema: T::SCHEMA.into(),
        annotations: Annotations { read_only: true, destructive: false, network: false },
    }]
}

pub fn call<T: Pure>(name: &str, params: &str) -> Result<String, Failure> {
    if name != T::NAME {
        return Err(input("unknown-tool", format!("this component has no tool named {name:?}, only {}", T::NAME)));
    }
    let params = serde_json::from_str(params).map_err(|error| input("invalid-params", error.to_string()))?;
    T::run(params).map(|answer| answer.to_string())
}

/// Makes a `Pure` tool the component's provider.
#[macro_export]
macro_rules! provide {
    ($tool:ty) => {
        struct Provider;

        impl $crate::Guest for Provider {
            fn describe() -> Vec<$crate::Description> {
                $crate::describe::<$tool>()
            }

            fn call(name: String, params: String, _context: Option<String>) -> Result<String, $crate::Failure> {
                $crate::call::<$tool>(&name, &params)
            }
        }

        $crate::bindings::export!(Provider with_types_in $crate::bindings);
    };
}
