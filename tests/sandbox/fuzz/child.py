"""The child process that runs components: it reads them from stdin and writes a line of JSON for each to stdout.

A component that crashes it takes nothing else along. Each goes through what `wasmrt install` does with bytes, and,
whatever that said, through `prepare`.
"""

from __future__ import annotations

import json
import resource
import struct
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from wasmrt import WasmRuntimeConfig, WasmToolRuntime
from wasmrt.catalog.validator import WasmValidator
from wasmrt.core.errors import WasmrtError
from wasmrt.runtime.prepared import PreparedTool
from wasmrt.sandbox.component import Surface, read_surface

LENGTH = struct.Struct("<I")
ACCEPTED = "accepted"
UNTYPED = "untyped"


def main() -> None:
    validator = WasmValidator()
    with WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False)) as runtime:
        while header := sys.stdin.buffer.read(LENGTH.size):
            data = sys.stdin.buffer.read(*LENGTH.unpack(header))
            outcome: dict[str, Any] = {}
            attempt(outcome, "install", lambda given: validator.validate(given).raise_first(), data)
            tool = attempt(outcome, "prepare", lambda given: runtime.prepare("fuzzed", given), data)
            if tool is not None:
                outcome["mismatch"] = _mismatch(read_surface(data), tool)
            outcome["peak_kib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            print(json.dumps(outcome), flush=True)


def attempt(outcome: dict[str, Any], what: str, act: Callable[[bytes], Any], data: bytes) -> Any:
    """Run one step with a component; record its outcome and duration."""
    started, made = time.monotonic(), None
    try:
        made = act(data)
        outcome[what] = ACCEPTED
    except WasmrtError as error:
        outcome[what] = type(error).__name__
    except BaseException as error:
        outcome[what] = f"{UNTYPED} {type(error).__name__}"
        outcome["trace"] = traceback.format_exc(limit=-8)
    outcome[f"{what}_seconds"] = time.monotonic() - started
    return made


def _mismatch(surface: Surface, tool: PreparedTool) -> str | None:
    """Compare the host's reading of the bytes with the engine's.

    SECURITY: an import that only the engine sees is compiled unchecked.
    """
    kind = tool.type
    engines = {interface.name for interface in kind.imports} | {name for name, _ in kind.import_functions}
    ours = {item.name for item in surface.imports if item.kind in ("instance", "func")}
    if engines != ours:
        return f"imports: the engine has {sorted(engines)}, the reader {sorted(ours)}"
    engines = {interface.name for interface in kind.exports} | {name for name, _ in kind.functions}
    ours = {item.name for item in surface.exports if item.kind in ("instance", "func")}
    return None if engines == ours else f"exports: the engine has {sorted(engines)}, the reader {sorted(ours)}"


if __name__ == "__main__":
    main()
