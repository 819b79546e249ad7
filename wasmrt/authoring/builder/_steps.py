"""The builder's own steps: check a project, compile it and run its tests, confined to the project.

Only the results of these steps decide whether a build succeeded. Text of the model does not.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from wasmrt.authoring.builder._templates import TemplateEngine
from wasmrt.authoring.builder._values import BuilderConfig, BuildRequirement, Language, SoftwareType
from wasmrt.authoring.project import (
    CommandResult,
    Project,
    TestResult,
    Toolchain,
    build,
    missing_layers,
    open_sandbox,
    read_cases,
    read_component,
    read_sidecar,
    run_cases,
    run_command,
    toolchains_dir,
    use_build_folders,
)
from wasmrt.capabilities import BY_SECTION, Capabilities
from wasmrt.capabilities.file import parse
from wasmrt.capabilities.sentences import explain
from wasmrt.catalog.validator import WasmValidator
from wasmrt.core.errors import BuildError, MissingToolchainError, WasmrtError
from wasmrt.core.files import replace_file
from wasmrt.core.lifetime import Lifetime

_ENV = {"GOENV": "off", "GOTOOLCHAIN": "local", "GOPROXY": "off", "PYTHONDONTWRITEBYTECODE": "1"}


def run_in_project(folder: Path, language: Language, words: tuple[str, ...], lifetime: Lifetime) -> CommandResult:
    """Run a command without network. It may write only the project and a folder that is deleted afterwards.

    A binary that cargo built for release is copied into the project's folder `build`.

    Raises:
        MissingToolchainError: the command is missing.
        BuildError: this machine cannot confine commands, or the command cannot be run.
        DeadlineExceededError, CancelledError: the call that `lifetime` belongs to has ended.
    """
    # Bash needs only the system.
    template = TemplateEngine().template(Language.PYTHON if language is Language.BASH else language)
    cache = toolchains_dir() / "cache" / template.language
    cache.mkdir(parents=True, exist_ok=True)
    toolchain = Toolchain((), cache, None)
    program = toolchain.find(words[0])
    if program is None:
        raise MissingToolchainError(f"the command {words[0]} is missing", hint=f"install it for {language}")
    project = Project(folder, folder.name, template.language)
    require_confinement()
    with use_build_folders(), open_sandbox(template, project, toolchain) as sandbox:
        temporary = sandbox.temporary
        env = _ENV | {"CARGO_TARGET_DIR": str(temporary / "target"), "GOCACHE": str(temporary / "go")}
        command = sandbox.command([program, *words[1:]], env, fetching=False)
        result = run_command(command.argv, cwd=folder, env=command.env, shown=words[0], lifetime=lifetime)
        binary = temporary / "target" / "release" / folder.name
        if result.code == 0 and binary.is_file() and not binary.is_symlink():
            (folder / "build").mkdir(exist_ok=True)
            shutil.copy(binary, folder / "build" / folder.name)
    return result


def require_confinement() -> None:
    """Refuse to run a model's code without confinement.

    Raises:
        BuildError: isolation layers are missing.
    """
    # SECURITY: `wasmrt build` also builds without confinement, because its user wrote or chose the project.
    if missing := missing_layers():
        raise BuildError(
            f"this machine cannot confine builds (missing: {', '.join(missing)})", code="not-confined",
            hint="wasmrt doctor lists the layers",
        )  # fmt: skip


class SuiteResult(NamedTuple):
    """The results of all test cases of a project."""

    results: tuple[TestResult, ...]

    @property
    def tests_passed(self) -> int:
        """The number of test cases that passed."""
        return sum(result.passed for result in self.results)

    @property
    def tests_failed(self) -> int:
        """The number of test cases that failed."""
        return len(self.results) - self.tests_passed

    def as_dict(self) -> dict[str, Any]:
        """Return the counts, and the results of the failed test cases."""
        failed = [result.as_dict() for result in self.results if not result.passed]
        return {"tests_passed": self.tests_passed, "tests_failed": self.tests_failed, "failed": failed}


class TestHarness:
    """Runs the test cases in a project's folder `tests` against its component, each in a fresh sandbox."""

    __test__ = False  # keep pytest from collecting this class

    def run(self, project: Project, *, lifetime: Lifetime | None = None) -> SuiteResult:
        """Run all test cases.

        Raises:
            ConfigurationError: there is no test case, or a test case is invalid.
            BuildError: the project has not been built.
            DeadlineExceededError, CancelledError: the call that `lifetime` belongs to has ended.
        """
        cases, results = read_cases(project), []
        for result in run_cases(project.name, read_component(project), read_sidecar(project), cases):
            results.append(result)
            if lifetime is not None:
                lifetime.check()
        return SuiteResult(tuple(results))


