"""A result is scanned again after redaction, to find and withhold secrets that are split across values."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest
import wasmtime
from wasmrt.testing import MemorySecrets, http_response
from wasmrt.testing.attacks import Body, tool

from tests.sandbox.border.conftest import HOST, Site, Start
from wasmrt import CredentialLocation, CredentialMapping, ToolError
from wasmrt.core.model import Reason
from wasmrt.egress.secrets import Secret

WORDS = "Zq9kT7abvX2m" + "B4nC6pD8eFgH"
DIGITS = "8302749165" + "520348"

# Sends one request to the URL in the params' "url", which must come first, and returns the params.
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


def answer(start: Start, site: Callable[..., Site], secret: str, said: Any) -> Any:
    """Run a guest that uses a credential and then returns `said`; return the caller's result."""
    here = site(lambda request, connection: http_response(b"{}"))
    store = MemorySecrets()
    store.set("ann", "token", Secret(secret))
    mapping = CredentialMapping(secret_name="token", location=CredentialLocation.bearer(), host_patterns=(HOST,))
    prepared = start(network=here.network, secrets=store).prepare("tool", ASKER, here.grant(mapping))
    output = prepared.execute(f'{{"url":"{here.url()}","said":{json.dumps(said)}}}', user="ann")
    assert here.server.requests[0].header("Authorization") == f"Bearer {secret}"
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
def test_a_secret_split_across_values_withholds_the_result(
    start: Start, site: Callable[..., Site], secret: str, said: Any
) -> None:
    with pytest.raises(ToolError, match="split across several values") as caught:
        answer(start, site, secret, said)
    assert caught.value.code == "leak"
    for told in (str(caught.value), json.dumps(caught.value.as_dict())):
        assert secret not in told and secret[:12] not in told and secret[12:] not in told


def test_secrets_in_values_and_names_are_replaced(start: Start, site: Callable[..., Site]) -> None:
    said = {"kept": 1, "list": [f"is {WORDS}!", None, True], f"n{WORDS}": 2.5}
    answered = answer(start, site, WORDS, said)
    mark = "[REDACTED:secret:token]"
    assert answered == {"kept": 1, "list": [f"is {mark}!", None, True], f"n{mark}": 2.5}


def test_a_secret_recognised_by_its_name_withholds_the_result(start: Start) -> None:
    said = {"password": "k9Xq2mW7zT" + "4vB8nL3pRe"}
    echo = start().prepare("tool", ECHO)
    with pytest.raises(ToolError, match="split across several values"):
        echo.execute(said)
    assert echo.execute({"word": said["password"]}).result == {"word": said["password"]}


def layered(text: str, layers: int) -> str:
    for _ in range(layers):
        text = base64.b64encode(b"more text around it " + text.encode()).decode()
    return text


def test_a_result_that_cannot_be_decoded_for_scanning_is_withheld_and_recorded(
    start: Start, site: Callable[..., Site]
) -> None:
    with pytest.raises(ToolError, match="could not be decoded") as caught:
        answer(start, site, WORDS, layered("nothing", 9))
    hint = "change the tool to return its result unencoded and uncompressed"
    assert (caught.value.code, caught.value.hint) == ("not-scanned", hint)
    decision = caught.value.decisions[-1]
    assert (decision.allowed, decision.reason, decision.subject) == (False, Reason.NOT_SCANNED, "the tool's answer")


def test_a_result_that_is_too_large_to_decode_passes_and_is_recorded(start: Start) -> None:
    said = {"text": "password = changeme1\nsecret_token = value\n" * 20_000}
    output = start().prepare("tool", ECHO).execute(said)
    assert output.result == said
    (decision,) = output.decisions
    assert (decision.allowed, decision.reason, decision.rule) == (True, Reason.NOT_SCANNED, "scan-budget-exceeded")


def test_the_receipt_names_a_secret_that_was_redacted_from_a_response(start: Start, site: Callable[..., Site]) -> None:
    receipts: list[dict[str, Any]] = []
    here = site(lambda r, c: http_response(gzip.compress(gzip.compress((r.header("Authorization") or "").encode()))))
    store = MemorySecrets()
    store.set("ann", "token", Secret(WORDS))
    mapping = CredentialMapping(secret_name="token", location=CredentialLocation.bearer(), host_patterns=(HOST,))
    runtime = start(network=here.network, secrets=store, audit=receipts.append)
    runtime.prepare("tool", ASKER, here.grant(mapping)).execute(f'{{"url":"{here.url()}"}}', user="ann")
    (receipt,) = receipts
    (decision,) = (decision for decision in receipt["decisions"] if decision["reason"] == "leak")
    assert (decision["allowed"], decision["rule"], decision["subject"]) == (True, "secret:token", "the response")
    assert WORDS not in json.dumps(receipt)
