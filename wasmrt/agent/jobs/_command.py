"""The runner of the mode `sandbox`: a command of the operator, confined as the shell's commands are.

The command gets one JSON object on its standard input: the task, and the path of a file to which messages are appended.
Each line of its output that is a JSON object with `event_type` and `data` becomes an event; the rest is the output.
"""

from __future__ import annotations

import json
import shlex
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from wasmrt.agent.builtin.shell import Backend, HeadAndTail, ShellSettings, choose_backend, shell_command
from wasmrt.agent.jobs._model import EVENT_TYPES, JobResult, JobTask
from wasmrt.agent.jobs._project import check_project
from wasmrt.agent.jobs._runner import JobContext
from wasmrt.core.errors import ConfigurationError, ToolError, ToolErrorKind
from wasmrt.core.limits import KIB, MAX_JSON_DEPTH, MAX_JSON_PARTS
from wasmrt.core.strict_json import JsonError, read_json
from wasmrt.sandbox.isolation.programs import not_started, run_to_end, starting

_POLL_SECONDS = 0.5
_MAX_LINE_BYTES = 64 * KIB
_OUTPUT_BYTES = 128 * KIB
_STDERR_BYTES = 16 * KIB
_NAME = "the command of [jobs]"


class CommandRunner:
    """Runs a command for each job, in the job's project folder, without network.

    Raises:
        ConfigurationError: the command is empty.
    """

    def __init__(self, command: Sequence[str], settings: ShellSettings) -> None:
        if not command or not all(command):
            raise ConfigurationError("expected the command that runs a job, got none", hint='pass ["/usr/bin/agent"]')
        # SECURITY: a job never runs on the host without confinement, and shares no shell session.
        self._settings = settings._replace(unsafe_host=False, session=False, network=())
        self._text = shlex.join(command)

    def run(self, task: JobTask, job: JobContext) -> JobResult:
        """Run the command to its end.

        Raises:
            ToolError: this machine cannot confine the command, or the job has ended.
        """
        backend, missing = choose_backend(self._settings)
        if backend is not Backend.CONFINED:
            raise ToolError(f"the job cannot run: {missing}", code="disabled", kind=ToolErrorKind.SANDBOX)
        # SECURITY: checked again, because a link may have changed since the call.
        folder = check_project(job.user, task.project_dir)
        lines, errors = _Lines(job), HeadAndTail(_STDERR_BYTES)
        with tempfile.TemporaryDirectory(prefix="wasmrt-job-", ignore_cleanup_errors=True) as inbox:
            messages = Path(inbox) / "prompts.jsonl"
            messages.touch(mode=0o600)
            given = {"title": task.title, "description": task.description, "context": task.context}
            given |= {"job_id": job.job_id, "project_dir": str(folder), "inbox": str(messages)}
            # SECURITY: the command can only read the inbox, so it cannot replace the file that this process writes.
            settings = self._settings._replace(read=(*self._settings.read, inbox))
            with (
                _deliver_messages(job, messages),
                starting(_NAME),
                shell_command(backend, self._text, settings, workspace=folder, writable=[folder]) as command,
            ):
                code = run_to_end(
                    command, json.dumps(given).encode(), str(folder), job.lifetime, lines.take, errors.take
                )
        lines.end()
        if (problem := not_started(_NAME, code, errors.text())) is not None:
            raise problem
        if code != 0:
            return JobResult(f"the command exited with code {code}: {errors.text()[-2000:]}", success=False)
        return JobResult(lines.output.text().strip())


class _Lines:
    """Splits the output of a command into events and other text."""

    def __init__(self, job: JobContext) -> None:
        self._job = job
        self._pending = b""
        self.output = HeadAndTail(_OUTPUT_BYTES)

    def take(self, data: bytes) -> None:
        """Add the next bytes."""
        *lines, self._pending = (self._pending + data).split(b"\n")
        for line in lines:
            self._take_line(line + b"\n")
        if len(self._pending) > _MAX_LINE_BYTES:
            self.end()

    def end(self) -> None:
        """Add the last line, which has no line break."""
        last, self._pending = self._pending, b""
        if last:
            self._take_line(last)

    def _take_line(self, line: bytes) -> None:
        if line.startswith(b"{") and len(line) <= _MAX_LINE_BYTES:
            with suppress(JsonError):
                found = read_json(line, max_bytes=_MAX_LINE_BYTES, max_depth=MAX_JSON_DEPTH, max_parts=MAX_JSON_PARTS)
                if isinstance(found, dict) and found.get("event_type") in EVENT_TYPES:
                    data = found.get("data")
                    self._job.emit(found["event_type"], data if isinstance(data, dict) else {"content": data})
                    return
        self.output.take(line)


@contextmanager
def _deliver_messages(job: JobContext, path: Path) -> Iterator[None]:
    """While the block runs, append each message that arrives for the job to a file."""
    ended = threading.Event()
    thread = threading.Thread(target=_deliver, args=(job, path, ended), name="wasmrt-job-inbox", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _deliver(job: JobContext, path: Path, ended: threading.Event) -> None:
    with suppress(ToolError):  # the job has ended
        while not ended.wait(_POLL_SECONDS):
            for prompt in job.inbox():
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"content": prompt.content, "done": prompt.done}) + "\n")
