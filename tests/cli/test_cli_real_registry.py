"""`wasmrt push` and `wasmrt install oci://...` with Debian's registry (distribution), over TLS and with both logins."""

from __future__ import annotations

import base64
import http.client
import json
import re
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import trustme
from click.testing import Result
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from wasmrt.testing import ReceivedRequest, ScriptedServer, ServerConnection, http_response

from tests.cli.distribution import needs_distribution, serve
from tests.cli.registry import BASIC, COMPONENT, REQUEST, USER, log_in, trust

pytestmark = [pytest.mark.ci("peers"), needs_distribution]
Run = Callable[..., Result]
HASH = "$2y$05$" + "UZl4EsLpWfwwXnAf9rjvzu5ruU.eX10QKWyWSAxkmAHdtH7m64ocC"  # bcrypt of the password, from `htpasswd -B`


@pytest.fixture
def authority(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> trustme.CA:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
    trust(home, authority)
    return authority


@pytest.fixture
def with_passwords(authority: trustme.CA, tmp_path: Path) -> Iterator[str]:
    """A registry with TLS and htpasswd; its host."""
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "tls.pem"))
    (tmp_path / "htpasswd").write_text(f"{USER}:{HASH}\n")
    pem = tmp_path / "tls.pem"
    settings = (
        f"http: {{addr: '127.0.0.1:0', tls: {{certificate: {pem}, key: {pem}}}}}\n"
        f"auth: {{htpasswd: {{realm: registry, path: {tmp_path / 'htpasswd'}}}}}\n"
    )
    with serve(tmp_path / "registry", settings) as port:
        yield f"127.0.0.1:{port}"


