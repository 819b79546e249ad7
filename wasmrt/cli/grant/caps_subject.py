"""Find the capability file and the tool of an argument: a file, a component, a package, or a tool's name."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from wasmrt.capabilities.file import CapabilityFile, parse
from wasmrt.catalog.find import FoundTool
from wasmrt.catalog.sources import SIDECAR_SUFFIX, is_package, read_capability_file
from wasmrt.cli.shared.tools import find_named, is_tool_name
from wasmrt.core.errors import SourceError
from wasmrt.core.files import replace_file

_WASM = b"\0asm"


class Subject(NamedTuple):
    """A capability file and, if the argument names a tool, the tool."""

    asked: CapabilityFile
    tool: FoundTool | None

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The names of the tools that the package or capability file describes."""
        return () if self.tool is None else tuple(spec.name for spec in self.tool.tools or ())

    @property
    def granted(self) -> CapabilityFile:
        """The grant if the argument names an installed or bundled tool; otherwise the requested capabilities."""
        if self.tool is None or self.tool.origin == "file":
            return self.asked
        return replace(self.asked, capabilities=self.tool.grant)


def read_subject(argument: str) -> Subject:
    """Read the capability file of an argument.

    Raises:
        SourceError, CapabilityFileError: the file cannot be read.
        NotInstalledError: there is no tool of this name.
    """
    if is_capability_file(argument):
        return Subject(parse(read_capability_file(Path(argument))), None)
    found = find_named(_as_path(argument))
    return Subject(CapabilityFile() if found.sidecar is None else parse(found.sidecar), found)


def find_tool_of(argument: str) -> FoundTool:
    """Find the tool of an argument; for a capability file, the component next to the file or in its build folder.

    Raises:
        SourceError: there is no component for the capability file.
        NotInstalledError: there is no tool of this name.
    """
    if not is_capability_file(argument):
        return find_named(_as_path(argument))
    path = Path(argument)
    component = path.with_name(f"{path.name.removesuffix('.json').removesuffix('.capabilities')}.wasm")
    for place in (component, path.parent / "build" / component.name):
        if place.is_file():
            return find_named(f"{place.parent}{os.sep}{place.name}", capabilities=path)
    raise SourceError(
        f"there is no component {component.name} next to {path.name}",
        hint=f"name the tool itself, or put {component.stem}{SIDECAR_SUFFIX} next to {component.name}",
    )


def write_capability_file(file: Path, text: str) -> None:
    """Replace a capability file.

    Raises:
        SourceError: the file cannot be written.
    """
    try:
        replace_file(file.resolve(), text.encode(), mode=None)  # resolved, so that a link remains a link
    except OSError as error:
        hint = "check its owner and permissions"
        raise SourceError(f"{file.name!r} cannot be written ({error.strerror})", hint=hint) from error


def is_capability_file(argument: str) -> bool:
    """Return whether an argument is a capability file, not a component, a package or a tool's name."""
    path = Path(argument)
    if argument.endswith(".wasm") or is_tool_name(argument):
        return False
    try:
        if is_package(path):
            return False
        with path.open("rb") as file:
            return file.read(len(_WASM)) != _WASM
    except FileNotFoundError:
        return argument.endswith(".json") or os.sep in argument  # report a missing file, not an unknown tool
    except (OSError, ValueError):  # not a valid tool name either
        return True


def _as_path(argument: str) -> str:
    """Prefix a file name with `./`, so that it is read as a path. A name that a tool also has is returned unchanged."""
    if is_tool_name(argument):
        return argument
    is_file = os.path.isfile(argument) or os.path.isdir(argument)  # noqa: PTH112, PTH113 - no error for long names
    return f".{os.sep}{argument}" if is_file and os.sep not in argument else argument
