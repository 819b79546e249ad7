"""The place where commands run: a confined shell for each call, the host by an operator's word, or nowhere."""

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

from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import MIB
from wasmrt.core.places import find_places
from wasmrt.egress.outlet import EgressProxySession
from wasmrt.runtime.config_values import ShellSettings
from wasmrt.sandbox.isolation.confine import OUTLET_LAYER, SHELL, Command, confined_command, layers

_BASH_PLACES = "/usr/bin:/bin:/usr/local/bin"
_PATH = "/usr/local/bin:/usr/bin:/bin"
_EXECUTABLE = ("/usr", "/bin", "/sbin")
_ARGUMENTS = ("--noprofile", "--norc", "-c")


class Backend(StrEnum):
    """Places where commands run."""

    CONFINED = "confined"
    SESSION = "session"
    """Confined, and each command of a conversation begins with the directory and the variables of the last."""
    HOST = "host"
    DISABLED = "disabled"


def choose_backend(settings: ShellSettings) -> tuple[Backend, str]:
    """Return where commands run, and in words why where it is nowhere.

    SECURITY: a machine that cannot confine a command runs none. The host is an operator's explicit word alone.
    """
    if why := lacking(settings):
        return Backend.DISABLED, why
    if settings.unsafe_host:
        return Backend.HOST, ""
    missing = _missing_layers(with_outlet=bool(settings.network))
    if missing:
        return Backend.DISABLED, f"this machine cannot confine it: {missing}; wasmrt doctor shows the layers"
    return (Backend.SESSION if settings.session else Backend.CONFINED), ""


def lacking(settings: ShellSettings) -> str:
    """Return why no command can run, in words, as far as that is known without trying to confine one; else empty."""
    if not settings.enabled:
        return "enabled = false in [shell] of the configuration file turns it off: set it to true"
    if any(find_spec(name) is None for name in ("tree_sitter", "tree_sitter_bash")):
        return 'the grammar of bash is not installed: pip install "wasmrt[shell]"'
    if find_bash() is None:
        return "there is no bash in /usr/bin, /bin or /usr/local/bin: install it"
    if settings.unsafe_host and (settings.session or settings.network):
        both = "session" if settings.session else "network"
        return f"{both} and unsafe_host of [shell] do not go together: leave one of them out"
    return ""


def find_bash() -> str | None:
    """Return the path of the shell that commands are written for; None without one."""
    return shutil.which("bash", path=_BASH_PLACES)


@cache
def _missing_layers(*, with_outlet: bool = False) -> str:
    standing = {layer.name for layer in layers() if layer.standing}
    needed = {"seccomp", "landlock", "no-new-privileges", "limits"}
    if with_outlet:
        return ", ".join(sorted((needed | {OUTLET_LAYER}) - standing))
    return "" if "sandbox" in standing else ", ".join(sorted(needed - standing))


def check_workspace(folder: Path) -> Path:
    """Return a workspace's real path.

    Raises:
        ConfigurationError: it is no folder, or holds what no command may see.
    """
    try:
        real = folder.resolve(strict=True)
    except OSError as error:
        raise ConfigurationError(f"the workspace cannot be used ({error.strerror})", hint="name a folder") from None
    if not real.is_dir():
        raise ConfigurationError("the workspace is no folder", hint="name a folder")
    places = find_places()
    # SECURITY: all below the workspace is granted to the kernel's rules, and nothing can be taken out of it again.
    for kept, words in (
        (places.data, "wasmrt's own folder"), (places.cache, "wasmrt's cache"),
        (places.config.parent, "wasmrt's configuration"), (Path.home(), "the home of this user"),
    ):  # fmt: skip
        kept = kept.resolve()
        if kept.is_relative_to(real) or (words != "the home of this user" and real.is_relative_to(kept)):
            raise ConfigurationError(
                f"the shell does not run in a workspace that holds {words}", hint="name a folder apart from it"
            )
    return real


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
    """Give the command that runs a command line, with a private home that is there as long as this is open.

    `report` is a file beside the workspace that it writes as well, `outlet` its way to the network.

    Raises:
        ConfineError: it cannot be confined here.
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
    """Return the environment of a command, the fifth layer: nothing else of this process's is in it.

    `search` are the folders that programs are looked for in.
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
