"""One call of one tool, without the option parser: what `wasmrt run` does once its arguments are known.

Programs start `wasmrt run TOOL [PARAMS] [--json]` again and again, and the parser takes longer to import than a cached
tool takes to answer. That one form is read here; whatever holds another option, or a mistake, goes to the parser.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from wasmrt.cli._errors import ended_by, refusal
from wasmrt.cli._output import say, say_lines, show_json
from wasmrt.cli._tools import find_tool, open_runtime, prepare, with_invoked
from wasmrt.errors import InvalidParametersError, SourceError, ToolError
from wasmrt.limits import MAX_PARAMS_BYTES
from wasmrt.model import Addition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from wasmrt import WasmToolRuntime
    from wasmrt.cli._tools import FoundTool
    from wasmrt.model import Decision, LogEntry, ToolOutput

NO_PARAMS = "{}"
DEFAULT_USER = "local"


def run_plainly(arguments: Sequence[str]) -> int | None:
    """Run `run TOOL [PARAMS] [--json]` and return the exit code; None for every other command line."""
    name, *given = arguments or ("",)
    words = [argument for argument in given if argument != "--json"]
    if name != "run" or not 1 <= len(words) <= 2 or any(w.startswith("-") and w != "-" for w in words):
        return None
    as_json = len(words) < len(given)
    try:
        run_tool(*words, as_json=as_json)
    except (Exception, KeyboardInterrupt) as error:
        return ended_by(error, as_json=as_json)
    return 0


def run_tool(
    tool: str,
    params: str = NO_PARAMS,
    *,
    part: str | None = None,
    context: str | None = None,
    user: str = DEFAULT_USER,
    capabilities: Path | None = None,
    workspace: Path | None = None,
    logs: bool = False,
    as_json: bool = False,
) -> None:
    """Do what `wasmrt run` says with these options."""
    text = _read_params(params)
    _check_context(context)
    found = find_tool(tool, capabilities=capabilities)
    tools = with_invoked(found)
    with open_runtime(*(each.grant for each in tools), workspace=workspace) as runtime:
        prepared, *_ = [prepare(runtime, each.name, each.data, each.grant) for each in tools]
        if part is not None:
            prepared = prepared.tool(part)
        try:
            output = _interruptible(runtime, lambda: prepared.execute(text, context, user))
        except ToolError as error:
            if not as_json:
                _show_logs(error.logs)
                _show_denials(error.decisions)
                _show_unused(found, tool, error.decisions)
            raise
    if as_json:
        show_json(output.as_dict())
        return
    show_json(output.result)
    if logs:
        _show_logs(output.logs)
    _show_denials(output.decisions)
    _show_unused(found, tool, output.decisions)


def _interruptible(runtime: WasmToolRuntime, work: Callable[[], ToolOutput]) -> ToolOutput:
    """Do `work` on a thread of its own.

    Ctrl-C reaches this thread only, and only while it runs no guest; closing the runtime ends the one that does.
    """
    ended: list[ToolOutput | BaseException] = []

    def call() -> None:
        try:
            ended.append(work())
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=call, name="wasmrt-run")
    thread.start()
    try:
        thread.join()
    except KeyboardInterrupt:
        runtime.close()
        thread.join()
        raise
    outcome = ended[0]
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def _read_params(argument: str) -> str | bytes:
    if argument == "-":
        data = sys.stdin.buffer.read(MAX_PARAMS_BYTES + 1)
    elif argument.startswith("@"):
        try:
            with Path(argument[1:]).open("rb") as file:
                data = file.read(MAX_PARAMS_BYTES + 1)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "not a path"
            raise SourceError(f"the params file cannot be read ({reason})", hint="check the path after @") from error
    else:
        return argument
    if len(data) > MAX_PARAMS_BYTES:
        raise InvalidParametersError(
            f"the params are over {MAX_PARAMS_BYTES} bytes", hint="pass large data by reference"
        )
    return data


def _check_context(context: str | None) -> None:
    if context is None:
        return
    try:
        json.loads(context)
    except (ValueError, RecursionError):
        hint = """write it like '{"thread": 7}'"""
        raise InvalidParametersError("what follows --context is not JSON", hint=hint) from None


def _show_logs(entries: Iterable[LogEntry]) -> None:
    for entry in entries:
        say_lines(_one_entry(f"log {entry.level}: {entry.message}"))


def _show_unused(found: FoundTool, path: str, decisions: Iterable[Decision]) -> None:
    """A capability file beside a component is what it asks for: of a file it counts only once somebody says so."""
    if found.origin != "file" or found.sidecar is None or all(decision.allowed for decision in decisions):
        return
    from wasmrt.capabilities import Capabilities

    if found.grant == Capabilities.none():
        beside = f"{path.removesuffix('.wasm')}.capabilities.json"
        say(f"  what it asks for was not granted: install it, or try it with --capabilities {beside}")


def _show_denials(decisions: Iterable[Decision]) -> None:
    denied = dict.fromkeys(decision for decision in decisions if not decision.allowed)
    for decision in denied:
        say_lines(_one_entry(refusal(decision)))
        if decision.hint:
            step = "to allow it, " if isinstance(decision.suggestion, Addition) else "hint: "
            say_lines(_one_entry(f"  {step}{decision.hint}"))


def _one_entry(text: str) -> str:
    """SECURITY: a guest's line ends are kept off the left margin, where it could speak for wasmrt."""
    return text.replace("\n", "\n    ")
