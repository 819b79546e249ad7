"""Receipts with their filters and the verification of their chain, and the grants of installed tools."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.interop.pages.site import Person, Site
from wasmrt.capabilities.file import parse
from wasmrt.capabilities.sentences import explain
from wasmrt.catalog import Catalog, ComponentInfo, NewVersion
from wasmrt.catalog.granted import read_granted
from wasmrt.core.component_bytes import ComponentBytes
from wasmrt.core.model import Decision, Reason
from wasmrt.runtime.audit import Receipt, ReceiptWriter, read_keys
from wasmrt.runtime.audit.verify import chain_heads, format_heads

_TOOLS = Path(__file__).resolve().parents[3] / "wasmrt" / "catalog" / "shipped"
_FILE = '{"capabilities": {"workspace": {"allowed_prefixes": ["notes/"]}}}'
_WIDER = '{"capabilities": {"workspace": {"allowed_prefixes": ["notes/", "plans/"]}}}'


@pytest.fixture
def receipts(site: Site) -> Path:
    """Three calls with their receipts."""
    folder = site.data / "receipts"
    writer = ReceiptWriter(folder, site.data / "receipts.key")
    made = [("echo", "ann", "ok"), ("search.find", "bob", "timeout"), ("echo", "bob", "denied")]
    for number, (tool, user, outcome) in enumerate(made):
        at = 1_700_000_000_000 + number
        about = "GET https://api.example.com/" if number == 1 else ""
        decisions = (Decision(True, Reason.ALLOWED, "", None, "http", about),)
        writer(
            Receipt(
                started_ms=at, ended_ms=at, call_id=f"call-{number}", tool=tool, user=user, outcome=outcome,
                decisions=decisions,
            )
        )  # fmt: skip
    writer.close()
    return folder


def test_without_receipts_the_page_is_empty(ann: Person) -> None:
    assert "No receipts." in ann.get("receipts").text
    checked = ann.post("verify")
    assert checked.status == 422
    assert "no receipts key" in checked.text


@pytest.mark.parametrize(
    ("query", "calls"),
    [
        ("", [2, 1, 0]),
        ("text=ECHO", [2, 0]),
        ("text=search", [1]),
        ("text=bob&outcome=failed", [2, 1]),
        ("outcome=ok", [0]),
        ("since=2h", []),
        ("since=2020-01-01T00:00", [2, 1, 0]),
        ("text=+call-0+&count=100", [0]),
        ("text=api.example.com", [1]),
    ],
)
def test_receipts_match_the_filter_newest_first(ann: Person, receipts: Path, query: str, calls: list[int]) -> None:
    page = ann.get(f"receipts?{query}")
    assert page.status == 200
    at = [page.text.find(f"call-{number}<") for number in range(3)]
    assert sorted((number for number in range(3) if at[number] >= 0), key=lambda number: at[number]) == calls


@pytest.mark.parametrize(
    ("query", "problem"), [("since=yesterday", "is not a time"), ("count=100000", "is not a number of receipts")]
)
def test_an_invalid_filter_is_reported(ann: Person, receipts: Path, query: str, problem: str) -> None:
    page = ann.get(f"receipts?{query}")
    assert page.status == 422
    assert problem in page.text


def test_a_receipt_page_shows_the_whole_receipt(site: Site, ann: Person, receipts: Path) -> None:
    page = ann.get("receipts/call-1").text
    assert "search.find" in page and "timeout" in page
    assert ann.get("receipts/call-9").status == 404
    odd = "../a b/\u00e9"
    writer = ReceiptWriter(receipts, site.data / "receipts.key")
    writer(Receipt(call_id=odd, tool="odd"))
    writer.close()
    assert f"receipts/{quote(odd, safe='')}" in ann.get("receipts").text
    assert "tool: odd" in ann.get(f"receipts/{quote(odd, safe='')}").text


def test_verification_reports_whether_and_where_the_chain_is_broken(site: Site, ann: Person, receipts: Path) -> None:
    head = format_heads(chain_heads(receipts, read_keys(site.data / "receipts.key")))
    holds = ann.post("verify")
    assert holds.status == 200
    assert "The chain holds: " in holds.text and head in holds.text
    assert "The chain holds: " in ann.post("verify", head=f" {head} ", **{"from": "1"}).text
    [segment] = receipts.glob("*.jsonl")
    segment.write_bytes(segment.read_bytes().replace(b"timeout", b"ok-----"))
    broken = ann.post("verify").text
    assert "The chain is broken: " in broken
    assert "receipts-000001.jsonl, line 3</bdi>: edited" in broken
    for fields in ({"head": "nonsense"}, {"from": "0"}, {"from": "-1"}, {"from": "1" * 50}):
        assert ann.post("verify", **fields).status == 422


def test_grants_are_worded_as_in_the_command(site: Site, ann: Person) -> None:
    assert "No tools are installed." in ann.get("grants").text
    catalog = Catalog(site.data)
    component = ComponentBytes((_TOOLS / "echo.wasm").read_bytes())
    info = ComponentInfo(world="wasmrt:tool", description="Says <b>it</b> again. " + "\u202e" + "x" * 1000)
    catalog.add(NewVersion("search", component, info, origin="file search.wasm", sidecar=_FILE), _FILE)
    page = ann.get("grants").text
    for sentence in explain(parse(_FILE).capabilities):
        assert sentence in page
    assert "Says &lt;b&gt;it&lt;/b&gt; again. \\u202e" in page
    assert "more characters" in page
    catalog.add(NewVersion("search", ComponentBytes((_TOOLS / "time.wasm").read_bytes()), info, sidecar=_WIDER), None)
    page = ann.get("grants").text
    assert "Version 2 waits for a grant" in page
    assert "plans/" in page
    assert "wasmrt grant search" in page
    catalog.add(NewVersion("echoes", component, info, sidecar=_FILE), _FILE)
    index = sqlite3.connect(site.data / "catalog.sqlite3")
    with closing(index), index:
        index.execute("UPDATE version SET granted = 'no JSON' WHERE name = 'echoes'")
    page = ann.get("grants")
    assert page.status == 200, "one that cannot be read takes the others from nobody"
    assert 'role="alert"' in page.text and "wasmrt grant search" in page.text


def test_an_entry_of_a_grant_is_revoked_once(site: Site, ann: Person) -> None:
    catalog = Catalog(site.data)
    info = ComponentInfo(world="wasmrt:tool", description="")
    component = ComponentBytes((_TOOLS / "echo.wasm").read_bytes())
    catalog.add(NewVersion("search", component, info, sidecar=_WIDER), _WIDER)
    assert ann.get("grants").field("entry") == "workspace=notes/"
    for fields, status in (
        ({"entry": "workspace=other/"}, 422),
        ({"entry": "nonsense"}, 422),
        ({"entry": "workspace=notes/", "form_token": "x"}, 403),
        ({"entry": "workspace=notes/"}, 303),
        ({"entry": "workspace=notes/"}, 422),
    ):
        assert ann.post("grants/search", **fields).status == status
    assert ann.post("grants/missing", entry="workspace=notes/").status == 422
    left = read_granted(catalog.get("search")).workspace_read
    assert left is not None and left.entries == ("plans/",)
    assert "workspace=notes/" not in ann.get("grants").text
