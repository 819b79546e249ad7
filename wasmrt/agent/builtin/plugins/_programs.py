"""Programs of plugins: native programs, and WASI components in the same sandbox as any other component.

SECURITY: each call of a native plugin is a process confined to its granted folders. Only the kernel separates it from
other users' files, the network and other processes. Native plugins run only if the operator enables them.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import ceil
from pathlib import Path

from blake3 import blake3

from wasmrt.agent.builtin.plugins._manifest import PluginManifest
from wasmrt.agent.builtin.plugins._protocol import Mount, Printed, exit_failure
from wasmrt.core.errors import (
    DeadlineExceededError,
    GuestOutputError,
    OutputLimitError,
    ToolError,
    ToolErrorKind,
    UnknownWorldError,
    WorkerCrashedError,
)
from wasmrt.core.files import open_file, write_whole
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import MAX_PLUGIN_PROGRAM_BYTES
from wasmrt.egress.leaks import LeakDetector
from wasmrt.runtime.context import ToolContext
from wasmrt.runtime.prepared import PreparedTool
from wasmrt.sandbox.component import worlds
from wasmrt.sandbox.isolation.confine import NATIVE_PLUGIN, confined_command
from wasmrt.sandbox.isolation.programs import Sink, not_started, run_to_end, starting

_DETECTOR = LeakDetector()
_CHUNK = 1024 * 1024
_EXECUTABLE = 0o500


class NativeProgram:
    """The program of a native plugin. A program that changes after it was loaded is not run.

    Raises:
        OSError: the file is not executable, or has more than `MAX_PLUGIN_PROGRAM_BYTES`.
    """

    kind = "native"

    def __init__(self, path: Path, manifest: PluginManifest, mounts: Sequence[Mount], *, network: bool) -> None:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or not status.st_mode & 0o111:
            raise PermissionError(0, f"{path.name} is not an executable file")
        self._path = path
        self._manifest = manifest
        self._network = network
        self.mounts = tuple(mounts)
        self.cwd = next((mount.host_path for mount in mounts if mount.read_only), "/")
        with _copy(path) as (_, self.digest):
            pass

    def run(self, request: bytes, context: ToolContext) -> Printed:
        """Run it once with a request on its standard input, within the lifetime of the context.

        Raises:
            ToolError: the program could not be confined or started, has changed, failed, or exceeded a limit.
        """
        seconds, stdout, stderr = self._manifest.timeout_seconds, bytearray(), bytearray()
        sinks = (self._sink(stdout, "max_stdout_bytes"), self._sink(stderr, "max_stderr_bytes"))
        with self._copy_checked() as program, starting("the plugin"):
            command = confined_command(
                NATIVE_PLUGIN,
                [f"/proc/self/fd/{program}"],
                read=[mount.host_path for mount in self.mounts if mount.read_only],
                write=[mount.host_path for mount in self.mounts if not mount.read_only],
                keep=[program],
                network=self._network,
                cpu_seconds=ceil(seconds) + 1,
            )
            try:
                code = run_to_end(command, request, self.cwd, Lifetime(seconds, within=context.lifetime), *sinks)
            except DeadlineExceededError:
                raise DeadlineExceededError(
                    f"the plugin took longer than {seconds:g} s and was ended", limit=seconds, used=None,
                    setting="max_runtime_ms", hint="if necessary, raise max_runtime_ms in its manifest",
                ) from None  # fmt: skip
        errors = _DETECTOR.redact(stderr.decode("utf-8", "replace"))
        return Printed(_redact_response(bytes(stdout)), errors, _find_failure(code, errors))

    @contextmanager
    def _copy_checked(self) -> Iterator[int]:
        """Copy the program to a memfd, check the digest of the copy, and yield its descriptor.

        SECURITY: the user agreed to the program that was loaded. The copy is run, because the file may change again
        after the check.
        """
        problem = "the plugin's program has changed since it was loaded"
        try:
            with _copy(self._path) as (descriptor, digest):
                if digest == self.digest:
                    yield descriptor
                    return
        except OSError as error:
            problem = f"cannot read the plugin's program: {error.strerror}"
        raise ToolError(problem, code="changed", hint="load the plugins again", kind=ToolErrorKind.SANDBOX)

    def _sink(self, output: bytearray, setting: str) -> Sink:
        def take(data: bytes) -> None:
            output.extend(data)
            _check_output(self._manifest, setting, len(output))

        return take


def _check_output(manifest: PluginManifest, setting: str, size: int) -> None:
    cap = manifest.max_stdout_bytes if setting == "max_stdout_bytes" else manifest.max_stderr_bytes
    if size > cap:
        raise OutputLimitError(
            f"the plugin's output exceeds its {setting} of {cap:,}", limit=cap, used=size, setting=setting,
            hint=f"if necessary, raise {setting} in its manifest",
        )  # fmt: skip


@contextmanager
def _copy(path: Path) -> Iterator[tuple[int, str]]:
    """Copy a program into a memfd that only this process has; yield its descriptor and the digest of the copied bytes.

    Raises:
        OSError: the file cannot be read or copied, or has more than `MAX_PLUGIN_PROGRAM_BYTES`.
    """
    digest = blake3()
    descriptor = os.memfd_create(path.name)
    try:
        with open_file(path, follow_link=False) as (file, status):
            if (left := status.st_size) > MAX_PLUGIN_PROGRAM_BYTES:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
            while chunk := file.read(min(_CHUNK, left)):
                left -= len(chunk)
                digest.update(chunk)
                write_whole(descriptor, chunk)
        os.fchmod(descriptor, _EXECUTABLE)
        yield descriptor, digest.hexdigest()
    finally:
        os.close(descriptor)


def _redact_response(data: bytes) -> str:
    """Redact secrets in a response, because a plugin can return content of the workspace."""
    try:
        return _DETECTOR.redact(data.decode())
    except UnicodeDecodeError as error:
        raise GuestOutputError(
            "the plugin's response is not UTF-8", code="malformed-response", hint="change the plugin to write JSON"
        ) from error


def _find_failure(code: int, stderr: str) -> ToolError | None:
    if code < 0:
        return WorkerCrashedError(f"the plugin was ended by signal {-code}", signal=-code)
    return not_started("the plugin", code, stderr) or exit_failure(code, stderr)


WORKSPACE = "/workspace"


class WasiProgram:
    """The prepared component of a WASI plugin.

    Raises:
        UnknownWorldError: the component does not export wasi:cli/run.
    """

    kind = "wasi"

    def __init__(
        self, tool: PreparedTool, manifest: PluginManifest, *, has_workspace: bool, writable: Mapping[str, str]
    ) -> None:
        if worlds.exported_program([tool.world]) is None:
            raise UnknownWorldError(
                "the plugin's component is not a program: it does not export wasi:cli/run",
                hint="build it as a program, for wasm32-wasip2",
            )
        self._tool = tool
        self._manifest = manifest
        # SECURITY: a guest receives no host paths. The guest paths replace them.
        read = (Mount(WORKSPACE, WORKSPACE, read_only=True),) if has_workspace else ()
        self.mounts = (*read, *(Mount(name, name, read_only=False) for name in writable))
        self._folders = {"workspace": WORKSPACE, "writable": dict(writable)}
        self.cwd = WORKSPACE
        self.digest = tool.digest

    def run(self, request: bytes, context: ToolContext) -> Printed:
        """Run it once with a request on its standard input, within the lifetime of the context.

        Raises:
            ToolError: the plugin trapped, or exceeded a limit.
        """
        params = {"stdin": request.decode(), "check": False}
        try:
            output = self._tool.execute(params, replace(context, data=self._folders, on_begin=None))
        except (DeadlineExceededError, OutputLimitError) as error:
            # The limits of this call come from the manifest.
            error.setting = "max_runtime_ms" if isinstance(error, DeadlineExceededError) else "max_stdout_bytes"
            error.hint = f"if necessary, raise {error.setting} in its manifest"
            raise
        stdout, stderr = output.result["stdout"], output.result["stderr"]
        for setting, text in (("max_stdout_bytes", stdout), ("max_stderr_bytes", stderr)):
            _check_output(self._manifest, setting, len(text.encode()))
        failure = exit_failure(output.result["exit_code"], stderr)
        return Printed(stdout, stderr, failure, output.usage, output.logs, output.decisions)
