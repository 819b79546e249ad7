"""Opens a runtime for one command, and prepares tools in it. For every command that runs one."""

from __future__ import annotations

from pathlib import Path

from wasmrt.capabilities import Capabilities
from wasmrt.cli._output import size_in_words, status
from wasmrt.component_bytes import ComponentBytes
from wasmrt.config import WasmRuntimeConfig
from wasmrt.limits import MIB
from wasmrt.places import find_places
from wasmrt.runtime import WasmToolRuntime
from wasmrt.tool import PreparedTool

_SLOW_BYTES = 1 * MIB
"""Above this a first compile takes long enough to be watched."""


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
    runtime: WasmToolRuntime, name: str, component: ComponentBytes, grant: Capabilities | None = None
) -> PreparedTool:
    """Compile a component, showing that something happens while it is large and somebody watches."""
    if len(component.data) < _SLOW_BYTES:
        return runtime.prepare(name, component, grant)
    with status(f"compiling {name} ({size_in_words(len(component.data))}), once"):
        return runtime.prepare(name, component, grant)
