"""Run untrusted tools safely: each tool is a WebAssembly component, and every call runs in a fresh store.

    from wasmrt import Capabilities, EndpointPattern, WasmToolRuntime

    with WasmToolRuntime() as runtime:
        tool = runtime.prepare("search", "search.wasm", Capabilities.none().with_http([
            EndpointPattern.host("api.example.com").with_path_prefix("/v1/").with_methods("GET"),
        ]))
        print(tool.execute({"query": "otters"}).result)

Each name is imported on first use, so `import wasmrt` loads no other module. `help(wasmrt.NAME)` shows an example.
"""

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

# The public names, grouped by the module that defines them. A test checks that the imports for type checkers match.
_PUBLIC = {
    "agent.access": "AccessChoice AccessScope AccessStore answer_access",
    "agent.approvals": (
        "ApprovalAnswer ApprovalRequest ApprovalScope ApprovalStore Approvals CallbackApprover "
        "ConfirmationTokens TerminalApprover"
    ),
    "agent.builtin.plugins": "load_plugins",
    "agent.builtin.shell": "ShellTool",
    "agent.jobs": "AgentRunner Jobs add_jobs",
    "agent.loading": "load_registry",
    "agent.policy": "Permission Preset ToolPolicy ToolRule",
    "agent.registry": "ReadOnlyToolWrapper Tool ToolAnswer ToolCall ToolCallAccumulator ToolRegistry ToolSource tool",
    "capabilities": (
        "Capabilities CredentialLocation CredentialMapping EndpointPattern HttpCapability RateLimitConfig "
        "SecretsCapability ToolInvokeCapability WorkspaceCapability merge"
    ),
    "capabilities.sentences": "explain",
    "core.effects": "Effect",
    "core.errors": "ConfigurationError LimitError ToolError WasmrtError",
    "core.limits": "FuelConfig ResourceLimits",
    "core.model": "Decision Reason ToolOutput",
    "core.telemetry": "Telemetry",
    "core.traits": "SafetyTier",
    "egress.gateway": "NetworkConfig",
    "egress.gateway.transports": "GuardedTransport",
    "egress.leaks": "LeakDetector",
    "egress.secrets": "open_store",
    "interop.mcp.client": "McpServerConfig add_configured_servers",
    "runtime.audit": "Receipt",
    "runtime.config": "WasmRuntimeConfig",
    "runtime.context": "ToolContext",
    "runtime.memory": "MemorySettings",
    "runtime.prepared": "PreparedTool",
    "runtime.runtime": "WasmToolRuntime",
}
# More names that can be imported: types of attributes and results, errors, and names with few uses.
_MORE = {
    "agent.approvals": "Approver DenyApprover QueueApprover new_request_id params_digest",
    "agent.builtin.memory": "MemoryStore",
    "agent.builtin.plugins": "PluginTool Plugins",
    "agent.builtin.shell": "ShellSettings",
    "agent.flows": "Plan",
    "agent.jobs": "FunctionRunner JobContext JobResult JobTask",
    "agent.registry": "FunctionTool SchemaTool ToolView",
    "agent.routines": "RoutineEngine add_routines",
    "agent.safety": "wrap_tool_output",
    "authoring.builder": "BuilderConfig BuildResult ChatModel LlmSoftwareBuilder",
    "capabilities": "AllowlistValidator LoginCapability OAuthConfig ToolLimits WorkspaceWriteCapability",
    "catalog.search": "WebSearch",
    "core.errors": (
        "ApprovalError CapabilityDeniedError CapabilityFileError ComponentError GuestExitError InstallError "
        "InternalError LeakError SecretError ToolErrorKind UnknownToolError"
    ),
    "core.model": "LogEntry LogLevel Usage",
    "core.places": "find_places",
    "core.postgres": "Postgres",
    "core.tool_defaults": "ToolDefaults",
    "core.traits": "ActionDescriptor Confirmation Risk SubagentAccess ToolCapabilities ToolDomain Traits",
    "egress.gateway": "CredentialInjector SystemResolver",
    "egress.gateway.transports": "AsyncGuardedTransport",
    "egress.leaks": "Action",
    "egress.rates": "RateLimiter",
    "egress.secrets": "Secret UserSecrets",
    "interop.builder": "builder_tool software_builder",
    "interop.mcp.client": "McpClient",
    "interop.pages": "OperatorPages PageSources",
    "interop.ray": "RayPool RayTool",
    "interop.web": "WebServer",
    "runtime.audit": "Approval read_keys read_recording",
    "runtime.config_hosts": "HostsResolver",
    "runtime.memory": "Embedder",
    "runtime.workspace": "UserFolders",
    "sandbox.component": "ToolSpec",
    "sandbox.guest.settings": "Isolation OptLevel",
    "sandbox.isolation.confine": "SHELL confined_command",
}
_HOMES = {name: home for names in (_PUBLIC, _MORE) for home in names for name in names[home].split()}

