"""The capability file that an argument means, and its tool: a file, a component, a package, or an installed name."""

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
    """One argument of `wasmrt caps`."""

    asked: CapabilityFile
    """The request of its tool."""
    tool: FoundTool | None
    """The tool, where the argument is one."""

    @property
    def granted(self) -> CapabilityFile:
        """The grant of an installed tool; of anything else, its request."""
        if self.tool is None or self.tool.origin == "file":
            return self.asked
        return replace(self.asked, capabilities=self.tool.grant)


def read_subject(argument: str) -> Subject:
    """Read what an argument means.

    Raises:
        SourceError, CapabilityFileError: it is a file that cannot be read.
        NotInstalledError: it is a name, and no tool has it.
    """
    if is_capability_file(argument):
        return Subject(parse(read_capability_file(Path(argument))), None)
    found = find_named(_as_path(argument))
    return Subject(CapabilityFile() if found.sidecar is None else parse(found.sidecar), found)


def find_tool_of(argument: str) -> FoundTool:
    """Find the tool that an argument means; of a capability file the component that lies beside it.

    Raises:
        SourceError: there is none beside it.
        NotInstalledError: it is a name, and no tool has it.
    """
    if not is_capability_file(argument):
        return find_named(_as_path(argument))
    path = Path(argument)
    beside = path.with_name(f"{path.name.removesuffix('.json').removesuffix('.capabilities')}.wasm")
    for place in (beside, path.parent / "build" / beside.name):
        if place.is_file():
            return find_named(f"{place.parent}{os.sep}{place.name}", capabilities=path)
    raise SourceError(
        f"there is no component {beside.name} beside {path.name}",
        hint=f"name the tool itself; {beside.stem}{SIDECAR_SUFFIX} belongs beside {beside.name}",
    )


def write_capability_file(file: Path, text: str) -> None:
    """Write a capability file in place of the one that is there.

    Raises:
        SourceError: it cannot be written.
    """
    try:
        replace_file(file.resolve(), text.encode(), mode=None)  # a link stays one
    except OSError as error:
        raise SourceError(f"{file.name!r} cannot be written ({error.strerror})", hint="check who owns it") from error


def is_capability_file(argument: str) -> bool:
    """Tell whether an argument names a capability file: no component, no package, and no name of a tool."""
    path = Path(argument)
    if argument.endswith(".wasm") or is_tool_name(argument):
        return False
    try:
        if is_package(path):
            return False
        with path.open("rb") as file:
            return file.read(len(_WASM)) != _WASM
    except FileNotFoundError:  # a path all the same, where it looks like one
        return argument.endswith(".json") or os.sep in argument
    except (OSError, ValueError):  # no name that a tool could have either
        return True


def _as_path(argument: str) -> str:
    """Return a component's file as a path, so that it is not taken for a name, unless a tool has that name."""
    if is_tool_name(argument):
        return argument
    is_file = os.path.isfile(argument) or os.path.isdir(argument)  # noqa: PTH112, PTH113 - no error for long names
    return f".{os.sep}{argument}" if is_file and os.sep not in argument else argument
