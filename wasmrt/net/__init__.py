"""The guarded way out to the network, and nothing else of it. The only room that imports h11.

Decides with `wasmrt.capabilities` and `wasmrt.leaks`; what it adds is the order, the sockets and the credentials.
"""

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
from wasmrt.net._rates import RateLimiter
from wasmrt.net._resolver import ResolveError, Resolver, SystemResolver

__all__ = [
    "CredentialInjector",
    "DoorCall",
    "FailureKind",
    "HttpDoor",
    "HttpFailure",
    "HttpRequest",
    "HttpResponse",
    "Injected",
    "NetworkConfig",
    "RateLimiter",
    "ResolveError",
    "Resolver",
    "SecretValue",
    "SecretsView",
    "SystemResolver",
]
