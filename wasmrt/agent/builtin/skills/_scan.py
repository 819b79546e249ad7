"""The look at a skill's text before it is kept: what nobody can see is refused, what sounds like a trick is shown.

A skill is meant to instruct a model, so that no pattern can tell a good one from a bad one. Findings that do not refuse
it are hints for the person who decides; that it is read as a stranger's text is what bounds it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from wasmrt.agent.builtin.skills._folder import SkillFiles
from wasmrt.agent.safety import Sanitizer, Threat
from wasmrt.egress.leaks import LeakDetector

_MAX_FINDINGS = 32


class SkillFinding(NamedTuple):
    """One finding: the file, a clause for people, and whether it refuses the skill."""

    path: str
    what: str
    refuses: bool


_UNSEEN = {
    Threat.TERMINAL_SEQUENCE: "sequences that drive a terminal",
    Threat.CONTROL_CHARACTER: "control characters",
    Threat.TAG_CHARACTER: "tag characters, which nobody sees and a model reads",
    Threat.DIRECTION_OVERRIDE: "characters that turn the direction of the text around",
    Threat.ZERO_WIDTH: "characters without width",
    Threat.VARIATION_SELECTOR: "variation selectors, which can hide a text",
    Threat.CHAT_TEMPLATE: "marks of a chat template",
    Threat.WRAPPER_ESCAPE: "a mark that would end the wrapping of a tool's answer",
}
_HINTS = (
    (
        "asks to set other instructions aside",
        r"(?:ignore|disregard|forget|override)[^.\n]{0,40}(?:instructions?|rules|prompts?|guidelines)",
    ),
    (
        "speaks as if it were the system",
        r"^\s{0,3}(?:system|developer|assistant)\s{0,3}:|\b(?:new|real) system prompt\b",
    ),
    (
        "asks to keep something from the person",
        r"(?:do not|don't|never)[^.\n]{0,20}(?:tell|mention|reveal|show)[^.\n]{0,30}(?:user|person|human|operator)",
    ),
    ("speaks of doing without approval", r"(?:without|skip|bypass|auto)[- ]?(?:asking|approv|confirm|permission)"),
    ("speaks of secrets", r"api[ _-]?keys?|passwords?|access[ _-]?tokens?|credentials?|\.env\b|id_rsa|private keys?"),
    ("has text in comments, which a rendered page does not show", r"<!--"),
    ("has a long run of letters that could be an encoded text", r"[A-Za-z0-9+/]{200}"),
    ("runs what it fetches", r"(?:curl|wget)[^\n|]{0,200}\|\s{0,3}(?:sudo\s)?(?:ba|z)?sh\b"),
)
_PATTERNS = tuple((words, re.compile(pattern, re.IGNORECASE | re.MULTILINE)) for words, pattern in _HINTS)


def scan(files: SkillFiles, detector: LeakDetector) -> tuple[SkillFinding, ...]:
    """Look at every file of a skill; those that refuse it stand first."""
    found = [finding for path, content in sorted(files.files.items()) for finding in _look(path, content, detector)]
    return tuple(sorted(found, key=lambda finding: not finding.refuses)[:_MAX_FINDINGS])


def _look(path: str, content: bytes, detector: LeakDetector) -> Iterator[SkillFinding]:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        yield SkillFinding(path, "is no text, so that nobody could look at it, and it is never given to a model", False)
        return
    # A file that ends its lines as Windows does holds nothing hidden.
    for flag in Sanitizer().sanitize(text.removeprefix("\ufeff")).flags:
        if flag.threat in _UNSEEN:
            yield SkillFinding(path, f"has {_UNSEEN[flag.threat]} ({flag.count})", True)
    report = detector.scan(text)
    if report.matches or report.unscanned is not None:
        what = "holds a secret" if report.matches else "could not be searched for secrets"
        yield SkillFinding(path, what, True)
    for words, pattern in _PATTERNS:
        if (seen := pattern.search(text)) is not None:
            line = text.count("\n", 0, seen.start()) + 1
            yield SkillFinding(path, f"{words} (line {line})", False)
