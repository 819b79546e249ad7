"""Receipts of refused messages: the first is written at once, and a flood makes few."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.interop.mcp_server.site import Site
from tests.interop.mcp_server.world import META, Line, World
from wasmrt.core.errors import ConfigurationError
from wasmrt.interop.mcp.server.protocol import Refusal, RefusedMessages, Server
from wasmrt.interop.mcp.server.protocol import _refusals as refusals
from wasmrt.runtime.audit import ReceiptWriter
from wasmrt.runtime.audit._chain import read_keys
from wasmrt.runtime.audit.verify import verify


def counted(messages: list[RefusedMessages]) -> list[tuple[str, str, int]]:
    return [(str(each.refusal), each.user, each.number) for each in messages]


def test_a_flood_of_refusals_makes_two_receipts_with_counts(world: World) -> None:
    with world.serve() as line:
        for _ in range(2000):
            line.raw(b"no\n")
        for _ in range(2000):
            line.read()
        line.works()
    first, *calls, last = world.receipts
    assert [receipt.kind for receipt in calls] == ["function"]
    assert [(each.outcome, 1 + each.decisions_dropped) for each in (first, last)] == [
        ("not-json", 1),
        ("not-json", 1999),
    ]
    assert "1,999 messages" in last.decisions[0].rule and last.started_ms <= last.ended_ms


def test_receipts_of_refusals_contain_no_client_data(world: World, line: Line) -> None:
    line.error("say-this-word", {"_meta": META, "and": "this-one"})
    line.raw(b"this-word\n")
    line.read()
    assert len(world.receipts) == 2
    assert not [receipt for receipt in world.receipts if "this" in str(receipt)]


def test_a_refused_call_has_only_its_own_receipt(world: World, line: Line) -> None:
    line.error("tools/call", {"name": "nothing", "_meta": META})
    assert [(receipt.tool, receipt.kind) for receipt in world.receipts] == [("nothing", "")]


def test_refusals_are_counted_by_kind_and_user(site: Site) -> None:
    for user in ("local", "eve"):
        for _ in range(3):
            site.client.post(site.url, content=b"x", headers=site.headers(user, content_type="application/json"))
            site.client.post(site.url, content=b"x", headers=site.headers(user, content_type="text/plain"))
    assert [(receipt.outcome, receipt.user) for receipt in site.world.receipts] == [
        ("not-json", "local"), ("wrong-media-type", "local"), ("not-json", "eve"), ("wrong-media-type", "eve"),
    ]  # fmt: skip


def test_early_refusals_are_written_once_tools_are_loaded(world: World) -> None:
    async def main() -> list[RefusedMessages]:
        told: list[RefusedMessages] = []
        server = Server()
        server.refusals.note(Refusal.NOT_JSON, "local")
        server.refusals.note(Refusal.NOT_JSON, "local")
        server.refusals.open(told.append)
        return told

    assert counted(asyncio.run(main())) == [("not-json", "local", 2)]


def test_a_window_reports_its_count_when_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        told: asyncio.Queue[RefusedMessages] = asyncio.Queue()
        found = refusals.Refusals()
        found.open(told.put_nowait)
        for _ in range(5):
            found.note(Refusal.NO_TOKEN)
        async with asyncio.timeout(20):
            assert [(await told.get()).number, (await told.get()).number] == [1, 4]
            while found._windows:
                await asyncio.sleep(0)
        found.note(Refusal.NO_TOKEN)
        assert told.get_nowait().number == 1

    monkeypatch.setattr(refusals, "WINDOW_SECONDS", 0.01)
    asyncio.run(main())


def test_separately_counted_users_are_limited() -> None:
    async def main() -> list[RefusedMessages]:
        told: list[RefusedMessages] = []
        found = refusals.Refusals()
        found.open(told.append)
        for number in range(10 * refusals.MAX_WINDOWS):
            found.note(Refusal.NOT_JSON, f"user-{number}")
        found.flush()
        assert len(found._windows) == refusals.MAX_WINDOWS + 1
        return told

    told = asyncio.run(main())
    assert sum(each.number for each in told) == 10 * refusals.MAX_WINDOWS
    assert len(told) == refusals.MAX_WINDOWS + 2 and told[-1].user == ""


def test_unwritten_counts_are_kept_and_written_later() -> None:
    async def main() -> None:
        told: list[RefusedMessages] = []

        def full(messages: RefusedMessages) -> None:
            raise ConfigurationError("the receipt cannot be written")

        found = refusals.Refusals()
        found.open(full)
        for _ in range(3):
            found.note(Refusal.NOT_JSON)
        found.open(told.append)
        assert [each.number for each in told] == [3]

    asyncio.run(main())


def test_receipts_of_refusals_are_in_the_chain(tmp_path: Path) -> None:
    world = World(tmp_path)
    writer = ReceiptWriter(tmp_path / "receipts", tmp_path / "key")
    world.registry._services.receipts = writer
    with world.serve() as line:
        line.raw(b"no\n")
        line.read()
        line.works()
    writer.close()
    found = verify(tmp_path / "receipts", read_keys(tmp_path / "key"))
    assert found.broken is None and found.records == 3
