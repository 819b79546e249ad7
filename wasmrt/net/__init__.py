"""The guarded way out to the network, and nothing else of it. The only room that imports h11.

Decides with `wasmrt.capabilities` and `wasmrt.leaks`; what it adds is the order, the sockets and the credentials.
"""

from typing import TYPE_CHECKING, Any

from wasmrt.net._answer import Answer
from wasmrt.net._door import HttpDoor
from wasmrt.net._injector import CredentialInjector, Injected
from wasmrt.net._model import (
    DoorCall,
    FailureKind,
    HttpFailure,
    HttpRequest,
    HttpResponse,
    NetworkConfig,
    SecretsView,
    SecretValue,
)
from wasmrt.net._oauth import Login, OAuthError, RefreshableToken, TokenEndpoint, Tokens, token_renewer
from wasmrt.net._rates import RateLimiter
from wasmrt.net._resolver import ResolveError, Resolver, SystemResolver
from wasmrt.net._settings import HostsResolver, OperatorConfig, read_config_file
from wasmrt.net._wire import RawResponse, Transport, WholeBody, WireRequest

if TYPE_CHECKING:
    from wasmrt.net._callback import LoopbackCallback

__all__ = [
    "Answer",
    "CredentialInjector",
    "DoorCall",
    "FailureKind",
    "HostsResolver",
    "HttpDoor",
    "HttpFailure",
    "HttpRequest",
    "HttpResponse",
    "Injected",
    "Login",
    "LoopbackCallback",
    "NetworkConfig",
    "OAuthError",
    "OperatorConfig",
    "RateLimiter",
    "RawResponse",
    "RefreshableToken",
    "ResolveError",
    "Resolver",
    "SecretValue",
    "SecretsView",
    "SystemResolver",
    "TokenEndpoint",
    "Tokens",
    "Transport",
    "WholeBody",
    "WireRequest",
    "read_config_file",
    "token_renewer",
]


def __getattr__(name: str) -> Any:
    if name == "LoopbackCallback":  # http.server takes 20 ms to import, and only a login needs it
        from wasmrt.net._callback import LoopbackCallback

        return LoopbackCallback
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
