"""The guarded way out to the network. The only package that opens sockets.

`wasmrt.capabilities` decides and `wasmrt.leaks` scans; this package adds the order of the checks, the sockets and the
credentials.
"""

from __future__ import annotations

from wasmrt.egress._budget import ExchangeBudget
from wasmrt.egress._config import NetworkConfig
from wasmrt.egress._download import decide_download, download, read_host
from wasmrt.egress._failure import HttpFailure
from wasmrt.egress._gateway import EgressGateway
from wasmrt.egress._host import HostCall
from wasmrt.egress._injector import Credential, CredentialInjector, Injected
from wasmrt.egress._model import EgressCall, Face, HttpRequest, HttpResponse, SecretsView, SecretValue, WaitTimeouts
from wasmrt.egress._resolver import ResolveError, Resolver, ResolverForUsers, SystemResolver
from wasmrt.egress._response import Response
from wasmrt.egress._wire import Body, Transport, WholeBody, WireRequest, WireResponse

__all__ = [
    "Body",
    "Credential",
    "CredentialInjector",
    "EgressCall",
    "EgressGateway",
    "ExchangeBudget",
    "Face",
    "HostCall",
    "HttpFailure",
    "HttpRequest",
    "HttpResponse",
    "Injected",
    "NetworkConfig",
    "ResolveError",
    "Resolver",
    "ResolverForUsers",
    "Response",
    "SecretValue",
    "SecretsView",
    "SystemResolver",
    "Transport",
    "WaitTimeouts",
    "WholeBody",
    "WireRequest",
    "WireResponse",
    "decide_download",
    "download",
    "read_host",
]
