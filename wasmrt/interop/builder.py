"""`build_software`: a tool with which a model builds software, and the tools of one build.

The tools of a build are in a registry whose files and processes are confined to the project.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from wasmrt.agent.approvals import ApprovalAnswer, ApprovalRequest, Approver
from wasmrt.agent.builtin.extensions.sources import ToolSources
from wasmrt.agent.builtin.extensions.tools import ExtensionTools
from wasmrt.agent.builtin.host_tool import HostTool, Params, trust_none
from wasmrt.agent.builtin.shell import ShellTool
from wasmrt.agent.config import read_config_file
from wasmrt.agent.policy import Permission
from wasmrt.agent.registry import (
    PROTECTED_TOOL_NAMES,
    Caller,
    ToolAnswer,
    ToolCall,
    ToolRegistry,
    ToolView,
    bind_view,
    nested_registry,
)
from wasmrt.authoring.builder import (
    BuilderConfig,
    ChatModel,
    Language,
    LlmSoftwareBuilder,
    Outcome,
    ProjectSteps,
    SoftwareType,
)
from wasmrt.authoring.project import Project
from wasmrt.core.effects import Effect
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import KIB
from wasmrt.core.places import find_places
from wasmrt.runtime.context import ToolContext
from wasmrt.runtime.runtime import WasmToolRuntime

BUILDER = "build_software"
_FILES = ("read_file", "write_file", "list_dir", "apply_patch", "apply_diff")
_REQUESTS = "write_capabilities"
_MODEL_TOOLS = ("shell", *_FILES, _REQUESTS)
_STEPS = ("build_project", "validate_project", "test_project")
_HTTP = "http"
_INSTALL = "tool_install"
_STEP_EFFECTS = (
    Effect.READ_FILESYSTEM, Effect.WRITE_FILESYSTEM, Effect.EXECUTE_CODE, Effect.SPAWN_PROCESS, Effect.NETWORK,
)  # fmt: skip


class _BuildApprover:
    """Approves the calls that an approval of `build_software` covers, and asks the user about all others.

    SECURITY: the covered tools can change only the new project folder. Not covered are installing, requests to hosts,
    and tools for which the operator set the permission `ask`.
    """

    def __init__(self, registry: ToolRegistry, parent: ToolContext) -> None:
        self._user: Approver = registry.approvals.approver
        self._policy = registry.policy
        self._by = f"{BUILDER} {parent.call_id}".strip()

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Return the answer to a request."""
        covered = request.tool in (*_MODEL_TOOLS, *_STEPS)
        if covered and self._policy.find_permission((request.tool,)) is not Permission.ASK:
            return ApprovalAnswer(approved=True, by=self._by, way="build")
        return await self._user.ask(request)


class _RegistryWorkbench:
    """The tools of one build, as `Workbench`."""

    def __init__(self, registry: ToolRegistry, nested: ToolRegistry, parent: ToolContext, lifetime: Lifetime) -> None:
        self._registry = registry
        by = Caller(user=parent.user, trace=parent.trace_id, parent_id=parent.call_id, lifetime=lifetime)
        self._model_tools = bind_view(nested.only(_MODEL_TOOLS), by)
        self._caller = bind_view(parent.tools if isinstance(parent.tools, ToolView) else registry, by)
        self._steps = bind_view(nested, by)
        self._installing = bind_view(nested, replace(by, lifetime=None))

    def definitions(self) -> list[dict[str, Any]]:
        """Return the definitions of the tools that the model may call."""
        http = [self._caller.definition(_HTTP, "openai")] if _HTTP in self._caller else []
        return [*self._model_tools.definitions("openai"), *http]

    def call(self, name: str, arguments: Any) -> Outcome:
        """Run a call of the model."""
        # SECURITY: a request to a host is a call of the agent, under its view, its flow rules and its approver.
        view = self._caller if name == _HTTP else self._model_tools
        return _make_outcome(view.answer(ToolCall("", name, arguments)))

    def step(self, name: str, params: dict[str, Any]) -> Outcome:
        """Run a step of the builder."""
        view = self._installing if name == _INSTALL else self._steps
        outcome = _make_outcome(view.answer(ToolCall("", name, params)))
        if name == _INSTALL and outcome.ok and self._registry.installed is not None:
            self._registry.installed.refresh()
        return outcome


def _make_outcome(answer: ToolAnswer) -> Outcome:
    return Outcome(answer.ok, answer.text, None if answer.output is None else answer.output.result)


@contextmanager
def open_workbench(
    registry: ToolRegistry, parent: ToolContext, project: Project, steps: ProjectSteps, lifetime: Lifetime
) -> Iterator[_RegistryWorkbench]:
    """Open the tools of a build for a call of `build_software`, whose context is `parent`."""
    assert registry.runtime is not None
    # SECURITY: no secrets, and no files but the project's.
    settings = replace(
        registry.runtime.config, workspace=project.folder, secrets=None, audit=None, audit_record=False, undo=False,
        memory=False, web_search=None,
    )  # fmt: skip
    with (
        WasmToolRuntime(settings) as runtime,
        nested_registry(registry, runtime, _BuildApprover(registry, parent)) as nested,
    ):
        for name in _FILES:
            nested.register(runtime.prepare_installed(name), builtin=True)
        # SECURITY: commands have no network, and are confined even if the operator's shell is not.
        config = read_config_file(find_places().config).shell
        shell = ShellTool(
            project.folder,
            config._replace(network=(), session=False, unsafe_host=False, unsafe_write_git=False),
            undo=False,
        )
        nested.on_close(shell.close)
        nested.register(shell, builtin=True)
        for step_name, run in zip(_STEPS, (steps.build, steps.validate, steps.test), strict=True):
            nested.register(_step_tool(step_name, run, lifetime), builtin=True)
        nested.register(_make_requests_tool(steps), builtin=True)
        nested.register(_install_tool(registry, project), builtin=True)
        yield _RegistryWorkbench(registry, nested, parent, lifetime)


