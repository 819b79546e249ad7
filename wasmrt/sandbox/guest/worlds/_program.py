"""Programs: components of `wasi:cli/command`, run with arguments and input, answering with what they printed."""

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
"""The key of a call's context that names the folder under which the program finds the workspace."""
WRITABLE = "writable"
"""The key of a call's context that maps more folders to parts of the workspace; with it, the others are read-only."""
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
            "description": "False for a program whose exit codes are answers: none of them is a failure then.",
        },
    },
    "additionalProperties": False,
}


def program_world(linker: Linker, interface: str) -> ProgramWorld:
    """Bind the `run` of a program.

    Raises:
        InvalidComponentError: it is another function than that of `wasi:cli/run@0.2`.
    """
    exported = linker.component.type.export(interface)
    kind = None if exported is None else exported.function(_RUN)
    if kind is None or str(kind) != _SIGNATURE:
        raise InvalidComponentError(
            f"{interface} has no function {_RUN} of its world's type", hint=f"export {_RUN}: {_SIGNATURE}"
        )
    return ProgramWorld(interface, Export(linker, (interface, _RUN), kind))


class ProgramWorld(NamedTuple):
    """A program. It is not run to be described."""

    name: str
    main: Export

    def describe(self, _sandbox: Sandbox, name: str) -> list[ToolSpec]:
        """Return its one tool, which has the name of the component."""
        says = f"Runs the program {name}. The result has what it printed, as stdout and stderr, and its exit_code."
        return [ToolSpec(name, says, _SCHEMA)]

    def run(self, sandbox: Sandbox, call: GuestCall, tool: ToolSpec, params: str, context: str | None) -> str:
        """Run it and return `stdout`, `stderr` and `exit_code`.

        Raises:
            GuestExitError: it ended with another code than 0, and nobody said that this is an answer. The log has what
                it printed.
            InvalidParametersError: the params are no texts, or the context names no folder for the workspace.
        """
        given = json.loads(params)
        arguments, stdin = _input(given)
        stdout, stderr = call.part(Program).start([tool.name, *arguments], stdin, _folders(context))
        try:
            code = self._exit_code(sandbox, call)
        except BaseException:
            _log(call, stdout, stderr)
            raise
        call.finish()  # a program that failed has ended all the same: what it wrote before is written
        if code and given.get("check", True):
            _log(call, stdout, stderr)
            raise GuestExitError(_sentence(code, stdout, stderr), exit_code=code)
        return json.dumps({"stdout": stdout.text, "stderr": stderr.text, "exit_code": code}, ensure_ascii=False)

    def _exit_code(self, sandbox: Sandbox, call: GuestCall) -> int:
        try:
            return 0 if isinstance(sandbox.call(self.main), Ok) else 1
        except EngineFault:
            ended = call.failure
            if not isinstance(ended, GuestExitError):
                raise
            call.failure = None  # it is an end like the other: what is raised now says how it went
            return ended.exit_code


def _input(given: dict[str, Any]) -> tuple[list[str], bytes]:
    # A package's own schema, where it has one, may let anything pass.
    arguments, text = given.get("args", []), given.get("stdin", "")
    if not isinstance(text, str) or not isinstance(arguments, list) or not all(isinstance(a, str) for a in arguments):
        raise InvalidParametersError("a program takes texts alone", hint='{"args": ["-n", "5"], "stdin": "text"} fits')
    return arguments, text.encode("utf-8", "replace")


def _folders(context: str | None) -> tuple[ProgramFolder, ...]:
    given = None if context is None else json.loads(context)
    if not isinstance(given, dict):
        return (ProgramFolder("/", ""),)
    folder, writable = given.get(WORKSPACE, "/"), given.get(WRITABLE, {})
    if not _is_absolute(folder):
        raise InvalidParametersError(
            "the context's workspace is no absolute path", hint='{"workspace": "/workspace"} is one'
        )
    if not isinstance(writable, dict) or not all(
        _is_absolute(name) and _is_relative(path) for name, path in writable.items()
    ):
        raise InvalidParametersError(
            "the context's writable folders are no absolute paths with a path of the workspace each",
            hint='{"writable": {"/write/out": "out"}} is one',
        )
    # With folders to write in, the whole is for reading: a program finds the two apart, as it was told.
    whole = ProgramFolder(folder, "", read_only=WRITABLE in given)
    return (whole, *(ProgramFolder(name, path) for name, path in writable.items()))


def _is_absolute(name: object) -> bool:
    return isinstance(name, str) and name.startswith("/") and len(name) <= MAX_PATH_BYTES and "\0" not in name


def _is_relative(path: object) -> bool:
    # What it means is the host's to decide, which reads it again with every file.
    return isinstance(path, str) and bool(path) and not path.startswith("/") and len(path) <= MAX_PATH_BYTES


def _log(call: GuestCall, stdout: Printed, stderr: Printed) -> None:
    log_printed(call, stdout, LogLevel.INFO)
    log_printed(call, stderr, LogLevel.WARN)


def _sentence(code: int, stdout: Printed, stderr: Printed) -> str:
    """Say how it ended, with the last lines of its errors, or of its output where it told no error."""
    told = last_lines(stderr.text, PROGRAM_TAIL_CHARS) or last_lines(stdout.text, PROGRAM_TAIL_CHARS)
    ended = f"the program ended with exit code {code}"
    return f"{ended}: {told}" if told else ended
