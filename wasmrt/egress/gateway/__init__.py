"""The gateway through which all outgoing requests pass. Only this package opens outgoing connections.

`wasmrt.capabilities` decides which requests are allowed, and `wasmrt.egress.leaks` scans them for secrets. This package
calls both in order, adds credentials, and sends the requests.
"""

from __future__ import annotations

from wasmrt.egress.gateway._exchange import Body, ExchangeBudget, Transport, WholeBody, WireRequest, WireResponse
from wasmrt.egress.gateway._gateway import EgressGateway
from wasmrt.egress.gateway._host import (
    HostCall,
    decide_download,
    download,
    download_for_user,
    read_host,
    send_for_model,
    send_for_user,
)
from wasmrt.egress.gateway._injector import Credential, CredentialInjector, Injected
from wasmrt.egress.gateway._model import (
    EgressCall,
    Face,
    HttpFailure,
    HttpRequest,
    HttpResponse,
    SecretsView,
    SecretValue,
    WaitTimeouts,
)
from wasmrt.egress.gateway._network import NetworkConfig, ResolveError, Resolver, ResolverForUsers, SystemResolver
from wasmrt.egress.gateway._response import Response

__all__ = [
    "Body", "Credential", "CredentialInjector", "EgressCall", "EgressGateway", "ExchangeBudget", "Face", "HostCall",
    "HttpFailure", "HttpRequest", "HttpResponse", "Injected", "NetworkConfig", "ResolveError", "Resolver",
    "ResolverForUsers", "Response", "SecretValue", "SecretsView", "SystemResolver", "Transport", "WaitTimeouts",
    "WholeBody", "WireRequest", "WireResponse", "decide_download", "download", "download_for_user", "read_host",
    "send_for_model", "send_for_user",
]  # fmt: skip
