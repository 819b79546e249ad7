"""A credential that a server packs into its response reaches no tool of a package, and the receipt names it."""

from __future__ import annotations

import base64
import bz2
import gzip
import json
import string
import zlib
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from wasmrt.testing import ReceivedRequest, ServerConnection, http_response

from tests.catalog.packages.conftest import API, Desk
from wasmrt import ToolError
from wasmrt.egress.secrets import Secret

PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gzip twice": lambda raw: gzip.compress(gzip.compress(raw)),
    "zlib twice": lambda raw: zlib.compress(zlib.compress(raw)),
    "base64 of bzip2": lambda raw: base64.b64encode(bz2.compress(raw)),
    "gzip of zlib": lambda raw: gzip.compress(zlib.compress(raw)),
    "base64 of base64": lambda raw: base64.b64encode(base64.b64encode(raw)),
    "base64 of gzip": lambda raw: base64.b64encode(gzip.compress(raw)),
}


@pytest.mark.parametrize("how", PACKED)
def test_a_tool_that_downloads_gets_no_packed_credential_and_the_receipt_names_it(desk: Desk, how: str) -> None:
    receipts: list[dict[str, Any]] = []
    desk.runtime.pipeline = desk.runtime.pipeline._replace(audit=lambda record: receipts.append(record.as_dict()))

    def echo(request: ReceivedRequest, connection: ServerConnection) -> bytes:
        return http_response(PACKED[how]((request.header("authorization") or "")[len("Bearer ") :].encode()))

    desk.server.script = echo
    tool, random = desk.prepare().tool("list_tickets"), Random(37)
    for size in (16, 24, 40, 64):
        secret = "".join(random.choices(string.ascii_letters + string.digits, k=size))
        desk.secrets.set("local", "desk_token", Secret(secret))
        try:
            answer = tool.execute({"host": desk.at(API)}).result["body"].rstrip("=")
        except ToolError as error:
            answer = error.code
        decision = receipts[-1]["decisions"][-1]
        assert (answer, decision["allowed"], decision["reason"], decision["rule"]) in (
            ("[REDACTED:secret:desk_token]", True, "leak", "secret:desk_token"),
            ("tool:response-not-scanned", False, "not-scanned", "decode-limit-exceeded"),
        )
        assert secret not in json.dumps(receipts[-1])
    assert [seen.header("authorization") is not None for seen in desk.server.requests] == [True] * 4
