"""Run all attempts to break out in a separate process, and read the results.

The process forks for each attempt twice: once with confinement, and once without.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from wasmrt.authoring.testing.wall._attempts import ATTEMPTS, Attempt, OpenDescriptor, Scene, syscall
from wasmrt.core.errors import InternalError
from wasmrt.sandbox.isolation.confine import CONFINEMENTS, Kind, Prepared, prepare

KINDS = (Kind.RUN_WORKER, Kind.COMPILE_WORKER, Kind.SHELL)

_WALL_SECONDS = 120.0
_REFUSALS = {"killed by SIGSYS", "EPERM", "EACCES", "ENOSYS"}
"""Outcomes that count as blocked; any other error may mean that the call was allowed."""


@dataclass(frozen=True, slots=True)
class Row:
    """The result of an attempt by a kind of process."""

    attempt: str
    kind: str
    user: int
    """The user ID of the process."""
    control: str
    """The outcome without confinement: "done" or an error."""
    outcome: str
    """The outcome with confinement: "killed by SIGSYS", an error, or "done"."""

    @property
    def proven(self) -> bool:
        """True if the control succeeded, so that only the confinement can have stopped the attempt."""
        return self.control == "done"

    @property
    def held(self) -> bool:
        """True if the confinement blocked the attempt."""
        return self.outcome in _REFUSALS


def run_wall() -> tuple[Row, ...]:
    """Try every attempt for each kind of process, as the current user, and also as `nobody` if that user is root.

    Each attempt runs in two processes: one without confinement as a control, and one with confinement.

    Raises:
        InternalError: the process that makes the attempts failed.
    """
    command = [sys.executable, "-I", "-m", "wasmrt.authoring.testing.wall"]
    try:
        done = subprocess.run(  # noqa: S603
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_WALL_SECONDS, check=True, env={}
        )
        return tuple(Row(**row) for row in json.loads(done.stdout))
    except (subprocess.SubprocessError, ValueError) as error:
        raise InternalError("the forbidden calls could not be tried", hint="please report this") from error


_REPORT = 3
_SECONDS = 10
_FIRST_HIGH = 50
_PR_SET_DUMPABLE, _PR_SET_PTRACER = 4, 0x59616D61


def try_all(users: Iterable[int]) -> list[dict[str, str | int]]:
    """Try every attempt for each kind of process as each of `users`, and return the fields of each `Row`."""
    # Namespaces are left out, because attempts must be blocked even on machines without namespaces.
    sealing = {
        kind: prepare(replace(CONFINEMENTS[kind], namespaces=()), keep=[_REPORT, *OpenDescriptor]) for kind in KINDS
    }
    rows: list[dict[str, str | int]] = []
    for user in users:
        with _open_scene(user) as scene:
            for kind in KINDS:
                for attempt in ATTEMPTS:
                    if kind in attempt.kinds:
                        outcomes = {
                            name: _try(attempt, scene, user, prepared)
                            for name, prepared in (("control", None), ("outcome", sealing[kind]))
                        }
                        rows.append({"attempt": attempt.name, "kind": str(kind), "user": user, **outcomes})
    return rows


def _try(attempt: Attempt, scene: Scene, user: int, sealing: Prepared | None) -> str:
    """Return "done", the name of an error, or the signal that ended the process."""
    _recreate_files(Path(scene.folder), user)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            _make_attempt(attempt, scene, user, sealing, writing)
        os._exit(2)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        sealed, _, text = pipe.read().decode().partition(" ")
    _, status = os.waitpid(child, 0)
    if sealed != "ready":
        return f"not tried: {sealed}{text}"
    if text == "done":
        return text  # the end of the process after the action does not matter
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return "hung" if number == signal.SIGALRM else f"killed by {signal.Signals(number).name}"
    return text or "done"  # after a successful execve, the process reports nothing


def _make_attempt(attempt: Attempt, scene: Scene, user: int, sealing: Prepared | None, report: int) -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(_SECONDS)
    _redirect_streams()
    os.dup2(report, _REPORT)
    _switch_user(user)
    _open_descriptors(scene)
    if sealing is not None:
        sealing.apply()
    os.write(_REPORT, b"ready ")
    try:
        made = attempt.act(scene)
    except OSError as error:
        os.write(_REPORT, errno.errorcode.get(error.errno or 0, "error").encode())
    else:
        os.write(_REPORT, b"done")
        if attempt.undo is not None:
            attempt.undo(scene, made)
    syscall("exit_group", 0)  # a confined process may not make all calls of Python's shutdown


def _open_descriptors(scene: Scene) -> None:
    """Open the descriptors of `OpenDescriptor` at their numbers."""
    opened = {
        OpenDescriptor.PROCESS: os.pidfd_open(scene.victim),
        OpenDescriptor.NAMESPACE: os.open("/proc/self/ns/uts", os.O_RDONLY),
        OpenDescriptor.INTERNET: socket.socket(socket.AF_INET).detach(),
        OpenDescriptor.LOCAL: socket.socket(socket.AF_UNIX).detach(),
    }
    high = {place: fcntl.fcntl(descriptor, fcntl.F_DUPFD, _FIRST_HIGH) for place, descriptor in opened.items()}
    for place, descriptor in high.items():
        os.dup2(descriptor, place)


def _redirect_streams() -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)


def _switch_user(user: int) -> None:
    if user != os.getuid():
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
        syscall("prctl", _PR_SET_DUMPABLE, 1, 0, 0, 0)  # like a program that this user starts


@contextmanager
def _open_scene(user: int) -> Iterator[Scene]:
    with tempfile.TemporaryDirectory(prefix="wasmrt-wall-") as name, socket.create_server(("127.0.0.1", 0)) as server:
        folder = Path(name)
        os.chown(folder, user, -1)
        victim = _fork(lambda: _wait_as_victim(user))
        abstract, path = f"\0{name}", f"{name}/socket"
        with socket.socket(socket.AF_UNIX) as first, socket.socket(socket.AF_UNIX) as second:
            for listener, place in ((first, abstract), (second, path)):
                listener.bind(place)
                listener.listen(1000)
            os.chown(path, user, -1)
            server.listen(1000)
            try:
                yield Scene(name, victim, server.getsockname()[1], abstract, path)
            finally:
                os.kill(victim, signal.SIGKILL)
                os.waitpid(victim, 0)


def _recreate_files(folder: Path, user: int) -> None:
    """Recreate the files of the scene."""
    for name in ("secret", "moved", "removed"):
        (folder / name).write_text(name)
        (folder / name).chmod(0o644)
        os.chown(folder / name, user, -1)
    made = folder / "made"
    if made.is_dir():
        made.rmdir()
    made.unlink(missing_ok=True)
    program = folder / "program"
    if not program.exists():
        shutil.copy(shutil.which("true") or "/bin/true", program)
        program.chmod(0o755)


def _wait_as_victim(user: int) -> None:
    _switch_user(user)
    with suppress(OSError):  # needed only with the Yama security module
        syscall("prctl", _PR_SET_PTRACER, -1, 0, 0, 0)
    while True:
        signal.pause()


def _fork(work: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            work()
        os._exit(1)
    return child
