"""Runs one of the host's own tools for a person, as `wasmrt run` does a component."""

from __future__ import annotations

import os
from pathlib import Path
from shlex import quote
from typing import Any

from wasmrt.approvals import default_approver
from wasmrt.builtin import memory_tools
from wasmrt.cli._calling import interruptible
from wasmrt.cli._output import print_message
from wasmrt.cli._runtime import open_runtime
from wasmrt.config_file import read_config_file
from wasmrt.errors import ConfigurationError
from wasmrt.memory import MemoryStore
from wasmrt.model import ToolOutput
from wasmrt.places import find_places
from wasmrt.tools import ToolRegistry


def run_builtin(
    name: str, params: str | bytes, user: str, *, typed: bool, part: str | None, capabilities: Path | None
) -> ToolOutput:
    """Call one of the tools of the memory under the operator's policy, and return its output.

    `typed` says that a person wrote the params, and did not hand on a file or what another program printed.

    Raises:
        ConfigurationError: an option was given that is for components, or the operator has switched the memory off.
        ToolError: it failed.
    """
    if part is not None or capabilities is not None:
        option = "--tool" if part is not None else "--capabilities"
        raise ConfigurationError(f"{name} is no component", hint=f"leave {option} out")
    with open_runtime(receipts=True) as runtime:
        settings = runtime.config.memory_settings()
        if settings is None:
            hint = "set enabled = true in [memory] of the configuration file"
            raise ConfigurationError("the memory is switched off", hint=hint)
        policy = read_config_file(find_places().config).policy
        with ToolRegistry(runtime, policy=policy, approver=default_approver()) as registry:
            for tool in memory_tools(MemoryStore(settings), detector=runtime.detector):
                registry.register(tool, builtin=True)
            trace = f"run-{os.urandom(6).hex()}" if typed else ""
            if typed:
                said = params if isinstance(params, str) else params.decode("utf-8", "replace")
                registry.trace(trace, user=user).user_said(said)  # what a person types is theirs, and no stranger's
            return interruptible(runtime.close, lambda: registry.execute(name, params, user=user, trace=trace))


def show_way_back(result: dict[str, Any], user: str) -> None:
    """Say how to take a write back."""
    number, path = result["version"] - 1, result["path"]
    step = f"restore {quote(path)} {number}" if number else f"remove {quote(path)}"
    print_message(f"  to take that back: wasmrt memory {step}{'' if user == 'local' else f' --user {quote(user)}'}")
