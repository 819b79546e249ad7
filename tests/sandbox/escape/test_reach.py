"""A guest reaches only granted resources, and its attempts are recorded."""

from __future__ import annotations

import socket

import pytest
from wasmrt.testing.attacks import Body

from tests.sandbox.escape.conftest import Make
from wasmrt.core.limits import MAX_REFUSALS, ResourceLimits
from wasmrt.core.model import Reason

PATIENT = ResourceLimits(timeout_seconds=60, fuel=2**60)
"""Seconds for a thousand requests on a busy machine."""


def _look_up(times: int) -> Body:
    # The digits of the name count up, so that every lookup is for a different name.
    digits = "".join(
        f"""(i32.store8 (i32.const {1024 + place}) (i32.add (i32.const 48)
        (i32.rem_u (i32.div_u (local.get $i) (i32.const {10 ** (3 - place)})) (i32.const 10))))"""
        for place in range(4)
    )
    return Body(
        imports=("instance-network", "resolve-addresses"),
        text=b"0000.example.com",
        execute=f"""(local.set $j (call $instance-network))
        (loop $again {digits}
          (call $resolve-addresses (local.get $j) (i32.const 1024) (i32.const 16) (i32.const 256))
          (local.set $i (i32.add (local.get $i) (i32.const 1)))
          (br_if $again (i32.lt_u (local.get $i) (i32.const {times})))) (call $ok)""",
    )


def test_a_refused_socket_names_an_alternative(make: Make) -> None:
    body = Body(
        imports=("create-tcp-socket",),
        execute="(call $create-tcp-socket (i32.const 1) (i32.const 256)) (call $ok)",
    )
    (decision,) = make(body).execute({}).decisions
    assert not decision.allowed
    assert decision.reason == Reason.SOCKETS_DENIED
    assert decision.subject == "open a TCP socket (ipv6)"
    assert "http.allowlist" in (decision.hint or "")


def test_a_refused_lookup_names_the_host_without_a_dns_query(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **_: asked.append(args))
    (decision,) = make(_look_up(1)).execute({}).decisions
    assert decision.subject == "look up 0000.example.com"
    assert asked == []


def test_a_thousand_refused_lookups_leave_a_limited_record(make: Make) -> None:
    assert len(make(_look_up(1000), PATIENT).execute({}).decisions) == MAX_REFUSALS


def test_repeated_refusals_are_recorded_once(make: Make) -> None:
    body = Body(
        imports=("create-tcp-socket",),
        execute="""(loop $again (call $create-tcp-socket (i32.const 0) (i32.const 256))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br_if $again (i32.lt_u (local.get $i) (i32.const 1000)))) (call $ok)""",
    )
    assert len(make(body, PATIENT).execute({}).decisions) == 1
