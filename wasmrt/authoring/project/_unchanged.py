"""Builds that need not be done again: what went into the last one and what came out of it, by digest.

A confined build reads the project, its language's cache, the toolchain and what was fetched, and nothing else. The
digest of all that is its key; times of files are no part of it. The record is kept where no build can write, since
a stranger's project would otherwise bring its own.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from blake3 import blake3

from wasmrt.authoring.project._confined import BuildRoom
from wasmrt.authoring.project._package_file import BuiltTool, authors_part
from wasmrt.authoring.project._placeholders import fill
from wasmrt.authoring.project._process import run_command
from wasmrt.authoring.project._project import PROJECT_FILE, Project
from wasmrt.authoring.project._report import BuildReport
from wasmrt.authoring.project._template import Template
from wasmrt.core.errors import BuildError
from wasmrt.core.files import UnfitFileError, read_file, replace_file
from wasmrt.core.limits import MAX_BUILD_INPUT_BYTES, MAX_BUILD_RECORD_BYTES, MAX_PROJECT_FILES, PROBE_SECONDS
from wasmrt.core.places import find_places

_SKIPPED = frozenset({"build", "__pycache__", ".git"})
"""Folders that no compiler reads: what builds write, and what a version control keeps."""


class _UnknownError(Exception):
    """Something a build may read cannot be known; it is done again."""


@dataclass(frozen=True)
class Inputs:
    """All that a build of a project reads, as far as it can be known."""

    project: Project
    template: Template
    room: BuildRoom
    values: dict[str, str]

    def digest(self) -> str | None:
        """Return the digest of everything as it is now; None where it cannot be known."""
        if self._around is None:
            return None
        found = blake3(self._around)
        try:
            for name, content in sorted(_files(self.project.folder)):
                found.update(json.dumps([name, content]).encode())
        except (_UnknownError, OSError):
            return None
        return found.hexdigest()

    @cached_property
    def _around(self) -> bytes | None:
        """All but the project's files: the same from the first step to the last."""
        if self.room.missing:
            return None  # not confined: it may read anything
        homes = {variable.lower(): str(home) for variable, home in self.room.homes.items()}
        try:
            about = {
                "wasmrt": [version("wasmrt"), version("wasmtime"), sys.version],
                "project": [self.project.name, self.project.language, str(self.project.folder.resolve())],
                "template": [[path.name, _content(path)] for path in sorted(self.template.folder.iterdir())],
                "settings": [_content(Path(fill(path, homes))) for path in self.template.settings],
                "room": [self.room.sentence, self.room.variables(fetching=False, temporary="")],
                "commands": list(self._commands()),
            }
        except (_UnknownError, OSError, BuildError):
            return None
        return json.dumps(about, sort_keys=True).encode()

    def _commands(self) -> Iterator[Any]:
        """Yield each command of the build as it is: its file, and the version that it says it has."""
        if (tools := self.room.toolchain.wasm_tools) is not None:
            yield [tools.version_text, _identity(tools.path)]
        wanted = {step.run[0] for step in self.template.steps} | {need.command for need in self.template.needs}
        for command in sorted(wanted):
            found = self.room.toolchain.find(command)
            if found is not None:
                yield [command, found, _identity(Path(found))]
        for need in self.template.needs:
            if need.version:
                yield self._version(need.version)

    def _version(self, words: tuple[str, ...]) -> str:
        found = self.room.toolchain.find(words[0])
        if found is None:
            raise _UnknownError
        env = next((step.env for step in self.template.steps if step.run[0] == words[0]), {})
        env = {name: fill(value, self.values) for name, value in env.items()}
        command = self.room.command([found, *words[1:]], env, fetching=False)
        result = run_command(command.argv, cwd=self.project.folder, env=command.env, seconds=PROBE_SECONDS)
        if result.code:
            raise _UnknownError
        return result.output


def last_report(project: Project, digest: str | None) -> BuildReport | None:
    """Return the report of the last build, where it read the same and all that it wrote is still there; else None."""
    if digest is None:
        return None
    try:
        place = _place(project)
        record = json.loads(read_file(place, max_bytes=MAX_BUILD_RECORD_BYTES, follow_link=False, private=True))
        if record["inputs"] != digest or record["outputs"] != _outputs(project):
            return None
        kept = record["report"].items()
        report: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in kept}
        return BuildReport(**report | {"described": tuple(BuiltTool(*tool) for tool in report["described"])})
    except (OSError, UnfitFileError, ValueError, KeyError, TypeError, _UnknownError):
        return None


def remember(project: Project, digest: str, report: BuildReport) -> None:
    """Keep what a build read, wrote and found out; where it cannot be kept, the next one builds again."""
    try:
        record = {"inputs": digest, "outputs": _outputs(project), "report": asdict(report)}
        place = _place(project)
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_file(place, json.dumps(record).encode(), durable=False)
    except (OSError, _UnknownError):
        return


def forget(project: Project) -> None:
    """Forget the last build: one has begun that may end halfway."""
    try:
        _place(project).unlink(missing_ok=True)
    except OSError as error:
        raise BuildError(f"the record of the last build cannot be removed ({error.strerror})") from error


def _place(project: Project) -> Path:
    name = blake3(os.fsencode(project.folder.resolve())).hexdigest()[:32]
    return find_places().cache / "builds" / f"{name}.json"


def _outputs(project: Project) -> list[Any]:
    beside = project.build / f"{project.name}.capabilities.json"
    return [_content(path) for path in (project.component, beside, project.package_file)]


def _files(folder: Path) -> Iterator[tuple[str, Any]]:
    """Yield each file of a project with its content: in wasmrt.toml, that of its author."""
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
                yield relative, authors_part(path.read_bytes().decode())
            else:
                yield relative, [path.is_symlink(), _content(path)]


def _content(path: Path) -> str | None:
    """Return the digest of a file, its mode included; None where there is none. A folder has no content."""
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


def _identity(path: Path) -> list[Any]:
    """Return what tells one installation of a command from the next: a digest of a whole toolchain takes too long."""
    resolved = path.resolve()
    status = resolved.stat()
    return [str(resolved), status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
