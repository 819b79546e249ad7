"""Find a language's toolchain on this machine, or download its packages into a private folder after confirmation.

Packages are installed only into private folders, and only in the versions that a template specifies.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from wasmrt.authoring.project._process import run_command
from wasmrt.authoring.project._template import Need, Packages, Template
from wasmrt.authoring.project._wasm_tools import COMMAND, WasmTools, find_wasm_tools
from wasmrt.core.errors import BuildError, MissingToolchainError
from wasmrt.core.limits import PROBE_SECONDS
from wasmrt.core.places import find_places

HOME_VARIABLE = "WASMRT_TOOLCHAINS"
_REGISTRY_NAMES = {"pypi": "PyPI", "npm": "npm"}
ADAPTERS = "adapters"
"""The folder of downloaded adapters; its modification time is the time of the last use."""
DONE = "wasmrt-done"
"""A file in the folder of a complete toolchain; its modification time is the time of the last use."""

Confirm = Callable[[str], bool]
"""A function that asks the user a yes/no question, and returns True for yes."""
Progress = Callable[[str], AbstractContextManager[None]]
"""A function that returns a context manager, which reports a step while its block runs."""


def no_progress(_label: str) -> AbstractContextManager[None]:
    """Return a context manager that reports nothing."""
    return nullcontext()


@dataclass(frozen=True, slots=True)
class Toolchain:
    """The commands of a language, and its cache."""

    folders: tuple[Path, ...]
    """Private folders, which are searched first."""
    cache: Path
    """The folder of the cache, which all builds in this language share."""
    wasm_tools: WasmTools | None
    """The program wasm-tools, or None if the template does not need it."""

    @property
    def path(self) -> str:
        """The PATH for a build step."""
        own = str(Path(sys.executable).parent)
        return os.pathsep.join([*map(str, self.folders), own, os.environ.get("PATH", os.defpath)])

    def find(self, command: str) -> str | None:
        """Return the path of a command, or None if it is missing. `python` is the Python that runs wasmrt."""
        return sys.executable if command == "python" else shutil.which(command, path=self.path)


def find_toolchain(template: Template, *, confirm: Confirm, progress: Progress = no_progress) -> Toolchain:
    """Find the commands that a template needs, and download registry packages if `confirm` returns True.

    Raises:
        MissingToolchainError: a command is missing, or the user declined a download. The hint contains instructions.
        BuildError: a download failed, or the installed wasm-tools has an unknown digest.
    """
    root = toolchains_dir()
    cache = root / "cache" / template.language
    cache.mkdir(parents=True, exist_ok=True)
    machine = Toolchain((), cache, None)
    wasm_tools = None
    for need in template.needs:
        if need.command == COMMAND:
            wasm_tools = find_wasm_tools()
        else:
            _check_need(need, machine)
    folders: list[Path] = []
    for wanted in template.packages:
        if wanted.commands and all(map(machine.find, wanted.commands)):
            continue
        place = _download(wanted, root, confirm, progress)
        folders.append(place / "bin" if wanted.registry == "pypi" else place / "node_modules" / ".bin")
    return Toolchain(tuple(folders), cache, wasm_tools)


def missing_needs(template: Template) -> tuple[Need, ...]:
    """Return the needs of a template whose commands are missing, without running or downloading anything."""
    return tuple(need for need in template.needs if not _is_installed(need))


def toolchains_dir() -> Path:
    """Return the folder of private toolchains. The variable WASMRT_TOOLCHAINS overrides the default."""
    chosen = os.environ.get(HOME_VARIABLE)
    return Path(chosen).absolute() if chosen else find_places().cache / "toolchains"


@contextmanager
def lock_exclusively(place: Path, progress: Progress) -> Iterator[None]:
    """Hold an exclusive lock on a path, so that only one process writes to it."""
    with place.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with progress("waiting for another build"):
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _is_installed(need: Need) -> bool:
    if need.command != COMMAND:
        return shutil.which(need.command) is not None
    try:
        find_wasm_tools()
    except BuildError:
        return False
    return True


def _check_need(need: Need, machine: Toolchain) -> None:
    """Check that a command of the machine exists and can build for WebAssembly. The machine is never changed."""
    if machine.find(need.command) is None:
        raise MissingToolchainError(f"the command {need.command} is missing", hint=need.hint)
    if need.probe and not _passes_probe(need, machine):
        raise MissingToolchainError("the installed toolchain cannot build for WebAssembly yet", hint=need.hint)


def _passes_probe(need: Need, machine: Toolchain) -> bool:
    command = machine.find(need.probe[0])
    if command is None:
        return False
    result = run_command([command, *need.probe[1:]], cwd=machine.cache, seconds=PROBE_SECONDS)
    lines = result.output.splitlines()
    return result.code == 0 and bool(lines) and all(Path(line).exists() for line in lines if line.startswith("/"))


def _download(wanted: Packages, root: Path, confirm: Confirm, progress: Progress) -> Path:
    names = " ".join(wanted.install)
    key = hashlib.sha256(json.dumps([wanted.registry, wanted.install, sys.version_info[:2]]).encode()).hexdigest()[:12]
    place = root / f"{wanted.registry}-{key}"
    if (place / DONE).is_file():
        (place / DONE).touch()
        return place
    registry = _REGISTRY_NAMES[wanted.registry]
    if not confirm(f"Download {names} from {registry} into a private folder ({wanted.size})?"):
        hint = "run the command again with --yes, or install the packages yourself"
        raise MissingToolchainError(f"the build needs {names} from {registry}", hint=hint)
    with lock_exclusively(place, progress), progress(f"downloading {names} from {registry} ({wanted.size})"):
        if (place / DONE).is_file():
            return place
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        _install(wanted, place)
        (place / DONE).touch()
    return place


def _install(wanted: Packages, place: Path) -> None:
    if wanted.registry == "pypi":
        commands = [
            [sys.executable, "-m", "venv", str(place)],
            [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", *wanted.install],
        ]
    else:
        npm = shutil.which("npm")
        if npm is None:
            raise MissingToolchainError("the command npm is missing", hint="install Node.js, which includes npm")
        (place / "package.json").write_text('{"private": true}\n', encoding="utf-8")
        commands = [[npm, "install", "--no-audit", "--no-fund", "--save-exact", *wanted.install]]
    for command in commands:
        result = run_command(command, cwd=place)
        if result.code:
            failed = f"{' '.join(wanted.install)} could not be installed"
            raise BuildError(failed, output=result.output, hint="check that the registry is reachable")
