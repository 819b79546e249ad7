"""ShellTool: runs command lines for an agent."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from copy import copy
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Any

from wasmrt.agent.builtin.shell._backend import (
    STDERR_BYTES,
    STDOUT_BYTES,
    Backend,
    HeadAndTail,
    choose_backend,
    shell_command,
)
from wasmrt.agent.builtin.shell._changes import Notices, shown_changes
from wasmrt.agent.builtin.shell._session import WORKSPACE, BoundSession, Sessions, State, create_report, used_variables
from wasmrt.agent.builtin.shell._verdict import Action, Verdict
from wasmrt.agent.builtin.shell._watch import Recorder, Watched, watched
from wasmrt.agent.builtin.shell._workspace import check_workspace, command_of, folder_in, workdir_of, writable_folders
from wasmrt.catalog.bundled import SHELL_ALIASES, SHELL_NAME
from wasmrt.core.effects import Effect
from wasmrt.core.errors import ConfigurationError, DeadlineExceededError, NotAuthorizedError, ToolError, ToolErrorKind
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.model import NOTHING_USED, Decision, Reason, ToolOutput
from wasmrt.core.places import find_places
from wasmrt.core.setting_commands import set_command
from wasmrt.core.strict_json import write_json
from wasmrt.core.tool_defaults import ToolDefaults
from wasmrt.core.traits import Traits
from wasmrt.egress.gateway import NetworkConfig
from wasmrt.egress.leaks import LeakDetector
from wasmrt.egress.outlet import EgressProxySession, EgressProxySessions, describe_denials
from wasmrt.runtime.call import read_params
from wasmrt.runtime.config_values import ShellSettings
from wasmrt.runtime.context import ToolContext
from wasmrt.runtime.workspace import JournalHead, UndoJournal
from wasmrt.sandbox.isolation.confine import Command
from wasmrt.sandbox.isolation.programs import not_started, run_to_end, starting
from wasmrt.sandbox.schema import Validator

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "command": {"type": "string", "description": "A bash command line."},
        "workdir": {"type": "string", "description": "A folder of the workspace to run it in."},
        "timeout": {"type": "integer", "minimum": 1, "description": "Seconds until the command is ended."},
    },
    "required": ["command"],
    "additionalProperties": False,
}  # fmt: skip
_EFFECTS = (
    Effect.READ_FILESYSTEM, Effect.WRITE_FILESYSTEM, Effect.DELETE_FILESYSTEM, Effect.EXECUTE_CODE,
    Effect.SPAWN_PROCESS,
)  # fmt: skip
_DETECTOR = LeakDetector()
_MAX_REFUSALS_SHOWN = 5
_DOCTOR = 'wasmrt doctor lists what is missing; see "Where commands run" in docs/shell.md'


class ShellTool(ToolDefaults):
    """Runs command lines in a workspace, each in a separate confined shell. Thread-safe and concurrent.

    Args:
        workspace: The folder that commands read and write, or a function that returns the folder of a user.
        settings: The section [shell] of the configuration.
        network: The operator's network settings, for the hosts that `settings` grants.
        undo: Whether `wasmrt undo` can take back changes of commands.

    Examples:
        >>> from wasmrt import ShellTool, ToolRegistry
        >>> registry = ToolRegistry()
        >>> _ = registry.register(ShellTool("."), builtin=True)
        >>> registry.tool_names()
        ['shell']
    """

    ends_at_deadline = True
    """The processes of a command end at the deadline, or when the call is cancelled."""
    name = SHELL_NAME
    aliases = SHELL_ALIASES
    destinations = ()

    def __init__(
        self,
        workspace: Path | str | Callable[[str], Path],
        settings: ShellSettings | None = None,
        *,
        network: NetworkConfig | None = None,
        undo: bool = True,
    ) -> None:
        self._workspace = Path(workspace) if isinstance(workspace, str) else workspace
        self._settings = settings or ShellSettings()
        self._sessions = Sessions()
        self._held: BoundSession | None = None
        self._notices, self._conversation = Notices(), ("local", "")
        self._recorder = Recorder(UndoJournal(find_places().undo)) if undo else None
        self._outlets = EgressProxySessions(self._settings.network, name=SHELL_NAME, network=network)
        self._validator = Validator(_SCHEMA)
        self.timeout_seconds = float(max(self._settings.timeout_seconds, self._settings.max_timeout_seconds))

    @cached_property
    def _backend_choice(self) -> tuple[Backend, str]:
        return choose_backend(self._settings)  # tests the layers, which is too slow for the start of a registry

    @property
    def backend(self) -> Backend:
        """The place where commands run."""
        return self._backend_choice[0]

    @property
    def disabled_because(self) -> str:
        """The reason if commands are disabled; otherwise empty."""
        return self._backend_choice[1]

    @property
    def description(self) -> str:
        """The description for models."""
        session = "Directory and variables are kept between calls. " if self._settings.session else ""
        hosts = ", ".join(entry.host_pattern for entry in self._settings.network)
        network = f"the network is limited to {hosts}, through HTTPS_PROXY" if hosts else "there is no network"
        return (
            f"Run a bash command line in the workspace. {session}The system is read-only, the home directory is empty"
            f" and new for each call, {network}. Returns exit_code, stdout, stderr and changed files."
        )

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the params."""
        return _SCHEMA

    @property
    def traits(self) -> Traits:
        """The effects, and the traits derived from them: each call requires approval."""
        is_host = self._settings.unsafe_host and self.backend is Backend.HOST
        has_network = is_host or bool(self._settings.network)
        return Traits.of((*_EFFECTS, *((Effect.NETWORK, Effect.EXTERNAL_WRITE) if has_network else ())))

    def __repr__(self) -> str:
        return f"<ShellTool, {self.backend}>"

    def in_conversation(self, user: str, trace_id: str) -> ShellTool:
        """Return the tool for one conversation, bound to its session if sessions are enabled.

        Its previews list the files that earlier commands of the conversation changed and that a program may execute.

        SECURITY: the lists check the command with the current state of the session; it never runs with a different one.
        """
        keeps = self.backend is Backend.SESSION and trace_id
        bound = copy(self)
        bound._conversation = (user, trace_id)
        bound._held = BoundSession(self._sessions.of((user, trace_id))) if keeps else None
        return bound

    def session_digest(self) -> str | None:
        """Return the digest of the session's state for this call, or after it; None outside a session."""
        return None if self._held is None else self._held.start.digest

    def close(self) -> None:
        """Delete the sessions and copies of files, and close the network proxy."""
        self._sessions.close()
        if self._recorder is not None:
            self._recorder.close()
        self._outlets.close()

    def decide(self, command: str, workdir: str = "") -> Verdict:
        """Return the decision about a command line in a folder, without running it.

        Raises:
            ToolError: the shell is disabled.
        """
        if self.backend is Backend.DISABLED:
            raise ToolError(
                f"the shell cannot run: {self.disabled_because}", code="disabled", kind=ToolErrorKind.SANDBOX
            )
        return self._decide(command, self._start(workdir))

    def _decide(self, command: str, start: State) -> Verdict:
        from wasmrt.agent.builtin.shell._scripts import decide_in

        root = partial(self._root, ToolContext(user=self._conversation[0]))
        return decide_in(root, command, start, self._settings.programs)

    def _start(self, workdir: str) -> State:
        return self._start_from(WORKSPACE if self._held is None else self._held.start, workdir)

    def _start_from(self, start: State, workdir: str) -> State:
        return start._replace(folder=workdir or start.folder, written=self._notices.written(self._conversation))

    def _decide_params(self, params: Any) -> Verdict:
        return self.decide(command_of(params), workdir_of(params))

    def check(self, params: Any) -> Decision | None:
        """Return the refusal if a list refuses the command line, or None. Called before an approval is requested."""
        command_of(params)
        if self.backend is Backend.DISABLED:
            rule = f"the shell cannot run: {self.disabled_because}"
            hint = _DOCTOR if self._settings.enabled else set_command("shell.enabled", True)
            return Decision(False, Reason.COMMAND_NOT_ALLOWED, rule, hint, "tool.command", SHELL_NAME)
        verdict = self._decide_params(params)
        if verdict.action is not Action.REFUSE:
            return None
        return Decision(
            False, Reason.COMMAND_NOT_ALLOWED, verdict.sentence,
            "no setting allows it: use a different command, or let the user run it outside the agent", "tool.command",
            verdict.part[:200] or SHELL_NAME,
        )  # fmt: skip

    def requires_approval(self, params: Any) -> bool:
        """Return whether this command requires approval, regardless of the operator's rules."""
        if self.backend is Backend.DISABLED or not isinstance(params.get("command"), str):
            return False  # refused; or, without a command, decided by the effects
        return self._decide_params(params).action is Action.ASK

    def describe_reason(self, params: Any) -> str:
        """Return the reason why the command requires approval."""
        verdict = self._decide_params(params)
        return f"{verdict.sentence}: {verdict.part}" if verdict.part else verdict.sentence

    def preview(self, params: Any, context: ToolContext) -> str:
        """Return the command, its folder, the session variables that it uses, and the reason for the approval."""
        verdict = self._decide_params(params)
        start = self._start(workdir_of(params))
        where = f"in {start.folder or 'the workspace'}, {self.backend}"
        why = f"\nreason: {self.describe_reason(params)}" if verdict.action is Action.ASK else ""
        used = used_variables(start, command_of(params))
        variables = "".join(f"\nwith {name}={quote(value)}" for name, value in used)
        noticed = "".join(f"\n{line}" for line in (*self._notices.lines(self._conversation), *self._files(params)))
        return f"{command_of(params)}\n({where}){variables}{why}{noticed}"

    def content_digest(self, params: Any) -> str:
        """Return the digest of the workspace files that the command names and may run; empty if there are none.

        A confirmation token covers these files only if it is issued with this digest as its `content`.
        """
        from wasmrt.agent.builtin.shell._scripts import digest_files

        return digest_files(*self._where(params))

    def execute(self, params: Any, context: ToolContext | None = None, user: str = "local") -> ToolOutput:
        """Run one command line and return its exit code and output.

        The registry checks the approval before it calls this method.

        Raises:
            ToolError: the params are invalid, a list refuses the command, it cannot be confined, or it took too long.
        """
        context = context or ToolContext(user=user)
        params = self._validator.accept(read_params(params))
        seconds = float(min(params.get("timeout", self._settings.timeout_seconds), self.timeout_seconds))
        lifetime = Lifetime(seconds, within=context.lifetime)
        if self._held is not None:
            return self._run_in_session(self._held, params, context, lifetime)
        bound = self.in_conversation(context.user, context.trace_id)
        if bound._held is None:
            self._check_refused(params)
            return self._output(params, context, lifetime, None)
        with bound._held.alone(lifetime):
            bound._held.adopt_state()  # no decision was made before
            bound._check_refused(params)
            return bound._output(params, context, lifetime, bound._held)

    def _run_in_session(
        self, held: BoundSession, params: dict[str, Any], context: ToolContext, lifetime: Lifetime
    ) -> ToolOutput:
        with held.alone(lifetime):
            held.refresh(lambda start: self._runs_with(start, params), shown=context.shown)
            self._check_refused(params)
            if context.shown is None and self._decide_params(params).action is Action.ASK:
                held.check_shown(self._start(workdir_of(params)), command_of(params))
            return self._output(params, context, lifetime, held)

    def _runs_with(self, start: State, params: dict[str, Any]) -> bool:
        start = self._start_from(start, workdir_of(params))
        return self._decide(command_of(params), start).action is Action.RUN

    def _runs_code(self, params: dict[str, Any]) -> bool:
        from wasmrt.agent.builtin.shell._decide import runs_code

        return runs_code(command_of(params), self._start(workdir_of(params)), self._settings.programs)

    def _files(self, params: Any) -> tuple[str, ...]:
        from wasmrt.agent.builtin.shell._scripts import describe_files

        return describe_files(*self._where(params))

    def _where(self, params: dict[str, Any]) -> tuple[str, State, tuple[str, ...], Path]:
        root = self._root(ToolContext(user=self._conversation[0]))
        return command_of(params), self._start(workdir_of(params)), self._settings.programs, root

    def _check_refused(self, params: dict[str, Any]) -> None:
        if (refused := self.check(params)) is not None:
            raise NotAuthorizedError.of(refused)

    def _output(
        self, params: dict[str, Any], context: ToolContext, lifetime: Lifetime, held: BoundSession | None
    ) -> ToolOutput:
        started, call_id = time.monotonic(), uuid.uuid4().hex
        root = self._root(context)
        if context.shown is not None or context.confirmed_content is not None:
            from wasmrt.agent.builtin.shell._scripts import check_content

            check_content(context.shown, context.confirmed_content, *self._where(params))
        out, err = HeadAndTail(STDOUT_BYTES), HeadAndTail(STDERR_BYTES)
        head = JournalHead(call_id, SHELL_NAME, context.user, str(root), time.time_ns() // 1_000_000)
        seen, ran_code = Watched(), self._runs_code(params)
        decisions: tuple[Decision, ...] = ()
        try:
            with (
                self._outlet(context.user) as outlet,
                watched(head, self._recorder, keep_git=self._settings.unsafe_write_git) as seen,
            ):
                try:
                    code, notes = self._run_command(params, root, lifetime, context.write_paths, held, outlet, out, err)
                finally:
                    decisions = () if outlet is None else outlet.decisions()
        except ToolError as error:
            error.call_id = call_id
            _add_decisions(error, decisions, seen.undone)
            raise
        finally:
            conversation = (context.user, context.trace_id)
            self._notices.add(conversation, seen.changes, was_shown=context.shown is not None, ran_code=ran_code)
        decisions = (*seen.undone, *decisions)
        stdout, stderr = _DETECTOR.redact(out.text()), _DETECTOR.redact(err.text())
        if (problem := not_started("the command", code, stderr)) is not None:
            raise problem
        duration = round(time.monotonic() - started, 6)
        messages = [*notes, *seen.notes, *islice(describe_denials(decisions), _MAX_REFUSALS_SHOWN)]
        stderr = "\n".join([stderr.removesuffix("\n"), *messages, ""]).lstrip("\n") if messages else stderr
        result = {"exit_code": code, "stdout": stdout, "stderr": stderr, "truncated": out.cut or err.cut}
        if held is not None:
            result["directory"] = held.start.folder or "."
        result |= shown_changes(seen.changes)
        raw = write_json(result)
        usage = NOTHING_USED._replace(wall_seconds=duration, output_bytes=len(raw.encode()))
        return ToolOutput(
            result=result, raw=raw, duration=duration, usage=usage, logs=(), decisions=decisions, call_id=call_id
        )

    def _outlet(self, user: str) -> AbstractContextManager[EgressProxySession | None]:
        return self._outlets.open(user) if self._settings.network else nullcontext()

    def _run_command(
        self, params: dict[str, Any], root: Path, lifetime: Lifetime, write_paths: tuple[tuple[str, ...], ...],
        held: BoundSession | None, outlet: EgressProxySession | None, out: HeadAndTail, err: HeadAndTail,
    ) -> tuple[int, list[str]]:  # fmt: skip
        """Run a command line to its end; return its exit code and messages about its session."""
        cwd = folder_in(root, workdir_of(params))
        with ExitStack() as stack:
            text, report = params["command"], None
            if held is not None:
                report = stack.enter_context(create_report())
                text = held.script(text, str(report), moves=not workdir_of(params))
            stack.enter_context(starting("the command"))
            command = stack.enter_context(
                shell_command(
                    self.backend, text, self._settings, workspace=root, writable=writable_folders(root, write_paths),
                    report=report, outlet=outlet,
                )
            )  # fmt: skip
            code = self._run(command, str(cwd), lifetime, out, err)
            if held is None or report is None:
                return code, []
            return code, held.keep(report, workspace=str(root), home=str(Path(command.env["HOME"]).resolve()))

    def _run(self, command: Command, cwd: str, lifetime: Lifetime, out: HeadAndTail, err: HeadAndTail) -> int:
        try:
            return run_to_end(command, b"", cwd, lifetime, out.take, err.take)
        except DeadlineExceededError as error:
            error.hint = f"increase timeout, up to {self.timeout_seconds:g} s, or split the command"
            tail = _DETECTOR.redact(out.text()[-500:])
            error.message = f"the command took too long and was ended; the end of its output: {tail!r}"
            error.args = (error.message,)
            raise

    def _root(self, context: ToolContext) -> Path:
        given = context.workspace or self._workspace
        try:
            return check_workspace(given if isinstance(given, Path) else given(context.user))
        except ConfigurationError as error:
            raise ToolError(error.message, code=error.code, hint=error.hint, kind=ToolErrorKind.SANDBOX) from error


def _add_decisions(error: ToolError, decisions: Sequence[Decision], undone: Sequence[Decision]) -> None:
    error.decisions = (*error.decisions, *undone, *decisions)
    if undone:
        error.message = "; ".join([error.message, *(each.refusal for each in undone[:_MAX_REFUSALS_SHOWN])])
        error.args = (error.message,)
