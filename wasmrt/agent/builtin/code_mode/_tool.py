"""`run_code`: the interpreter of programs as a tool. The registry decides which tools a program can call."""

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
from wasmrt.runtime.stores import store_place

_DESCRIPTION = (
    "Run a JavaScript program that calls tools: many calls in one, and only printed output and the return value are "
    "sent back. The code is the body of an async function: `const file = await tools.read_file({path: 'a.txt'}); "
    "return file`. Each tool is tools.NAME(params); it throws an error with a `code` if it fails. search_tools "
    "returns the types. console.log prints. There are no timers, modules, files or network, and the clock does not "
    "advance. If a call requires an approval, the run is suspended: run the same code again after the user has "
    "answered, and it continues from there."
)


class CodeTool(ToolDefaults):
    """Runs each program in the sandbox, in a fresh store.

    Args:
        runtime: Runs the interpreter, which has no grant.
        runs: Stores suspended runs.
    """

    name = RUN_CODE.name
    description = _DESCRIPTION
    timeout_seconds = CODE_LIMITS.timeout_seconds
    ends_at_deadline = True
    """The interpreter's own deadline ends the call."""
    runs_programs = True
    in_programs = False
    destinations = ()
    # The program itself has no other effects: each call it makes is decided, confirmed and counted separately.
    traits = Traits.of([Effect.INVOKE_TOOL])

    def __init__(self, runtime: WasmToolRuntime, runs: CodeRuns | None = None) -> None:
        self._runtime = runtime
        self._lock = threading.Lock()
        self._prepared: PreparedTool | None = None
        self.runs = runs or CodeRuns(store_place(find_places().code_runs))
        about = f"The body of an async function, up to {MAX_CODE_BYTES:,} bytes."
        self.schema: dict[str, Any] = {
            "type": "object",
            "properties": {"code": {"type": "string", "minLength": 1, "description": about}},
            "required": ["code"],
            "additionalProperties": False,
        }

    @cached_property
    def digest(self) -> str:  # type: ignore[override]  # reading the interpreter takes time
        """The digest of the interpreter."""
        return bundled_component(RUN_CODE).digest

    def check(self, params: Any) -> Decision | None:
        """Refuse a program that is too long."""
        if len(params["code"].encode("utf-8", "replace")) <= MAX_CODE_BYTES:
            return None
        rule = f"the program is longer than {MAX_CODE_BYTES:,} bytes"
        return Decision(False, Reason.INVALID_ARGUMENTS, rule, "split it", "tool.code", self.name)

    def execute(self, params: Any, context: ToolContext) -> ToolOutput:
        """Run a program from its beginning. Its tool calls are made with `context.call_tool`.

        Raises:
            ToolError: the program failed, or `context.call_tool` ended the run.
        """
        return self._interpreter().execute(params, context)

    def _interpreter(self) -> PreparedTool:
        with self._lock:
            if self._prepared is None:
                component = bundled_component(RUN_CODE)
                self._prepared = self._runtime.prepare(self.name, component, limits=CODE_LIMITS)
                self._runtime.forget(self.name)  # components cannot invoke the interpreter
            return self._prepared
