"""Skill: the content of a SKILL.md, validated with all errors at once, and the scan of its files for hidden text.

Source of the keys: the Agent Skills specification (name, description, license, compatibility, metadata, allowed-tools),
and IronClaw's (version, author, activation).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from wasmrt.agent.builtin.skills._folder import SKILL_FILE, SkillFiles
from wasmrt.agent.builtin.skills._front import read_front, split_front
from wasmrt.agent.safety import Sanitizer, Threat
from wasmrt.core.errors import ManifestError, PackageError
from wasmrt.core.names import did_you_mean
from wasmrt.egress.leaks import LeakDetector

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
MAX_NAME_CHARS = 64
MAX_DESCRIPTION_CHARS = 2048
"""Twice the maximum of the specification, which published skills exceed."""
_MAX_TEXT_CHARS = 500
_MAX_ITEMS = 256
_TEXTS = ("version", "license", "compatibility", "author")
_LISTS = ("keywords", "exclude_keywords", "patterns", "tags")
_KNOWN = ("name", "description", *_TEXTS, "allowed-tools", "metadata", "activation")


class SkillError(ManifestError):
    """A SKILL.md is invalid; `problems` lists each mistake as `(place, problem)`."""

    code = "skill"
    file = SKILL_FILE


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """Instructions for a model, with their metadata. A skill grants nothing."""

    name: str
    description: str
    text: str
    """The text of SKILL.md below the front matter."""
    version: str = ""
    license: str = ""
    compatibility: str = ""
    author: str = ""
    allowed_tools: tuple[str, ...] = ()
    """Tools that the author expects the skill to use. The list is shown to users, but grants nothing."""
    keywords: tuple[str, ...] = ()
    """Keywords and tags from `activation`."""
    notes: tuple[str, ...] = ()
    """Notes about parts of the front matter that are ignored, or that other readers may refuse."""


def check_skill_name(name: str) -> str:
    """Check the name of a skill, which is also the name of a folder and a part of commands. Return the name.

    Raises:
        SkillError: the name is invalid.
    """
    if len(name) > MAX_NAME_CHARS or not _NAME.fullmatch(name):
        raise SkillError(f"invalid skill name: {name[:MAX_NAME_CHARS]!a}", hint=NAME_RULE)
    return name


NAME_RULE = f"use up to {MAX_NAME_CHARS} of a-z and 0-9, with single - between, such as release-notes"


def read_skill(files: SkillFiles, name: str | None = None) -> Skill:
    """Read the SKILL.md of a skill. If `name` is given, the skill must have this name.

    Raises:
        SkillError: the file is invalid; the error lists all mistakes.
    """
    raw = files.files.get(SKILL_FILE)
    if raw is None:
        raise SkillError(f"{SKILL_FILE} is missing", hint="a skill is a folder with a SKILL.md")
    try:
        text = raw.decode("utf-8").replace("\r\n", "\n").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise SkillError(f"line {line} of {SKILL_FILE} is not UTF-8", hint="save it as UTF-8") from None
    parts = split_front(text)
    if parts is None:
        hint = "begin it with --- and a line `name: ...`, a line `description: ...`, and end it with ---"
        raise SkillError(f"{SKILL_FILE} has no complete front matter", hint=hint)
    values, wrong, notes = read_front(parts[0])
    problems = [(f"line {mistake.line}", mistake.problem) for mistake in wrong]
    fields = {} if values is None else _read_fields(values, problems, notes)
    if name is not None and not problems and fields["name"] != name:
        problems.append(("name", f"is {fields['name']}, expected {name}"))
    if not parts[1].strip():
        problems.append(("text", "is empty: write the instructions below the front matter"))
    if problems:
        problems += notes
        every = "; ".join(f"{place}: {problem}" for place, problem in problems)
        said = every if len(problems) == 1 else f"{len(problems)} mistakes: {every}"
        raise SkillError(said, problems=tuple(problems))
    return Skill(text=parts[1].strip("\n"), notes=tuple(f"{place}: {note}" for place, note in notes), **fields)


def _read_fields(
    values: dict[str, object], problems: list[tuple[str, str]], notes: list[tuple[str, str]]
) -> dict[str, Any]:
    _note_unknown(values, _KNOWN, "", notes)
    fields: dict[str, Any] = {key: _read_text(values, key, _MAX_TEXT_CHARS, problems) for key in _TEXTS}
    fields["name"] = _read_text(values, "name", MAX_NAME_CHARS, problems, required=True)
    if fields["name"] and not _NAME.fullmatch(fields["name"]):
        problems.append(("name", f"is not a valid skill name: {NAME_RULE}"))
    fields["description"] = _read_text(values, "description", MAX_DESCRIPTION_CHARS, problems, required=True)
    tools = values.get("allowed-tools", "")
    fields["allowed_tools"] = (
        tuple(tools.replace(", ", " ").split())
        if isinstance(tools, str)
        else _read_list(tools, "allowed-tools", problems)
    )
    fields["keywords"] = _read_keywords(values.get("activation", {}), problems, notes)
    if not isinstance(values.get("metadata", {}), dict):
        problems.append(("metadata", "must be a mapping of strings"))
    return fields


def _read_text(
    values: dict[str, object], key: str, most: int, problems: list[tuple[str, str]], *, required: bool = False
) -> str:
    value = values.get(key)
    value = value.rstrip("\n") if isinstance(value, str) else value  # block scalars end with a newline
    if value is None or value == "":
        if required:
            problems.append((key, "is missing"))
        return ""
    if not isinstance(value, str) or not 0 < len(value) <= most:
        problems.append((key, f"must be a string of up to {most} characters"))
        return ""
    return value


def _read_list(value: object, key: str, problems: list[tuple[str, str]]) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) and len(each) <= _MAX_TEXT_CHARS for each in value):
        problems.append((key, f"must be a list of strings of up to {_MAX_TEXT_CHARS} characters"))
    elif len(value) > _MAX_ITEMS:
        problems.append((key, f"must have at most {_MAX_ITEMS} items"))
    else:
        return tuple(value)
    return ()


def _note_unknown(values: dict[str, object], known: tuple[str, ...], place: str, notes: list[tuple[str, str]]) -> None:
    """Note unknown keys, which have no effect: keys for other agents, or misspelled keys."""
    for key in values:
        if key not in known:
            near = did_you_mean(key, known)
            notes.append(
                (f"{place}{key}", f"is not known and has no effect{f'; did you mean {near}?' if near else ''}")
            )


def _read_keywords(value: object, problems: list[tuple[str, str]], notes: list[tuple[str, str]]) -> tuple[str, ...]:
    if not isinstance(value, dict):
        problems.append(("activation", "must be a mapping"))
        return ()
    _note_unknown(value, (*_LISTS, "max_context_tokens"), "activation.", notes)
    lists = {key: _read_list(value[key], f"activation.{key}", problems) for key in _LISTS if key in value}
    return (*lists.get("keywords", ()), *lists.get("tags", ()))


_MAX_FINDINGS = 32


class SkillFinding(NamedTuple):
    """One finding: the file, a description, and whether the skill is refused because of it."""

    path: str
    what: str
    refuses: bool


_UNSEEN = {
    Threat.TERMINAL_SEQUENCE: "terminal control sequences",
    Threat.CONTROL_CHARACTER: "control characters",
    Threat.TAG_CHARACTER: "invisible tag characters, which a model can read",
    Threat.DIRECTION_OVERRIDE: "characters that reverse the text direction",
    Threat.ZERO_WIDTH: "zero-width characters",
    Threat.VARIATION_SELECTOR: "variation selectors, which can hide text",
    Threat.WRAPPER_ESCAPE: "a marker that would end the wrapper of a tool's result",
}
_HINTS = (
    (
        "tells the model to ignore other instructions",
        r"(?:ignore|disregard|forget|override)[^.\n]{0,40}(?:instructions?|rules|prompts?|guidelines)",
    ),
    ("imitates a system message", r"^\s{0,3}(?:system|developer|assistant)\s{0,3}:|\b(?:new|real) system prompt\b"),
    (
        "tells the model to hide something from the user",
        r"(?:do not|don't|never)[^.\n]{0,20}(?:tell|mention|reveal|show)[^.\n]{0,30}(?:user|person|human|operator)",
    ),
    ("mentions acting without approval", r"(?:without|skip|bypass|auto)[- ]?(?:asking|approv|confirm|permission)"),
    ("mentions secrets", r"api[ _-]?keys?|passwords?|access[ _-]?tokens?|credentials?|\.env\b|id_rsa|private keys?"),
    ("has comments, which a rendered page does not show", r"<!--"),
    ("has a long string that may be encoded text", r"[A-Za-z0-9+/]{200}"),
    ("runs a downloaded script", r"(?:curl|wget)[^\n|]{0,200}\|\s{0,3}(?:sudo\s)?(?:ba|z)?sh\b"),
)
_PATTERNS = tuple((words, re.compile(pattern, re.IGNORECASE | re.MULTILINE)) for words, pattern in _HINTS)


def scan(files: SkillFiles, detector: LeakDetector) -> tuple[SkillFinding, ...]:
    """Scan every file of a skill. The findings that refuse the skill are returned first.

    A skill is meant to instruct a model, so no pattern can separate good from bad skills. Findings that do not refuse
    the skill are hints for the approver. The protection is that the text of the skill is treated as untrusted.
    """
    found = [
        finding for path, content in sorted(files.files.items()) for finding in _scan_file(path, content, detector)
    ]
    return tuple(sorted(found, key=lambda finding: not finding.refuses)[:_MAX_FINDINGS])


def check_findings(name: str, findings: tuple[SkillFinding, ...]) -> None:
    """Raise `PackageError` if a finding refuses the skill."""
    listed = "; ".join(f"{finding.path} {finding.what}" for finding in findings if finding.refuses)
    if listed:
        hint = "ask the skill's author to remove this"
        raise PackageError(f"the skill {name} is refused: {listed}", code="skill-scan", hint=hint)


def _scan_file(path: str, content: bytes, detector: LeakDetector) -> Iterator[SkillFinding]:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        yield SkillFinding(path, "is not text: it was not scanned, and is never passed to a model", False)
        return
    for flag in Sanitizer().sanitize(text.removeprefix("\ufeff")).flags:
        if flag.threat in _UNSEEN:
            yield SkillFinding(path, f"has {_UNSEEN[flag.threat]} ({flag.count})", True)
        elif flag.threat is Threat.CHAT_TEMPLATE:
            # SECURITY: the user sees these markers. A model receives them defused, as in every tool's result.
            yield SkillFinding(path, f"has markers of a chat template ({flag.count})", False)
    report = detector.scan(text)
    if report.matches or report.unscanned is not None:
        what = "contains a secret" if report.matches else "could not be searched for secrets"
        yield SkillFinding(path, what, True)
    for words, pattern in _PATTERNS:
        if (seen := pattern.search(text)) is not None:
            line = text.count("\n", 0, seen.start()) + 1
            yield SkillFinding(path, f"{words} (line {line})", False)
