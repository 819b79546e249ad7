"""An authorization server on loopback: its keys behind TLS, and valid and forged tokens of every kind."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.server
import json
import ssl
import threading
import time
from functools import cache
from pathlib import Path
from typing import Any

import jwt
import trustme
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from wasmrt.egress.gateway import EgressGateway, NetworkConfig
from wasmrt.runtime.config_serve import ResourceSettings

RESOURCE = "https://tools.example.com/mcp"
HOST = "tools.example.com"


@cache
def rsa_key(name: str, bits: int = 2048) -> rsa.RSAPrivateKey:
    """Return a key by its name; generating one is slow."""
    return rsa.generate_private_key(65537, bits)


@cache
def ec_key(name: str) -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


@cache
def ed_key(name: str) -> ed25519.Ed25519PrivateKey:
    return ed25519.Ed25519PrivateKey.generate()


def public(key: Any, kid: str | None = "k1", **more: Any) -> dict[str, Any]:
    """Return the public key as an authorization server publishes it."""
    kind = {"RSAPrivateKey": "RSAAlgorithm", "EllipticCurvePrivateKey": "ECAlgorithm"}
    name = kind.get(type(key).__name__.removeprefix("_"), "")
    if not name:
        name = "RSAAlgorithm" if isinstance(key, rsa.RSAPrivateKey) else "OKPAlgorithm"
        name = "ECAlgorithm" if isinstance(key, ec.EllipticCurvePrivateKey) else name
    values: dict[str, Any] = getattr(jwt.algorithms, name).to_jwk(key.public_key(), as_dict=True)
    return {key: value for key, value in values.items() if key != "key_ops"} | ({"kid": kid} if kid else {}) | more


def encoded(value: Any) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


class Authority(http.server.ThreadingHTTPServer):
    """The server; `keys` are the published keys, `fetched` counts their requests."""

    daemon_threads = True

    def __init__(self, certificates: trustme.CA, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificates.issue_cert("localhost").configure_cert(context)
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        certificates.cert_pem.write_to_path(folder / "ca.pem")
        self.issuer = f"https://localhost:{self.server_address[1]}"
        self.network = NetworkConfig(ca_file=folder / "ca.pem", unsafe_allowed_networks=("127.0.0.0/8", "::1/128"))
        self.gateway = EgressGateway(self.network)
        self.keys: list[Any] = [public(rsa_key("a"))]
        self.body: bytes | None = None
        self.status = 200
        self.fetched = 0
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def settings(self, **more: Any) -> ResourceSettings:
        users = {"alice@login": "alice", "eve@login": "eve", "owner": "local"}
        url = f"{self.issuer}/keys"
        return ResourceSettings(resource=RESOURCE, issuer=self.issuer, jwks_url=url, users=users)._replace(**more)

    def claims(self, **more: Any) -> dict[str, Any]:
        now = int(time.time())
        found = {"iss": self.issuer, "aud": RESOURCE, "sub": "alice@login", "iat": now, "exp": now + 600} | more
        return {name: value for name, value in found.items() if value is not None}

    def token(self, key: Any = None, algorithm: str = "RS256", header: Any = None, **claims: Any) -> str:
        """Return a token; `header` replaces or (None) removes fields of its header."""
        fields = {"alg": algorithm, "typ": "at+jwt", "kid": "k1"} | (header or {})
        fields = {name: value for name, value in fields.items() if value is not None}
        return self.signed(fields, self.claims(**claims), rsa_key("a") if key is None else key, algorithm)

    def signed(self, header: Any, claims: Any, key: Any, algorithm: str) -> str:
        """Sign without the library, so that invalid tokens can be signed, too."""
        text = f"{encoded(header)}.{encoded(claims)}"
        if algorithm == "none":
            return f"{text}."
        if algorithm.startswith("HS"):
            return f"{text}.{encoded(hmac.digest(key, text.encode(), hashlib.sha256))}"
        found = jwt.algorithms.get_default_algorithms()[algorithm]
        return f"{text}.{encoded(found.sign(text.encode(), key))}"

    def close(self) -> None:
        self.gateway.close()
        self.shutdown()
        self.server_close()
        self._thread.join(20)


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Authority

    def do_GET(self) -> None:
        self.server.fetched += 1
        body = json.dumps({"keys": self.server.keys}).encode() if self.server.body is None else self.server.body
        self.send_response(self.server.status)
        self.send_header("content-type", "application/jwk-set+json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass
