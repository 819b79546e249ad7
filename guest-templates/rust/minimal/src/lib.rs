//! {{name}}: counts the words of a text. The functions are declared in wit/tool.wit.

mod crash;

wit_bindgen::generate!({ path: "wit", world: "tool", generate_all });

use exports::local::tool::words::Guest;

struct Tool;

impl Guest for Tool {
    fn count(text: String) -> u32 {
        crash::tell();
        text.split_whitespace().count() as u32
    }
}

export!(Tool);
