"""The server that a guest asks, what its user holds for it, and a runtime that may reach it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from enum import Enum, auto
from pathlib import Path
from secrets import token_urlsafe
from tempfile import TemporaryDirectory

from wasmrt.authoring.testing._certificates import loopback_certificates
from wasmrt.authoring.testing._net import FakeResolver
from wasmrt.authoring.testing._secrets import MemorySecrets
from wasmrt.authoring.testing._server import Script, ScriptedServer
from wasmrt.authoring.testing.attacks._build import SITE
from wasmrt.capabilities import Capabilities, CredentialLocation, CredentialMapping, EndpointPattern, HttpCapability
from wasmrt.egress.gateway import NetworkConfig
from wasmrt.egress.oauth import OAuthState, Tokens, store_tokens
from wasmrt.egress.secrets import DEFAULT_USER, Secret
from wasmrt.runtime.config import WasmRuntimeConfig
from wasmrt.runtime.runtime import WasmToolRuntime

_NAME = "token"
TOKEN_BYTES = 32
"""Random bytes of a token; it is longer as text."""
_BEARER = CredentialMapping(secret_name=_NAME, location=CredentialLocation.bearer(), host_patterns=(SITE,))


class Held(Enum):
    """A secret that the host puts into the guest's request; a server that gets one speaks TLS."""

    NOTHING = auto()
    TOKEN = auto()
    LOGIN = auto()
    """A token that is over, to be renewed at the same server."""


@contextmanager
def site(
    script: Script, held: Held, config: WasmRuntimeConfig
) -> Iterator[tuple[WasmToolRuntime, str, int, Capabilities]]:
    """Start the server; yield a runtime like that of `config`, the server's scheme and port, and a grant for it."""
    with ExitStack() as stack:
        ca_file, tls, scheme, store = None, None, "http", MemorySecrets()
        if held is not Held.NOTHING:
            folder = stack.enter_context(TemporaryDirectory(prefix="wasmrt-attack-"))
            ca_file, tls = loopback_certificates(SITE, Path(folder))
            scheme = "https"
        server = stack.enter_context(ScriptedServer(script, tls=tls))
        _hold(store, held, f"https://{SITE}:{server.port}/token")
        network = NetworkConfig(
            unsafe_allowed_networks=("127.0.0.0/8",), resolver=FakeResolver({SITE: ["127.0.0.1"]}), ca_file=ca_file
        )
        own = stack.enter_context(WasmToolRuntime(replace(config, network=network, secrets=store)))
        patterns = (EndpointPattern(SITE, ports=(server.port,), schemes=(scheme,)),)
        http = HttpCapability(allowlist=patterns, credentials=() if held is Held.NOTHING else (_BEARER,))
        yield own, scheme, server.port, Capabilities.none().with_http(http)


def _hold(store: MemorySecrets, held: Held, token_url: str) -> None:
    if held is Held.TOKEN:
        store.set(DEFAULT_USER, _NAME, Secret(token_urlsafe(TOKEN_BYTES)))
    elif held is Held.LOGIN:
        state = OAuthState(
            token_url=token_url,
            client_id="attack",
            client_secret=None,
            refresh_token=None,
            access_token_field="access_token",  # noqa: S106 - a field's name
            expires_at=None,
        )
        tokens = Tokens(token_urlsafe(TOKEN_BYTES), token_urlsafe(TOKEN_BYTES), time.time() - 1)
        store_tokens(store, DEFAULT_USER, _NAME, state, tokens)
