"""Build a project: run the steps of its template, then check the component."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from wasmrt.authoring.project._confined import BuildSandbox, open_sandbox
from wasmrt.authoring.project._process import run_command
from wasmrt.authoring.project._project import Project, complete_package_file
from wasmrt.authoring.project._report import BuildReport, check_build
from wasmrt.authoring.project._storage import remove_build_folders, use_build_folders
from wasmrt.authoring.project._template import Step, Template, fill, load_template, placeholder_values
from wasmrt.authoring.project._toolchain import (
    Confirm,
    Progress,
    Toolchain,
    find_toolchain,
    lock_exclusively,
    no_progress,
)
from wasmrt.authoring.project._unchanged import Inputs, delete_record, is_stale, last_report, store_record
from wasmrt.authoring.project._wasm_tools import COMMAND, find_wasm_tools
from wasmrt.authoring.project._wrapper import write_wrapper
from wasmrt.catalog.sources import (
    SIDECAR_SUFFIX,
    failed_build_mark,
    read_capability_file,
    read_source,
    refuse_failed_build,
)
from wasmrt.catalog.validator import WasmValidator
from wasmrt.core.errors import BuildError
from wasmrt.core.files import replace_file
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import COMPONENT_MAX_BYTES, MAX_SCHEMA_BYTES, MIB
from wasmrt.core.places import find_places
from wasmrt.runtime.config_file import read_file_settings
from wasmrt.runtime.runtime import WasmToolRuntime
from wasmrt.sandbox.component import DOCS_SECTION, OWN_DOCS_SECTION, doc_comments, encode_custom_section, worlds


@dataclass(frozen=True, slots=True)
class Built:
    """A built component that can run in this version of wasmrt."""

    project: Project
    report: BuildReport
    seconds: float
    """Duration of the build, without downloading the toolchain."""
    confinement: str
    """A sentence that describes how the build was confined."""
    unchanged: bool = False
    """True if nothing was built, because the inputs and outputs of the last build have not changed."""


def build(
    project: Project,
    *,
    confirm: Confirm,
    progress: Progress = no_progress,
    max_build_bytes: int | None = None,
    lifetime: Lifetime | None = None,
    template: Template | None = None,
) -> Built:
    """Build a project with its language's toolchain, and write the checked component into its build folder.

    The component's world, tools and digests are written to the project's wasmrt.toml. If the inputs and outputs of the
    last build have not changed, nothing is built. If the call that `lifetime` belongs to ends, the running step ends.
    `template` replaces the template of the project's language. After a build, the least recently used toolchains and
    caches are removed until at most `max_build_bytes` remain (None for the operator's setting); what this build used is
    kept.

    Raises:
        ConfigFileError: the operator's file is invalid.
        MissingToolchainError: a command is missing, or the user declined to download a package.
        BuildError: a step failed. The error's `output` is the output of the step.
        ComponentError, CapabilityFileError: the component or the capability file cannot be used.
    """
    started = time.time()
    if max_build_bytes is None:
        max_build_bytes = read_file_settings(find_places().config).cache.max_build_bytes
    with use_build_folders():
        built = _build(project, confirm, progress, lifetime, template or load_template(project.language))
    if not built.unchanged:
        with suppress(OSError):
            remove_build_folders(max_build_bytes, unused_since=started)
    return built


def _build(
    project: Project, confirm: Confirm, progress: Progress, lifetime: Lifetime | None, template: Template
) -> Built:
    toolchain = find_toolchain(template, confirm=confirm, progress=progress)
    started = time.monotonic()
    _prepare_folder(project)
    values = placeholder_values(project.name) | {
        "build": "build",
        "wit": "wit",
        "template": str(template.folder),
        "cache": str(toolchain.cache),
    }
    with (
        _lock_cache(template, project, toolchain, values, progress),
        open_sandbox(template, project, toolchain) as sandbox,
    ):
        inputs = Inputs(project, template, sandbox, values)
        if (known := last_report(project, inputs.digest())) is not None:
            if is_stale(project):
                os.utime(project.component)  # a source file has a newer time, but the same content
            return Built(project, known, time.monotonic() - started, sandbox.sentence, unchanged=True)
        delete_record(project)
        _mark_unfinished(project)
        _remove_last_output(template, project, values)
        run_steps = partial(_run_steps, project, sandbox, values, progress, lifetime)
        run_steps(template.fetch, fetching=True)
        before = inputs.digest()  # fetching may write lock files
        *earlier, last = template.steps
        run_steps(earlier, fetching=False)
        if template.wrapper:  # contains the source, which a step can create
            write_wrapper(project, template, toolchain.wasm_tools or find_wasm_tools(), values)
        run_steps([last], fetching=False)
        data = _add_docs(_read_output(template, project, values), project, toolchain)
        report = _check_and_write(project, template, data, progress)
        failed_build_mark(project.component).unlink(missing_ok=True)
        if before is not None and before == inputs.digest():  # not if a file was edited during the build
            store_record(project, before, report)
    return Built(project, report, time.monotonic() - started, sandbox.sentence)


def _check_and_write(project: Project, template: Template, data: bytes, progress: Progress) -> BuildReport:
    """Check the component, then write it and its capability file. If the check fails, the last build is unchanged."""
    sidecar = read_sidecar(project)
    label = "checking the component" if len(data) < MIB else "compiling and checking the component"
    with progress(label), WasmToolRuntime() as runtime:
        report = check_build(runtime, project.name, data, sidecar, imports_wasi=bool(template.wrapper))
    _replace_file(project.component, data)
    files = {project.component.name: data}
    built_sidecar = project.build / f"{project.name}{SIDECAR_SUFFIX}"
    if sidecar is None:
        built_sidecar.unlink(missing_ok=True)
    else:
        _replace_file(built_sidecar, sidecar)
        files[built_sidecar.name] = sidecar
    complete_package_file(project.package_file, report.world, report.described, files)
    return report


def read_sidecar(project: Project) -> bytes | None:
    """Return the content of a project's capability file, or None if it has none.

    Raises:
        SourceError: the file cannot be read.
    """
    return read_capability_file(project.sidecar) if project.sidecar.exists() else None


def read_component(project: Project) -> bytes:
    """Return the component of the last build.

    Raises:
        BuildError: the project has not been built.
        SourceError: the last build failed.
    """
    if not project.component.is_file():
        raise BuildError(f"{project.name} has not been built", code="not-built", hint="run: wasmrt build")
    refuse_failed_build(project.component)
    return read_source(project.component, "component", max_bytes=COMPONENT_MAX_BYTES)


def _prepare_folder(project: Project) -> None:
    if not project.wit.is_file():
        raise BuildError("wit/tool.wit is missing", hint="copy it from a new project")
    try:
        project.build.mkdir(exist_ok=True)
    except OSError as error:
        raise BuildError(f"the build folder cannot be written ({error.strerror})") from error


def _mark_unfinished(project: Project) -> None:
    """Mark the component of an earlier build, so that it is not used until a build succeeds."""
    try:
        failed_build_mark(project.component).touch()
    except OSError as error:
        raise BuildError(f"the build folder cannot be written ({error.strerror})") from error


@contextmanager
def _lock_cache(
    template: Template, project: Project, toolchain: Toolchain, values: dict[str, str], progress: Progress
) -> Iterator[None]:
    """Lock the language's shared cache, and remove the files of another project with the same name from it."""
    if not template.shared:
        yield
        return
    owner = toolchain.cache / f"owner-{project.name}"
    with lock_exclusively(toolchain.cache, progress):
        try:
            if not owner.is_file() or owner.read_bytes() != os.fsencode(project.folder.resolve()):
                for shared in template.shared:
                    Path(fill(shared, values)).unlink(missing_ok=True)
                owner.write_bytes(os.fsencode(project.folder.resolve()))
        except OSError as error:
            raise BuildError(f"the build cache cannot be written ({error.strerror})") from error
        yield


def _remove_last_output(template: Template, project: Project, values: dict[str, str]) -> None:
    """Remove the output of the last build, so that a build without output is detected."""
    try:
        (project.folder / fill(template.component, values)).unlink(missing_ok=True)
    except OSError as error:
        raise BuildError(f"the last build cannot be removed ({error.strerror})") from error


def _run_steps(
    project: Project,
    sandbox: BuildSandbox,
    values: dict[str, str],
    progress: Progress,
    lifetime: Lifetime | None,
    steps: Iterable[Step],
    *,
    fetching: bool,
) -> None:
    for step in steps:
        with progress(fill(step.label, values)):
            _run_step(step, project, sandbox, values, lifetime, fetching=fetching)


def _run_step(
    step: Step,
    project: Project,
    sandbox: BuildSandbox,
    values: dict[str, str],
    lifetime: Lifetime | None,
    *,
    fetching: bool,
) -> None:
    label = fill(step.label, values)
    words = [fill(word, values) for word in step.run]
    if words[0] == COMMAND and sandbox.toolchain.wasm_tools is not None:
        confine = partial(sandbox.command, fetching=False)
        sandbox.toolchain.wasm_tools.run(*words[1:], cwd=project.folder, confine=confine)
        return
    found = sandbox.toolchain.find(words[0])
    if found is None:
        raise BuildError(f"the command {words[0]} is missing", hint="check the requirements of the language's template")
    env = {name: fill(value, values) for name, value in step.env.items()}
    command = sandbox.command([found, *words[1:]], env, fetching=fetching)
    result = run_command(command.argv, cwd=project.folder, env=command.env, shown=words[0], lifetime=lifetime)
    if result.code:
        raise BuildError(
            f"{label} failed with exit code {result.code}",
            output=result.output, hint="see its output above" if result.output else None,
        )  # fmt: skip


def _read_output(template: Template, project: Project, values: dict[str, str]) -> bytes:
    output = project.folder / fill(template.component, values)
    if not output.is_file():
        raise BuildError(f"the build did not produce {output.name}", hint="compare the source with a new project")
    return read_source(output, "component", max_bytes=COMPONENT_MAX_BYTES)


def _add_docs(data: bytes, project: Project, toolchain: Toolchain) -> bytes:
    """Add the doc comments of the project's WIT to a component of the generic world.

    Other components, and components with doc comments, are returned unchanged.
    """
    found = WasmValidator().validate(data)
    if found.world != worlds.GENERIC_WORLD or doc_comments(data):
        return data
    wasm_tools = toolchain.wasm_tools or find_wasm_tools()
    return with_docs(data, wasm_tools.resolve_wit(project.wit.parent), found.exports)


def _replace_file(path: Path, data: bytes) -> None:
    try:
        replace_file(path, data, mode=0o666, durable=False)  # the mode that compilers use for their output
    except OSError as error:
        raise BuildError(f"{path.name} cannot be written ({error.strerror})") from error


Docs = dict[str, str]
"""Doc comments by the names of the functions."""


def with_docs(component: bytes, wit: Mapping[str, Any], exports: Iterable[str]) -> bytes:
    """Return a component with the doc comments of its exports, which no toolchain adds.

    By convention, docs are in the custom section `package-docs` (wit-parser, metadata.rs). Readers apply this section
    to the world `root` of a component, and reject names that this world does not have. So the section contains only the
    docs of functions and interfaces that the world itself defines. The docs of interfaces that belong to packages are
    in a section of wasmrt. It has the form that includes the package's name, which most readers of `package-docs` do
    not support yet.

    `wit` is the resolved WIT of `WasmTools.resolve_wit`. Docs that exceed the size limit of schemas are left out.
    """
    names = set(exports)
    functions, inline = _collect_world_docs(wit, names)
    if functions or inline:
        root = {"funcs": functions, "interfaces": {name: {"funcs": docs} for name, docs in inline.items()}}
        component += _encode_docs_section(DOCS_SECTION, 0, {"worlds": {"root": root}})
    for package, interfaces in _collect_package_docs(wit, names).items():
        described = {
            name: {"funcs": {function: {"docs": text} for function, text in docs.items()}}
            for name, docs in interfaces.items()
        }
        component += _encode_docs_section(OWN_DOCS_SECTION, 1, {"package": package, "interfaces": described})
    return component


def _collect_world_docs(wit: Mapping[str, Any], names: set[str]) -> tuple[Docs, dict[str, Docs]]:
    """Return the docs of exported functions, and of the functions of interfaces that are defined in a world."""
    functions: Docs = {}
    inline: dict[str, Docs] = {}
    for world in wit["worlds"]:  # the project's world comes after the worlds of its dependencies
        for name, item in world["exports"].items():
            if name not in names:
                continue
            if "function" in item:
                functions |= _collect_function_docs({name: item["function"]})
            elif docs := _collect_function_docs(wit["interfaces"][item["interface"]["id"]]["functions"]):
                inline[name] = docs
    return functions, inline


def _collect_package_docs(wit: Mapping[str, Any], names: set[str]) -> dict[str, dict[str, Docs]]:
    """Return the docs of named interfaces, by package and interface."""
    found: dict[str, dict[str, Docs]] = {}
    for interface in wit["interfaces"]:
        if interface["name"] is None:
            continue
        package = wit["packages"][interface["package"]]["name"]
        path, at, version = package.partition("@")
        if f"{path}/{interface['name']}{at}{version}" in names and (
            docs := _collect_function_docs(interface["functions"])
        ):
            found.setdefault(package, {})[interface["name"]] = docs
    return found


def _collect_function_docs(functions: Mapping[str, Any]) -> Docs:
    """Return the docs of functions, except methods of resources, which cannot be called as tools."""
    return {
        name: function["docs"]["contents"]
        for name, function in functions.items()
        if function.get("docs", {}).get("contents") and not name.startswith("[")
    }


def _encode_docs_section(name: str, version: int, docs: Mapping[str, object]) -> bytes:
    content = bytes([version]) + json.dumps(docs, ensure_ascii=False, separators=(",", ":")).encode()
    return encode_custom_section(name, content) if len(content) <= MAX_SCHEMA_BYTES else b""
