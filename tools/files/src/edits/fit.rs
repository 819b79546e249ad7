//! The place of each hunk in its file, by its lines: the line numbers of a diff are often wrong, and are not used.
//!
//! All hunks of a file must fit in exactly one way, in their order and without overlapping. If several ways fit, a
//! heading, the end of the file, or the git hash of the new content may leave one. Otherwise the edit is refused.

use sha1_smol::Sha1;

use super::{FileEdit, Hunk};

/// Ways that are compared with the hash of the new content.
const MAX_WAYS: usize = 256;
const MAX_NAMED: usize = 10;

/// The new content, and the lines of each hunk in it: the first, from 1, and their number.
#[derive(Debug)]
pub struct Fitted {
    pub content: String,
    pub regions: Vec<(usize, usize)>,
}

/// Why the hunk with this index has no certain place.
#[derive(Debug)]
pub enum Misfit {
    Nowhere { hunk: usize },
    NoLines { hunk: usize },
    Several { hunk: usize, lines: Vec<usize> },
    Overlap { hunk: usize },
    NoHeading { hunk: usize, heading: String },
}

pub fn fit(text: &str, edit: &FileEdit) -> Result<Fitted, Misfit> {
    let file = File::new(text, &edit.hunks);
    let places = edit.hunks.iter().enumerate().map(|(hunk, each)| file.places(hunk, each)).collect::<Result<Vec<_>, _>>()?;
    if places.iter().all(|places| places.len() == 1) {
        let only: Vec<usize> = places.iter().map(|places| places[0]).collect();
        return file.apply(&edit.hunks, &only);
    }
    let (first, last) = (in_order(&file, edit, &places)?, in_reverse(&file, edit, &places));
    if first == last {
        return file.apply(&edit.hunks, &first);
    }
    if let Some(fitted) = edit.new_hash.as_ref().and_then(|hash| by_hash(&file, edit, &places, hash)) {
        return Ok(fitted);
    }
    let hunk = first.iter().zip(&last).position(|(first, last)| first != last).unwrap_or(0);
    let between = places[hunk].iter().filter(|place| (first[hunk]..=last[hunk]).contains(*place));
    let lines = between.take(MAX_NAMED).map(|place| place + 1).collect();
    Err(Misfit::Several { hunk, lines })
}

/// The first place of each hunk after the one before it.
fn in_order(file: &File, edit: &FileEdit, places: &[Vec<usize>]) -> Result<Vec<usize>, Misfit> {
    let mut from = 0;
    let mut chosen = Vec::new();
    for (hunk, (each, places)) in edit.hunks.iter().zip(places).enumerate() {
        let core = Core::of(each);
        let place = places.iter().find(|place| **place + core.begins >= from).ok_or(Misfit::Overlap { hunk })?;
        from = place + core.begins + core.old;
        chosen.push(*place);
    }
    debug_assert!(from <= file.lines.len());
    Ok(chosen)
}

/// The last place of each hunk before the one after it. Call it only if `in_order` found places.
fn in_reverse(file: &File, edit: &FileEdit, places: &[Vec<usize>]) -> Vec<usize> {
    let mut until = file.lines.len();
    let mut chosen = Vec::new();
    for (each, places) in edit.hunks.iter().zip(places).rev() {
        let core = Core::of(each);
        let place = places.iter().rev().find(|place| **place + core.begins + core.old <= until);
        let place = place.copied().unwrap_or_default();
        until = place + core.begins;
        chosen.push(place);
    }
    chosen.reverse();
    chosen
}

