"""The build loop: analyze, scaffold, let the model implement, build, validate, test, register."""

from __future__ import annotations

import re
import shutil
import time
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from wasmrt.authoring.builder._model import Call, ChatModel, Outcome, Reply, Workbench, ask
from wasmrt.authoring.builder._prompt import CONTINUE, NUDGE, system_prompt, write_feedback
from wasmrt.authoring.builder._steps import ProjectSteps
from wasmrt.authoring.builder._templates import TemplateEngine
from wasmrt.authoring.builder._values import (
    ANALYSIS,
    BuilderConfig,
    BuildLog,
    BuildPhase,
    BuildRequirement,
    BuildResult,
    Language,
    SoftwareType,
    parse_requirement,
)
from wasmrt.authoring.project import Project, find_toolchain
from wasmrt.catalog.sources import SIDECAR_SUFFIX
from wasmrt.core.errors import BuildError, DeadlineExceededError
from wasmrt.core.files import replace_file
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.places import find_places

OpenWorkbench = Callable[[Project, ProjectSteps, Lifetime], AbstractContextManager[Workbench]]
"""Opens the tools of a build, which end with the lifetime."""
_MAX_CALLS_PER_TURN = 32
_MAX_RESULT_CHARS = 16_000
_MAX_TEXTS_BEFORE_TOOLS = 2
_MAX_MESSAGE_CHARS = 500
_COMPLETE = re.compile(r"\b(?:complete|completed|finished|done)\b", re.IGNORECASE)
_ERROR = re.compile(r"\berror:|\berror\[|\bfailed\b", re.IGNORECASE)
_WRITES = ("write_file", "apply_patch", "apply_diff")


class LlmSoftwareBuilder:
    """Builds software with a model.

    Args:
        model: The program's model.
        open_workbench: Opens the tools of a build; see `wasmrt.interop.builder`.
        config: The settings.
    """

    def __init__(self, model: ChatModel, open_workbench: OpenWorkbench, config: BuilderConfig | None = None) -> None:
        self._model = model
        self._open_workbench = open_workbench
        self._config = config or BuilderConfig()

    def build(
        self,
        description: str,
        *,
        software_type: SoftwareType | None = None,
        language: Language | None = None,
        within: Lifetime | None = None,
    ) -> BuildResult:
        """Build the described software. `within` is the lifetime of the call that builds it.

        Raises:
            ToolError: the model failed, its requirement cannot be read, or the call was cancelled.
            MissingToolchainError: a command of the language's toolchain is missing.
            ConfigurationError: the project cannot be created.
        """
        lifetime = Lifetime(self._config.timeout_seconds, within=within)
        prompt = [{"role": "system", "content": ANALYSIS}, {"role": "user", "content": description}]
        started = time.time()
        text = ask(self._model, prompt, (), lifetime).text
        requirement = parse_requirement(text, description, software_type=software_type, language=language)
        run = _Run(self._model, self._config, requirement, lifetime, started)
        return run.run(self._open_workbench)

    def repair(self, result: BuildResult, error: str, *, within: Lifetime | None = None) -> BuildResult:
        """Build the software of a failed build again. The description for the new build includes the error.

        Raises:
            ToolError, MissingToolchainError, ConfigurationError: see `build`.
        """
        old = result.requirement
        text = f"{old.description}\n\nPrevious build failed with error: {error}\nFix the issues and rebuild."
        return self.build(text, software_type=old.software_type, language=old.language, within=within)


