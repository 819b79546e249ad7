"""An answer is scanned a second time once it was redacted: what lies across its values is found, and withheld."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
import wasmtime

from tests.border.conftest import Start
from wasmrt import Capabilities, CredentialLocation, CredentialMapping, EndpointPattern, HttpCapability, ToolError
from wasmrt.egress import NetworkConfig
from wasmrt.secrets import Secret
from wasmrt.testing import FakeResolver, MemorySecrets, ScriptedServer, http_response
from wasmrt.testing.attacks import Body, tool

HOST = "api.example.com"
WORDS = "Zq9kT7abvX2m" + "B4nC6pD8eFgH"
DIGITS = "8302749165" + "520348"

# Sends one request to the URL in the params' "url", which comes first, and answers with the params.
_ASK_THEN_ECHO = """
  (local.set $i (i32.const 8))
  (loop $next
    (local.set $i (i32.add (local.get $i) (i32.const 1)))
    (br_if $next (i32.ne (i32.load8_u (i32.add (local.get $params) (local.get $i))) (i32.const 34))))
  (call $http-request (i32.const 1024) (i32.const 3)
    (i32.add (local.get $params) (i32.const 8)) (i32.sub (local.get $i) (i32.const 8))
    (i32.const 1027) (i32.const 2)
    (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 256))
  (if (i32.load8_u (i32.const 256)) (then (unreachable)))
  (call $say (local.get $params) (local.get $length))"""
ASKER = bytes(wasmtime.wat2wasm(tool(Body(execute=_ASK_THEN_ECHO, imports=("http-request",), text=b"GET{}"))))
ECHO = bytes(wasmtime.wat2wasm(tool(Body(execute="(call $say (local.get $params) (local.get $length))"))))


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def server(authority: trustme.CA) -> Iterator[ScriptedServer]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(HOST).configure_cert(context)
    with ScriptedServer(lambda request, connection: http_response(b"{}"), tls=context) as server:
        yield server


def _answer(start: Start, server: ScriptedServer, authority: trustme.CA, tmp_path: Path, secret: str, said: Any) -> Any:
    """What the caller gets of a guest that used a credential and then says `said`."""
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    store = MemorySecrets()
    store.set("ann", "token", Secret(secret))
    network = NetworkConfig(
        unsafe_allowed_networks=("127.0.0.0/8",),
        resolver=FakeResolver({HOST: ["127.0.0.1"]}),
        ca_file=tmp_path / "ca.pem",
    )
    mapping = CredentialMapping(secret_name="token", location=CredentialLocation.bearer(), host_patterns=(HOST,))
    grant = Capabilities.none().with_http(
        HttpCapability(allowlist=(EndpointPattern(HOST, ports=(server.port,)),), credentials=(mapping,))
    )
    prepared = start(network=network, secrets=store).prepare("tool", ASKER, grant)
    text = f'{{"url":"https://{HOST}:{server.port}/","said":{json.dumps(said)}}}'
    output = prepared.execute(text, user="ann")
    assert server.requests[0].header("Authorization") == f"Bearer {secret}"
    assert json.loads(output.raw or "") == output.result
    return output.result["said"]


@pytest.mark.parametrize(
    ("secret", "said"),
    [
        (DIGITS, int(DIGITS)),
        (DIGITS, [1, [int(DIGITS)]]),
        (WORDS, [WORDS[:12], WORDS[12:]]),
        (WORDS, {WORDS[:12]: WORDS[12:]}),
        (WORDS, {"whole": WORDS, "halves": [WORDS[:12], WORDS[12:]]}),
    ],
)
def test_a_secret_that_cannot_be_cut_out_of_the_values_withholds_the_answer(
    start: Start, server: ScriptedServer, authority: trustme.CA, tmp_path: Path, secret: str, said: Any
) -> None:
    with pytest.raises(ToolError, match="in pieces") as caught:
        _answer(start, server, authority, tmp_path, secret, said)
    assert caught.value.code == "leak"
    for told in (str(caught.value), json.dumps(caught.value.as_dict())):
        assert secret not in told and secret[:12] not in told and secret[12:] not in told


def test_a_secret_within_values_and_names_is_replaced_there_and_the_rest_is_answered(
    start: Start, server: ScriptedServer, authority: trustme.CA, tmp_path: Path
) -> None:
    said = {"kept": 1, "list": [f"is {WORDS}!", None, True], f"n{WORDS}": 2.5}
    answered = _answer(start, server, authority, tmp_path, WORDS, said)
    mark = "[REDACTED:secret:token]"
    assert answered == {"kept": 1, "list": [f"is {mark}!", None, True], f"n{mark}": 2.5}


def test_what_is_a_secret_only_beside_its_name_withholds_the_answer(start: Start) -> None:
    said = {"password": "k9Xq2mW7zT" + "4vB8nL3pRe"}
    echo = start().prepare("tool", ECHO)
    with pytest.raises(ToolError, match="in pieces"):
        echo.execute(said)
    assert echo.execute({"word": said["password"]}).result == {"word": said["password"]}
