"""Finds a tool by name or path, with its grant. Runs nothing: commands that only look at a tool load no engine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from wasmrt.capabilities import Capabilities, merge
from wasmrt.catalog import Catalog
from wasmrt.catalog._stored import load_tools
from wasmrt.catalog.bundled import RUN_CODE, SHELL_NAME, WEB_SEARCH, OwnTool, bundled_tool, own_tool
from wasmrt.catalog.find import FoundTool, described_by_sidecar, find_tool
from wasmrt.core.component_bytes import ComponentBytes
from wasmrt.core.errors import ConfigurationError, NotInstalledError
from wasmrt.core.limits import ARCHIVE_SUFFIXES, COMPONENT_MAX_BYTES, MAX_INVOKE_DEPTH
from wasmrt.core.names import installed_name
from wasmrt.core.places import find_places

if TYPE_CHECKING:
    from wasmrt.catalog.search import WebSearch


def find_named(name_or_path: str, *, capabilities: Path | None = None, number: int | None = None) -> FoundTool:
    """Find the tool that a command names: a path, else an installed tool, else one that comes with wasmrt.

    A file has no grant: nobody gave it one. `capabilities` is one, given by whoever typed it; of a tool that comes with
    wasmrt it narrows what it has.

    Raises:
        NotInstalledError: there is no such tool.
        ConfigurationError: capabilities are given for a tool that has a grant of its own.
    """
    is_path = name_or_path.endswith((".wasm", *ARCHIVE_SUFFIXES)) or os.sep in name_or_path
    found = _from_file(Path(name_or_path), capabilities) if is_path else _from_name(name_or_path, number)
    if number is not None and found.version is None:
        raise ConfigurationError(f"{found.name} is not installed and has no versions", hint="leave --version out")
    if is_path or capabilities is None:
        return found
    if found.origin == "bundled" and found.sidecar is not None:
        return found._replace(grant=merge(found.grant, _granted(capabilities)))
    if found.origin == "bundled":
        raise ConfigurationError(
            f"{found.name} comes with wasmrt and needs no grant", hint="leave --capabilities out: it is for files"
        )
    raise ConfigurationError(
        f"{found.name} runs under the grant it was installed with",
        hint=f"change it: wasmrt install SOURCE --name {found.name} --grant FILE",
    )


def is_tool_name(name: str) -> bool:
    """Tell whether an installed tool has this name, or one that comes with wasmrt; a path is none."""
    if installed_name(name) != name:
        return False
    return bundled_tool(name) is not None or Catalog(find_places().data).has(name)


def find_own(name: str, part: str | None, capabilities: Path | None) -> OwnTool | None:
    """Return the tool that a command names and that is no component; None for any other, or one of a registry alone.

    An installed tool stands in for the shell, as for a component that comes with wasmrt, and for no other of these; its
    own name comes before another spelling of theirs.

    Raises:
        ConfigurationError: a part or capabilities are named, which are for components.
    """
    own = own_tool(name)
    if own is None or own.needs in ("registry", RUN_CODE.name):
        return None
    stands_in = own.name == SHELL_NAME or name not in (own.name, *own.aliases)
    if stands_in and Catalog(find_places().data).has(name):
        return None
    if part is not None or capabilities is not None:
        option = "--tool" if part is not None else "--capabilities"
        raise ConfigurationError(f"{name} is no component", hint=f"leave {option} out")
    return own


def _from_name(name: str, number: int | None) -> FoundTool:
    try:
        return find_tool(name, find_places().data, number=number, search=_search(name))
    except NotInstalledError as error:
        # No error for what can name no file.
        kind = "file" if os.path.isfile(name) else "folder" if os.path.isdir(name) else None  # noqa: PTH112, PTH113
        if kind is not None:
            raise NotInstalledError(error.message, hint=f"for the {kind} write ./{name}") from None
        raise


def _search(name: str) -> WebSearch | None:
    """Return the configured provider of searches, for the tool that asks it."""
    tool = bundled_tool(name)
    if tool is None or tool.name != WEB_SEARCH or not find_places().config.exists():
        return None
    from wasmrt.agent.config import read_config_file

    return read_config_file(find_places().config).runtime.get("web_search")


def _from_file(path: Path, capabilities: Path | None) -> FoundTool:
    from wasmrt.catalog.sources import FileSource, is_package

    if is_package(path):
        from wasmrt.catalog.package import PackageSource  # with the validator of schemas, which a component needs not

        fetched = PackageSource(path).fetch(max_bytes=COMPONENT_MAX_BYTES)
    else:
        fetched = FileSource(path).fetch(max_bytes=COMPONENT_MAX_BYTES)
    grant = Capabilities.none() if capabilities is None else _granted(capabilities)
    name, component = installed_name(fetched.name), ComponentBytes(fetched.data)
    sidecar = None if fetched.sidecar is None else fetched.sidecar.decode("utf-8", "replace")
    return FoundTool(
        name=name,
        component=component,
        origin="file",
        grant=grant,
        sidecar=sidecar,
        warnings=fetched.warnings,
        tools=load_tools(fetched.package) if fetched.package else described_by_sidecar(name, component, sidecar),
    )


def _granted(path: Path) -> Capabilities:
    from wasmrt.capabilities.file import parse
    from wasmrt.catalog.sources import read_capability_file

    return parse(read_capability_file(path)).capabilities


def with_invoked(found: FoundTool) -> tuple[FoundTool, ...]:
    """Return a tool and those that it may invoke, each with its own grant, and those that they may invoke.

    One that is not installed is left out: invoking it is refused when it happens.
    """
    gathered = {found.name: found}
    round_of = [found]
    for _ in range(MAX_INVOKE_DEPTH):
        names = {name for tool in round_of for name in _invoked_by(tool)} - gathered.keys()
        round_of = [tool for name in sorted(names) if (tool := _find_invoked(name)) is not None]
        gathered |= {tool.name: tool for tool in round_of}
    return tuple(gathered.values())


def _invoked_by(found: FoundTool) -> tuple[str, ...]:
    granted = found.grant.tool_invoke
    # An alias may be for one tool of a package, and stands there behind the package's own name.
    return () if granted is None else tuple(name.partition(".")[0] for _, name in granted.aliases)


def _find_invoked(name: str) -> FoundTool | None:
    try:
        return find_tool(name, find_places().data, search=_search(name))
    except NotInstalledError:
        return None