def _step_tool(name: str, run: Callable[[Lifetime], dict[str, Any]], lifetime: Lifetime) -> HostTool:
    return HostTool(
        name, f"A step of {BUILDER}.", {}, lambda _params, context: run(context.lifetime or lifetime),
        effects=_STEP_EFFECTS, timeout_seconds=max(lifetime.remaining(), 1.0), in_programs=False,
    )  # fmt: skip


def _make_requests_tool(steps: ProjectSteps) -> HostTool:
    """Return the tool that writes the project's capability file, which the file tools refuse to write."""
    return HostTool(
        _REQUESTS, "Write the capability file of the project, as an object.", {"file": {"type": "object"}},
        lambda params, _context: steps.write_requests(params["file"]), required=["file"],
        effects=[Effect.WRITE_FILESYSTEM], in_programs=False,
    )  # fmt: skip


def _install_tool(registry: ToolRegistry, project: Project) -> HostTool:
    """Return `tool_install` for the component of a build. Its question shows the digest and the grant."""
    assert registry.runtime is not None
    sources = ToolSources((project.build,), ())
    tools = ExtensionTools(registry, registry.runtime, find_places(), sources, PROTECTED_TOOL_NAMES)
    return next(tool for tool in tools.all() if tool.name == _INSTALL)


_TYPES = (SoftwareType.WASM_TOOL, SoftwareType.CLI_BINARY, SoftwareType.LIBRARY, SoftwareType.SCRIPT)
_LANGUAGES = (Language.RUST, Language.PYTHON, Language.TYPESCRIPT, Language.BASH)
_EFFECTS = (
    Effect.READ_FILESYSTEM, Effect.WRITE_FILESYSTEM, Effect.EXECUTE_CODE, Effect.SPAWN_PROCESS, Effect.NETWORK,
    Effect.MODIFY_TOOLS,
)  # fmt: skip
_MAX_DESCRIPTION_CHARS = 16 * KIB
_INSTALL_SECONDS = 180.0
"""Time for the installation, in addition to the wait for its approval."""


def software_builder(
    registry: ToolRegistry, *, model: ChatModel, config: BuilderConfig | None = None, context: ToolContext | None = None
) -> LlmSoftwareBuilder:
    """Return a builder for a program that builds software itself, without a call of `build_software`.

    The tools of a build belong to the registry's user in `context`. Installing still asks the registry's approver.

    Raises:
        ConfigurationError: the registry has no runtime.

    Example:
        >>> from wasmrt import ToolRegistry, WasmToolRuntime, software_builder
        >>> builder = software_builder(ToolRegistry(WasmToolRuntime()), model=lambda messages, tools: {"content": ""})
        >>> hasattr(builder, "repair")
        True
    """
    if registry.runtime is None:
        raise ConfigurationError("building software requires a runtime", hint="create ToolRegistry(runtime)")
    return LlmSoftwareBuilder(model, partial(open_workbench, registry, context or ToolContext()), config)


def builder_tool(registry: ToolRegistry, *, model: ChatModel, config: BuilderConfig | None = None) -> HostTool:
    """Return the tool `build_software` for a registry, which builds software with the program's model.

    Register it with `registry.register(builder_tool(registry, model=...), builtin=True)`. Each call requires approval.

    Raises:
        ConfigurationError: the registry has no runtime.
    """
    software_builder(registry, model=model)  # checks the registry
    config = config or BuilderConfig()

    def run(params: Params, context: ToolContext) -> dict[str, Any]:
        builder = software_builder(registry, model=model, config=config, context=context)
        kind, language = params.get("type"), params.get("language")
        result = builder.build(
            params["description"],
            software_type=None if kind is None else SoftwareType(kind),
            language=None if language is None else Language(language),
            within=context.lifetime,
        )
        return result.as_dict()

    return HostTool(
        BUILDER,
        "Build software from a description: preferably a tool for agents, which the user is then asked to install.",
        {
            "description": {
                "type": "string", "maxLength": _MAX_DESCRIPTION_CHARS,
                "description": "Natural language description of what to build.",
            },
            "type": {"type": "string", "enum": list(map(str, _TYPES))},
            "language": {"type": "string", "enum": list(map(str, _LANGUAGES))},
        },
        run, required=["description"], effects=_EFFECTS, approval=True, untrusted=trust_none, in_programs=False,
        timeout_seconds=config.timeout_seconds + registry.policy.approval_seconds + _INSTALL_SECONDS,
    )  # fmt: skip