/// The only result whose git hash is the one that the diff names.
fn by_hash(file: &File, edit: &FileEdit, places: &[Vec<usize>], hash: &str) -> Option<Fitted> {
    let mut ways: Vec<Vec<usize>> = vec![Vec::new()];
    for (hunk, places) in places.iter().enumerate() {
        let before = hunk.checked_sub(1).map(|hunk| Core::of(&edit.hunks[hunk]));
        let core = Core::of(&edit.hunks[hunk]);
        let mut longer = Vec::new();
        for way in &ways {
            let from = before.as_ref().zip(way.last()).map_or(0, |(core, place)| place + core.begins + core.old);
            let fitting = places.iter().filter(|place| **place + core.begins >= from);
            longer.extend(fitting.map(|place| [way.as_slice(), &[*place]].concat()));
        }
        if longer.len() > MAX_WAYS {
            return None;
        }
        ways = longer;
    }
    ways.iter().filter_map(|way| file.apply(&edit.hunks, way).ok()).find(|fitted| git_hash(&fitted.content).starts_with(hash))
}

fn git_hash(content: &str) -> String {
    Sha1::from(format!("blob {}\0{content}", content.len())).digest().to_string()
}

/// Whether a hunk says that it is the end of the file, which `place` would be: by the mark for a missing newline, or by
/// its shape and its line number together. Only there has a diff less context after a change than before it.
fn names_end(hunk: &Hunk, place: usize) -> bool {
    let ends = hunk.lines.iter().rev().take_while(|line| line.sign == ' ').count();
    let is_last = ends < Core::of(hunk).begins && hunk.line == Some(place + 1);
    hunk.old_unterminated || hunk.new_unterminated || is_last
}

/// The lines of a hunk between its first and last change: where they begin in its old lines, and how many are old.
struct Core {
    begins: usize,
    old: usize,
}

impl Core {
    fn of(hunk: &Hunk) -> Core {
        let begins = hunk.lines.iter().take_while(|line| line.sign == ' ').count();
        let ends = hunk.lines.iter().rev().take_while(|line| line.sign == ' ').count();
        Core { begins, old: hunk.old().count().saturating_sub(begins + ends) }
    }
}

struct File<'a> {
    text: &'a str,
    /// Lines without their ends.
    lines: Vec<&'a str>,
    end: &'a str,
    /// Whether the hunks' carriage returns are compared, because some lines have one and some do not.
    exact: bool,
}

