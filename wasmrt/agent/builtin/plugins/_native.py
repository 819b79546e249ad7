"""Native plugins: programs of this machine, each call a process that is confined to its mounts.

SECURITY: a native plugin is kept from the files of others, from the network and from other processes by the kernel
alone. It runs only where the operator said so.
"""

from __future__ import annotations

import stat
from collections.abc import Sequence
from math import ceil
from pathlib import Path

from blake3 import blake3

from wasmrt.agent.builtin.plugins._manifest import PluginManifest
from wasmrt.agent.builtin.plugins._printed import Printed, exit_failure
from wasmrt.agent.builtin.plugins._process import Bounds, run_program
from wasmrt.agent.builtin.plugins._protocol import Mount
from wasmrt.core.errors import GuestOutputError, ToolError, ToolErrorKind, WorkerCrashedError
from wasmrt.core.files import opened_file
from wasmrt.egress.leaks import LeakDetector
from wasmrt.runtime.context import ToolContext
from wasmrt.sandbox.isolation.confine import NATIVE_PLUGIN, confined_command
from wasmrt.sandbox.isolation.programs import not_started, starting

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
            raise PermissionError(0, f"{path.name} is no file that can be executed")
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
                f"the plugin's program cannot be read ({error.strerror})",
                code="changed", hint="load the plugins again", kind=ToolErrorKind.SANDBOX,
            ) from error  # fmt: skip
        if found != self.digest:
            # SECURITY: what was agreed to is what was there then.
            raise ToolError(
                "the plugin's program is not what was loaded",
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
    """Return a response without secrets: a plugin may read the workspace, and tell what it finds."""
    try:
        return _DETECTOR.redact(data.decode())
    except UnicodeDecodeError as error:
        raise GuestOutputError(
            "the plugin's response is not UTF-8", code="malformed-response", hint="have it write JSON"
        ) from error


def _failure(code: int, stderr: str) -> ToolError | None:
    if code < 0:
        return WorkerCrashedError(f"the plugin was ended by the signal {-code}", signal=-code)
    return not_started("the plugin", code, stderr) or exit_failure(code, stderr)
