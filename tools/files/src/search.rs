//! `file_search`: by text, with ripgrep's matcher and searcher, and by path.

use globset::{GlobBuilder, GlobMatcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::sinks::UTF8;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use kit::workspace::{self, EntryKind};
use kit::{clock, input, Failure};
use serde::Deserialize;
use serde_json::{json, Value};

use crate::folder::{Met, Unread, Walk, MAX_DEPTH};
use crate::host::{base, code, is_folder, look, open_path};

const MAX_RESULTS: u64 = 1000;
const DEFAULT_RESULTS: u64 = 100;
const MAX_LINE_CHARS: usize = 500;
const MAX_PATTERN_BYTES: usize = 4096;
const MAX_FILES: u64 = 20_000;
/// After this time no more files are read, and after the second the walk ends, too: before the call's 60 seconds do.
const READ_NANOSECONDS: u64 = 30_000_000_000;
const WALK_NANOSECONDS: u64 = 45_000_000_000;

#[derive(Deserialize)]
pub struct Params {
    pattern: Option<String>,
    path: Option<String>,
    glob: Option<String>,
    ignore_case: Option<bool>,
    literal: Option<bool>,
    include_ignored: Option<bool>,
    max_results: Option<u64>,
}

struct Found {
    matcher: Option<RegexMatcher>,
    searcher: Searcher,
    most: usize,
    results: Vec<Value>,
    searched: u64,
    not_text: u64,
    /// Files after the first `MAX_FILES`, or after `READ_NANOSECONDS`.
    not_searched: u64,
    /// The walk ended early, and there may be more files.
    walk_ended: bool,
    /// When the search began.
    started: u64,
    unread: Unread,
    truncated: bool,
}

pub fn file_search(params: Params) -> Result<Value, Failure> {
    let path = open_path(params.path.as_deref().unwrap_or(""))?;
    let glob = params.glob.as_deref().map(PathGlob::new).transpose()?;
    if params.pattern.is_none() && glob.is_none() {
        return Err(input("missing-param", "give a pattern to look for, or a glob to list files by, or both"));
    }
    let mut walk = Walk::new(params.include_ignored.unwrap_or(false));
    let mut found = Found {
        matcher: params.pattern.as_deref().map(|pattern| regex_of(pattern, &params)).transpose()?,
        searcher: SearcherBuilder::new().line_number(true).binary_detection(BinaryDetection::quit(0)).build(),
        most: params.max_results.unwrap_or(DEFAULT_RESULTS).clamp(1, MAX_RESULTS) as usize,
        results: Vec::new(),
        searched: 0,
        not_text: 0,
        not_searched: 0,
        walk_ended: false,
        started: clock::monotonic(),
        unread: Unread::default(),
        truncated: false,
    };
    let is_file = !path.is_empty() && look(&path)?.is_some_and(|entry| entry.kind == EntryKind::File);
    if is_file {
        found.visit(&path)?;
    } else {
        walk.through(&path, MAX_DEPTH, &mut |met_path, entry, met| {
            if is_folder(entry) || met != Met::File || !glob.as_ref().is_none_or(|glob| glob.fits(&path, met_path)) {
                return Ok(true);
            }
            found.visit(met_path)
        })?;
    }
    found.unread.append(walk.unread);
    let mut answer = json!({
        "matches": found.results,
        "files_searched": found.searched,
        "not_text": found.not_text,
        "truncated": found.truncated,
    });
    if found.not_searched > 0 {
        let name = if found.walk_ended { "not_searched_at_least" } else { "not_searched" };
        answer[name] = found.not_searched.into();
    }
    found.unread.add_to(&mut answer);
    Ok(answer)
}

impl Found {
    fn visit(&mut self, path: &str) -> Result<bool, Failure> {
        if self.results.len() >= self.most {
            self.truncated = true;
            return Ok(false);
        }
        let elapsed = clock::monotonic() - self.started;
        if self.searched >= MAX_FILES || elapsed >= READ_NANOSECONDS {
            (self.truncated, self.not_searched) = (true, self.not_searched + 1);
            self.walk_ended = elapsed >= WALK_NANOSECONDS;
            return Ok(!self.walk_ended);
        }
        self.searched += 1;
        if self.matcher.is_none() {
            self.results.push(json!({ "path": path }));
            return Ok(true);
        }
        match workspace::read_text(path) {
            Ok(text) => self.search(path, &text),
            Err(failure) if code(&failure) == "not-text" => {
                self.not_text += 1;
                Ok(true)
            }
            Err(failure) => {
                self.unread.add(path.into(), &failure);
                Ok(true)
            }
        }
    }

    fn search(&mut self, path: &str, text: &str) -> Result<bool, Failure> {
        let Found { matcher, searcher, results, most, truncated, .. } = self;
        let Some(matcher) = matcher.as_ref() else { return Ok(true) };
        let sink = UTF8(|number, line| {
            if results.len() >= *most {
                *truncated = true;
                return Ok(false);
            }
            results.push(json!({ "path": path, "line": number, "text": shortened(line) }));
            Ok(true)
        });
        searcher
            .search_slice(matcher, text.as_bytes(), sink)
            .map_err(|error| input("search-failed", format!("{path} cannot be searched: {error}")))?;
        Ok(!self.truncated)
    }
}

fn shortened(line: &str) -> String {
    let line = line.trim_end_matches(['\r', '\n']);
    match line.char_indices().nth(MAX_LINE_CHARS) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line.into(),
    }
}

