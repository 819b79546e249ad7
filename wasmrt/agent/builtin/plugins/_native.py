"""Native plugins: programs of this machine. Each call is a process confined to its granted folders.

SECURITY: only the kernel separates a native plugin from other users' files, the network and other processes. Native
plugins run only if the operator enables them.
"""

from __future__ import annotations

import stat
from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import NamedTuple

from blake3 import blake3

from wasmrt.agent.builtin.plugins._manifest import PluginManifest
from wasmrt.agent.builtin.plugins._protocol import Mount, Printed, exit_failure
from wasmrt.core.errors import (
    DeadlineExceededError,
    GuestOutputError,
    OutputLimitError,
    ToolError,
    ToolErrorKind,
    WorkerCrashedError,
)
from wasmrt.core.files import opened_file
from wasmrt.core.lifetime import Lifetime
from wasmrt.egress.leaks import LeakDetector
from wasmrt.runtime.context import ToolContext
from wasmrt.sandbox.isolation.confine import NATIVE_PLUGIN, Command, confined_command
from wasmrt.sandbox.isolation.programs import Sink, not_started, run_to_end, starting


class Bounds(NamedTuple):
    """The limits of one run."""

    seconds: float
    stdout_bytes: int
    stderr_bytes: int


class Ended(NamedTuple):
    """The result of a program that exited."""

    code: int
    """The exit code, or the negative number of the signal that ended it."""
    stdout: bytes
    stderr: bytes


def run_program(command: Command, stdin: bytes, cwd: str, bounds: Bounds, within: Lifetime | None = None) -> Ended:
    """Run a program to its end, and then end every process that it started.

    `within` is the lifetime of the call.

    Raises:
        DeadlineExceededError, CancelledError: it took too long, or its call was cancelled.
        OutputLimitError: its output is over the limit.
        OSError: it could not be started.
    """
    stdout, stderr = bytearray(), bytearray()
    sinks = (
        _sink(stdout, bounds.stdout_bytes, "max_stdout_bytes"),
        _sink(stderr, bounds.stderr_bytes, "max_stderr_bytes"),
    )
    try:
        code = run_to_end(command, stdin, cwd, Lifetime(bounds.seconds, within=within), *sinks)
    except DeadlineExceededError:
        raise _late(bounds) from None
    return Ended(code, bytes(stdout), bytes(stderr))


def _late(bounds: Bounds) -> DeadlineExceededError:
    return DeadlineExceededError(
        f"the plugin took longer than {bounds.seconds:g} s and was ended",
        limit=bounds.seconds, used=None, setting="max_runtime_ms",
        hint="if necessary, raise max_runtime_ms in its manifest",
    )  # fmt: skip


def _sink(output: bytearray, cap: int, setting: str) -> Sink:
    def take(data: bytes) -> None:
        if len(output) + len(data) > cap:
            raise OutputLimitError(
                f"the plugin's output is over its {setting} of {cap:,}",
                limit=cap, used=len(output) + len(data), setting=setting,
                hint=f"if necessary, raise {setting} in its manifest",
            )  # fmt: skip
        output.extend(data)

    return take


_DETECTOR = LeakDetector()
_CHUNK = 1024 * 1024


class NativeProgram:
    """The program of a native plugin, as it was when it was loaded.

    Raises:
        OSError: it is no file that can be executed.
    """

    kind = "native"

    def __init__(self, path: Path, manifest: PluginManifest, mounts: Sequence[Mount], *, network: bool) -> None:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or not status.st_mode & 0o111:
            raise PermissionError(0, f"{path.name} is not an executable file")
        self._path = path
        self._bounds = Bounds(manifest.timeout_seconds, manifest.max_stdout_bytes, manifest.max_stderr_bytes)
        self._network = network
        self.mounts = tuple(mounts)
        self.cwd = next((mount.host_path for mount in mounts if mount.read_only), "/")
        self.digest = _digest(path)

    def run(self, request: bytes, context: ToolContext) -> Printed:
        """Run it once, with a request on its standard input, within the time of the context.

        Raises:
            ToolError: it could not be confined or started, is not what was loaded, failed, or is over a bound.
        """
        try:
            found = _digest(self._path)
        except OSError as error:
            raise ToolError(
                f"cannot read the plugin's program: {error.strerror}",
                code="changed", hint="load the plugins again", kind=ToolErrorKind.SANDBOX,
            ) from error  # fmt: skip
        if found != self.digest:
            # SECURITY: consent applies to the program that was loaded.
            raise ToolError(
                "the plugin's program has changed since it was loaded",
                code="changed", hint="load the plugins again", kind=ToolErrorKind.SANDBOX,
            )  # fmt: skip
        with starting("the plugin"):
            command = confined_command(
                NATIVE_PLUGIN,
                [str(self._path)],
                read=[mount.host_path for mount in self.mounts if mount.read_only],
                write=[mount.host_path for mount in self.mounts if not mount.read_only],
                execute=[str(self._path)],
                network=self._network,
                cpu_seconds=ceil(self._bounds.seconds) + 1,
            )
            ended = run_program(command, request, self.cwd, self._bounds, context.lifetime)
        stderr = _DETECTOR.redact(ended.stderr.decode("utf-8", "replace"))
        return Printed(_text(ended.stdout), stderr, _failure(ended.code, stderr))


def _digest(path: Path) -> str:
    digest = blake3()
    with opened_file(path, follow_link=False) as (file, _):
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _text(data: bytes) -> str:
    """Return a response with secrets redacted: a plugin can read the workspace and return its content."""
    try:
        return _DETECTOR.redact(data.decode())
    except UnicodeDecodeError as error:
        raise GuestOutputError(
            "the plugin's response is not UTF-8", code="malformed-response", hint="change it to write JSON"
        ) from error


def _failure(code: int, stderr: str) -> ToolError | None:
    if code < 0:
        return WorkerCrashedError(f"the plugin was ended by signal {-code}", signal=-code)
    return not_started("the plugin", code, stderr) or exit_failure(code, stderr)
