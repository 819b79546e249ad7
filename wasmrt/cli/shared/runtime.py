"""Open a runtime for one command, and prepare tools in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from wasmrt.capabilities import Capabilities
from wasmrt.cli.shared.output import format_size
from wasmrt.cli.shared.progress import status
from wasmrt.core.component_bytes import ComponentBytes
from wasmrt.core.places import find_places
from wasmrt.runtime.config import WasmRuntimeConfig
from wasmrt.runtime.prepared import PreparedTool
from wasmrt.runtime.runtime import WasmToolRuntime
from wasmrt.sandbox.component import ToolSpec

_RECEIPTS = ("audit", "audit_record", "audit_segment_bytes")


def open_runtime(*grants: Capabilities, workspace: Path | None = None, receipts: bool = False) -> WasmToolRuntime:
    """Open a runtime for one command, with secrets and network only if a grant can use them.

    Calls are recorded in receipts only with `receipts`: commands that inspect or test a tool do not record calls.
    """
    settings: dict[str, Any] = {"audit": find_places().receipts}
    needs_secrets = any(
        grant.secrets is not None or (grant.http is not None and grant.http.credentials) for grant in grants
    )
    if find_places().config.exists():
        from wasmrt.agent.config import read_config_file  # loads the network modules

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
    """Prepare a component. Show a status, because compiling it for the first time may take a while."""
    with status(f"preparing {name} ({format_size(len(component.data))})"):
        return runtime.prepare(name, component, grant, tools=tools, request=request)
