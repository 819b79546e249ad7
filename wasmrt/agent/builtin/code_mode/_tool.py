"""`run_code`: the interpreter of programs as a tool. Which tools a program reaches is decided by the registry."""

from __future__ import annotations

import threading
from functools import cached_property
from typing import Any

from wasmrt.agent.builtin.code_mode._runs import CodeRuns
from wasmrt.catalog.bundled import RUN_CODE, bundled_component
from wasmrt.core.effects import Effect
from wasmrt.core.limits import CODE_LIMITS, MAX_CODE_BYTES
from wasmrt.core.model import Decision, Reason, ToolOutput
from wasmrt.core.places import find_places
from wasmrt.core.tool_defaults import ToolDefaults
from wasmrt.core.traits import Traits
from wasmrt.runtime.context import ToolContext
from wasmrt.runtime.prepared import PreparedTool
from wasmrt.runtime.runtime import WasmToolRuntime

_DESCRIPTION = (
    "Run a JavaScript program that calls tools: many calls in one, of which only what the program prints or returns "
    "comes back. The code is the body of an async function: `const file = await tools.read_file({path: 'a.txt'}); "
    "return file`. Every tool is tools.NAME(params); it throws an error with a `code` where it fails. search_tools "
    "gives the types. console.log prints. There are no timers, modules, files or network, and the clock stands still. "
    "Where a call needs a person the run waits: run the same code again once they have answered, and it goes on from "
    "there."
)


class CodeTool(ToolDefaults):
    """Runs programs in the sandbox, in a fresh store each.

    Args:
        runtime: Runs the interpreter, which is granted nothing.
        runs: Keeps the runs that wait for a person.
    """

    name = RUN_CODE.name
    description = _DESCRIPTION
    timeout_seconds = CODE_LIMITS.timeout_seconds
    ends_at_deadline = True
    """The interpreter's own deadline ends it."""
    runs_programs = True
    in_programs = False
    destinations = ()
    # It changes nothing by itself: each call that a program makes is decided, confirmed and counted by itself.
    traits = Traits.of([Effect.INVOKE_TOOL])

    def __init__(self, runtime: WasmToolRuntime, runs: CodeRuns | None = None) -> None:
        self._runtime = runtime
        self._lock = threading.Lock()
        self._prepared: PreparedTool | None = None
        self.runs = runs or CodeRuns(find_places().code_runs)
        what = f"The body of an async function, up to {MAX_CODE_BYTES:,} bytes."
        self.schema: dict[str, Any] = {
            "type": "object",
            "properties": {"code": {"type": "string", "minLength": 1, "description": what}},
            "required": ["code"],
            "additionalProperties": False,
        }

    @cached_property
    def digest(self) -> str:  # type: ignore[override]  # reading the interpreter takes time
        """The digest of the interpreter."""
        return bundled_component(RUN_CODE).digest

    def check(self, params: Any) -> Decision | None:
        """Refuse a program that is too long, before anything is run."""
        if len(params["code"].encode("utf-8", "replace")) <= MAX_CODE_BYTES:
            return None
        rule = f"a program has up to {MAX_CODE_BYTES:,} bytes"
        return Decision(False, Reason.INVALID_ARGUMENTS, rule, "split it", "tool.code", self.name)

    def execute(self, params: Any, context: ToolContext) -> ToolOutput:
        """Run a program once, from its beginning. What it asks of tools goes to `context.call_tool`.

        Raises:
            ToolError: it failed, or `context.call_tool` ended it.
        """
        return self._interpreter().execute(params, context)

    def _interpreter(self) -> PreparedTool:
        with self._lock:
            if self._prepared is None:
                component = bundled_component(RUN_CODE)
                self._prepared = self._runtime.prepare(self.name, component, limits=CODE_LIMITS)
                self._runtime.forget(self.name)  # no component can invoke it
            return self._prepared