@pytest.fixture
def with_tokens(authority: trustme.CA, tmp_path: Path) -> Iterator[str]:
    """A server that issues tokens and forwards all other requests to a registry that requires them; its host."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    signer = authority.issue_cert("tokens")
    authority.cert_pem.write_to_path(str(tmp_path / "root.pem"))
    port = 0

    def respond(request: ReceivedRequest, _connection: ServerConnection) -> bytes:
        if not request.target.startswith("/token"):
            return forward(request, port)
        query = parse_qs(urlsplit(request.target).query)
        kind, name, actions = query["scope"][0].split(":")
        known = request.header("Authorization")
        if known not in (None, BASIC):
            return http_response(status=401)
        granted = [action for action in actions.split(",") if action == "pull" or known == BASIC]
        access = [{"type": kind, "name": name, "actions": granted}]
        return http_response(json.dumps({"token": sign(signer, access)}).encode())

    with ExitStack() as stack:
        proxy = stack.enter_context(ScriptedServer(respond, tls=tls))
        token = f"realm: 'https://127.0.0.1:{proxy.port}/token', service: registry, issuer: tokens"
        port = stack.enter_context(
            serve(
                tmp_path / "registry",
                "http: {addr: '127.0.0.1:0'}\n"
                f"auth: {{token: {{{token}, rootcertbundle: {tmp_path / 'root.pem'}}}}}\n",
            )
        )
        yield f"127.0.0.1:{proxy.port}"


def forward(request: ReceivedRequest, port: int) -> bytes:
    headers = dict(request.headers) | {"X-Forwarded-Proto": "https"}
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
        connection.request(request.method, request.target, request.body, headers)
        got = connection.getresponse()
        body = got.read()
    length = int(got.headers["Content-Length"] or 0) if request.method == "HEAD" else len(body)
    sent = tuple((name, value) for name, value in got.headers.items() if name != "Content-Length")
    return http_response(body, status=got.status, headers=sent, length=length)


def sign(signer: trustme.LeafCert, access: list[dict[str, object]]) -> str:
    """Return a token of the distribution's format: a JWT (ES256) with the certificate in its header."""
    certificate = x509.load_pem_x509_certificate(signer.cert_chain_pems[0].bytes())
    chain = [base64.b64encode(certificate.public_bytes(Encoding.DER)).decode()]
    now = int(time.time())
    claims = {
        "iss": "tokens", "sub": USER, "aud": "registry", "exp": now + 60, "nbf": now - 10, "iat": now, "jti": "1",
        "access": access,
    }  # fmt: skip
    parts = [encode(json.dumps(part).encode()) for part in ({"typ": "JWT", "alg": "ES256", "x5c": chain}, claims)]
    key = load_pem_private_key(signer.private_key_pem.bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    pair = utils.decode_dss_signature(key.sign(".".join(parts).encode(), ec.ECDSA(hashes.SHA256())))
    return ".".join([*parts, encode(b"".join(number.to_bytes(32, "big") for number in pair))])


def encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@pytest.mark.parametrize("login", ["with_passwords", "with_tokens"])
def test_a_pushed_component_is_installed_with_its_capability_file(
    wasmrt: Run, home: Path, tmp_path: Path, request: pytest.FixtureRequest, login: str
) -> None:
    host = request.getfixturevalue(login)
    url = f"oci://{host}/acme/parrot:1.0.0"
    (tmp_path / "parrot.wasm").write_bytes(COMPONENT)
    (tmp_path / "parrot.capabilities.json").write_bytes(REQUEST)
    told = wasmrt("push", url, tmp_path / "parrot.wasm", "--json", code=2).stderr
    assert json.loads(told)["code"] == "registry-login"
    log_in(tmp_path / "docker", host)
    pushed = [json.loads(wasmrt("push", url, tmp_path / "parrot.wasm", "--json").stdout) for _ in range(2)]
    assert pushed[0] == pushed[1]
    assert re.fullmatch(rf"oci://{host}/acme/parrot@sha256:[0-9a-f]{{64}}", pushed[0]["resolved"])
    shown = wasmrt("install", pushed[0]["resolved"], "--yes").stderr
    assert "may GET https://api.example.com" in shown
    assert "different source" in wasmrt("install", url, "--yes").stderr  # `wasmrt update` reads the tag from now on
    wasmrt("sign", "--new-key", tmp_path / "publisher")
    assert "not signed" in wasmrt("install", url, "--key", tmp_path / "publisher.pub", "--yes", code=2).stderr
    signed = wasmrt("push", url, tmp_path / "parrot.wasm", "--sign", tmp_path / "publisher.key", "--json").stdout
    assert json.loads(signed) == pushed[0]
    assert "now signed by key" in wasmrt("install", url, "--key", tmp_path / "publisher.pub", "--yes").stderr
    assert "already installed" in wasmrt("install", url, "--yes").stderr
    assert "hi" in wasmrt("run", "parrot", '{"message": "hi"}').stdout
    missing = json.loads(wasmrt("install", f"oci://{host}/acme/parrot:2", "--json", code=2).stderr)
    assert missing["code"] == "not-found"
    with (home / "data/config.toml").open("a") as file:
        file.write(f'[install]\nsearch = ["oci://{host}/acme"]\n')
    assert json.loads(wasmrt("search", "parrot", "--json").stdout)["tools"][0]["reference"] == url
    if login == "with_tokens":  # the realm issues tokens for pulls without a login
        (tmp_path / "docker/config.json").unlink()
        assert "already installed" in wasmrt("install", url, "--yes").stderr


def test_locked_keeps_the_content_of_a_tag_that_has_moved(
    wasmrt: Run, tmp_path: Path, with_passwords: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    log_in(tmp_path / "docker", with_passwords)
    url = f"oci://{with_passwords}/acme/parrot:latest"
    (tmp_path / "parrot.wasm").write_bytes(COMPONENT)
    first = json.loads(wasmrt("push", url, tmp_path / "parrot.wasm", "--json").stdout)["resolved"]
    wasmrt("install", url, "--lock")
    (tmp_path / "parrot.capabilities.json").write_bytes(REQUEST)
    second = json.loads(wasmrt("push", url, tmp_path / "parrot.wasm", "--json").stdout)["resolved"]
    assert first != second
    wasmrt("remove", "parrot", "--yes")
    assert json.loads(wasmrt("install", "--locked", "--json").stdout)[0]["resolved"] == first
    (row,) = json.loads(wasmrt("update", "--check", "--json").stdout)
    assert second.endswith(row["digest"]) and row["new"]
    assert "version 1 stays active" in wasmrt("update", code=3).stderr
    wasmrt("update", "--yes")
    assert json.loads((tmp_path / "wasmrt.lock").read_text())["tools"][0]["resolved"] == second
