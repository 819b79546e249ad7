//! Lines of ignore files: where the `ignore` crate reads a line differently from git, it gets another line.

/// The POSIX classes, which the crate does not know, without the slash, which no class matches in git.
const CLASSES: &[(&str, &str)] = &[
    ("alnum", "0-9A-Za-z"), ("alpha", "A-Za-z"), ("blank", " \t"), ("cntrl", "\0-\x1f\x7f"), ("digit", "0-9"),
    ("graph", "\"-.0-~!"), ("lower", "a-z"), ("print", " -.0-~"), ("punct", "#-.:-@[-`{-~!\""), ("space", "\t-\r "),
    ("upper", "A-Z"), ("xdigit", "0-9A-Fa-f"),
];

/// A line with the meaning that it has in git, or None if it matches nothing there.
pub fn as_in_git(line: &str) -> Option<String> {
    let line = without_trailing_spaces(line);
    let (negation, rest) = line.split_at(usize::from(line.starts_with('!')));
    let pattern = rest.strip_suffix('/').unwrap_or(rest);
    let escapes = pattern.chars().rev().take_while(|letter| *letter == '\\').count();
    if line.starts_with('#') || pattern.is_empty() || pattern.ends_with('/') || escapes % 2 == 1 {
        return None;
    }
    let mut read = negation.to_owned();
    if !pattern.contains('/') {
        read.push_str("**/"); // otherwise the slash in a negated class would make it a path
    }
    let (mut in_class, mut escaped) = (false, false);
    let mut rest = rest;
    while let Some(letter) = rest.chars().next() {
        if let Some((name, after)) = rest.strip_prefix("[:").filter(|_| in_class && !escaped).and_then(|rest| rest.split_once(":]")) {
            read.push_str(CLASSES.iter().find(|class| class.0 == name)?.1);
            rest = after;
            continue;
        }
        rest = &rest[letter.len_utf8()..];
        if letter == '[' && !in_class && !escaped {
            in_class = true;
            rest = open_class(rest, &mut read);
            continue;
        }
        match letter {
            // Braces have no meaning in git.
            '{' | '}' if !in_class && !escaped => read.extend(['\\', letter]),
            // The crate removes other white space than spaces from the end of a line, too.
            _ if letter.is_whitespace() && letter != ' ' && !in_class => {
                read.truncate(read.len() - usize::from(escaped));
                read.extend(['[', letter, ']']);
            }
            _ => read.push(letter),
        }
        if !escaped {
            in_class = in_class && letter != ']';
        }
        escaped = letter == '\\' && !escaped;
    }
    Some(read)
}

/// Writes the start of a class, and returns the rest of the line. In the crate, a negated class matches a slash.
fn open_class<'a>(rest: &'a str, read: &mut String) -> &'a str {
    read.push('[');
    let negated = rest.strip_prefix(['!', '^']);
    let rest = negated.unwrap_or(rest);
    if negated.is_some() {
        read.push('^');
    }
    // These are members of a class that they begin.
    let first = rest.chars().next().filter(|letter| matches!(letter, ']' | '-'));
    read.extend(first);
    if negated.is_some() {
        read.push('/');
    }
    &rest[first.map_or(0, char::len_utf8)..]
}

fn without_trailing_spaces(line: &str) -> &str {
    let trimmed = line.trim_end_matches(' ');
    let escapes = trimmed.chars().rev().take_while(|letter| *letter == '\\').count();
    // A space after a backslash belongs to the pattern.
    if trimmed.len() < line.len() && escapes % 2 == 1 { &line[..=trimmed.len()] } else { trimmed }
}
