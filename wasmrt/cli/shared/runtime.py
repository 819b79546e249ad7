"""Opens a runtime for one command, and prepares tools in it. For every command that runs one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from wasmrt.capabilities import Capabilities
from wasmrt.cli.shared.output import size_in_words, status
from wasmrt.core.component_bytes import ComponentBytes
from wasmrt.core.limits import MIB
from wasmrt.core.places import find_places
from wasmrt.runtime.config import WasmRuntimeConfig
from wasmrt.runtime.prepared import PreparedTool
from wasmrt.runtime.runtime import WasmToolRuntime
from wasmrt.sandbox.component import ToolSpec

_SLOW_BYTES = 1 * MIB
"""Above this a first compile takes long enough to be watched."""
_RECEIPTS = ("audit", "audit_record", "audit_segment_bytes")


def open_runtime(*grants: Capabilities, workspace: Path | None = None, receipts: bool = False) -> WasmToolRuntime:
    """Open a runtime for one command, with secrets and network only where a grant can use them.

    Calls leave receipts only with `receipts`: a command that looks at a tool or tries it has nobody to answer to.
    """
    settings: dict[str, Any] = {"audit": find_places().receipts}
    needs_secrets = any(
        grant.secrets is not None or (grant.http is not None and grant.http.credentials) for grant in grants
    )
    if find_places().config.exists():
        from wasmrt.agent.config import (
            read_config_file,  # with the network behind it, which most runs do not use
        )

        file = read_config_file(find_places().config)
        settings = file.as_runtime_settings() | ({"secrets": file.open_secrets()} if needs_secrets else {})
    elif needs_secrets:
        from wasmrt.egress.secrets import open_store

        settings["secrets"] = open_store(find_places().data)
    if not receipts:
        settings = {name: value for name, value in settings.items() if name not in _RECEIPTS}
    if workspace is not None:
        settings["workspace"] = workspace
    return WasmToolRuntime(WasmRuntimeConfig(**settings))


def prepare(
    runtime: WasmToolRuntime,
    name: str,
    component: ComponentBytes,
    grant: Capabilities | None = None,
    *,
    tools: Sequence[ToolSpec] | None = None,
    request: Callable[[], Capabilities] | None = None,
) -> PreparedTool:
    """Prepare a component, saying so while it is large: the first time it is compiled."""
    if len(component.data) < _SLOW_BYTES:
        return runtime.prepare(name, component, grant, tools=tools, request=request)
    with status(f"preparing {name} ({size_in_words(len(component.data))})"):
        return runtime.prepare(name, component, grant, tools=tools, request=request)
