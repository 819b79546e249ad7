"""A hostile server, the user's secret for it, and a runtime that may reach it."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from pathlib import Path
from secrets import token_urlsafe
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from wasmrt.authoring.testing._fakes import FakeResolver, MemorySecrets
from wasmrt.authoring.testing._server import Script, ScriptedServer
from wasmrt.authoring.testing.attacks._build import SITE
from wasmrt.capabilities import Capabilities, CredentialLocation, CredentialMapping, EndpointPattern, HttpCapability
from wasmrt.egress.gateway import NetworkConfig
from wasmrt.egress.oauth import OAuthState, Tokens, store_tokens
from wasmrt.egress.secrets import DEFAULT_USER, Secret
from wasmrt.runtime.config import WasmRuntimeConfig
from wasmrt.runtime.runtime import WasmToolRuntime

if TYPE_CHECKING:
    from cryptography import x509


_NAME = "token"
TOKEN_BYTES = 32
"""Number of random bytes in a token."""
_BEARER = CredentialMapping(secret_name=_NAME, location=CredentialLocation.bearer(), host_patterns=(SITE,))


class SiteSecret(Enum):
    """The secret that the host adds to the guest's request. If there is a secret, the server uses TLS."""

    NOTHING = auto()
    TOKEN = auto()
    LOGIN = auto()
    """An expired token, which the host has to renew at the same server."""


@contextmanager
def open_site(
    script: Script, secret: SiteSecret, config: WasmRuntimeConfig
) -> Iterator[tuple[WasmToolRuntime, str, int, Capabilities]]:
    """Start the server; yield a runtime with the settings of `config`, the server's scheme and port, and a grant."""
    with ExitStack() as stack:
        ca_file, tls, scheme, store = None, None, "http", MemorySecrets()
        if secret is not SiteSecret.NOTHING:
            folder = stack.enter_context(TemporaryDirectory(prefix="wasmrt-attack-"))
            ca_file, tls = loopback_certificates(SITE, Path(folder))
            scheme = "https"
        server = stack.enter_context(ScriptedServer(script, tls=tls))
        _store_secret(store, secret, f"https://{SITE}:{server.port}/token")
        network = NetworkConfig(
            unsafe_allowed_networks=("127.0.0.0/8",), resolver=FakeResolver({SITE: ["127.0.0.1"]}), ca_file=ca_file
        )
        own = stack.enter_context(WasmToolRuntime(replace(config, network=network, secrets=store)))
        patterns = (EndpointPattern(SITE, ports=(server.port,), schemes=(scheme,)),)
        http = HttpCapability(allowlist=patterns, credentials=() if secret is SiteSecret.NOTHING else (_BEARER,))
        yield own, scheme, server.port, Capabilities.none().with_http(http)


def _store_secret(store: MemorySecrets, secret: SiteSecret, token_url: str) -> None:
    if secret is SiteSecret.TOKEN:
        store.set(DEFAULT_USER, _NAME, Secret(token_urlsafe(TOKEN_BYTES)))
    elif secret is SiteSecret.LOGIN:
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


_DAY = timedelta(days=1)


def loopback_certificates(name: str, folder: Path) -> tuple[Path, ssl.SSLContext]:
    """Create a certificate authority, and a certificate that it issued for a DNS name. Both are valid for a day.

    Args:
        name: The server's DNS name.
        folder: A private folder for the server's key, which the caller deletes.

    Returns:
        The PEM file of the authority, for `NetworkConfig.ca_file`, and the server's context.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    authority, server = generate_private_key(SECP256R1()), generate_private_key(SECP256R1())
    identifier = x509.SubjectKeyIdentifier.from_public_key(authority.public_key())
    issuer = (
        _make_certificate_builder("an authority of one server", "an authority of one server")
        .public_key(authority.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_make_signing_usage(), critical=True)
        .add_extension(identifier, critical=False)
        .sign(authority, SHA256())
    )
    certificate = (
        _make_certificate_builder(name, "an authority of one server")
        .public_key(server.public_key())
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
        .sign(authority, SHA256())
    )
    ca_file, chain, key = (folder / file for file in ("authority.pem", "server.pem", "key.pem"))
    ca_file.write_bytes(issuer.public_bytes(Encoding.PEM))
    chain.write_bytes(certificate.public_bytes(Encoding.PEM))
    key.touch(mode=0o600)
    key.write_bytes(server.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, key)
    return ca_file, context


def _make_certificate_builder(subject: str, issuer: str) -> x509.CertificateBuilder:
    from cryptography import x509

    now = datetime.now(UTC)
    names = [x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, each)]) for each in (subject, issuer)]
    named = x509.CertificateBuilder().subject_name(names[0]).issuer_name(names[1])
    return named.serial_number(x509.random_serial_number()).not_valid_before(now - _DAY).not_valid_after(now + _DAY)


def _make_signing_usage() -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=True, crl_sign=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
