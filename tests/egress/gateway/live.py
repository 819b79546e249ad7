"""A hostile component and real HTTPS servers: an API with a credential, another host, and unreachable servers."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import trustme
import wasmtime
from wasmrt.testing import MemorySecrets, ReceivedRequest, ScriptedServer, ServerConnection, http_response
from wasmrt.testing.attacks._build import TEXT_AT, Body, tool

from wasmrt import PreparedTool, WasmRuntimeConfig, WasmToolRuntime
from wasmrt.capabilities import (
    Capabilities,
    CredentialLocation,
    CredentialMapping,
    EndpointPattern,
    HttpCapability,
    RateLimitConfig,
)
from wasmrt.egress.gateway import NetworkConfig, Resolver
from wasmrt.egress.secrets import Secret

API, OTHER, UNGRANTED = "api.example.com", "other.example.com", "ungranted.example.com"
SECRET = "Zq9xkTx7" + "vX2qmB4wnC6rpD8"
OUTSIDE, INSIDE = "127.0.0.1", "127.0.0.2"
"""Addresses of this machine that stand for a public and a private one: only the first is exempt from the check."""
ANSWERS: dict[str, list[str]] = {
    **{host: [OUTSIDE] for host in (API, OTHER, UNGRANTED)},
    "inside.example.com": [INSIDE],
    "both.example.com": [OUTSIDE, INSIDE],
    "mapped.example.com": [f"::ffff:{INSIDE}"],
    "none.example.com": [],
}

Script = Callable[[ReceivedRequest, ServerConnection], bytes | None]


def component(method: str, headers: str = "{}", url: str = "", body: bytes = b"") -> bytes:
    """Build a guest that sends one request and returns the headers of the response, or traps if there is none.

    `headers` is JSON, whose text the guest passes unchanged. Without `url`, its params are a JSON string with the URL.
    """
    text = method.encode() + headers.encode() + body + url.encode()
    ends = [TEXT_AT]
    for part in (method.encode(), headers.encode(), body):
        ends.append(ends[-1] + len(part))
    pointed = "(i32.add (local.get $params) (i32.const 1)) (i32.sub (local.get $length) (i32.const 2))"
    if url:
        pointed = f"(i32.const {ends[3]}) (i32.const {len(url.encode())})"
    execute = f"""
  (call $http-request (i32.const {TEXT_AT}) (i32.const {len(method)}) {pointed}
    (i32.const {ends[1]}) (i32.const {len(headers.encode())})
    (i32.const {int(bool(body))}) (i32.const {ends[2]}) (i32.const {len(body)})
    (i32.const 0) (i32.const 0) (i32.const 160))
  (if (i32.load8_u (i32.const 160)) (then unreachable))
  (call $say (i32.load (i32.const 168)) (i32.load (i32.const 172)))"""
    return bytes(wasmtime.wat2wasm(tool(Body(execute=execute, imports=("http-request",), text=text))))


def ok(request: ReceivedRequest, connection: ServerConnection) -> bytes:
    return http_response(f"at {request.target}".encode(), headers=(("Content-Type", "text/plain"),))


@dataclass
class Live:
    """The servers, and a runtime whose guests may reach the API and the other host."""

    api: ScriptedServer
    other: ScriptedServer
    plain: ScriptedServer
    inside: ScriptedServer
    runtime: WasmToolRuntime = field(init=False)
    script: Script = ok
    _prepared: dict[str, PreparedTool] = field(default_factory=dict)

    @property
    def servers(self) -> dict[str, ScriptedServer]:
        return {"api": self.api, "other": self.other, "plain": self.plain, "inside": self.inside}

    def url(self, text: str) -> str:
        """Return a URL with the servers' ports inserted."""
        for name, server in self.servers.items():
            text = text.replace("{" + name + "}", str(server.port))
        return text

    def ask(self, url: str, *, method: str = "GET", user: str = "ann") -> dict[str, str]:
        """Let a guest send a request, and return the headers of the response.

        Raises:
            ToolError: the request was refused, or failed.
        """
        if method not in self._prepared:
            self._prepared[method] = self.prepare(method, component(method))
        found: dict[str, str] = self._prepared[method].execute(json.dumps(url), user=user).result
        return found

    def prepare(self, name: str, guest: bytes) -> PreparedTool:
        ports = {name: server.port for name, server in self.servers.items()}
        return self.runtime.prepare(name.lower(), guest, grant(ports))

    def clear(self) -> None:
        self.script = ok
        for server in self.servers.values():
            server.requests.clear()


def grant(ports: dict[str, int]) -> Capabilities:
    """Grant the API below `/api/` with a credential below `/api/private/`, and the other hosts without one."""
    everywhere = tuple(ports.values())
    hosts = [OTHER, INSIDE, *(f"{name}.example.com" for name in ("inside", "both", "mapped", "none"))]
    http = HttpCapability(
        allowlist=(
            EndpointPattern(API, "/api/", ports=(ports["api"], ports["plain"]), schemes=("https", "http")),
            *(EndpointPattern(host, ports=everywhere) for host in hosts),
        ),
        credentials=(
            CredentialMapping(
                secret_name="api_token", location=CredentialLocation.bearer(), host_patterns=(API,),
                path_patterns=("/api/private/",), ports=(ports["api"], ports["plain"]),
            ),
        ),
        rate_limit=RateLimitConfig(requests_per_minute=10_000, requests_per_hour=10_000),
    )  # fmt: skip
    return Capabilities.none().with_http(http)


@contextmanager
def live_web(folder: Path, resolver: Resolver | None) -> Iterator[Live]:
    """Serve; `resolver` is None for the system's."""
    authority, tls = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    authority.issue_cert(*ANSWERS, INSIDE).configure_cert(tls)
    store = MemorySecrets()
    for user in ("ann", "eve"):
        store.set(user, "api_token", Secret(SECRET))
    with ExitStack() as stack:
        live = Live(
            api=ScriptedServer(lambda request, connection: live.script(request, connection), tls=tls),
            other=ScriptedServer(ok, tls=tls),
            plain=ScriptedServer(ok),
            inside=ScriptedServer(ok, tls=tls, host=INSIDE),
        )
        for server in live.servers.values():
            stack.enter_context(server)
        network = NetworkConfig(
            unsafe_allowed_networks=(f"{OUTSIDE}/32",), resolver=resolver, ca_file=folder / "ca.pem"
        )
        live.runtime = stack.enter_context(WasmToolRuntime(WasmRuntimeConfig(network=network, secrets=store)))
        yield live
