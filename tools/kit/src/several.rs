//! A component that offers several tools.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{input, Annotations, Description, Failure};

/// One tool of several.
pub struct Offer {
    pub name: &'static str,
    pub description: &'static str,
    /// JSON Schema of the params.
    pub schema: &'static str,
    pub annotations: Annotations,
    pub run: fn(&str) -> Result<Value, Failure>,
}

pub const READS: Annotations = Annotations { read_only: true, destructive: false, network: false };
pub const WRITES: Annotations = Annotations { read_only: false, destructive: false, network: false };
pub const DESTROYS: Annotations = Annotations { read_only: false, destructive: true, network: false };

/// Reads the params of a tool and runs it.
pub fn with_params<P: DeserializeOwned>(params: &str, run: fn(P) -> Result<Value, Failure>) -> Result<Value, Failure> {
    run(serde_json::from_str(params).map_err(|error| input("invalid-params", error.to_string()))?)
}

pub fn describe_all(offers: &[Offer]) -> Vec<Description> {
    offers
        .iter()
        .map(|offer| Description {
            name: offer.name.into(),
            description: offer.description.into(),
            schema: offer.schema.into(),
            annotations: offer.annotations,
        })
        .collect()
}

pub fn call_one(offers: &[Offer], name: &str, params: &str) -> Result<String, Failure> {
    match offers.iter().find(|offer| offer.name == name) {
        Some(offer) => (offer.run)(params).map(|answer| answer.to_string()),
        None => Err(input("unknown-tool", format!("this component has no tool named {name:?}"))),
    }
}

/// Makes a slice of offers the component's provider.
#[macro_export]
macro_rules! provide_several {
    ($offers:expr) => {
        struct Provider;

        impl $crate::Guest for Provider {
            fn describe() -> Vec<$crate::Description> {
                $crate::several::describe_all($offers)
            }

            fn call(name: String, params: String, _context: Option<String>) -> Result<String, $crate::Failure> {
                $crate::several::call_one($offers, &name, &params)
            }
        }

        $crate::bindings::export!(Provider with_types_in $crate::bindings);
    };
}
