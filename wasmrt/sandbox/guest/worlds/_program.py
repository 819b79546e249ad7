"""Programs: components of `wasi:cli/command`, run with arguments and standard input, returning their output."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from wasmrt.core.errors import GuestExitError, InvalidComponentError, InvalidParametersError
from wasmrt.core.limits import (
    MAX_PARAMS_BYTES,
    MAX_PATH_BYTES,
    MAX_PROGRAM_ARGUMENT_CHARS,
    MAX_PROGRAM_ARGUMENTS,
    PROGRAM_TAIL_CHARS,
)
from wasmrt.core.model import LogLevel
from wasmrt.sandbox.component import Ok, ToolSpec, last_lines
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.engine import EngineFault, Export, Linker, Sandbox
from wasmrt.sandbox.guest.wasi import Printed, Program, ProgramFolder, log_printed

WORKSPACE = "workspace"
"""The context key for the folder where the program sees the workspace."""
WRITABLE = "writable"
"""The context key for a map of writable folders to workspace paths. If present, the workspace folder is read-only."""
_RUN, _SIGNATURE = "run", "func() -> result"
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "args": {
            "type": "array",
            "items": {"type": "string", "maxLength": MAX_PROGRAM_ARGUMENT_CHARS},
            "maxItems": MAX_PROGRAM_ARGUMENTS,
            "description": "Command-line arguments, without the program's own name.",
        },
        "stdin": {"type": "string", "maxLength": MAX_PARAMS_BYTES, "description": "Standard input."},
        "check": {
            "type": "boolean",
            "description": "False if a non-zero exit code is a result and not a failure of the program.",
        },
    },
    "additionalProperties": False,
}


def program_world(linker: Linker, interface: str) -> ProgramWorld:
    """Bind the `run` function of a program.

    Raises:
        InvalidComponentError: the function does not have the type of `wasi:cli/run@0.2`.
    """
    exported = linker.component.type.export(interface)
    kind = None if exported is None else exported.function(_RUN)
    if kind is None or str(kind) != _SIGNATURE:
        raise InvalidComponentError(
            f"{interface} has no function {_RUN} of the type defined by its world", hint=f"export {_RUN}: {_SIGNATURE}"
        )
    return ProgramWorld(interface, Export(linker, (interface, _RUN), kind))


class ProgramWorld(NamedTuple):
    """A program, described without running it."""

    name: str
    main: Export

    def describe(self, _sandbox: Sandbox, name: str) -> list[ToolSpec]:
        """Return the program's only tool, which has the component's name."""
        text = f"Runs the program {name}. The result has its output, as stdout and stderr, and its exit_code."
        return [ToolSpec(name, text, _SCHEMA)]

    def run(self, sandbox: Sandbox, call: GuestCall, tool: ToolSpec, params: str, context: str | None) -> str:
        """Run the program and return `stdout`, `stderr` and `exit_code`.

        Raises:
            GuestExitError: the exit code is not 0, and `check` is not False. The output is in the log.
            InvalidParametersError: the params are not strings, or the context has an invalid folder.
        """
        given = json.loads(params)
        arguments, stdin = _read_input(given)
        stdout, stderr = call.part(Program).start([tool.name, *arguments], stdin, _read_folders(context))
        try:
            code = self._exit_code(sandbox, call)
        except BaseException:
            _log(call, stdout, stderr)
            raise
        call.finish()  # also if the program failed: the files it wrote are stored
        if code and given.get("check", True):
            _log(call, stdout, stderr)
            raise GuestExitError(_exit_message(code, stdout, stderr), exit_code=code)
        return json.dumps({"stdout": stdout.text, "stderr": stderr.text, "exit_code": code}, ensure_ascii=False)

    def _exit_code(self, sandbox: Sandbox, call: GuestCall) -> int:
        try:
            return 0 if isinstance(sandbox.call(self.main), Ok) else 1
        except EngineFault:
            ended = call.failure
            if not isinstance(ended, GuestExitError):
                raise
            call.failure = None  # an exit is a normal end; `run` decides whether its code is a failure
            return ended.exit_code


def _read_input(given: dict[str, Any]) -> tuple[list[str], bytes]:
    # A package can replace the schema by one that accepts other types.
    arguments, text = given.get("args", []), given.get("stdin", "")
    if not isinstance(text, str) or not isinstance(arguments, list) or not all(isinstance(a, str) for a in arguments):
        raise InvalidParametersError(
            "args must be a list of strings and stdin a string", hint='example: {"args": ["-n", "5"], "stdin": "text"}'
        )
    return arguments, text.encode("utf-8", "replace")


def _read_folders(context: str | None) -> tuple[ProgramFolder, ...]:
    given = None if context is None else json.loads(context)
    if not isinstance(given, dict):
        return (ProgramFolder("/", ""),)
    folder, writable = given.get(WORKSPACE, "/"), given.get(WRITABLE, {})
    if not _is_absolute(folder):
        raise InvalidParametersError(
            "the context's workspace is not an absolute path", hint='example: {"workspace": "/workspace"}'
        )
    if not isinstance(writable, dict) or not all(
        _is_absolute(name) and _is_relative(path) for name, path in writable.items()
    ):
        raise InvalidParametersError(
            "the context's writable folders must map absolute paths to relative paths in the workspace",
            hint='example: {"writable": {"/write/out": "out"}}',
        )
    # If the context has writable folders, the rest of the workspace is read-only.
    whole = ProgramFolder(folder, "", read_only=WRITABLE in given)
    return (whole, *(ProgramFolder(name, path) for name, path in writable.items()))


def _is_absolute(name: object) -> bool:
    return isinstance(name, str) and name.startswith("/") and len(name) <= MAX_PATH_BYTES and "\0" not in name


def _is_relative(path: object) -> bool:
    # The host checks the path again for every file.
    return isinstance(path, str) and bool(path) and not path.startswith("/") and len(path) <= MAX_PATH_BYTES


def _log(call: GuestCall, stdout: Printed, stderr: Printed) -> None:
    log_printed(call, stdout, LogLevel.INFO)
    log_printed(call, stderr, LogLevel.WARN)


def _exit_message(code: int, stdout: Printed, stderr: Printed) -> str:
    """Return the exit code with the last lines of standard error, or of standard output if that is empty."""
    output = last_lines(stderr.text, PROGRAM_TAIL_CHARS) or last_lines(stdout.text, PROGRAM_TAIL_CHARS)
    ended = f"the program ended with exit code {code}"
    return f"{ended}: {output}" if output else ended
