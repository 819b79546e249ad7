"""The places where commands run (a confined shell for each call, the host if allowed, or none), and their output."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from wasmrt.core.limits import MIB
from wasmrt.core.setting_commands import set_command, unset_command
from wasmrt.egress.outlet import EgressProxySession
from wasmrt.runtime.config_values import ShellSettings
from wasmrt.sandbox.isolation.confine import OUTLET_LAYER, SHELL, Command, confined_command, layers

MAX_OUTPUT_BYTES = 64 * 1024
"""Limit of stdout and stderr together. Source: IronClaw's MAX_OUTPUT_SIZE."""
STDERR_BYTES = 16 * 1024
STDOUT_BYTES = MAX_OUTPUT_BYTES - STDERR_BYTES
_NOTE_BYTES = 100


class HeadAndTail:
    """Collects at most `cap` bytes of output: half from the start of the output, and half from its end."""

    def __init__(self, cap: int) -> None:
        self._capacity = cap - _NOTE_BYTES
        self._head, self._tail = bytearray(), bytearray()
        self.total = 0

    def take(self, data: bytes) -> None:
        """Add the next bytes."""
        self.total += len(data)
        space = self._capacity // 2 - len(self._head)
        self._head += data[:space]
        self._tail += data[max(space, 0) :]
        most = self._capacity - self._capacity // 2
        if len(self._tail) > 2 * most:
            del self._tail[:-most]

    @property
    def cut(self) -> bool:
        """True if output was omitted."""
        return self.total > self._capacity

    def text(self) -> str:
        """Return the collected output, with a note about omitted bytes; invalid UTF-8 is replaced."""
        if not self.cut:
            return (self._head + self._tail).decode("utf-8", "replace")
        tail = self._tail[-(self._capacity - self._capacity // 2) :]
        omitted = self.total - len(self._head) - len(tail)
        note = f"\n[{omitted:,} bytes omitted]\n"
        return self._head.decode("utf-8", "replace") + note + tail.decode("utf-8", "replace")


_BASH_PLACES = "/usr/bin:/bin:/usr/local/bin"
_PATH = "/usr/local/bin:/usr/bin:/bin"
_EXECUTABLE = ("/usr", "/bin", "/sbin")
_ARGUMENTS = ("--noprofile", "--norc", "-c")


class Backend(StrEnum):
    """Places where commands run."""

    CONFINED = "confined"
    SESSION = "session"
    """Confined. Each command starts with the directory and variables that the conversation's previous command left."""
    HOST = "host"
    DISABLED = "disabled"


def choose_backend(settings: ShellSettings) -> tuple[Backend, str]:
    """Choose where commands run. Also return the reason if commands are disabled.

    SECURITY: if the machine cannot confine commands, no command runs. Running commands on the host requires an explicit
    setting.
    """
    if why := missing_requirement(settings):
        return Backend.DISABLED, why
    if settings.unsafe_host:
        return Backend.HOST, ""
    missing = _list_missing_layers(with_outlet=bool(settings.network))
    if missing:
        return Backend.DISABLED, f"this machine cannot confine commands: {missing}; wasmrt doctor lists the layers"
    return (Backend.SESSION if settings.session else Backend.CONFINED), ""


def missing_requirement(settings: ShellSettings) -> str:
    """Return the reason if no command can run, without testing confinement; otherwise an empty string."""
    if not settings.enabled:
        return f"it is disabled; to enable it: {set_command('shell.enabled', True)}"
    if any(find_spec(name) is None for name in ("tree_sitter", "tree_sitter_bash")):
        return 'the bash grammar is not installed: pip install "wasmrt[shell]"'
    if find_bash() is None:
        return "bash was not found in /usr/bin, /bin or /usr/local/bin: install it"
    if settings.unsafe_host and (settings.session or settings.network):
        both = "session" if settings.session else "network"
        return f"shell.{both} and shell.unsafe_host cannot be combined: {unset_command('shell.unsafe_host')}"
    return ""


def find_bash() -> str | None:
    """Return the path of bash, or None."""
    return shutil.which("bash", path=_BASH_PLACES)


@cache
def _list_missing_layers(*, with_outlet: bool = False) -> str:
    standing = {layer.name for layer in layers() if layer.standing}
    needed = {"seccomp", "landlock", "no-new-privileges", "limits"}
    if with_outlet:
        return ", ".join(sorted((needed | {OUTLET_LAYER}) - standing))
    return "" if "sandbox" in standing else ", ".join(sorted(needed - standing))


@contextmanager
def shell_command(
    backend: Backend,
    text: str,
    settings: ShellSettings,
    *,
    workspace: Path,
    writable: Sequence[Path],
    report: Path | None = None,
    outlet: EgressProxySession | None = None,
) -> Iterator[Command]:
    """Create the command that runs a command line, with a private home that is deleted when the context ends.

    `report` is an additional writable file; `outlet` provides network access.

    Raises:
        ConfineError: commands cannot be confined here.
    """
    bash = find_bash()
    assert bash is not None
    argv = [bash, *_ARGUMENTS, text]
    with tempfile.TemporaryDirectory(prefix="wasmrt-shell-", ignore_cleanup_errors=True) as home:
        env = command_environment(home, _search_path(settings, backend))
        if backend is Backend.HOST:
            yield Command(argv, env)
            return
        yield confined_command(
            SHELL,
            argv,
            env=env if outlet is None else env | outlet.env,
            read=[str(workspace), *settings.read],
            write=[home, *map(str, writable), *([] if report is None else [str(report)])],
            execute=[home, *map(str, writable), *settings.execute],
            data_bytes=settings.memory_mib * MIB,
            outlet=None if outlet is None else outlet.descriptor,
        )


def command_environment(home: str, search: Sequence[str]) -> dict[str, str]:
    """Return the environment variables of a command. No other variable of this process is included.

    `search` are the folders of PATH.
    """
    from wasmrt.agent.builtin.shell._lists import FIXED_VARIABLES, INHERITED_VARIABLES, PRIVATE_VARIABLES

    found = {name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ}
    private = {name: os.path.join(home, below) if below else home for name, below in PRIVATE_VARIABLES.items()}  # noqa: PTH118
    return found | private | dict(FIXED_VARIABLES) | {"PATH": os.pathsep.join(search)}


def _search_path(settings: ShellSettings, backend: Backend) -> list[str]:
    """Return the folders of PATH that a command can execute from."""
    given = os.environ.get("PATH", _PATH).split(os.pathsep)
    if backend is Backend.HOST:
        return [path for path in given if path.startswith("/")]
    usable = (*_EXECUTABLE, *settings.execute)
    return [path for path in given if any(Path(path).is_relative_to(each) for each in usable)] or [_PATH]
