"""Finds a tool by name or path with its grant, and prepares it. For every command that runs one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from wasmrt.capabilities import Capabilities
from wasmrt.cli._output import size_in_words, status
from wasmrt.config import WasmRuntimeConfig
from wasmrt.errors import ConfigurationError, NotInstalledError
from wasmrt.limits import COMPONENT_MAX_BYTES, MAX_INVOKE_DEPTH, MIB
from wasmrt.names import did_you_mean, installed_name
from wasmrt.places import find_places
from wasmrt.runtime import WasmToolRuntime
from wasmrt.tool import PreparedTool

if TYPE_CHECKING:
    from wasmrt.install import ToolVersion

BUNDLED = Path(__file__).parent.parent / "_tools"
_SLOW_BYTES = 1 * MIB
"""Above this a first compile takes long enough to be watched."""


class FoundTool(NamedTuple):
    """A tool's bytes and its grant."""

    name: str
    data: bytes
    origin: str
    """`installed`, `bundled` or `file`."""
    grant: Capabilities
    sidecar: str | None = None
    version: ToolVersion | None = None
    warnings: tuple[str, ...] = ()


def find_tool(name_or_path: str, *, capabilities: Path | None = None, number: int | None = None) -> FoundTool:
    """Find a tool: a path, else an installed tool, else one that comes with wasmrt.

    A file has no grant: nobody gave it one. `capabilities` is one, given by whoever typed it.

    Raises:
        NotInstalledError: there is no such tool.
        ConfigurationError: capabilities are given for a tool that has a grant of its own.
    """
    is_path = name_or_path.endswith(".wasm") or os.sep in name_or_path
    if is_path:
        found = _from_file(Path(name_or_path), capabilities)
    else:
        found = _installed(name_or_path, number) or find_bundled(name_or_path)
    if number is not None and found.version is None:
        raise ConfigurationError(f"{found.name} is not installed and has no versions", hint="leave --version out")
    if is_path:
        return found
    if capabilities is not None and found.origin == "bundled":
        raise ConfigurationError(
            f"{found.name} comes with wasmrt and needs no grant", hint="leave --capabilities out: it is for files"
        )
    if capabilities is not None:
        raise ConfigurationError(
            f"{found.name} runs under the grant it was installed with",
            hint=f"change it: wasmrt install SOURCE --name {found.name} --grant FILE",
        )
    return found


def _from_file(path: Path, capabilities: Path | None) -> FoundTool:
    from wasmrt.capabilities.file import parse
    from wasmrt.install import FileSource, read_capability_file

    fetched = FileSource(path).fetch(max_bytes=COMPONENT_MAX_BYTES)
    grant = Capabilities.none() if capabilities is None else parse(read_capability_file(capabilities)).capabilities
    return FoundTool(
        name=installed_name(fetched.name),
        data=fetched.data,
        origin="file",
        grant=grant,
        sidecar=None if fetched.sidecar is None else fetched.sidecar.decode("utf-8", "replace"),
        warnings=fetched.warnings,
    )


def _installed(name: str, number: int | None) -> FoundTool | None:
    places = find_places()
    if not places.catalog.exists():
        return None
    from wasmrt.install import Catalog, granted_to

    catalog = Catalog(places.data)
    if not catalog.has(name):
        return None
    version = catalog.get(name, number)
    return FoundTool(
        name=name,
        data=catalog.read(version),
        origin="installed",
        grant=granted_to(version),
        sidecar=version.sidecar,
        version=version,
    )


def find_bundled(name: str) -> FoundTool:
    """Find a tool that comes with wasmrt.

    Raises:
        NotInstalledError: there is none of that name.
    """
    if name not in bundled_names():
        raise NotInstalledError(f"no tool named {name!r} is installed", hint=_what_instead(name))
    data = (BUNDLED / f"{name}.wasm").read_bytes()
    return FoundTool(name=name, data=data, origin="bundled", grant=Capabilities.none())


def _what_instead(name: str) -> str:
    if os.path.isfile(name):  # noqa: PTH113 - no error for what can name no file
        return f"for the file write ./{name}"
    from wasmrt.install import Catalog

    known = [*bundled_names(), *(tool.name for tool in Catalog(find_places().data).tools())]
    near = did_you_mean(name, known)
    return f"did you mean {near}?" if near else "wasmrt list shows what is installed"


def bundled_names() -> list[str]:
    """Return the names of the tools that come with wasmrt."""
    return sorted(path.stem for path in BUNDLED.glob("*.wasm"))


def with_invoked(found: FoundTool) -> tuple[FoundTool, ...]:
    """Return a tool and those that it may invoke, each with its own grant, and those that they may invoke.

    One that is not installed is left out: invoking it is refused when it happens.
    """
    gathered = {found.name: found}
    round_of = [found]
    for _ in range(MAX_INVOKE_DEPTH):
        names = {name for tool in round_of for name in _invoked_by(tool)} - gathered.keys()
        round_of = [tool for name in sorted(names) if (tool := _find_named(name)) is not None]
        gathered |= {tool.name: tool for tool in round_of}
    return tuple(gathered.values())


def _invoked_by(found: FoundTool) -> tuple[str, ...]:
    granted = found.grant.tool_invoke
    return () if granted is None else tuple(name for _, name in granted.aliases)


def _find_named(name: str) -> FoundTool | None:
    try:
        return _installed(name, None) or find_bundled(name)
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


def prepare(runtime: WasmToolRuntime, name: str, data: bytes, grant: Capabilities | None = None) -> PreparedTool:
    """Compile a component, showing that something happens while it is large and somebody watches."""
    if len(data) < _SLOW_BYTES:
        return runtime.prepare(name, data, grant)
    with status(f"compiling {name} ({size_in_words(len(data))}), once"):
        return runtime.prepare(name, data, grant)
