"""Detect changes of a project, in order to skip a build, or to report which files have changed.

A confined build reads only the project, its language's cache, the toolchain and downloaded packages. A digest of these
identifies the build. Modification times are not included. The record of the last build is stored in a folder that no
build can write, because an untrusted project could otherwise contain a forged record.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from blake3 import blake3

from wasmrt.authoring.project._confined import BuildSandbox
from wasmrt.authoring.project._process import run_command
from wasmrt.authoring.project._project import PROJECT_FILE, BuiltTool, Project, authored_part
from wasmrt.authoring.project._report import BuildReport
from wasmrt.authoring.project._template import Template, fill, load_template
from wasmrt.core.errors import BuildError, ConfigurationError
from wasmrt.core.files import UnfitFileError, read_file, replace_file
from wasmrt.core.limits import (
    MAX_BUILD_INPUT_BYTES,
    MAX_BUILD_RECORD_BYTES,
    MAX_PROJECT_FILES,
    PROBE_SECONDS,
    WATCH_SECONDS,
)
from wasmrt.core.places import find_places

_SKIPPED = frozenset({"build", "__pycache__", ".git"})
"""Folders that no compiler reads."""


class _UnknownError(Exception):
    """An input of a build cannot be determined, so the build cannot be skipped."""


@dataclass(frozen=True)
class Inputs:
    """The inputs of a project's build."""

    project: Project
    template: Template
    sandbox: BuildSandbox
    values: dict[str, str]

    def digest(self) -> str | None:
        """Return the current digest of all inputs, or None if an input cannot be determined."""
        if self._environment is None:
            return None
        found = blake3(self._environment)
        try:
            for name, content in sorted(_read_project_files(self.project.folder)):
                found.update(json.dumps([name, content]).encode())
        except (_UnknownError, OSError):
            return None
        return found.hexdigest()

    @cached_property
    def _environment(self) -> bytes | None:
        """All inputs except the project's files. They do not change during a build, so they are determined once."""
        if self.sandbox.missing:
            return None  # an unconfined build may read any file
        homes = {variable.lower(): str(home) for variable, home in self.sandbox.homes.items()}
        try:
            environment = {
                "wasmrt": [version("wasmrt"), version("wasmtime"), sys.version],
                "project": [self.project.name, self.project.language, str(self.project.folder.resolve())],
                "template": [[path.name, _describe_content(path)] for path in sorted(self.template.folder.iterdir())],
                "wrapper": [_describe_content(path) for path in self.template.wrapper],
                "settings": [_describe_content(Path(fill(path, homes))) for path in self.template.settings],
                "room": [self.sandbox.sentence, self.sandbox.variables(fetching=False, temporary="")],
                "commands": list(self._identify_commands()),
            }
        except (_UnknownError, OSError, BuildError):
            return None
        return json.dumps(environment, sort_keys=True).encode()

    def _identify_commands(self) -> Iterator[Any]:
        """Yield the file and the version of each command of the build."""
        if (tools := self.sandbox.toolchain.wasm_tools) is not None:
            yield [tools.version_text, _identify_command(tools.path)]
        wanted = {step.run[0] for step in self.template.steps} | {need.command for need in self.template.needs}
        for command in sorted(wanted):
            found = self.sandbox.toolchain.find(command)
            if found is not None:
                yield [command, found, _identify_command(Path(found))]
        for need in self.template.needs:
            if need.version:
                yield self._read_version(need.version)

    def _read_version(self, words: tuple[str, ...]) -> str:
        found = self.sandbox.toolchain.find(words[0])
        if found is None:
            raise _UnknownError
        env = next((step.env for step in self.template.steps if step.run[0] == words[0]), {})
        env = {name: fill(value, self.values) for name, value in env.items()}
        command = self.sandbox.command([found, *words[1:]], env, fetching=False)
        result = run_command(command.argv, cwd=self.project.folder, env=command.env, seconds=PROBE_SECONDS)
        if result.code:
            raise _UnknownError
        return result.output


def last_report(project: Project, digest: str | None) -> BuildReport | None:
    """Return the report of the last build if it had the same inputs and its outputs are unchanged, else None."""
    if digest is None:
        return None
    try:
        path = _record_path(project)
        record = json.loads(read_file(path, max_bytes=MAX_BUILD_RECORD_BYTES, follow_link=False, private=True))
        if record["inputs"] != digest or record["outputs"] != _describe_outputs(project):
            return None
        items = record["report"].items()
        report: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in items}
        return BuildReport(**report | {"described": tuple(BuiltTool(*tool) for tool in report["described"])})
    except (OSError, UnfitFileError, ValueError, KeyError, TypeError, _UnknownError):
        return None


