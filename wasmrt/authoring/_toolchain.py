"""A language's own toolchain: found on the machine, or fetched from its registry into a private folder when agreed.

Nothing is installed where other programs would see it, and nothing is fetched that a template does not name with a
version.
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

from wasmrt.authoring._process import run_command
from wasmrt.authoring._template import Need, Packages, Template
from wasmrt.errors import BuildError, MissingToolchainError
from wasmrt.limits import PROBE_SECONDS
from wasmrt.places import find_places

HOME_VARIABLE = "WASMRT_TOOLCHAINS"
_REGISTRY_NAMES = {"pypi": "PyPI", "npm": "npm"}
_DONE = "wasmrt-done"

Agree = Callable[[str], bool]
"""Asks the person a question that can be answered with yes."""
Progress = Callable[[str], AbstractContextManager[None]]
"""Tells what is being done while its block runs."""


def silent(_doing: str) -> AbstractContextManager[None]:
    """Tell nobody."""
    return nullcontext()


@dataclass(frozen=True, slots=True)
class Toolchain:
    """Where the commands of one language are."""

    folders: tuple[Path, ...]
    """Private ones, to be searched first."""
    packages: Path | None
    """The folder of the npm packages."""
    cache: Path
    """Kept between builds of this language."""

    @property
    def path(self) -> str:
        """The PATH for a build step."""
        beside_us = str(Path(sys.executable).parent)
        return os.pathsep.join([*map(str, self.folders), beside_us, os.environ.get("PATH", os.defpath)])

    def find(self, command: str) -> str | None:
        """Return a command's path, or None where there is none. `python` is the one that wasmrt runs on."""
        return sys.executable if command == "python" else shutil.which(command, path=self.path)


def find_toolchain(template: Template, *, agree: Agree, progress: Progress = silent) -> Toolchain:
    """Find what a template needs; what is a registry package is fetched when `agree` says so.

    Raises:
        MissingToolchainError: a command is missing, or nobody agreed; the hint says how to get it.
        BuildError: what was agreed to could not be fetched.
    """
    root = toolchains_dir()
    cache = root / "cache" / template.language
    cache.mkdir(parents=True, exist_ok=True)
    machine = Toolchain((), None, cache)
    for need in template.needs:
        _meet(need, machine, agree, progress)
    folders: list[Path] = []
    packages = None
    for wanted in template.packages:
        if wanted.commands and all(map(machine.find, wanted.commands)):
            continue
        place = _fetched(wanted, root, agree, progress)
        folders.append(_commands_of(wanted, place))
        packages = place if wanted.registry == "npm" else packages
    return Toolchain(tuple(folders), packages, cache)


def toolchains_dir() -> Path:
    """Where private toolchains are; WASMRT_TOOLCHAINS overrides it."""
    chosen = os.environ.get(HOME_VARIABLE)
    return Path(chosen).absolute() if chosen else find_places().cache / "toolchains"


def _meet(need: Need, machine: Toolchain, agree: Agree, progress: Progress) -> None:
    if machine.find(need.command) is None:
        raise MissingToolchainError(f"the command {need.command} is missing", hint=need.get)
    if not need.probe or _passes(need, machine):
        return
    if not need.fix or machine.find(need.fix[0]) is None:
        raise MissingToolchainError("the toolchain is here, but cannot build for WebAssembly yet", hint=need.get)
    command = " ".join(need.fix)
    if not agree(f"To build for WebAssembly the toolchain needs one more step: {command}. Run it?"):
        raise MissingToolchainError(
            "the toolchain is here, but cannot build for WebAssembly yet", hint=f"run it with --yes, or: {command}"
        )
    with progress(command):
        ended = run_command([machine.find(need.fix[0]) or need.fix[0], *need.fix[1:]], cwd=machine.cache)
    if ended.code or not _passes(need, machine):
        raise BuildError(f"the command failed: {command}", output=ended.output, hint=need.get)


def _passes(need: Need, machine: Toolchain) -> bool:
    command = machine.find(need.probe[0])
    if command is None:
        return False
    ended = run_command([command, *need.probe[1:]], cwd=machine.cache, seconds=PROBE_SECONDS)
    lines = ended.output.splitlines()
    return ended.code == 0 and bool(lines) and all(Path(line).exists() for line in lines if line.startswith("/"))


def _fetched(wanted: Packages, root: Path, agree: Agree, progress: Progress) -> Path:
    names = " ".join(wanted.install)
    key = hashlib.sha256(json.dumps([wanted.registry, wanted.install, sys.version_info[:2]]).encode()).hexdigest()[:12]
    place = root / f"{wanted.registry}-{key}"
    if (place / _DONE).is_file():
        return place
    registry = _REGISTRY_NAMES[wanted.registry]
    if not agree(f"Fetch {names} from {registry} into a private folder ({wanted.size})?"):
        raise MissingToolchainError(
            f"the build needs {names} from {registry}", hint="run it again with --yes, or install it yourself"
        )
    with alone(place, progress), progress(f"fetching {names} from {registry} ({wanted.size})"):
        if (place / _DONE).is_file():
            return place
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        _install(wanted, place)
        (place / _DONE).touch()
    return place


@contextmanager
def alone(place: Path, progress: Progress) -> Iterator[None]:
    """Have those that would write to one place do so one after the other."""
    with place.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with progress("waiting for another build"):
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _install(wanted: Packages, place: Path) -> None:
    if wanted.registry == "pypi":
        commands = [
            [sys.executable, "-m", "venv", str(place)],
            [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", *wanted.install],
        ]
    else:
        npm = shutil.which("npm")
        if npm is None:
            raise MissingToolchainError("the command npm is missing", hint="install Node.js, which brings it")
        (place / "package.json").write_text('{"private": true}\n', encoding="utf-8")
        commands = [[npm, "install", "--no-audit", "--no-fund", "--save-exact", *wanted.install]]
    for command in commands:
        ended = run_command(command, cwd=place)
        if ended.code:
            raise BuildError(
                f"{' '.join(wanted.install)} could not be installed",
                output=ended.output,
                hint="is the registry reachable?",
            )


def _commands_of(wanted: Packages, place: Path) -> Path:
    return place / "bin" if wanted.registry == "pypi" else place / "node_modules" / ".bin"
