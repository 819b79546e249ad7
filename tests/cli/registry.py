"""A small OCI registry on loopback whose responses a test can replace, and a server that nothing may reach."""

from __future__ import annotations

import base64
import hashlib
import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import trustme
from wasmrt.testing import ReceivedRequest, ScriptedServer, ServerConnection, http_response

import wasmrt

BUNDLED = Path(wasmrt.__file__).parent / "catalog/shipped"

COMPONENT = (BUNDLED / "echo.wasm").read_bytes()
REQUEST = json.dumps({"http": {"allowlist": [{"host": "api.example.com", "methods": ["GET"]}]}}, indent=1).encode()
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
CONFIG_TYPE = "application/vnd.wasm.config.v0+json"
USER, PASSWORD = "ann", "a password" + " of ann"
BASIC = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
TOKEN = "token." + "of.the.realm"
Answer = bytes | Callable[[ReceivedRequest, ServerConnection], bytes | None]


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def descriptor(data: bytes, kind: str) -> dict[str, object]:
    return {"mediaType": kind, "digest": digest_of(data), "size": len(data)}


def config_of(capabilities: bytes | None, **others: object) -> bytes:
    tree: dict[str, object] = {"created": "2026-01-01T00:00:00Z", "architecture": "wasm", "os": "wasip2"}
    if capabilities is not None:
        kind = "application/vnd.wasmrt.capabilities.v1+json"
        tree["wasmrt"] = {"mediaType": kind, "digest": digest_of(capabilities), "data": capabilities.decode()}
    return json.dumps(tree | others).encode()


def index_of(*manifests: bytes, subject: str = "") -> bytes:
    """Return an index of manifests, by default of all, or of those that refer to a subject."""
    trees = {digest_of(data): (data, json.loads(data)) for data in manifests}
    entries = [
        descriptor(data, MANIFEST_TYPE) | {"artifactType": tree.get("artifactType")}
        for data, tree in trees.values()
        if not subject or tree.get("subject", {}).get("digest") == subject
    ]
    return json.dumps({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": entries}).encode()


@dataclass
class FakeRegistry:
    """A registry with one repository, `acme/parrot`."""

    server: ScriptedServer
    inner: ScriptedServer
    manifests: dict[str, bytes] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    lies: dict[str, Answer] = field(default_factory=dict)
    """Responses by the end of a path, instead of the correct ones."""
    has_referrers: bool = False
    """Whether it has the API of referrers; otherwise it only stores the index under a tag."""
    challenge: str = ""
    """The challenge that requests without a login get; empty if none is required."""

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server.port}"

    def url(self, version: str = ":1.0.0") -> str:
        return f"oci://{self.host}/acme/parrot{version}"

    def publish(self, blob: bytes, *layers: tuple[bytes, str], tag: str = "1.0.0", **changes: object) -> str:
        """Store a tool with a config blob under a tag, and return the digest of its manifest."""
        self.blobs |= {digest_of(data): data for data in (blob, *(data for data, _ in layers))}
        manifest = {
            "schemaVersion": 2, "mediaType": MANIFEST_TYPE, "config": descriptor(blob, CONFIG_TYPE),
            "layers": [descriptor(data, kind) for data, kind in layers],
        }  # fmt: skip
        data = json.dumps(manifest | changes).encode()
        self.manifests |= {tag: data, digest_of(data): data}
        return digest_of(data)

    def respond(self, request: ReceivedRequest, connection: ServerConnection) -> bytes | None:
        path = urlsplit(request.target).path
        lie = next((answer for end, answer in self.lies.items() if path.endswith(end)), None)
        if lie is not None:
            connection.keep_alive = False
            return lie if isinstance(lie, bytes) else lie(request, connection)
        if path == "/token":
            given = request.header("Authorization")
            is_known = given in (None, BASIC)
            return http_response(json.dumps({"token": TOKEN}).encode()) if is_known else http_response(status=401)
        if self.challenge and request.header("Authorization") not in (BASIC, f"Bearer {TOKEN}"):
            return http_response(b"{}" * 100, status=401, headers=(("WWW-Authenticate", self.challenge),))
        return self._serve(request, path.removeprefix("/v2/acme/parrot/"))

    def _serve(self, request: ReceivedRequest, path: str) -> bytes:
        kind, _, version = path.partition("/")
        if request.method == "POST":
            return http_response(status=202, headers=(("Location", "/v2/acme/parrot/blobs/uploads/1?state=a"),))
        if request.method == "PUT" and kind == "manifests":
            self.manifests |= {version: request.body, digest_of(request.body): request.body}
            return http_response(status=201)
        if request.method == "PUT":
            (digest,) = parse_qs(urlsplit(request.target).query)["digest"]
            self.blobs[digest] = request.body
            return http_response(status=201 if digest == digest_of(request.body) else 400)
        if kind == "referrers" and self.has_referrers and request.method == "GET":
            return http_response(index_of(*self.manifests.values(), subject=version))
        found = (self.manifests if kind == "manifests" else self.blobs).get(version)
        if request.method == "HEAD":
            return http_response(status=404 if found is None else 200)
        return http_response(b"{}", status=404) if found is None else http_response(found)


@contextmanager
def serve_registry(home: Path) -> Iterator[FakeRegistry]:
    """Run a registry with TLS that the installation in `home` trusts and may reach."""
    authority = trustme.CA()
    tls, inner_tls = (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) for _ in range(2))
    for context in (tls, inner_tls):
        authority.issue_cert("127.0.0.1", "localhost").configure_cert(context)
    trust(home, authority)
    registry: list[FakeRegistry] = []
    with (
        ScriptedServer(lambda *pair: registry[0].respond(*pair), tls=tls) as server,
        ScriptedServer(lambda *_: http_response(COMPONENT), tls=inner_tls) as inner,
    ):
        registry.append(FakeRegistry(server, inner))
        yield registry[0]


def trust(home: Path, authority: trustme.CA) -> None:
    """Let an installation reach loopback addresses with certificates of an authority."""
    authority.cert_pem.write_to_path(str(home / "ca.pem"))
    (home / "data").mkdir(exist_ok=True)
    (home / "data/config.toml").write_text(
        '[network]\nunsafe_allowed_networks = ["127.0.0.0/8"]\nca_file = "../ca.pem"\n'
    )


def log_in(folder: Path, host: str, **changes: object) -> None:
    """Write a `config.json` of Docker with a login for a registry."""
    folder.mkdir(exist_ok=True)
    encoded = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    (folder / "config.json").write_text(json.dumps({"auths": {host: {"auth": encoded}}} | changes))
