"""From source to a component that was looked at: the template's steps, one after the other, then the verdict."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from wasmrt.authoring._docs import with_docs
from wasmrt.authoring._placeholders import fill, names_of
from wasmrt.authoring._process import run_command
from wasmrt.authoring._project import Project
from wasmrt.authoring._template import Step, Template, load_template
from wasmrt.authoring._toolchain import Agree, Progress, Toolchain, alone, find_toolchain, silent
from wasmrt.authoring._verdict import Verdict, judge
from wasmrt.errors import BuildError
from wasmrt.install import ANY_WORLD, SIDECAR_SUFFIX, WasmValidator, read_capability_file, read_file
from wasmrt.limits import COMPONENT_MAX_BYTES, MAX_TEMPLATE_FILE_BYTES, MIB
from wasmrt.runtime import WasmToolRuntime


@dataclass(frozen=True, slots=True)
class Built:
    """A component that was built and can run here."""

    project: Project
    verdict: Verdict
    seconds: float
    """From the first step to the verdict, without what had to be fetched."""


def build(
    project: Project,
    *,
    agree: Agree,
    progress: Progress = silent,
    runtime: Callable[[], WasmToolRuntime] = WasmToolRuntime,
) -> Built:
    """Build a project with its language's toolchain and leave the component, judged, in its build folder.

    Raises:
        MissingToolchainError: a command is missing, or a package that nobody agreed to fetch.
        BuildError: a step failed; its output says why.
        ComponentError, CapabilityFileError: what came out, or the sidecar, cannot be used.
    """
    template = load_template(project.language)
    toolchain = find_toolchain(template, agree=agree, progress=progress)
    started = time.monotonic()
    _make_folder(project.build)
    values = names_of(project.name) | {
        "build": "build",
        "wit": "wit",
        "cache": str(toolchain.cache),
        "packages": "" if toolchain.packages is None else str(toolchain.packages),
    }
    with _own_cache(template, project, toolchain, values, progress):
        for step in template.steps:
            with progress(fill(step.says, values)):
                _run(step, project, toolchain, values)
        made = _component(template, project, values)
    data = _documented(made, project)
    _replace(project.component, data)
    sidecar = sidecar_of(project)
    beside = project.build / f"{project.name}{SIDECAR_SUFFIX}"
    if sidecar is None:
        beside.unlink(missing_ok=True)
    else:
        _replace(beside, sidecar)
    doing = "checking the component" if len(data) < MIB else "compiling and checking the component"
    with progress(doing), runtime() as machine:
        verdict = judge(machine, project.name, data, sidecar)
    return Built(project, verdict, time.monotonic() - started)


def sidecar_of(project: Project) -> bytes | None:
    """Read a project's capability file, where it has one.

    Raises:
        SourceError: it cannot be read.
    """
    return read_capability_file(project.sidecar) if project.sidecar.exists() else None


def read_component(project: Project) -> bytes:
    """Read what the last build left.

    Raises:
        BuildError: nothing was built yet.
    """
    if not project.component.is_file():
        raise BuildError(f"{project.name} has not been built", code="not-built", hint="run: wasmrt build")
    return read_file(project.component, "component", max_bytes=COMPONENT_MAX_BYTES)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise BuildError(f"the build folder cannot be written ({error.strerror})") from error


@contextmanager
def _own_cache(
    template: Template, project: Project, toolchain: Toolchain, values: dict[str, str], progress: Progress
) -> Iterator[None]:
    """Keep what a project finds in the shared cache from being what was left there, by itself or a namesake."""
    if not template.shared:
        yield
        return
    shared = Path(fill(template.shared, values))
    owner = toolchain.cache / f"owner-{project.name}"
    with alone(toolchain.cache, progress):
        try:
            Path(fill(template.component, values)).unlink(missing_ok=True)
            if not owner.is_file() or owner.read_bytes() != os.fsencode(project.folder.resolve()):
                shared.unlink(missing_ok=True)
                owner.write_bytes(os.fsencode(project.folder.resolve()))
        except OSError as error:
            raise BuildError(f"the cache of builds cannot be written ({error.strerror})") from error
        yield


def _run(step: Step, project: Project, toolchain: Toolchain, values: dict[str, str]) -> None:
    words = [fill(word, values) for word in step.run]
    command = toolchain.find(words[0])
    if command is None:
        raise BuildError(f"the command {words[0]} is missing", hint="see what the template of this language needs")
    env = {**os.environ, "PATH": toolchain.path, **{name: fill(value, values) for name, value in step.env.items()}}
    ended = run_command([command, *words[1:]], cwd=project.folder, env=env)
    if ended.code:
        raise BuildError(
            f"{fill(step.says, values)} failed with exit code {ended.code}",
            output=ended.output, hint="its own words are above" if ended.output else None,
        )  # fmt: skip


def _component(template: Template, project: Project, values: dict[str, str]) -> bytes:
    where = project.folder / fill(template.component, values)
    if not where.is_file():
        raise BuildError(f"the build left no {where.name}", hint="compare the source with a new project's")
    data = read_file(where, "component", max_bytes=COMPONENT_MAX_BYTES)
    if not template.is_core:
        return data
    from wasmrt.componentizer import componentize
    from wasmrt.guest.engine import wat2wasm

    try:
        return componentize(data, project.wit.read_text(encoding="utf-8"), assemble=wat2wasm)
    except (OSError, UnicodeDecodeError):
        raise BuildError("wit/tool.wit cannot be read", hint="take it from a new project") from None


def _documented(data: bytes, project: Project) -> bytes:
    """The component with its WIT's doc comments, where they are what its functions are described by."""
    found = WasmValidator().validate(data)
    if found.world != ANY_WORLD:
        return data
    files = sorted(project.wit.parent.glob("*.wit"))
    wit = b"\n".join(read_file(path, "WIT", max_bytes=MAX_TEMPLATE_FILE_BYTES) for path in files)
    return with_docs(data, wit.decode("utf-8", "replace"), found.exports)


def _replace(path: Path, data: bytes) -> None:
    """Leave the old file or the new one, whatever happens."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_bytes(data)
        draft.replace(path)
    except OSError as error:
        raise BuildError(f"{path.name} cannot be written ({error.strerror})") from error