# Names that need an extra are left out, so that `from wasmrt import *` works without extras.
__all__ = sorted(
    name
    for home, names in _PUBLIC.items()
    if home not in ("egress.gateway.transports", "interop.mcp.client")
    for name in names.split()
)

if TYPE_CHECKING:
    from wasmrt.agent.access import AccessChoice as AccessChoice
    from wasmrt.agent.access import AccessScope as AccessScope
    from wasmrt.agent.access import AccessStore as AccessStore
    from wasmrt.agent.access import answer_access as answer_access
    from wasmrt.agent.approvals import ApprovalAnswer as ApprovalAnswer
    from wasmrt.agent.approvals import ApprovalRequest as ApprovalRequest
    from wasmrt.agent.approvals import Approvals as Approvals
    from wasmrt.agent.approvals import ApprovalScope as ApprovalScope
    from wasmrt.agent.approvals import ApprovalStore as ApprovalStore
    from wasmrt.agent.approvals import Approver as Approver
    from wasmrt.agent.approvals import CallbackApprover as CallbackApprover
    from wasmrt.agent.approvals import ConfirmationTokens as ConfirmationTokens
    from wasmrt.agent.approvals import DenyApprover as DenyApprover
    from wasmrt.agent.approvals import QueueApprover as QueueApprover
    from wasmrt.agent.approvals import TerminalApprover as TerminalApprover
    from wasmrt.agent.approvals import new_request_id as new_request_id
    from wasmrt.agent.approvals import params_digest as params_digest
    from wasmrt.agent.builtin.memory import MemoryStore as MemoryStore
    from wasmrt.agent.builtin.plugins import Plugins as Plugins
    from wasmrt.agent.builtin.plugins import PluginTool as PluginTool
    from wasmrt.agent.builtin.plugins import load_plugins as load_plugins
    from wasmrt.agent.builtin.shell import ShellSettings as ShellSettings
    from wasmrt.agent.builtin.shell import ShellTool as ShellTool
    from wasmrt.agent.flows import Plan as Plan
    from wasmrt.agent.jobs import AgentRunner as AgentRunner
    from wasmrt.agent.jobs import FunctionRunner as FunctionRunner
    from wasmrt.agent.jobs import JobContext as JobContext
    from wasmrt.agent.jobs import JobResult as JobResult
    from wasmrt.agent.jobs import Jobs as Jobs
    from wasmrt.agent.jobs import JobTask as JobTask
    from wasmrt.agent.jobs import add_jobs as add_jobs
    from wasmrt.agent.loading import load_registry as load_registry
    from wasmrt.agent.policy import Permission as Permission
    from wasmrt.agent.policy import Preset as Preset
    from wasmrt.agent.policy import ToolPolicy as ToolPolicy
    from wasmrt.agent.policy import ToolRule as ToolRule
    from wasmrt.agent.registry import FunctionTool as FunctionTool
    from wasmrt.agent.registry import ReadOnlyToolWrapper as ReadOnlyToolWrapper
    from wasmrt.agent.registry import SchemaTool as SchemaTool
    from wasmrt.agent.registry import Tool as Tool
    from wasmrt.agent.registry import ToolAnswer as ToolAnswer
    from wasmrt.agent.registry import ToolCall as ToolCall
    from wasmrt.agent.registry import ToolCallAccumulator as ToolCallAccumulator
    from wasmrt.agent.registry import ToolRegistry as ToolRegistry
    from wasmrt.agent.registry import ToolSource as ToolSource
    from wasmrt.agent.registry import ToolView as ToolView
    from wasmrt.agent.registry import tool as tool
    from wasmrt.agent.routines import RoutineEngine as RoutineEngine
    from wasmrt.agent.routines import add_routines as add_routines
    from wasmrt.agent.safety import wrap_tool_output as wrap_tool_output
    from wasmrt.authoring.builder import BuilderConfig as BuilderConfig
    from wasmrt.authoring.builder import BuildResult as BuildResult
    from wasmrt.authoring.builder import ChatModel as ChatModel
    from wasmrt.authoring.builder import LlmSoftwareBuilder as LlmSoftwareBuilder
    from wasmrt.capabilities import AllowlistValidator as AllowlistValidator
    from wasmrt.capabilities import Capabilities as Capabilities
    from wasmrt.capabilities import CredentialLocation as CredentialLocation
    from wasmrt.capabilities import CredentialMapping as CredentialMapping
    from wasmrt.capabilities import EndpointPattern as EndpointPattern
    from wasmrt.capabilities import HttpCapability as HttpCapability
    from wasmrt.capabilities import LoginCapability as LoginCapability
    from wasmrt.capabilities import OAuthConfig as OAuthConfig
    from wasmrt.capabilities import RateLimitConfig as RateLimitConfig
    from wasmrt.capabilities import SecretsCapability as SecretsCapability
    from wasmrt.capabilities import ToolInvokeCapability as ToolInvokeCapability
    from wasmrt.capabilities import ToolLimits as ToolLimits
    from wasmrt.capabilities import WorkspaceCapability as WorkspaceCapability
    from wasmrt.capabilities import WorkspaceWriteCapability as WorkspaceWriteCapability
    from wasmrt.capabilities import merge as merge
    from wasmrt.capabilities.sentences import explain as explain
    from wasmrt.catalog.search import WebSearch as WebSearch
    from wasmrt.core.effects import Effect as Effect
    from wasmrt.core.errors import ApprovalError as ApprovalError
    from wasmrt.core.errors import CapabilityDeniedError as CapabilityDeniedError
    from wasmrt.core.errors import CapabilityFileError as CapabilityFileError
    from wasmrt.core.errors import ComponentError as ComponentError
    from wasmrt.core.errors import ConfigurationError as ConfigurationError
    from wasmrt.core.errors import GuestExitError as GuestExitError
    from wasmrt.core.errors import InstallError as InstallError
    from wasmrt.core.errors import InternalError as InternalError
    from wasmrt.core.errors import LeakError as LeakError
    from wasmrt.core.errors import LimitError as LimitError
    from wasmrt.core.errors import SecretError as SecretError
    from wasmrt.core.errors import ToolError as ToolError
    from wasmrt.core.errors import ToolErrorKind as ToolErrorKind
    from wasmrt.core.errors import UnknownToolError as UnknownToolError
    from wasmrt.core.errors import WasmrtError as WasmrtError
    from wasmrt.core.limits import FuelConfig as FuelConfig
    from wasmrt.core.limits import ResourceLimits as ResourceLimits
    from wasmrt.core.model import Decision as Decision
    from wasmrt.core.model import LogEntry as LogEntry
    from wasmrt.core.model import LogLevel as LogLevel
    from wasmrt.core.model import Reason as Reason
    from wasmrt.core.model import ToolOutput as ToolOutput
    from wasmrt.core.model import Usage as Usage
    from wasmrt.core.places import find_places as find_places
    from wasmrt.core.postgres import Postgres as Postgres
    from wasmrt.core.telemetry import Telemetry as Telemetry
    from wasmrt.core.tool_defaults import ToolDefaults as ToolDefaults
    from wasmrt.core.traits import ActionDescriptor as ActionDescriptor
    from wasmrt.core.traits import Confirmation as Confirmation
    from wasmrt.core.traits import Risk as Risk
    from wasmrt.core.traits import SafetyTier as SafetyTier
    from wasmrt.core.traits import SubagentAccess as SubagentAccess
    from wasmrt.core.traits import ToolCapabilities as ToolCapabilities
    from wasmrt.core.traits import ToolDomain as ToolDomain
    from wasmrt.core.traits import Traits as Traits
    from wasmrt.egress.gateway import CredentialInjector as CredentialInjector
    from wasmrt.egress.gateway import NetworkConfig as NetworkConfig
    from wasmrt.egress.gateway import SystemResolver as SystemResolver
    from wasmrt.egress.gateway.transports import AsyncGuardedTransport as AsyncGuardedTransport
    from wasmrt.egress.gateway.transports import GuardedTransport as GuardedTransport
    from wasmrt.egress.leaks import Action as Action
    from wasmrt.egress.leaks import LeakDetector as LeakDetector
    from wasmrt.egress.rates import RateLimiter as RateLimiter
    from wasmrt.egress.secrets import Secret as Secret
    from wasmrt.egress.secrets import UserSecrets as UserSecrets
    from wasmrt.egress.secrets import open_store as open_store
    from wasmrt.interop.builder import builder_tool as builder_tool
    from wasmrt.interop.builder import software_builder as software_builder
    from wasmrt.interop.mcp.client import McpClient as McpClient
    from wasmrt.interop.mcp.client import McpServerConfig as McpServerConfig
    from wasmrt.interop.mcp.client import add_configured_servers as add_configured_servers
    from wasmrt.interop.pages import OperatorPages as OperatorPages
    from wasmrt.interop.pages import PageSources as PageSources
    from wasmrt.interop.ray import RayPool as RayPool
    from wasmrt.interop.ray import RayTool as RayTool
    from wasmrt.interop.web import WebServer as WebServer
    from wasmrt.runtime.audit import Approval as Approval
    from wasmrt.runtime.audit import Receipt as Receipt
    from wasmrt.runtime.audit import read_keys as read_keys
    from wasmrt.runtime.audit import read_recording as read_recording
    from wasmrt.runtime.config import WasmRuntimeConfig as WasmRuntimeConfig
    from wasmrt.runtime.config_hosts import HostsResolver as HostsResolver
    from wasmrt.runtime.context import ToolContext as ToolContext
    from wasmrt.runtime.memory import Embedder as Embedder
    from wasmrt.runtime.memory import MemorySettings as MemorySettings
    from wasmrt.runtime.prepared import PreparedTool as PreparedTool
    from wasmrt.runtime.runtime import WasmToolRuntime as WasmToolRuntime
    from wasmrt.runtime.workspace import UserFolders as UserFolders
    from wasmrt.sandbox.component import ToolSpec as ToolSpec
    from wasmrt.sandbox.guest.settings import Isolation as Isolation
    from wasmrt.sandbox.guest.settings import OptLevel as OptLevel
    from wasmrt.sandbox.isolation.confine import SHELL as SHELL
    from wasmrt.sandbox.isolation.confine import confined_command as confined_command
else:  # with `__getattr__`, a type checker would accept any name

    def __getattr__(name: str) -> Any:  # PEP 562
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        return value


def __dir__() -> list[str]:
    return __all__


class _PublicModules:
    """Imports `wasmrt.testing` and `wasmrt.adapters.*` as aliases of modules in `authoring` and `interop` (PEP 451).

    The package `wasmrt-stubs` declares the same aliases for type checkers.
    """

    _HOMES = {"testing": "authoring.testing", "adapters": "interop.adapters"}  # noqa: RUF012 - constant

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        package, _, rest = name.partition(".")
        first, _, below = rest.partition(".")
        if package != __name__ or first not in self._HOMES:
            return None
        home = f"{__name__}.{self._HOMES[first]}" + (f".{below}" if below else "")
        return ModuleSpec(name, self, origin=home)  # type: ignore[arg-type]  # this object has the methods of a loader

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(spec.origin or "")
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state  # the import system has set the spec of the alias


sys.meta_path.append(_PublicModules())
