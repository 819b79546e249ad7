"""The values of a build: its requirement, which a model may write, its phases, its settings and its result."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from wasmrt.capabilities import BY_SECTION
from wasmrt.core.errors import ConfigurationError, ToolError, WasmrtError
from wasmrt.core.limits import KIB, MIB
from wasmrt.core.names import check_project_name
from wasmrt.core.strict_json import JsonError, read_json

_MAX_ITERATIONS = 100
_MAX_SECONDS = 3600.0


class SoftwareType(StrEnum):
    """The kinds of software that can be built."""

    WASM_TOOL = "wasm_tool"
    """A component for agents, preferred for every request for a tool."""
    CLI_BINARY = "cli_binary"
    LIBRARY = "library"
    SCRIPT = "script"
    WEB_SERVICE = "web_service"


class Language(StrEnum):
    """The languages of projects."""

    RUST = "rust"
    PYTHON = "python"
    TYPESCRIPT = "typescript"
    JAVASCRIPT = "javascript"
    GO = "go"
    BASH = "bash"

    @property
    def extension(self) -> str:
        """The extension of source files."""
        return _EXTENSIONS[self]

    @property
    def build_command(self) -> tuple[str, ...]:
        """The command that compiles a project that is not a component; empty if nothing is compiled."""
        return _BUILD_COMMANDS.get(self, ())

    @property
    def test_command(self) -> tuple[str, ...]:
        """The command that tests a project that is not a component."""
        return _TEST_COMMANDS[self]


_EXTENSIONS = {
    Language.RUST: "rs", Language.PYTHON: "py", Language.TYPESCRIPT: "ts", Language.JAVASCRIPT: "js", Language.GO: "go",
    Language.BASH: "sh",
}  # fmt: skip
_BUILD_COMMANDS = {
    Language.RUST: ("cargo", "build", "--release", "--offline"),
    Language.TYPESCRIPT: ("npm", "run", "build"),
    Language.JAVASCRIPT: ("npm", "run", "build"),
    Language.GO: ("go", "build", "./..."),
}
_TEST_COMMANDS = {
    Language.RUST: ("cargo", "test", "--offline"),
    Language.PYTHON: ("python", "-m", "unittest", "discover"),
    Language.TYPESCRIPT: ("npm", "test"),
    Language.JAVASCRIPT: ("npm", "test"),
    Language.GO: ("go", "test", "./..."),
    Language.BASH: ("bash", "test.sh"),
}


class BuildPhase(StrEnum):
    """The phases of a build."""

    ANALYZING = "analyzing"
    SCAFFOLDING = "scaffolding"
    IMPLEMENTING = "implementing"
    BUILDING = "building"
    TESTING = "testing"
    FIXING = "fixing"
    VALIDATING = "validating"
    REGISTERING = "registering"
    PACKAGING = "packaging"
    COMPLETE = "complete"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequirement:
    """The analyzed description of the software."""

    name: str
    description: str
    software_type: SoftwareType
    language: Language
    input_spec: str = ""
    output_spec: str = ""
    dependencies: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    """The sections that the capability file may have, such as `workspace`, or `http:HOST` for one host."""


@dataclass(frozen=True, slots=True)
class BuildLog:
    """One entry of a build's log."""

    phase: BuildPhase
    message: str
    details: str = ""
    timestamp: float = field(default_factory=time.time)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildResult:
    """The result of a build that has ended."""

    build_id: str
    requirement: BuildRequirement
    started_at: float
    completed_at: float
    logs: tuple[BuildLog, ...]
    iterations: int
    artifact_path: Path | None = None
    error: str | None = None
    """The reason why the build failed; None if it succeeded."""
    validation_warnings: tuple[str, ...] = ()
    tests_passed: int = 0
    tests_failed: int = 0
    registered: bool = False

    @property
    def success(self) -> bool:
        """True if the result was built, validated and tested."""
        return self.error is None

    def as_dict(self) -> dict[str, Any]:
        """Return the answer of the tool `build_software`."""
        return {
            "build_id": self.build_id,
            "name": self.requirement.name,
            "success": self.success,
            "artifact_path": None if self.artifact_path is None else str(self.artifact_path),
            "iterations": self.iterations,
            "error": self.error,
            "phases": [f"{log.phase.capitalize()}: {log.message}" for log in self.logs],
            "warnings": list(self.validation_warnings),
            "tests_passed": self.tests_passed,
            "tests_failed": self.tests_failed,
            "registered": self.registered,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BuilderConfig:
    """Settings of the builder.

    Raises:
        ConfigurationError: a number is out of range.
    """

    build_dir: Path | None = None
    """The folder in which each project gets a new folder. None means a folder in the user's cache."""
    max_iterations: int = 10
    """Maximum number of turns of the model."""
    timeout_seconds: float = 600.0
    """The deadline of a build. Waiting for the approval of an installation does not count."""
    cleanup_on_failure: bool = False
    """Delete the project if the build fails."""
    auto_register: bool = True
    """Ask the user to install a tool that was built."""
    wasm_output_dir: Path | None = None
    """The folder to which a component and its capability file are copied; None to leave them in the project."""
    max_component_bytes: int = 64 * MIB
    """Maximum size of a component. Python needs 18 MiB."""
    allow_downloads: bool = False
    """Download missing packages of a language's toolchain, such as componentize-py, into a private folder."""

    def confirm_download(self, _question: str) -> bool:
        """Return whether a toolchain's package may be downloaded."""
        return self.allow_downloads

    def __post_init__(self) -> None:
        for name, value, most in (
            ("max_iterations", self.max_iterations, _MAX_ITERATIONS),
            ("timeout_seconds", self.timeout_seconds, _MAX_SECONDS),
        ):
            if isinstance(value, bool) or not 0 < value <= most:
                raise ConfigurationError(f"{name}: expected a number above 0, at most {most:g}, got {value!r}")


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
    """Read a requirement from the JSON in `text`: from the first `{` to the last `}`.

    The type and the language of the call, if given, replace those in the JSON.

    Raises:
        ToolError: the text has no valid requirement.
    """
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        raise _make_error("expected a JSON object, got none")
    try:
        value = read_json(text[start : end + 1], max_bytes=_MAX_BYTES, max_depth=4)
    except JsonError as error:
        raise _make_error(f"it is {error}") from None
    if unknown := sorted(set(value) - set(_KEYS)):
        raise _make_error(f"unknown key {unknown[0]!r:.60}; expected {', '.join(_KEYS)}")
    try:
        name = check_project_name(_read_text(value, "name"))
    except WasmrtError as error:
        raise _make_error(f"{error.message}; {error.hint}") from None
    requirement = BuildRequirement(
        name=name,
        description=_read_text(value, "description") or description[:_MAX_TEXT_CHARS],
        software_type=software_type or _choose(SoftwareType, value, "software_type"),
        language=language or _choose(Language, value, "language"),
        input_spec=_read_text(value, "input_spec"),
        output_spec=_read_text(value, "output_spec"),
        dependencies=_read_entries(value, "dependencies"),
        capabilities=_read_entries(value, "capabilities"),
    )
    _check_capabilities(requirement.capabilities)
    if (requirement.software_type, requirement.language) == (SoftwareType.WASM_TOOL, Language.BASH):
        raise _make_error("a wasm_tool cannot be written in bash; expected rust, python, typescript, javascript or go")
    return requirement


def _make_error(problem: str) -> ToolError:
    return ToolError(
        f"Failed to parse requirement: {problem}", code="requirement",
        hint="describe the software again, and pass its type and language",
    )  # fmt: skip


def _read_text(value: dict[str, Any], key: str) -> str:
    found = value.get(key)
    if found is None:
        return ""
    if not isinstance(found, str):
        raise _make_error(f"expected {key!r} as text, got {type(found).__name__}")
    return found[:_MAX_TEXT_CHARS]


def _choose(kind: type[Choice], value: dict[str, Any], key: str) -> Choice:
    found = _read_text(value, key)
    try:
        return kind(found)
    except ValueError:
        raise _make_error(f"expected {key!r} as one of {', '.join(kind)}, got {found!r:.60}") from None


def _read_entries(value: dict[str, Any], key: str) -> tuple[str, ...]:
    """Return a list of texts. Entries may also be objects with a name, and the list may be a map."""
    found = value.get(key) or ()
    if not isinstance(found, (list, dict, tuple)) or len(found) > _MAX_ENTRIES:
        raise _make_error(f"expected {key!r} as a list of at most {_MAX_ENTRIES} entries")
    names = [each.get("name") if isinstance(each, dict) else each for each in found]
    if not all(isinstance(name, str) for name in names):
        raise _make_error(f"expected texts in {key!r}")
    return tuple(str(name)[:_MAX_TEXT_CHARS] for name in names)


def _check_capabilities(entries: tuple[str, ...]) -> None:
    for entry in entries:
        section, _, host = entry.partition(":")
        if section not in BY_SECTION or (host and section != "http"):
            raise _make_error(f"unknown capability {entry!r:.60}; expected {', '.join(BY_SECTION)} or http:HOST")