class _Run:
    """One build."""

    def __init__(
        self,
        model: ChatModel,
        config: BuilderConfig,
        requirement: BuildRequirement,
        lifetime: Lifetime,
        started: float,
    ) -> None:
        self._model = model
        self._config = config
        self._requirement = requirement
        self._lifetime = lifetime
        self._started = started
        self._id = uuid.uuid4().hex
        self._logs: list[BuildLog] = []
        self._messages: list[dict[str, Any]] = []
        self._iterations = 0
        self._last_error = ""
        self._tested: dict[str, Any] = {}
        self._warnings: list[str] = []
        self._log(BuildPhase.ANALYZING, f"{requirement.software_type} {requirement.name} in {requirement.language}")

    def run(self, open_workbench: OpenWorkbench) -> BuildResult:
        requirement = self._requirement
        if requirement.software_type is SoftwareType.WASM_TOOL:
            # Missing commands are reported before the model works.
            find_toolchain(TemplateEngine().template(requirement.language), confirm=self._config.confirm_download)
        # Each build has a new folder, so nothing of the user is overwritten.
        folder = (self._config.build_dir or find_places().cache / "builds") / self._id
        folder.mkdir(parents=True, mode=0o700)
        project = TemplateEngine().create(requirement, folder)
        self._log(BuildPhase.SCAFFOLDING, f"created the project {requirement.name}")
        try:
            result = self._run_in(project, open_workbench)
        except BaseException:
            self._clean_up(folder)
            raise
        if not result.success:
            self._clean_up(folder)
        return result

    def _run_in(self, project: Project, open_workbench: OpenWorkbench) -> BuildResult:
        edit = "the source file"
        if self._requirement.software_type is SoftwareType.WASM_TOOL:
            edit = TemplateEngine().edit(self._requirement.language)
        self._messages = [
            {"role": "system", "content": system_prompt(self._requirement, project, edit)},
            {"role": "user", "content": self._requirement.description},
        ]
        steps = ProjectSteps(project, self._requirement, self._config)
        with open_workbench(project, steps, self._lifetime) as workbench:
            try:
                error = self._loop(workbench)
            except DeadlineExceededError:
                error = "Build timed out"
            if error is not None:
                self._log(BuildPhase.FAILED, error, self._last_error)
                return self._result(error=error)
            artifact = self._package(project)
            registered = self._register(workbench)
        self._log(BuildPhase.COMPLETE, "built, validated and tested")
        return replace(self._result(), artifact_path=artifact, registered=registered)

    def _clean_up(self, folder: Path) -> None:
        if self._config.cleanup_on_failure:
            shutil.rmtree(folder, ignore_errors=True)

    # -- the loop --------------------------------------------------------------------------------------------------

    def _loop(self, workbench: Workbench) -> str | None:
        """Let the model work until the project passes all steps; return the reason if it does not."""
        tools, called, texts = workbench.definitions(), False, 0
        while self._iterations < self._config.max_iterations:
            self._iterations += 1
            reply = ask(self._model, self._messages, tools, self._lifetime)
            self._messages.append(reply.message)
            if reply.calls:
                called = True
                self._run_calls(workbench, reply)
                continue
            texts += 1
            if not called:
                if texts >= _MAX_TEXTS_BEFORE_TOOLS:
                    return "LLM not executing tools - stuck in planning mode"
                self._say(NUDGE)
            elif not _COMPLETE.search(reply.text):
                self._say(CONTINUE)
            elif (problem := self._check_project(workbench)) is None:
                return None
            else:
                self._say(write_feedback(problem))
        return "Maximum iterations exceeded"

    def _run_calls(self, workbench: Workbench, reply: Reply) -> None:
        for number, call in enumerate(reply.calls):
            self._lifetime.check()
            if number < _MAX_CALLS_PER_TURN:
                outcome = workbench.call(call.name, call.arguments)
                self._record_call(call, outcome)
            else:
                outcome = Outcome(False, f"not run: at most {_MAX_CALLS_PER_TURN} calls in one turn")
            content = outcome.text[:_MAX_RESULT_CHARS]
            self._messages.append({"role": "tool", "tool_call_id": call.id, "content": content})

    def _record_call(self, call: Call, outcome: Outcome) -> None:
        phase = BuildPhase.IMPLEMENTING if call.name in _WRITES else None
        failed = not outcome.ok or (isinstance(outcome.result, dict) and outcome.result.get("ok") is False)
        if call.name == "shell":
            command = str(call.arguments)
            phase = BuildPhase.BUILDING if "build" in command else BuildPhase.TESTING if "test" in command else None
            failed = failed or _ERROR.search(outcome.text) is not None
        if phase is not None:
            self._log(phase, f"{call.name} {call.arguments}")
        if failed:
            self._fail_step(call.name, outcome.text)

    def _check_project(self, workbench: Workbench) -> str | None:
        """Build, validate and test the project; return the text of the first failure for the model."""
        for phase, name in (
            (BuildPhase.BUILDING, "build_project"),
            (BuildPhase.VALIDATING, "validate_project"),
            (BuildPhase.TESTING, "test_project"),
        ):
            outcome = workbench.step(name, {})
            self._lifetime.check()
            found = outcome.result if isinstance(outcome.result, dict) else {}
            message = str(found.get("message", outcome.text))
            self._log(phase, message)
            self._tested = found if phase is BuildPhase.TESTING else self._tested
            self._warnings += found.get("warnings", ())
            if not outcome.ok or found.get("ok") is not True:
                self._fail_step(name, outcome.text)
                return outcome.text[:_MAX_RESULT_CHARS]
        return None

    def _fail_step(self, name: str, text: str) -> None:
        self._last_error = text[:_MAX_RESULT_CHARS]
        self._log(BuildPhase.FIXING, f"{name} failed", self._last_error)

    # -- the result ------------------------------------------------------------------------------------------------

    def _package(self, project: Project) -> Path:
        if self._requirement.software_type is not SoftwareType.WASM_TOOL:
            return project.folder
        target = self._config.wasm_output_dir
        if target is None:
            return project.component
        try:
            target.mkdir(parents=True, exist_ok=True)
            for name in (project.component.name, f"{project.name}{SIDECAR_SUFFIX}"):
                if (project.build / name).is_file():
                    replace_file(target / name, (project.build / name).read_bytes(), durable=False)
        except OSError as error:
            reason = f"the component cannot be copied ({error.strerror})"
            raise BuildError(reason, hint="check wasm_output_dir") from error
        self._log(BuildPhase.PACKAGING, f"copied {project.component.name}")
        return target / project.component.name

    def _register(self, workbench: Workbench) -> bool:
        if self._requirement.software_type is not SoftwareType.WASM_TOOL or not self._config.auto_register:
            return False
        # SECURITY: the user decides about the installation, with the grant and the digest in the request.
        outcome = workbench.step("tool_install", {"name": self._requirement.name})
        self._log(BuildPhase.REGISTERING, "installed" if outcome.ok else f"not installed: {outcome.text}")
        return outcome.ok

    def _result(self, error: str | None = None) -> BuildResult:
        return BuildResult(
            build_id=self._id,
            requirement=self._requirement,
            started_at=self._started,
            completed_at=time.time(),
            logs=tuple(self._logs),
            iterations=self._iterations,
            error=error,
            validation_warnings=tuple(dict.fromkeys(self._warnings)),
            tests_passed=int(self._tested.get("tests_passed", 0)),
            tests_failed=int(self._tested.get("tests_failed", 0)),
        )

    def _say(self, text: str) -> None:
        self._messages.append({"role": "user", "content": text})

    def _log(self, phase: BuildPhase, message: str, details: str = "") -> None:
        self._logs.append(BuildLog(phase, " ".join(message.split())[:_MAX_MESSAGE_CHARS], details))