impl<'a> File<'a> {
    fn new(text: &'a str, hunks: &[Hunk]) -> File<'a> {
        let whole: Vec<&str> = text.split_inclusive('\n').collect();
        let returns = whole.iter().filter(|line| line.ends_with("\r\n")).count();
        let ended = whole.iter().filter(|line| line.ends_with('\n')).count();
        let mut in_hunks = hunks.iter().flat_map(|hunk| &hunk.lines).map(|line| line.text.ends_with('\r'));
        let first = in_hunks.next().unwrap_or(false);
        let exact = (returns > 0 && returns < ended) || in_hunks.any(|has| has != first);
        let end = if !exact && returns > 0 { "\r\n" } else { "\n" };
        let lines = whole.iter().map(|line| line.strip_suffix(end).unwrap_or(line)).collect();
        File { text, lines, end, exact }
    }

    fn line<'h>(&self, text: &'h str) -> &'h str {
        if self.exact { text } else { text.strip_suffix('\r').unwrap_or(text) }
    }

    /// Every place where the old lines of a hunk are, as far as its end and its headings do not exclude some.
    fn places(&self, number: usize, hunk: &Hunk) -> Result<Vec<usize>, Misfit> {
        let old: Vec<&str> = hunk.old().map(|line| self.line(&line.text)).collect();
        let Some(room) = self.lines.len().checked_sub(old.len()) else { return Err(Misfit::Nowhere { hunk: number }) };
        if old.is_empty() && room > 0 {
            if hunk.at_end {
                return Ok(vec![room]);
            }
            return Err(Misfit::NoLines { hunk: number });
        }
        let mut found: Vec<usize> = (0..=room).filter(|at| self.lines[*at..*at + old.len()] == old[..]).collect();
        if hunk.at_end || (found.len() > 1 && names_end(hunk, room)) {
            found.retain(|place| *place == room);
        }
        if hunk.needs_headings {
            self.check_headings(number, hunk, &mut found)?;
        }
        if found.len() > 1 && !hunk.headings.is_empty() {
            let inside: Vec<usize> = found.iter().copied().filter(|place| self.is_below(*place, &hunk.headings)).collect();
            found = if inside.is_empty() { found } else { inside };
        }
        if found.is_empty() { Err(Misfit::Nowhere { hunk: number }) } else { Ok(found) }
    }

    /// Keeps the places that have all headings above them, in their order.
    fn check_headings(&self, number: usize, hunk: &Hunk, found: &mut Vec<usize>) -> Result<(), Misfit> {
        let mut at = 0;
        for heading in &hunk.headings {
            match (at..self.lines.len()).find(|line| self.lines[*line].trim() == heading) {
                Some(line) => at = line + 1,
                None => return Err(Misfit::NoHeading { hunk: number, heading: heading.clone() }),
            }
        }
        found.retain(|place| *place >= at);
        Ok(())
    }

    /// Whether the last heading above a place is the given one, and nothing as far to the left is between them.
    fn is_below(&self, place: usize, headings: &[String]) -> bool {
        let mut at = place;
        for heading in headings.iter().rev() {
            let mut left = usize::MAX;
            let above = self.lines[..at].iter().rposition(|line| {
                let text = line.trim_start();
                // git shows at most 80 bytes of a line.
                let is_heading = text.trim_end() == heading || (heading.len() >= 78 && text.starts_with(heading.as_str()));
                if is_heading || !text.starts_with(|first: char| first.is_alphabetic() || matches!(first, '_' | '$')) {
                    return is_heading;
                }
                left = left.min(line.len() - text.len());
                false
            });
            match above {
                Some(above) if self.lines[above].len() - self.lines[above].trim_start().len() < left => at = above,
                _ => return false,
            }
        }
        true
    }

    fn apply(&self, hunks: &[Hunk], places: &[usize]) -> Result<Fitted, Misfit> {
        let mut order: Vec<usize> = (0..hunks.len()).collect();
        let core = |hunk: usize| Core::of(&hunks[hunk]);
        order.sort_by_key(|hunk| places[*hunk] + core(*hunk).begins);
        let mut new: Vec<&str> = Vec::new();
        let mut regions = vec![(0, 0); hunks.len()];
        let mut at = 0;
        for hunk in order {
            let core = core(hunk);
            let begins = places[hunk] + core.begins;
            if begins < at {
                return Err(Misfit::Overlap { hunk });
            }
            new.extend(&self.lines[at..begins]);
            let ends = hunks[hunk].old().count() - core.begins - core.old;
            let changed = &hunks[hunk].lines[core.begins..hunks[hunk].lines.len() - ends];
            regions[hunk].0 = new.len() + 1;
            new.extend(changed.iter().filter(|line| line.sign != '-').map(|line| self.line(&line.text)));
            regions[hunk].1 = new.len() + 1 - regions[hunk].0;
            at = begins + core.old;
        }
        new.extend(&self.lines[at..]);
        let mut content = new.join(self.end);
        if !new.is_empty() && self.ends_with_newline(hunks, places, at) {
            content.push_str(self.end);
        }
        Ok(Fitted { content, regions })
    }

    /// Whether the new content ends with a newline: as the file does, unless a hunk changes the end of the file.
    fn ends_with_newline(&self, hunks: &[Hunk], places: &[usize], kept_from: usize) -> bool {
        let has = self.text.is_empty() || self.text.ends_with('\n');
        let at_end = |(hunk, place): &(&Hunk, &usize)| *place + hunk.old().count() == self.lines.len();
        let Some((last, _)) = hunks.iter().zip(places).rfind(at_end) else { return has };
        // If the end was cut off, the last line is one that had a newline before.
        let kept = last.lines.iter().rfind(|line| line.sign != '-').is_none_or(|line| line.sign == ' ');
        let cut = kept && kept_from == self.lines.len() && last.lines.last().is_some_and(|line| line.sign == '-');
        match (last.old_unterminated, last.new_unterminated) {
            (true, false) => true,
            (false, true) => false,
            _ => has || cut,
        }
    }
}
