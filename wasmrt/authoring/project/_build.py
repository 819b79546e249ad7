"""Building: the template's steps one after the other, then the report on the component they left."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from wasmrt.authoring.project._confined import BuildRoom, build_room
from wasmrt.authoring.project._docs import with_docs
from wasmrt.authoring.project._package_file import complete_package_file
from wasmrt.authoring.project._placeholders import fill, names_of
from wasmrt.authoring.project._process import run_command
from wasmrt.authoring.project._project import Project
from wasmrt.authoring.project._report import BuildReport, check_build
from wasmrt.authoring.project._template import Step, Template, load_template
from wasmrt.authoring.project._toolchain import Confirm, Progress, Toolchain, exclusive, find_toolchain, no_progress
from wasmrt.authoring.project._unchanged import Inputs, forget, last_report, remember
from wasmrt.authoring.project._wasm_tools import COMMAND, find_wasm_tools
from wasmrt.authoring.project._watch import is_stale
from wasmrt.catalog.sources import SIDECAR_SUFFIX, read_capability_file, read_source
from wasmrt.catalog.validator import WasmValidator
from wasmrt.core.errors import BuildError
from wasmrt.core.files import replace_file
from wasmrt.core.limits import COMPONENT_MAX_BYTES, MIB
from wasmrt.runtime.runtime import WasmToolRuntime
from wasmrt.sandbox.component import doc_comments, worlds


@dataclass(frozen=True, slots=True)
class Built:
    """A component that was built and can run here."""

    project: Project
    report: BuildReport
    seconds: float
    """From the first step to the report, without the time that fetching the toolchain took."""
    confinement: str
    """The reach of the project's code while it was built, in words."""
    unchanged: bool = False
    """True where nothing was done: it had been built of the same before, and was still there."""


def build(project: Project, *, confirm: Confirm, progress: Progress = no_progress) -> Built:
    """Build a project with its language's toolchain and leave the component, checked, in its build folder.

    The project's wasmrt.toml gets what was made: its world, tools and digests. Where all that a build reads is as it
    was for the last one, and all that this wrote is there, nothing is done.

    Raises:
        MissingToolchainError: a command is missing, or a package that the person declined to fetch.
        BuildError: a step failed; its output says why.
        ComponentError, CapabilityFileError: the component or the sidecar cannot be used.
    """
    template = load_template(project.language)
    toolchain = find_toolchain(template, confirm=confirm, progress=progress)
    started = time.monotonic()
    _prepare_folder(project)
    values = names_of(project.name) | {
        "build": "build",
        "wit": "wit",
        "template": str(template.folder),
        "cache": str(toolchain.cache),
    }
    with _own_cache(template, project, toolchain, values, progress), build_room(template, project, toolchain) as room:
        inputs = Inputs(project, template, room, values)
        if (known := last_report(project, inputs.digest())) is not None:
            if is_stale(project):
                os.utime(project.component)  # a source has a newer time, and the same contents
            return Built(project, known, time.monotonic() - started, room.sentence, unchanged=True)
        forget(project)
        _remove_last(template, project, values)
        _run_all(template.fetch, project, room, values, progress, fetching=True)
        before = inputs.digest()  # a fetch writes the list of what it fetched
        _run_all(template.steps, project, room, values, progress, fetching=False)
        report = _finish(project, _documented(_component(template, project, values), project, toolchain), progress)
        if before is not None and before == inputs.digest():  # else a file was edited meanwhile
            remember(project, before, report)
    return Built(project, report, time.monotonic() - started, room.sentence)


def _finish(project: Project, data: bytes, progress: Progress) -> BuildReport:
    """Check the component, and put it in its place with what lies beside it: one that fails leaves the last one."""
    sidecar = sidecar_of(project)
    label = "checking the component" if len(data) < MIB else "compiling and checking the component"
    with progress(label), WasmToolRuntime() as runtime:
        report = check_build(runtime, project.name, data, sidecar)
    _replace(project.component, data)
    beside = project.build / f"{project.name}{SIDECAR_SUFFIX}"
    if sidecar is None:
        beside.unlink(missing_ok=True)
    else:
        _replace(beside, sidecar)
    made_files = {project.component.name: data} | ({} if sidecar is None else {beside.name: sidecar})
    complete_package_file(project.package_file, report.world, report.described, made_files)
    return report