_MAX_ENTRIES = 50_000


def find_links_outside(folder: Path) -> list[str]:
    """Return the symbolic links in a project that lead out of it, relative to the project.

    SECURITY: a model's commands are confined, but wasmrt itself reads the project's files without confinement. The
    model would get the content of a linked file, for example if wasmrt quoted a test case in an error.

    Raises:
        BuildError: the project has too many files.
    """
    root, found = os.path.realpath(folder), []
    for number, path in enumerate(_walk(root)):
        if number >= _MAX_ENTRIES:
            raise BuildError(f"the project has more than {_MAX_ENTRIES:,} files", hint="delete generated files")
        target = os.path.realpath(path)
        if os.path.islink(path) and target != root and not target.startswith(f"{root}{os.sep}"):  # noqa: PTH114
            found.append(os.path.relpath(path, root))
    return found


def _walk(root: str) -> Iterator[str]:
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            yield os.path.join(folder, name)  # noqa: PTH118


def undeclared_requests(request: Capabilities, requirement: BuildRequirement) -> list[str]:
    """Return the requests of a capability file that the requirement does not list.

    SECURITY: text that the model reads while it writes code must not add access that the description did not need.
    """
    listed = [entry.partition(":") for entry in requirement.capabilities]
    sections = {section for section, _, _ in listed}
    found = [name for name in BY_SECTION if request.section(name) is not None and name not in sections]
    if request.logins:
        found.append("login")
    hosts = {host for section, _, host in listed if section == "http"}
    if request.http is not None and hosts and "" not in hosts:
        found += [f"http:{each.host_pattern}" for each in request.http.allowlist if each.host_pattern not in hosts]
    return found


_MAX_OUTPUT_CHARS = 16_000


