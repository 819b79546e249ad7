"""Finds a tool by name or path with its grant, and prepares it. For every command that runs one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from wasmrt.capabilities import Capabilities
from wasmrt.cli._output import size_in_words, status
from wasmrt.component import ComponentBytes, ToolSpec
from wasmrt.config import WasmRuntimeConfig
from wasmrt.errors import ConfigurationError, NotInstalledError
from wasmrt.install.find import FoundTool, described_by_sidecar, find_tool
from wasmrt.limits import ARCHIVE_SUFFIXES, COMPONENT_MAX_BYTES, MAX_INVOKE_DEPTH, MIB
from wasmrt.names import installed_name
from wasmrt.places import find_places
from wasmrt.runtime import WasmToolRuntime
from wasmrt.tool import PreparedTool

_SLOW_BYTES = 1 * MIB
"""Above this a first compile takes long enough to be watched."""


def find_named(name_or_path: str, *, capabilities: Path | None = None, number: int | None = None) -> FoundTool:
    """Find the tool that a command names: a path, else an installed tool, else one that comes with wasmrt.

    A file has no grant: nobody gave it one. `capabilities` is one, given by whoever typed it.

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
    if found.origin == "bundled":
        raise ConfigurationError(
            f"{found.name} comes with wasmrt and needs no grant", hint="leave --capabilities out: it is for files"
        )
    raise ConfigurationError(
        f"{found.name} runs under the grant it was installed with",
        hint=f"change it: wasmrt install SOURCE --name {found.name} --grant FILE",
    )


def _from_name(name: str, number: int | None) -> FoundTool:
    try:
        return find_tool(name, find_places().data, number=number)
    except NotInstalledError as error:
        if os.path.isfile(name):  # noqa: PTH113 - no error for what can name no file
            raise NotInstalledError(error.message, hint=f"for the file write ./{name}") from None
        raise


def _from_file(path: Path, capabilities: Path | None) -> FoundTool:
    from wasmrt.capabilities.file import parse
    from wasmrt.install.package import is_package
    from wasmrt.install.sources import FileSource, PackageSource, read_capability_file

    source = PackageSource(path) if is_package(path) else FileSource(path)
    fetched = source.fetch(max_bytes=COMPONENT_MAX_BYTES)
    grant = Capabilities.none() if capabilities is None else parse(read_capability_file(capabilities)).capabilities
    name, component = installed_name(fetched.name), ComponentBytes(fetched.data)
    sidecar = None if fetched.sidecar is None else fetched.sidecar.decode("utf-8", "replace")
    return FoundTool(
        name=name,
        component=component,
        origin="file",
        grant=grant,
        sidecar=sidecar,
        warnings=fetched.warnings,
        tools=fetched.tools or described_by_sidecar(name, component, sidecar),
    )


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
        return find_tool(name, find_places().data)
    except NotInstalledError:
        return None


def open_runtime(*grants: Capabilities, workspace: Path | None = None) -> WasmToolRuntime:
    """Open a runtime for one command, with secrets and network only where a grant can use them."""
    secrets = network = rate_limit_storage = None
    if any(grant.secrets is not None or (grant.http is not None and grant.http.credentials) for grant in grants):
        from wasmrt.secrets import open_store

        secrets = open_store(find_places().data)
    if any(grant.http is not None or grant.tool_invoke is not None for grant in grants):  # both have rate limits
        from wasmrt.config_file import read_config_file

        network, rate_limit_storage = read_config_file(find_places().config)
    return WasmToolRuntime(
        WasmRuntimeConfig(secrets=secrets, network=network, rate_limit_storage=rate_limit_storage, workspace=workspace)
    )


def prepare(
    runtime: WasmToolRuntime,
    name: str,
    component: ComponentBytes,
    grant: Capabilities | None = None,
    *,
    tools: Sequence[ToolSpec] | None = None,
) -> PreparedTool:
    """Compile a component, showing that something happens while it is large and somebody watches."""
    if len(component.data) < _SLOW_BYTES:
        return runtime.prepare(name, component, grant, tools=tools)
    with status(f"compiling {name} ({size_in_words(len(component.data))}), once"):
        return runtime.prepare(name, component, grant, tools=tools)
