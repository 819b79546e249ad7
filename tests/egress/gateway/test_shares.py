"""Lookups and connections are shared between users: no user can take all of them."""

from __future__ import annotations

import socket
import threading

import pytest

from wasmrt.core.limits import MAX_DNS_LOOKUPS
from wasmrt.egress.gateway import ResolveError, SystemResolver
from wasmrt.egress.gateway._slots import Shares


@pytest.mark.parametrize("total", [8, 64, 128])
def test_one_or_two_greedy_users_leave_slots_for_others(total: int) -> None:
    shares = Shares(total)
    taken = [user for user in ("eve", "mallory") for _ in range(total) if shares.take(user)]
    assert len(taken) < total
    assert shares.take("ann")
    for user in (*taken, "ann"):
        shares.release_slot(user)
    assert shares.empty


def test_every_slot_can_be_taken_and_released() -> None:
    shares = Shares(4)
    assert [shares.take(user) for user in "abcde"] == [True] * 4 + [False]
    for user in "abcd":
        shares.release_slot(user)
    assert shares.empty and shares.take("e")


def test_unresponsive_lookups_of_one_user_do_not_block_other_users(monkeypatch: pytest.MonkeyPatch) -> None:
    stalled = threading.Event()

    def look_up(host: str, port: int, **_: object) -> list[object]:
        if host.endswith(".evil.example"):
            stalled.wait(30)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.215.14", port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    resolver = SystemResolver()
    try:
        for user in ("eve", "mallory"):
            for number in range(MAX_DNS_LOOKUPS):
                with pytest.raises(ResolveError):
                    resolver.for_user(user).resolve(f"n{number}.evil.example", 443, timeout_seconds=0.001)
        assert resolver.for_user("ann").resolve("api.example.com", 443, timeout_seconds=10) == ("93.184.215.14",)
    finally:
        stalled.set()