def store_record(project: Project, digest: str, report: BuildReport) -> None:
    """Store the inputs, outputs and report of a build. If they cannot be stored, the next build is not skipped."""
    try:
        record = {"inputs": digest, "outputs": _describe_outputs(project), "report": asdict(report)}
        path = _record_path(project)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_file(path, json.dumps(record).encode(), durable=False)
    except (OSError, _UnknownError):
        return


def delete_record(project: Project) -> None:
    """Delete the record of the last build. Call this before a new build, which may fail halfway."""
    try:
        _record_path(project).unlink(missing_ok=True)
    except OSError as error:
        raise BuildError(f"the record of the last build cannot be removed ({error.strerror})") from error


def _record_path(project: Project) -> Path:
    name = blake3(os.fsencode(project.folder.resolve())).hexdigest()[:32]
    return find_places().builds / f"{name}.json"


def _describe_outputs(project: Project) -> list[Any]:
    sidecar = project.build / f"{project.name}.capabilities.json"
    return [_describe_content(path) for path in (project.component, sidecar, project.package_file)]


def _read_project_files(folder: Path) -> Iterator[tuple[str, Any]]:
    """Yield the path and digest of each file of a project; for wasmrt.toml, yield the author's part of its text."""
    left, count = MAX_BUILD_INPUT_BYTES, 0
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in _SKIPPED]
        if any(Path(place, name).is_symlink() for name in folders):
            raise _UnknownError
        for name in names:
            path = Path(place, name)
            count, left = count + 1, left - path.stat().st_size
            if count > MAX_PROJECT_FILES or left < 0:
                raise _UnknownError
            relative = path.relative_to(folder).as_posix()
            if relative == PROJECT_FILE:
                yield relative, authored_part(path.read_bytes().decode())
            else:
                yield relative, [path.is_symlink(), _describe_content(path)]


def _describe_content(path: Path) -> str | None:
    """Return the mode and digest of a file, a fixed text for a folder, or None if the path does not exist."""
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            return "a folder"
        if not stat.S_ISREG(status.st_mode):
            raise _UnknownError
        with path.open("rb") as file:
            found = blake3()
            while chunk := file.read(1 << 20):
                found.update(chunk)
    except FileNotFoundError:
        return None
    return f"{stat.S_IMODE(status.st_mode):o} {found.hexdigest()}"


def _identify_command(path: Path) -> list[Any]:
    """Return values that identify an installed command. A digest of the complete toolchain would take too long."""
    resolved = path.resolve()
    status = resolved.stat()
    return [str(resolved), status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


# Folders that builds write.
_NOT_WATCHED = frozenset({"build", "target", "node_modules", "__pycache__"})

Wait = Callable[[float], bool]
"""A function that waits for a number of seconds, and returns True to continue watching."""
_Snapshot = dict[str, tuple[int, int]]


def watch_changes(project: Project, wait: Wait) -> Iterator[tuple[str, ...]]:
    """Yield the names of the changed files, each time that files have changed and then stopped changing.

    The iterator ends when `wait` returns False. Files are compared by size and time, starting with this call. Changes
    between two yielded values are not lost.

    Raises:
        ConfigurationError: the folder contains too many files.
    """
    return _watch(project, wait, _take_snapshot(project))  # scan now, and not only at the first `next`


def is_stale(project: Project) -> bool:
    """Return whether a source file is newer than the built component.

    Raises:
        ConfigurationError: the folder contains too many files.
    """
    patterns = ("*.wit", *load_template(project.language).sources)
    try:
        built = project.component.stat().st_mtime_ns
    except OSError:
        return True
    newer = (name.rpartition("/")[2] for name, (changed, _) in _take_snapshot(project).items() if changed > built)
    return any(fnmatchcase(name, pattern) for name in newer for pattern in patterns)


def _watch(project: Project, wait: Wait, last: _Snapshot) -> Iterator[tuple[str, ...]]:
    while wait(WATCH_SECONDS):
        now = _take_snapshot(project)
        if now == last:
            continue
        # Editors write several files, and some of them twice.
        while wait(WATCH_SECONDS) and (later := _take_snapshot(project)) != now:
            now = later
        changed = sorted(name for name in last.keys() | now.keys() if last.get(name) != now.get(name))
        last = now
        if changed:
            yield tuple(changed)


def _take_snapshot(project: Project) -> _Snapshot:
    found: _Snapshot = {}
    root = str(project.folder)
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in _NOT_WATCHED and not name.startswith(".")]
        for name in files:
            if name.startswith(".") or (folder == root and name == PROJECT_FILE):  # builds write the package file
                continue
            path = os.path.join(folder, name)  # noqa: PTH118 - twice as fast as Path
            try:
                status = os.lstat(path)
            except OSError:
                continue
            found[os.path.relpath(path, root)] = (status.st_mtime_ns, status.st_size)
            if len(found) > MAX_PROJECT_FILES:
                raise ConfigurationError(
                    f"the folder contains more than {MAX_PROJECT_FILES} files",
                    hint="use a separate folder for the tool's source",
                )
    return found
