"""The builder's own steps. Their results decide about success, not the model's text."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from wasmrt.authoring.builder._checks import find_links_outside, undeclared_requests
from wasmrt.authoring.builder._commands import require_confinement, run_in_project
from wasmrt.authoring.builder._harness import TestHarness
from wasmrt.authoring.builder._templates import TemplateEngine
from wasmrt.authoring.builder._values import BuilderConfig, BuildRequirement, SoftwareType
from wasmrt.authoring.project import Project, build, read_component, read_sidecar
from wasmrt.capabilities import Capabilities
from wasmrt.capabilities.file import parse
from wasmrt.capabilities.sentences import explain
from wasmrt.catalog.validator import WasmValidator
from wasmrt.core.errors import BuildError, MissingToolchainError, WasmrtError
from wasmrt.core.files import replace_file
from wasmrt.core.lifetime import Lifetime

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
            return _failed(error)
        except OSError as error:
            return _failed(BuildError(f"the capability file cannot be written ({error.strerror})"))
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
            return _failed(error, error.output)
        except WasmrtError as error:
            lifetime.check()
            return _failed(error)

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
                return _failed(BuildError(f"{shown} failed with exit code {done.code}"), done.output)
            return {"ok": True, "message": f"{shown} succeeded"}

        return self._report(run, lifetime)


def _failed(error: WasmrtError, output: str = "") -> dict[str, Any]:
    hint = f"; {error.hint}" if error.hint else ""
    return {"ok": False, "message": f"{error.message}{hint}", "output": output[-_MAX_OUTPUT_CHARS:]}