/// A glob for paths below the folder that is searched; one without a slash is for names, in whatever folder.
struct PathGlob {
    matcher: GlobMatcher,
    by_name: bool,
}

impl PathGlob {
    /// A leading `./` has no meaning, a leading `/` is the folder that is searched, and `dir/` is all below `dir`.
    fn new(pattern: &str) -> Result<PathGlob, Failure> {
        let mut plain = pattern;
        while let Some(rest) = plain.strip_prefix("./") {
            plain = rest;
        }
        let anchored = plain.starts_with('/');
        let plain = plain.trim_start_matches('/');
        let folder = plain.trim_end_matches('/');
        let by_name = !anchored && !folder.contains('/');
        let path = match (folder.len() < plain.len() || plain.is_empty(), folder.is_empty(), by_name) {
            (true, true, _) => "**".into(),
            (true, false, true) => format!("**/{folder}/**"),
            (true, false, false) => format!("{folder}/**"),
            (false, ..) => plain.to_owned(),
        };
        Ok(PathGlob { matcher: matcher_of(&path)?, by_name: by_name && !path.contains('/') })
    }

    fn fits(&self, searched: &str, path: &str) -> bool {
        let below = path.strip_prefix(searched).unwrap_or(path).trim_start_matches('/');
        self.matcher.is_match(below) || (self.by_name && self.matcher.is_match(base(path)))
    }
}

pub fn matcher_of(pattern: &str) -> Result<GlobMatcher, Failure> {
    let glob = GlobBuilder::new(pattern).literal_separator(true).backslash_escape(true).build();
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err(input("invalid-glob", format!("the glob has more than {MAX_PATTERN_BYTES} bytes")));
    }
    glob.map(|glob| glob.compile_matcher()).map_err(|error| input("invalid-glob", error.to_string()))
}

fn regex_of(pattern: &str, params: &Params) -> Result<RegexMatcher, Failure> {
    if pattern.is_empty() || pattern.len() > MAX_PATTERN_BYTES {
        return Err(input("invalid-pattern", format!("the pattern has 1 to {MAX_PATTERN_BYTES} bytes")));
    }
    RegexMatcherBuilder::new()
        .case_insensitive(params.ignore_case.unwrap_or(false))
        .fixed_strings(params.literal.unwrap_or(false))
        .line_terminator(Some(b'\n'))
        .build(pattern)
        .map_err(|error| input("invalid-pattern", format!("the pattern is no regular expression: {error}")))
}
