"""The tool `build_software`."""

from __future__ import annotations

from functools import partial
from typing import Any

from wasmrt.agent.builtin.host_tool import HostTool, Params, any_result
from wasmrt.agent.registry import ToolRegistry
from wasmrt.authoring.builder import BuilderConfig, ChatModel, Language, LlmSoftwareBuilder, SoftwareType
from wasmrt.core.effects import Effect
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import KIB
from wasmrt.interop.builder._workbench import BUILDER, open_workbench
from wasmrt.runtime.context import ToolContext

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
        run, required=["description"], effects=_EFFECTS, approval=True, untrusted=any_result, in_programs=False,
        timeout_seconds=config.timeout_seconds + registry.policy.approval_seconds + _INSTALL_SECONDS,
    )  # fmt: skip
