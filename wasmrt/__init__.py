"""wasmrt runs tools that nobody has to trust: WebAssembly components, a fresh store for every call.

    from wasmrt import Capabilities, EndpointPattern, WasmToolRuntime

    with WasmToolRuntime() as runtime:
        tool = runtime.prepare("search", "search.wasm", Capabilities.none().with_http([
            EndpointPattern.host("api.example.com").with_path_prefix("/v1/").with_methods("GET"),
        ]))
        print(tool.execute({"query": "otters"}).result)

Names are loaded when first used, so that importing the package costs nothing that is not needed.
"""

from typing import TYPE_CHECKING

from wasmrt._lazy import lazy

if TYPE_CHECKING:
    from wasmrt.capabilities import (
        AllowlistValidator,
        Capabilities,
        CredentialLocation,
        CredentialMapping,
        EndpointPattern,
        HttpCapability,
        RateLimitConfig,
        SecretsCapability,
        ToolInvokeCapability,
        ToolLimits,
        WorkspaceCapability,
    )
    from wasmrt.component import ToolSpec
    from wasmrt.config import WasmRuntimeConfig
    from wasmrt.egress import CredentialInjector, NetworkConfig
    from wasmrt.egress.transports import AsyncGuardedTransport, GuardedTransport
    from wasmrt.errors import (
        CapabilityDeniedError,
        CapabilityFileError,
        ComponentError,
        ConfigurationError,
        InstallError,
        InternalError,
        LeakError,
        LimitError,
        SecretError,
        ToolError,
        ToolErrorKind,
        WasmrtError,
    )
    from wasmrt.guest.engine import OptLevel
    from wasmrt.leaks import LeakDetector, LeakMatch, LeakReport
    from wasmrt.limits import FuelConfig, ResourceLimits
    from wasmrt.model import Decision, LogEntry, LogLevel, Reason, ToolOutput, Usage
    from wasmrt.rates import RateLimiter
    from wasmrt.registry import ToolRegistry
    from wasmrt.runtime import WasmToolRuntime
    from wasmrt.tool import PreparedTool

_HOMES = {
    "component": ("ToolSpec",),
    "capabilities": (
        "AllowlistValidator",
        "Capabilities",
        "CredentialLocation",
        "CredentialMapping",
        "EndpointPattern",
        "HttpCapability",
        "RateLimitConfig",
        "SecretsCapability",
        "ToolInvokeCapability",
        "ToolLimits",
        "WorkspaceCapability",
    ),
    "config": ("WasmRuntimeConfig",),
    "guest.engine": ("OptLevel",),
    "errors": (
        "CapabilityDeniedError",
        "CapabilityFileError",
        "ComponentError",
        "ConfigurationError",
        "InstallError",
        "InternalError",
        "LeakError",
        "LimitError",
        "SecretError",
        "ToolError",
        "ToolErrorKind",
        "WasmrtError",
    ),
    "leaks": ("LeakDetector", "LeakMatch", "LeakReport"),
    "limits": ("FuelConfig", "ResourceLimits"),
    "model": ("Decision", "LogEntry", "LogLevel", "Reason", "ToolOutput", "Usage"),
    "egress": ("CredentialInjector", "NetworkConfig"),
    "egress.transports": ("AsyncGuardedTransport", "GuardedTransport"),
    "rates": ("RateLimiter",),
    "registry": ("ToolRegistry",),
    "tool": ("PreparedTool",),
    "runtime": ("WasmToolRuntime",),
}

__all__ = [
    "AllowlistValidator",
    "AsyncGuardedTransport",
    "Capabilities",
    "CapabilityDeniedError",
    "CapabilityFileError",
    "ComponentError",
    "ConfigurationError",
    "CredentialInjector",
    "CredentialLocation",
    "CredentialMapping",
    "Decision",
    "EndpointPattern",
    "FuelConfig",
    "GuardedTransport",
    "HttpCapability",
    "InstallError",
    "InternalError",
    "LeakDetector",
    "LeakError",
    "LeakMatch",
    "LeakReport",
    "LimitError",
    "LogEntry",
    "LogLevel",
    "NetworkConfig",
    "OptLevel",
    "PreparedTool",
    "RateLimitConfig",
    "RateLimiter",
    "Reason",
    "ResourceLimits",
    "SecretError",
    "SecretsCapability",
    "ToolError",
    "ToolErrorKind",
    "ToolInvokeCapability",
    "ToolLimits",
    "ToolOutput",
    "ToolRegistry",
    "ToolSpec",
    "Usage",
    "WasmRuntimeConfig",
    "WasmToolRuntime",
    "WasmrtError",
    "WorkspaceCapability",
]


__getattr__ = lazy(__name__, _HOMES, globals())


def __dir__() -> list[str]:
    return sorted(__all__)
