"""wasmrt runs tools that nobody has to trust: WebAssembly components, a fresh store for every call.

    from wasmrt import Capabilities, EndpointPattern, WasmToolRuntime

    with WasmToolRuntime() as runtime:
        tool = runtime.prepare("search", "search.wasm", Capabilities.none().with_http([
            EndpointPattern.host("api.example.com").with_path_prefix("/v1/").with_methods("GET"),
        ]))
        print(tool.execute({"query": "otters"}).result)

Names are loaded when first used, so that importing the package costs nothing that is not needed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wasmrt.access import AccessChoice as AccessChoice
    from wasmrt.access import AccessRequest as AccessRequest
    from wasmrt.access import AccessScope as AccessScope
    from wasmrt.access import AccessStore as AccessStore
    from wasmrt.access import answer_access as answer_access
    from wasmrt.approvals import ApprovalAnswer as ApprovalAnswer
    from wasmrt.approvals import ApprovalRequest as ApprovalRequest
    from wasmrt.approvals import Approvals as Approvals
    from wasmrt.approvals import ApprovalScope as ApprovalScope
    from wasmrt.approvals import ApprovalStore as ApprovalStore
    from wasmrt.approvals import Approver as Approver
    from wasmrt.approvals import CallbackApprover as CallbackApprover
    from wasmrt.approvals import ConfirmationTokens as ConfirmationTokens
    from wasmrt.approvals import DenyApprover as DenyApprover
    from wasmrt.approvals import QueueApprover as QueueApprover
    from wasmrt.approvals import TerminalApprover as TerminalApprover
    from wasmrt.approvals import new_request_id as new_request_id
    from wasmrt.approvals import params_digest as params_digest
    from wasmrt.audit import Approval as Approval
    from wasmrt.audit import Receipt as Receipt
    from wasmrt.audit import read_keys as read_keys
    from wasmrt.audit import read_recording as read_recording
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
    from wasmrt.component import ToolSpec as ToolSpec
    from wasmrt.config import WasmRuntimeConfig as WasmRuntimeConfig
    from wasmrt.config_file import HostsResolver as HostsResolver
    from wasmrt.context import ToolContext as ToolContext
    from wasmrt.effects import Effect as Effect
    from wasmrt.egress import CredentialInjector as CredentialInjector
    from wasmrt.egress import NetworkConfig as NetworkConfig
    from wasmrt.egress import SystemResolver as SystemResolver
    from wasmrt.egress.transports import AsyncGuardedTransport as AsyncGuardedTransport
    from wasmrt.egress.transports import GuardedTransport as GuardedTransport
    from wasmrt.errors import ApprovalError as ApprovalError
    from wasmrt.errors import CapabilityDeniedError as CapabilityDeniedError
    from wasmrt.errors import CapabilityFileError as CapabilityFileError
    from wasmrt.errors import ComponentError as ComponentError
    from wasmrt.errors import ConfigurationError as ConfigurationError
    from wasmrt.errors import GuestExitError as GuestExitError
    from wasmrt.errors import InstallError as InstallError
    from wasmrt.errors import InternalError as InternalError
    from wasmrt.errors import LeakError as LeakError
    from wasmrt.errors import LimitError as LimitError
    from wasmrt.errors import SecretError as SecretError
    from wasmrt.errors import ToolError as ToolError
    from wasmrt.errors import ToolErrorKind as ToolErrorKind
    from wasmrt.errors import UnknownToolError as UnknownToolError
    from wasmrt.errors import WasmrtError as WasmrtError
    from wasmrt.guest.settings import Isolation as Isolation
    from wasmrt.guest.settings import OptLevel as OptLevel
    from wasmrt.install.search import WebSearch as WebSearch
    from wasmrt.isolation.confine import SHELL as SHELL
    from wasmrt.isolation.confine import confined_command as confined_command
    from wasmrt.leaks import Action as Action
    from wasmrt.leaks import LeakDetector as LeakDetector
    from wasmrt.leaks import LeakMatch as LeakMatch
    from wasmrt.leaks import LeakReport as LeakReport
    from wasmrt.limits import FuelConfig as FuelConfig
    from wasmrt.limits import ResourceLimits as ResourceLimits
    from wasmrt.mcp.client import McpClient as McpClient
    from wasmrt.mcp.client import McpServerConfig as McpServerConfig
    from wasmrt.mcp.client import add_configured_servers as add_configured_servers
    from wasmrt.memory import Embedder as Embedder
    from wasmrt.memory import MemorySettings as MemorySettings
    from wasmrt.memory import MemoryStore as MemoryStore
    from wasmrt.model import Addition as Addition
    from wasmrt.model import Decision as Decision
    from wasmrt.model import LogEntry as LogEntry
    from wasmrt.model import LogLevel as LogLevel
    from wasmrt.model import Reason as Reason
    from wasmrt.model import Step as Step
    from wasmrt.model import ToolOutput as ToolOutput
    from wasmrt.model import Usage as Usage
    from wasmrt.pages import OperatorPages as OperatorPages
    from wasmrt.pages import PageSources as PageSources
    from wasmrt.places import find_places as find_places
    from wasmrt.plugins import Plugins as Plugins
    from wasmrt.plugins import PluginTool as PluginTool
    from wasmrt.plugins import load_plugins as load_plugins
    from wasmrt.policy import Permission as Permission
    from wasmrt.policy import Preset as Preset
    from wasmrt.policy import ToolPolicy as ToolPolicy
    from wasmrt.policy import ToolRule as ToolRule
    from wasmrt.prepared import PreparedTool as PreparedTool
    from wasmrt.rates import RateLimiter as RateLimiter
    from wasmrt.runtime import WasmToolRuntime as WasmToolRuntime
    from wasmrt.safety import wrap_tool_output as wrap_tool_output
    from wasmrt.secrets import Secret as Secret
    from wasmrt.secrets import UserSecrets as UserSecrets
    from wasmrt.secrets import open_store as open_store
    from wasmrt.shell import ShellSettings as ShellSettings
    from wasmrt.shell import ShellTool as ShellTool
    from wasmrt.telemetry import Telemetry as Telemetry
    from wasmrt.tools import Explanation as Explanation
    from wasmrt.tools import FunctionTool as FunctionTool
    from wasmrt.tools import ReadOnlyToolWrapper as ReadOnlyToolWrapper
    from wasmrt.tools import SchemaTool as SchemaTool
    from wasmrt.tools import Tool as Tool
    from wasmrt.tools import ToolAnswer as ToolAnswer
    from wasmrt.tools import ToolCall as ToolCall
    from wasmrt.tools import ToolCallAccumulator as ToolCallAccumulator
    from wasmrt.tools import ToolRegistry as ToolRegistry
    from wasmrt.tools import ToolSource as ToolSource
    from wasmrt.tools import ToolView as ToolView
    from wasmrt.tools import load_registry as load_registry
    from wasmrt.tools import tool as tool
    from wasmrt.traits import ActionDescriptor as ActionDescriptor
    from wasmrt.traits import Confirmation as Confirmation
    from wasmrt.traits import Risk as Risk
    from wasmrt.traits import SafetyTier as SafetyTier
    from wasmrt.traits import SubagentAccess as SubagentAccess
    from wasmrt.traits import ToolCapabilities as ToolCapabilities
    from wasmrt.traits import ToolDefaults as ToolDefaults
    from wasmrt.traits import ToolDomain as ToolDomain
    from wasmrt.traits import Traits as Traits
    from wasmrt.web import WebServer as WebServer
    from wasmrt.workspace import UserFolders as UserFolders

_NAMES = {
    "access": (
        "AccessChoice",
        "AccessRequest",
        "AccessScope",
        "AccessStore",
        "answer_access",
    ),
    "approvals": (
        "ApprovalAnswer",
        "ApprovalRequest",
        "ApprovalScope",
        "ApprovalStore",
        "Approvals",
        "Approver",
        "CallbackApprover",
        "ConfirmationTokens",
        "DenyApprover",
        "QueueApprover",
        "TerminalApprover",
        "new_request_id",
        "params_digest",
    ),
    "audit": (
        "Approval",
        "Receipt",
        "read_keys",
        "read_recording",
    ),
    "capabilities": (
        "AllowlistValidator",
        "Capabilities",
        "CredentialLocation",
        "CredentialMapping",
        "EndpointPattern",
        "HttpCapability",
        "LoginCapability",
        "OAuthConfig",
        "RateLimitConfig",
        "SecretsCapability",
        "ToolInvokeCapability",
        "ToolLimits",
        "WorkspaceCapability",
        "WorkspaceWriteCapability",
        "merge",
    ),
    "capabilities.sentences": ("explain",),
    "component": ("ToolSpec",),
    "config": ("WasmRuntimeConfig",),
    "config_file": ("HostsResolver",),
    "context": ("ToolContext",),
    "effects": ("Effect",),
    "egress": (
        "CredentialInjector",
        "NetworkConfig",
        "SystemResolver",
    ),
    "egress.transports": (
        "AsyncGuardedTransport",
        "GuardedTransport",
    ),
    "errors": (
        "ApprovalError",
        "CapabilityDeniedError",
        "CapabilityFileError",
        "ComponentError",
        "ConfigurationError",
        "GuestExitError",
        "InstallError",
        "InternalError",
        "LeakError",
        "LimitError",
        "SecretError",
        "ToolError",
        "ToolErrorKind",
        "UnknownToolError",
        "WasmrtError",
    ),
    "guest.settings": (
        "Isolation",
        "OptLevel",
    ),
    "install.search": ("WebSearch",),
    "isolation.confine": (
        "SHELL",
        "confined_command",
    ),
    "leaks": (
        "Action",
        "LeakDetector",
        "LeakMatch",
        "LeakReport",
    ),
    "limits": (
        "FuelConfig",
        "ResourceLimits",
    ),
    "mcp.client": (
        "McpClient",
        "McpServerConfig",
        "add_configured_servers",
    ),
    "memory": ("Embedder", "MemorySettings", "MemoryStore"),
    "model": (
        "Addition",
        "Decision",
        "LogEntry",
        "LogLevel",
        "Reason",
        "Step",
        "ToolOutput",
        "Usage",
    ),
    "places": ("find_places",),
    "plugins": (
        "PluginTool",
        "Plugins",
        "load_plugins",
    ),
    "pages": (
        "OperatorPages",
        "PageSources",
    ),
    "policy": (
        "Permission",
        "Preset",
        "ToolPolicy",
        "ToolRule",
    ),
    "prepared": ("PreparedTool",),
    "rates": ("RateLimiter",),
    "runtime": ("WasmToolRuntime",),
    "safety": ("wrap_tool_output",),
    "secrets": (
        "Secret",
        "UserSecrets",
        "open_store",
    ),
    "telemetry": ("Telemetry",),
    "shell": (
        "ShellSettings",
        "ShellTool",
    ),
    "tools": (
        "Explanation",
        "FunctionTool",
        "ReadOnlyToolWrapper",
        "SchemaTool",
        "Tool",
        "ToolAnswer",
        "ToolCall",
        "ToolCallAccumulator",
        "ToolRegistry",
        "ToolSource",
        "ToolView",
        "load_registry",
        "tool",
    ),
    "traits": (
        "ActionDescriptor",
        "Confirmation",
        "Risk",
        "SafetyTier",
        "SubagentAccess",
        "ToolCapabilities",
        "ToolDefaults",
        "ToolDomain",
        "Traits",
    ),
    "web": ("WebServer",),
    "workspace": ("UserFolders",),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}

# What needs an extra is imported by name alone: `from wasmrt import *` works without any.
__all__ = sorted(name for name, home in _HOMES.items() if home not in ("egress.transports", "mcp.client"))


if not TYPE_CHECKING:  # with it, a type checker would take every name for one of ours

    def __getattr__(name: str) -> Any:  # PEP 562
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        return value


def __dir__() -> list[str]:
    return __all__
