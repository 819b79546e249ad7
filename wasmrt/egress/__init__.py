"""The guarded way out to the network, and nothing else of it. The only package that imports h11.

Decides with `wasmrt.capabilities` and `wasmrt.leaks`; what it adds is the order, the sockets and the credentials.
"""

from __future__ import annotations

from wasmrt.egress._answer import (
    Answer,
)
from wasmrt.egress._gateway import (
    HttpDoor,
)
from wasmrt.egress._injector import (
    CredentialInjector,
    Injected,
)
from wasmrt.egress._model import (
    DoorCall,
    FailureKind,
    HttpFailure,
    HttpRequest,
    HttpResponse,
    NetworkConfig,
    SecretsView,
    SecretValue,
)
from wasmrt.egress._resolver import (
    ResolveError,
    Resolver,
    SystemResolver,
)
from wasmrt.egress._wire import (
    RawResponse,
    Transport,
    WholeBody,
    WireRequest,
)

__all__ = [
    "Answer",
    "CredentialInjector",
    "DoorCall",
    "FailureKind",
    "HttpDoor",
    "HttpFailure",
    "HttpRequest",
    "HttpResponse",
    "Injected",
    "NetworkConfig",
    "RawResponse",
    "ResolveError",
    "Resolver",
    "SecretValue",
    "SecretsView",
    "SystemResolver",
    "Transport",
    "WholeBody",
    "WireRequest",
]
