"""ShellTool: command lines as a tool of an agent."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from wasmrt.call import read_params
from wasmrt.config_values import ShellSettings
from wasmrt.context import ToolContext
from wasmrt.effects import Effect
from wasmrt.errors import (
    ConfigurationError,
    DeadlineExceededError,
    InvalidParametersError,
    NotAuthorizedError,
    ToolError,
    ToolErrorKind,
)
from wasmrt.install.bundled import SHELL_ALIASES, SHELL_NAME
from wasmrt.isolation.confine import Command
from wasmrt.isolation.programs import not_started, run_to_end, starting
from wasmrt.leaks import LeakDetector
from wasmrt.lifetime import Lifetime
from wasmrt.model import NOTHING_USED, Decision, Reason, ToolOutput
from wasmrt.schema import Validator
from wasmrt.shell._backend import Backend, check_workspace, choose_backend, shell_command
from wasmrt.shell._output import STDERR_BYTES, STDOUT_BYTES, HeadAndTail
from wasmrt.shell._verdict import Action, Verdict
from wasmrt.traits import ToolDefaults, Traits

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "command": {"type": "string", "description": "A command line of bash."},
        "workdir": {"type": "string", "description": "A folder of the workspace to run it in."},
        "timeout": {"type": "integer", "minimum": 1, "description": "Seconds after which it is ended."},
    },
    "required": ["command"],
    "additionalProperties": False,
}  # fmt: skip
_EFFECTS = (
    Effect.READ_FILESYSTEM, Effect.WRITE_FILESYSTEM, Effect.DELETE_FILESYSTEM, Effect.EXECUTE_CODE,
    Effect.SPAWN_PROCESS,
)  # fmt: skip
_DETECTOR = LeakDetector()


class ShellTool(ToolDefaults):
    """Runs command lines in a workspace, each in a confined shell of its own. Any thread may call it, several at once.

    Args:
        workspace: The folder that commands read and write, or a function from a user to that user's folder.
        settings: The section [shell] of an operator's configuration.
    """

    ends_by_itself = True
    """Its processes are ended at its deadline, or when its call is cancelled: nobody has to leave them behind."""
    name = SHELL_NAME
    aliases = SHELL_ALIASES
    destinations = ()
    description = (
        "Run a command line of bash in the workspace. The system is read-only, the home is empty and new for each call,"
        " there is no network. Returns exit_code, stdout and stderr."
    )

    def __init__(self, workspace: Path | str | Callable[[str], Path], settings: ShellSettings | None = None) -> None:
        self._workspace = Path(workspace) if isinstance(workspace, str) else workspace
        self._settings = settings or ShellSettings()
        self._validator = Validator(_SCHEMA)
        self.timeout_seconds = float(max(self._settings.timeout_seconds, self._settings.max_timeout_seconds))

    @cached_property
    def _chosen(self) -> tuple[Backend, str]:
        return choose_backend(self._settings)  # it tries the layers, which a registry has no time for at its start

    @property
    def backend(self) -> Backend:
        """The place where commands run."""
        return self._chosen[0]

    @property
    def disabled_because(self) -> str:
        """The reason why no command runs, in words; empty where they do."""
        return self._chosen[1]

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of its params."""
        return _SCHEMA

    @property
    def traits(self) -> Traits:
        """Its effects, and what follows from them: a person is asked before each call."""
        is_host = self._settings.unsafe_host and self.backend is Backend.HOST
        on_host = (Effect.NETWORK, Effect.EXTERNAL_WRITE) if is_host else ()
        return Traits.of((*_EFFECTS, *on_host))

    def __repr__(self) -> str:
        return f"<ShellTool, {self.backend}>"

    def decide(self, command: str) -> Verdict:
        """Return the decision about a command line, without running it.

        Raises:
            ToolError: no command runs here.
        """
        if self.backend is Backend.DISABLED:
            raise ToolError(
                f"no command runs here: {self.disabled_because}", code="disabled", kind=ToolErrorKind.SANDBOX
            )
        from wasmrt.shell._decide import decide_command

        return decide_command(command)

    def check(self, params: Any) -> Decision | None:
        """Return the refusal of a command line that a list refuses, before anybody is asked; else None."""
        command = _command_of(params)
        if self.backend is Backend.DISABLED:
            rule = f"no command runs here: {self.disabled_because}"
            hint = 'see "Where commands run" in docs/shell.md'
            return Decision(False, Reason.COMMAND_NOT_ALLOWED, rule, hint, "tool.command", SHELL_NAME)
        verdict = self.decide(command)
        if verdict.action is not Action.REFUSE:
            return None
        return Decision(
            False, Reason.COMMAND_NOT_ALLOWED, verdict.sentence,
            "no setting allows it: do it in another way, or have a person do it outside of the agent", "tool.command",
            verdict.part[:200] or SHELL_NAME,
        )  # fmt: skip

    def requires_approval(self, params: Any) -> bool:
        """Tell whether a person has to approve this command, whatever a rule of the operator's approves."""
        if self.backend is Backend.DISABLED:
            return False  # it is refused
        if not isinstance(params.get("command"), str):
            return False  # of no command in particular: effects alone decide
        return self.decide(_command_of(params)).action is Action.ASK

    def why(self, params: Any) -> str:
        """Return in words what a person is asked for."""
        verdict = self.decide(_command_of(params))
        return f"{verdict.sentence}: {verdict.part}" if verdict.part else verdict.sentence

    def preview(self, params: Any) -> str:
        """Return for a person what would run, where, and what they are asked for."""
        verdict = self.decide(_command_of(params))
        where = f"in {params.get('workdir') or 'the workspace'}, {self.backend}"
        why = f"\nasked because {self.why(params)}" if verdict.action is Action.ASK else ""
        return f"{_command_of(params)}\n({where}){why}"

    def execute(self, params: Any, context: ToolContext | None = None, user: str = "local") -> ToolOutput:
        """Run one command line and return its exit code and what it printed.

        Whether a person has approved it is the registry's to see to.

        Raises:
            ToolError: the params are wrong, a list refuses it, it cannot be confined, or it took too long.
        """
        context = context or ToolContext(user=user)
        params = self._validator.accept(read_params(params))
        if (refused := self.check(params)) is not None:
            error = NotAuthorizedError(refused.sentence, code=str(refused.reason), hint=refused.hint)
            error.decisions = (refused,)
            raise error
        started = time.monotonic()
        seconds = min(params.get("timeout", self._settings.timeout_seconds), self.timeout_seconds)
        root = self._root(context)
        cwd = _folder_in(root, params.get("workdir", ""))
        out, err = HeadAndTail(STDOUT_BYTES), HeadAndTail(STDERR_BYTES)
        writable = _writable(root, context.write_paths)
        confined = shell_command(self.backend, params["command"], self._settings, workspace=root, writable=writable)
        with starting("the command"), confined as command:
            code = self._run(command, str(cwd), Lifetime(seconds, within=context.lifetime), out, err)
        stdout, stderr = _DETECTOR.redact(out.text()), _DETECTOR.redact(err.text())
        if (problem := not_started("the command", code, stderr)) is not None:
            raise problem
        duration = round(time.monotonic() - started, 6)
        result = {"exit_code": code, "stdout": stdout, "stderr": stderr, "truncated": out.cut or err.cut}
        raw = json.dumps(result, ensure_ascii=False)
        usage = NOTHING_USED._replace(wall_seconds=duration, output_bytes=len(raw.encode()))
        return ToolOutput(
            result=result, raw=raw, duration=duration, usage=usage, logs=(), decisions=(), call_id=uuid.uuid4().hex
        )

    def _run(self, command: Command, cwd: str, lifetime: Lifetime, out: HeadAndTail, err: HeadAndTail) -> int:
        try:
            return run_to_end(command, b"", cwd, lifetime, out.take, err.take)
        except DeadlineExceededError as error:
            error.hint = f"ask for more time with timeout, up to {self.timeout_seconds:g} s, or do less at once"
            tail = _DETECTOR.redact(out.text()[-500:])
            error.message = f"the command took too long, and was ended; it had printed: {tail!r}"
            error.args = (error.message,)
            raise

    def _root(self, context: ToolContext) -> Path:
        given = context.workspace or self._workspace
        try:
            return check_workspace(given if isinstance(given, Path) else given(context.user))
        except ConfigurationError as error:
            raise ToolError(error.message, code=error.code, hint=error.hint, kind=ToolErrorKind.SANDBOX) from error


def _command_of(params: Any) -> str:
    command = params.get("command") if isinstance(params, Mapping) else None
    if not isinstance(command, str):
        raise InvalidParametersError("params have no command", hint='pass {"command": "ls"}')
    return command


def _folder_in(root: Path, given: str) -> Path:
    """Return a folder of the workspace.

    Raises:
        InvalidParametersError: it is none, or not in the workspace.
    """
    try:
        found = (root / given).resolve(strict=True)
    except (OSError, ValueError):
        found = None
    if found is None or not found.is_relative_to(root) or not found.is_dir():
        raise InvalidParametersError(
            f"workdir {given!r:.80} is no folder of the workspace", hint="leave it out, or name a folder below it"
        )
    return found


def _writable(root: Path, write_paths: tuple[tuple[str, ...], ...]) -> list[Path]:
    """Return the folders that a call writes: the workspace, or what each list of a preset leaves of it."""
    found = [root]
    for listed in write_paths:
        wanted = [(root / path).resolve() for path in listed]
        found = [
            max(one, other, key=lambda path: len(path.parts))
            for one in found
            for other in wanted
            if one.is_relative_to(other) or other.is_relative_to(one)
        ]
    return [path for path in dict.fromkeys(found) if path.exists()]