def sidecar_of(project: Project) -> bytes | None:
    """Read a project's capability file, where it has one.

    Raises:
        SourceError: it cannot be read.
    """
    return read_capability_file(project.sidecar) if project.sidecar.exists() else None


def read_component(project: Project) -> bytes:
    """Read the component that the last build left.

    Raises:
        BuildError: nothing was built yet.
    """
    if not project.component.is_file():
        raise BuildError(f"{project.name} has not been built", code="not-built", hint="run: wasmrt build")
    return read_source(project.component, "component", max_bytes=COMPONENT_MAX_BYTES)


def _prepare_folder(project: Project) -> None:
    if not project.wit.is_file():
        raise BuildError("wit/tool.wit is missing", hint="take it from a new project")
    try:
        project.build.mkdir(exist_ok=True)
    except OSError as error:
        raise BuildError(f"the build folder cannot be written ({error.strerror})") from error


@contextmanager
def _own_cache(
    template: Template, project: Project, toolchain: Toolchain, values: dict[str, str], progress: Progress
) -> Iterator[None]:
    """Keep a project from taking from the shared cache what a namesake left there."""
    if not template.shared:
        yield
        return
    owner = toolchain.cache / f"owner-{project.name}"
    with exclusive(toolchain.cache, progress):
        try:
            if not owner.is_file() or owner.read_bytes() != os.fsencode(project.folder.resolve()):
                for shared in template.shared:
                    Path(fill(shared, values)).unlink(missing_ok=True)
                owner.write_bytes(os.fsencode(project.folder.resolve()))
        except OSError as error:
            raise BuildError(f"the cache of builds cannot be written ({error.strerror})") from error
        yield


def _remove_last(template: Template, project: Project, values: dict[str, str]) -> None:
    """Remove the file that the last build took its component from: a step that makes nothing leaves nothing."""
    try:
        (project.folder / fill(template.component, values)).unlink(missing_ok=True)
    except OSError as error:
        raise BuildError(f"the last build cannot be removed ({error.strerror})") from error


def _run_all(
    steps: Iterable[Step],
    project: Project,
    room: BuildRoom,
    values: dict[str, str],
    progress: Progress,
    *,
    fetching: bool,
) -> None:
    for step in steps:
        with progress(fill(step.label, values)):
            _run(step, project, room, values, fetching=fetching)


def _run(step: Step, project: Project, room: BuildRoom, values: dict[str, str], *, fetching: bool) -> None:
    label = fill(step.label, values)
    words = [fill(word, values) for word in step.run]
    if words[0] == COMMAND and room.toolchain.wasm_tools is not None:
        room.toolchain.wasm_tools.run(*words[1:], cwd=project.folder, confine=partial(room.command, fetching=False))
        return
    found = room.toolchain.find(words[0])
    if found is None:
        raise BuildError(f"the command {words[0]} is missing", hint="see what the template of this language needs")
    env = {name: fill(value, values) for name, value in step.env.items()}
    command = room.command([found, *words[1:]], env, fetching=fetching)
    result = run_command(command.argv, cwd=project.folder, env=command.env, shown=words[0])
    if result.code:
        raise BuildError(
            f"{label} failed with exit code {result.code}",
            output=result.output, hint="its own words are above" if result.output else None,
        )  # fmt: skip


def _component(template: Template, project: Project, values: dict[str, str]) -> bytes:
    made = project.folder / fill(template.component, values)
    if not made.is_file():
        raise BuildError(f"the build left no {made.name}", hint="compare the source with a new project's")
    return read_source(made, "component", max_bytes=COMPONENT_MAX_BYTES)


def _documented(data: bytes, project: Project, toolchain: Toolchain) -> bytes:
    """Return the component with its WIT's doc comments, where they are what describes its functions."""
    found = WasmValidator().validate(data)
    if found.world != worlds.GENERIC_WORLD or doc_comments(data):
        return data
    wasm_tools = toolchain.wasm_tools or find_wasm_tools()
    return with_docs(data, wasm_tools.resolve_wit(project.wit.parent), found.exports)


def _replace(path: Path, data: bytes) -> None:
    try:
        replace_file(path, data, mode=0o666, durable=False)  # as a compiler writes its output
    except OSError as error:
        raise BuildError(f"{path.name} cannot be written ({error.strerror})") from error
