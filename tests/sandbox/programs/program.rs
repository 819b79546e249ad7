//! A program for WASI that does what its first argument says. rustc alone builds it.

use std::env;
use std::fs;
use std::io::{self, Read, Seek, Write};
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
        "change" => match changed(&words[2..]) {
            Ok(text) => print!("{text}"),
            Err(error) => return failed(&error.to_string()),
        },
        "leave-open" => {
            // Neither closed nor synced when the program ends.
            let mut file = fs::File::create(given(2)).unwrap();
            file.write_all(b"left open").unwrap();
            std::mem::forget(file);
            exit(given(3).parse().unwrap_or(0));
        }
        "break-off" => {
            let mut file = fs::File::create(given(2)).unwrap();
            file.write_all(b"half").unwrap();
            panic!("before it was closed");
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

/// One change of a file or folder; the answer is what is there afterwards.
fn changed(words: &[String]) -> io::Result<String> {
    let (path, more) = (&words[1], words.get(2).map(String::as_str).unwrap_or(""));
    let open = |options: &mut fs::OpenOptions| options.open(path);
    match words[0].as_str() {
        "write" => fs::write(path, more)?,
        "new" => open(fs::OpenOptions::new().write(true).create_new(true))?.write_all(more.as_bytes())?,
        "append" => open(fs::OpenOptions::new().append(true).create(true))?.write_all(more.as_bytes())?,
        "patch" => {
            let mut file = open(fs::OpenOptions::new().read(true).write(true))?;
            file.seek(io::SeekFrom::Start(2))?;
            file.write_all(more.as_bytes())?;
            file.sync_all()?;
        }
        "resize" => open(fs::OpenOptions::new().write(true))?.set_len(more.parse().unwrap())?,
        "large" => {
            let mut file = fs::File::create(path)?;
            for _ in 0..more.parse().unwrap() {
                file.write_all(&[b'x'; 1024])?;
            }
            return Ok(String::new());
        }
        "make" => fs::create_dir_all(path)?,
        "remove" => fs::remove_file(path)?,
        "remove-folder" => fs::remove_dir(path)?,
        "rename" => fs::rename(path, more)?,
        other => panic!("{other}"),
    }
    let seen = if words[0] == "rename" { more } else { path };
    match fs::metadata(seen) {
        Ok(found) if found.is_file() => fs::read_to_string(seen),
        Ok(_) => Ok("a folder".into()),
        Err(_) => Ok("nothing".into()),
    }
}
