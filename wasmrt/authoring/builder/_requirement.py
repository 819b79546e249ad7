"""Read the requirement that a model wrote from a description."""

from __future__ import annotations

from typing import Any, TypeVar

from wasmrt.authoring.builder._values import BuildRequirement, Language, SoftwareType
from wasmrt.capabilities import BY_SECTION
from wasmrt.core.errors import ToolError, WasmrtError
from wasmrt.core.limits import KIB
from wasmrt.core.names import check_project_name
from wasmrt.core.strict_json import JsonError, read_json

_MAX_BYTES = 64 * KIB
_MAX_ENTRIES = 64
_MAX_TEXT_CHARS = 4_000
Choice = TypeVar("Choice", SoftwareType, Language)
_KEYS = (
    "name", "description", "software_type", "language", "input_spec", "output_spec", "dependencies", "capabilities",
)  # fmt: skip
ANALYSIS = f"""You analyze a request for software. Answer with one JSON object and nothing else. Its keys:
"name": at most 40 lowercase letters, digits and hyphens, beginning with a letter;
"description": what the software does, in one or two sentences;
"software_type": one of {", ".join(SoftwareType)};
"language": one of {", ".join(Language)};
"input_spec", "output_spec": text;
"dependencies": a list of package names;
"capabilities": a list with the access that the software needs, and nothing more: {", ".join(BY_SECTION)}, or
"http:HOST" for one host. Leave it empty if the software only computes.
If an agent is to use the software, choose "wasm_tool" and "rust", unless the request names another type or language."""


def parse_requirement(
    text: str, description: str, *, software_type: SoftwareType | None = None, language: Language | None = None
) -> BuildRequirement:
    """Read a requirement from the first `{` to the last `}`. The type and language of the call replace those in `text`.

    Raises:
        ToolError: the text has no valid requirement.
    """
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        raise _error("expected a JSON object, got none")
    try:
        value = read_json(text[start : end + 1], max_bytes=_MAX_BYTES, max_depth=4)
    except JsonError as error:
        raise _error(f"it is {error}") from None
    if unknown := sorted(set(value) - set(_KEYS)):
        raise _error(f"unknown key {unknown[0]!r:.60}; expected {', '.join(_KEYS)}")
    try:
        name = check_project_name(_text(value, "name"))
    except WasmrtError as error:
        raise _error(f"{error.message}; {error.hint}") from None
    requirement = BuildRequirement(
        name=name,
        description=_text(value, "description") or description[:_MAX_TEXT_CHARS],
        software_type=software_type or _choose(SoftwareType, value, "software_type"),
        language=language or _choose(Language, value, "language"),
        input_spec=_text(value, "input_spec"),
        output_spec=_text(value, "output_spec"),
        dependencies=_entries(value, "dependencies"),
        capabilities=_entries(value, "capabilities"),
    )
    _check_capabilities(requirement.capabilities)
    if (requirement.software_type, requirement.language) == (SoftwareType.WASM_TOOL, Language.BASH):
        raise _error("a wasm_tool cannot be written in bash; expected rust, python, typescript, javascript or go")
    return requirement


def _error(problem: str) -> ToolError:
    return ToolError(
        f"Failed to parse requirement: {problem}", code="requirement",
        hint="describe the software again, and pass its type and language",
    )  # fmt: skip


def _text(value: dict[str, Any], key: str) -> str:
    found = value.get(key)
    if found is None:
        return ""
    if not isinstance(found, str):
        raise _error(f"expected {key!r} as text, got {type(found).__name__}")
    return found[:_MAX_TEXT_CHARS]


def _choose(kind: type[Choice], value: dict[str, Any], key: str) -> Choice:
    found = _text(value, key)
    try:
        return kind(found)
    except ValueError:
        raise _error(f"expected {key!r} as one of {', '.join(kind)}, got {found!r:.60}") from None


def _entries(value: dict[str, Any], key: str) -> tuple[str, ...]:
    """Return a list of texts. Entries may also be objects with a name, and the list may be a map."""
    found = value.get(key) or ()
    if not isinstance(found, (list, dict, tuple)) or len(found) > _MAX_ENTRIES:
        raise _error(f"expected {key!r} as a list of at most {_MAX_ENTRIES} entries")
    names = [each.get("name") if isinstance(each, dict) else each for each in found]
    if not all(isinstance(name, str) for name in names):
        raise _error(f"expected texts in {key!r}")
    return tuple(str(name)[:_MAX_TEXT_CHARS] for name in names)


def _check_capabilities(entries: tuple[str, ...]) -> None:
    for entry in entries:
        section, _, host = entry.partition(":")
        if section not in BY_SECTION or (host and section != "http"):
            raise _error(f"unknown capability {entry!r:.60}; expected {', '.join(BY_SECTION)} or http:HOST")
