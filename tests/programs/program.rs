//! A program for WASI that does what its first argument says. rustc alone builds it.

use std::env;
use std::fs;
use std::io::{self, Read, Write};
use std::process::{exit, ExitCode};

fn main() -> ExitCode {
    let words: Vec<String> = env::args().collect();
    let given = |at: usize| words.get(at).map(String::as_str).unwrap_or("");
    match given(1) {
        "args" => println!("{words:?}"),
        "env" => println!("{:?}", env::vars().collect::<Vec<_>>()),
        "cat" => drop(io::copy(&mut io::stdin(), &mut io::stdout())),
        "bytes" => drop(io::stdout().write_all(&[b'a', 0xff, b'b'])),
        "read" => match fs::read_to_string(given(2)) {
            Ok(text) => print!("{text}"),
            Err(error) => return failed(&error.to_string()),
        },
        "list" => match fs::read_dir(given(2)) {
            Ok(found) => found.flatten().for_each(|entry| println!("{}", entry.file_name().to_string_lossy())),
            Err(error) => return failed(&error.to_string()),
        },
        "write" => {
            if let Err(error) = fs::write(given(2), "written") {
                return failed(&error.to_string());
            }
        }
        "exit" => {
            println!("last words");
            exit(given(2).parse().unwrap_or(0));
        }
        "fail" => {
            println!("an answer");
            return failed("it did not work");
        }
        "panic" => panic!("on purpose"),
        "flood" => loop {
            println!("{}", "x".repeat(4000));
        },
        "flood-errors" => loop {
            eprintln!("{}", "x".repeat(4000));
        },
        "spin" => loop {
            std::hint::black_box(0);
        },
        "both" => {
            let mut text = String::new();
            drop(io::stdin().read_to_string(&mut text));
            print!("{}", text.to_uppercase());
            eprint!("read {} bytes", text.len());
        }
        other => return failed(&format!("no such thing: {other:?}")),
    }
    ExitCode::SUCCESS
}

fn failed(message: &str) -> ExitCode {
    eprintln!("{message}");
    ExitCode::FAILURE
}
