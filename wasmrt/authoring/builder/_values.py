"""The values of a build: its requirement, its phases, its settings and its result."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import MIB

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
    """The folder of the projects, each in a new folder; None for a folder in the user's cache."""
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
