"""Skill: what a SKILL.md says of itself, validated with every mistake at once.

Source of the keys: the Agent Skills specification (name, description, license, compatibility, metadata, allowed-tools),
and IronClaw's (version, author, activation).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from wasmrt.agent.builtin.skills._folder import SKILL_FILE, SkillFiles
from wasmrt.agent.builtin.skills._front import read_front, split_front
from wasmrt.core.errors import ManifestError
from wasmrt.core.names import did_you_mean

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
MAX_NAME_CHARS = 64
MAX_DESCRIPTION_CHARS = 1024
_MAX_TEXT_CHARS = 500
_MAX_ITEMS = 256
_TEXTS = ("version", "license", "compatibility", "author")
_LISTS = ("keywords", "exclude_keywords", "patterns", "tags")
_KNOWN = ("name", "description", *_TEXTS, "allowed-tools", "metadata", "activation")


class SkillError(ManifestError):
    """A SKILL.md was refused; `problems` lists every mistake as `(place, sentence)`."""

    code = "skill"
    file = SKILL_FILE


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """A skill: instructions for a model, and what they say of themselves. It can do nothing, and grants nothing."""

    name: str
    description: str
    text: str
    """The instructions, without the front matter."""
    version: str = ""
    license: str = ""
    compatibility: str = ""
    author: str = ""
    allowed_tools: tuple[str, ...] = ()
    """Tools that its author expects it to use. It is shown to people, and allows nothing."""
    keywords: tuple[str, ...] = ()
    """Words, of its `activation`, that it is found by."""


def check_skill_name(name: str) -> str:
    """Return a name that a skill can have: it is a folder's name, and part of commands.

    Raises:
        SkillError: it cannot.
    """
    if len(name) > MAX_NAME_CHARS or not _NAME.fullmatch(name):
        raise SkillError(f"{name[:MAX_NAME_CHARS]!a} cannot name a skill", hint=NAME_RULE)
    return name


NAME_RULE = f"use up to {MAX_NAME_CHARS} of a-z and 0-9, with single - between, such as release-notes"


def read_skill(files: SkillFiles, name: str | None = None) -> Skill:
    """Read the SKILL.md of a skill; `name` is the one that it has to have, that of its folder.

    Raises:
        SkillError: it is not valid, with every mistake of it.
    """
    raw = files.files.get(SKILL_FILE)
    if raw is None:
        raise SkillError(f"there is no {SKILL_FILE}", hint="a skill is a folder with a SKILL.md")
    try:
        text = raw.decode("utf-8").replace("\r\n", "\n").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise SkillError(f"line {line} of {SKILL_FILE} is not UTF-8", hint="save it as UTF-8") from None
    parts = split_front(text)
    if parts is None:
        hint = "begin it with --- and a line `name: ...`, a line `description: ...`, and end it with ---"
        raise SkillError(f"{SKILL_FILE} has no front matter that ends", hint=hint)
    values, wrong = read_front(parts[0])
    problems = [(f"line {mistake.line}", mistake.problem) for mistake in wrong]
    fields = {} if values is None else _fields(values, problems)
    if name is not None and not problems and fields["name"] != name:
        problems.append(("name", f"is {fields['name']}, and the skill is called {name}"))
    if not parts[1].strip():
        problems.append(("text", "is empty: a skill says what to do"))
    if problems:
        every = "; ".join(f"{place}: {problem}" for place, problem in problems)
        said = every if len(problems) == 1 else f"{len(problems)} mistakes: {every}"
        raise SkillError(said, problems=tuple(problems))
    return Skill(text=parts[1].strip("\n"), **fields)


def _fields(values: dict[str, object], problems: list[tuple[str, str]]) -> dict[str, Any]:
    for key in values:
        if key not in _KNOWN:
            near = did_you_mean(key, _KNOWN)
            problems.append((key, f"is not known; did you mean {near}?" if near else "is not known"))
    fields: dict[str, Any] = {key: _text(values, key, _MAX_TEXT_CHARS, problems) for key in _TEXTS}
    fields["name"] = _text(values, "name", MAX_NAME_CHARS, problems, required=True)
    if fields["name"] and not _NAME.fullmatch(fields["name"]):
        problems.append(("name", f"cannot name a skill: {NAME_RULE}"))
    fields["description"] = _text(values, "description", MAX_DESCRIPTION_CHARS, problems, required=True)
    tools = values.get("allowed-tools", "")
    fields["allowed_tools"] = (
        tuple(tools.split()) if isinstance(tools, str) else _list(tools, "allowed-tools", problems)
    )
    fields["keywords"] = _activation(values.get("activation", {}), problems)
    if not isinstance(values.get("metadata", {}), dict):
        problems.append(("metadata", "is a mapping of texts"))
    return fields


def _text(
    values: dict[str, object], key: str, most: int, problems: list[tuple[str, str]], *, required: bool = False
) -> str:
    value = values.get(key)
    value = value.rstrip("\n") if isinstance(value, str) else value  # block scalars end with a newline
    if value is None or value == "":
        if required:
            problems.append((key, "is missing"))
        return ""
    if not isinstance(value, str) or not 0 < len(value) <= most:
        problems.append((key, f"is a text of up to {most} characters"))
        return ""
    return value


def _list(value: object, key: str, problems: list[tuple[str, str]]) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) and len(each) <= _MAX_TEXT_CHARS for each in value):
        problems.append((key, f"must be a list of strings of up to {_MAX_TEXT_CHARS} characters"))
    elif len(value) > _MAX_ITEMS:
        problems.append((key, f"must have at most {_MAX_ITEMS} items"))
    else:
        return tuple(value)
    return ()


def _activation(value: object, problems: list[tuple[str, str]]) -> tuple[str, ...]:
    if not isinstance(value, dict):
        problems.append(("activation", "is a mapping"))
        return ()
    for key in value:
        if key not in (*_LISTS, "max_context_tokens"):
            problems.append((f"activation.{key}", "is not known"))
    lists = {key: _list(value[key], f"activation.{key}", problems) for key in _LISTS if key in value}
    return (*lists.get("keywords", ()), *lists.get("tags", ()))