class ProjectSteps:
    """The steps of one project: `build`, `validate` and `test`. Each returns JSON data with `ok` and `message`."""

    def __init__(self, project: Project, requirement: BuildRequirement, config: BuilderConfig) -> None:
        self._project = project
        self._requirement = requirement
        self._config = config
        self._warnings: tuple[str, ...] = ()

    def build(self, lifetime: Lifetime) -> dict[str, Any]:
        """Compile the project, like `wasmrt build`. Only its fetching step has the network."""
        if self._requirement.software_type is SoftwareType.WASM_TOOL:
            return self._report(self._build_component, lifetime)
        return self._run(self._requirement.language.build_command, lifetime)

    def validate(self, lifetime: Lifetime) -> dict[str, Any]:
        """Check the component and its capability file, and report all errors and warnings."""
        lifetime.check()
        if self._requirement.software_type is SoftwareType.WASM_TOOL:
            return self._report(self._validate_component, lifetime)
        return {"ok": True, "message": "no component to validate", "warnings": []}

    def test(self, lifetime: Lifetime) -> dict[str, Any]:
        """Run the project's tests, like `wasmrt test`."""
        if self._requirement.software_type is SoftwareType.WASM_TOOL:
            return self._report(self._test_component, lifetime)
        tested = self._run(self._requirement.language.test_command, lifetime)
        return tested | {"tests_passed": int(tested["ok"]), "tests_failed": int(not tested["ok"])}

    def write_requests(self, file: Mapping[str, Any]) -> dict[str, Any]:
        """Write the project's capability file. It only requests access; a user decides when the tool is installed."""
        text = json.dumps(file, indent=2)
        try:
            undeclared = self._find_undeclared(parse(text).capabilities)
            if undeclared:
                return {"ok": False, "message": "; ".join(undeclared)}
            replace_file(self._project.sidecar, text.encode(), mode=0o644, durable=False)
        except WasmrtError as error:
            return _report_failure(error)
        except OSError as error:
            return _report_failure(BuildError(f"the capability file cannot be written ({error.strerror})"))
        return {"ok": True, "message": f"wrote {self._project.sidecar.name}"}

    def _find_undeclared(self, request: Capabilities) -> list[str]:
        listed = ", ".join(self._requirement.capabilities) or "nothing"
        return [
            f"the capability file requests {each}, but the requirement lists {listed}; remove the request"
            for each in undeclared_requests(request, self._requirement)
        ]

    def _report(self, step: Callable[[Lifetime], dict[str, Any]], lifetime: Lifetime) -> dict[str, Any]:
        try:
            self._check_links()
            return step(lifetime)
        except MissingToolchainError:
            raise  # a model cannot fix it
        except BuildError as error:
            return _report_failure(error, error.output)
        except WasmrtError as error:
            lifetime.check()
            return _report_failure(error)

    def _check_links(self) -> None:
        if found := find_links_outside(self._project.folder):
            raise BuildError(
                f"the project has symbolic links that point outside its folder: {', '.join(found[:5])}",
                code="link-outside",
                hint="delete them",
            )  # fmt: skip

    def _build_component(self, lifetime: Lifetime) -> dict[str, Any]:
        require_confinement()
        template = TemplateEngine().template(self._requirement.language)
        confirm = self._config.confirm_download
        built = build(self._project, confirm=confirm, lifetime=lifetime, template=template)
        self._warnings = (*built.report.denied, *built.report.warnings)
        tools = ", ".join(built.report.tools)
        return {"ok": True, "message": f"compiled {built.report.size_bytes:,} bytes with the tools {tools}"}

    def _validate_component(self, _: Lifetime) -> dict[str, Any]:
        found = WasmValidator(max_bytes=self._config.max_component_bytes).validate(read_component(self._project))
        sidecar = read_sidecar(self._project)
        request = Capabilities.none() if sidecar is None else parse(sidecar).capabilities
        errors = [*found.errors, *self._find_undeclared(request)]
        return {
            "ok": not errors,
            "message": f"the component is not valid: {'; '.join(errors)}" if errors else "the component is valid",
            "errors": errors,
            "warnings": list(dict.fromkeys((*found.warnings, *self._warnings))),
            "requests": list(explain(request)),
        }

    def _test_component(self, lifetime: Lifetime) -> dict[str, Any]:
        suite = TestHarness().run(self._project, lifetime=lifetime)
        ok = suite.tests_failed == 0
        message = f"{suite.tests_passed} tests passed, {suite.tests_failed} failed"
        return {"ok": ok, "message": message, **suite.as_dict()}

    def _run(self, words: tuple[str, ...], lifetime: Lifetime) -> dict[str, Any]:
        if not words:
            return {"ok": True, "message": f"{self._requirement.language} is not compiled"}
        shown = " ".join(words)

        def run(lifetime: Lifetime) -> dict[str, Any]:
            done = run_in_project(self._project.folder, self._requirement.language, words, lifetime)
            if done.code:
                return _report_failure(BuildError(f"{shown} failed with exit code {done.code}"), done.output)
            return {"ok": True, "message": f"{shown} succeeded"}

        return self._report(run, lifetime)


def _report_failure(error: WasmrtError, output: str = "") -> dict[str, Any]:
    hint = f"; {error.hint}" if error.hint else ""
    return {"ok": False, "message": f"{error.message}{hint}", "output": output[-_MAX_OUTPUT_CHARS:]}
