"""A tool tries to use another tool's credential: on the same host and path, by placeholder, header and redirect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.catalog.packages.conftest import API, KEY, TOKEN, VAULT, Desk
from tests.catalog.packages.desk_package import write_package
from wasmrt.catalog.package import open_files, read_package
from wasmrt.core.errors import ToolError

SAME_HOST = {'host = "vault.desk.example"': 'host = "api.desk.example"'}
Neighbours = Callable[..., Desk]


@pytest.fixture
def neighbours(desk: Desk, tmp_path: Path, desk_wasm: bytes) -> Neighbours:
    """Return the package with all its tools on one host; `edits` replace further parts of its manifest."""

    def make(**edits: str) -> Desk:
        folder = write_package(tmp_path / "same", desk_wasm, port=desk.server.port, edits={**SAME_HOST, **edits})
        return replace(desk, package=read_package(open_files(folder)))

    return make


def sent(desk: Desk) -> list[str]:
    return [seen.head.decode() + seen.body.decode() for seen in desk.server.requests]


@pytest.mark.parametrize("path", ["/tickets/closed", "/messages", "/?x-vault-key"])
def test_on_the_same_host_and_path_a_tool_sends_only_its_own_credential(neighbours: Neighbours, path: str) -> None:
    desk = neighbours()
    package = desk.prepare()
    package.tool("list_tickets").execute({"host": desk.at(API), "path": path})
    package.tool("purge_tickets").execute({"host": desk.at(API)})

    [reading, purging] = sent(desk)
    assert TOKEN in reading and KEY not in reading
    assert KEY in purging and TOKEN not in purging


@pytest.mark.parametrize(
    "params",
    [
        {"path": "/{vault_key}/x"},
        {"path": "/%7Bvault_key%7D/x"},
        {"path": "/x?key={vault_key}"},
        {"headers": {"x-vault-key": "{vault_key}"}},
        {"headers": {"x-vault-key": ""}},
    ],
    ids=str,
)
def test_another_tools_placeholder_is_never_replaced(neighbours: Neighbours, params: dict[str, Any]) -> None:
    desk = neighbours(**{
        'injection = { type = "header", name = "x-vault-key" }':
        'injection = { type = "path_placeholder", placeholder = "vault_key" }'
    })  # fmt: skip
    tool = desk.prepare().tool("list_tickets")
    try:
        tool.execute({"host": desk.at(API), **params})
    except ToolError:
        assert desk.server.requests == []

    assert not any(KEY in text for text in sent(desk))


def test_a_tools_own_placeholder_is_replaced(neighbours: Neighbours) -> None:
    desk = neighbours(**{
        'injection = { type = "header", name = "x-vault-key" }':
        'injection = { type = "path_placeholder", placeholder = "vault_key" }'
    })  # fmt: skip
    desk.prepare().tool("purge_tickets").execute({"host": desk.at(API), "path": "/{vault_key}/closed"})

    assert f"DELETE /{KEY}/closed HTTP/1.1" in sent(desk)[0]


def test_a_shared_secret_is_sent_as_the_section_of_the_calling_tool_defines(desk: Desk) -> None:
    package = desk.prepare()
    for tool, place in (("list_tickets", "host"), ("send_message", "conversation")):
        params = {place: desk.at(VAULT)} | ({"text": "x"} if place == "conversation" else {})
        with pytest.raises(ToolError):
            package.tool(tool).execute(params)

    assert sent(desk) == []


def test_no_tool_gets_a_credential_back_in_a_result(neighbours: Neighbours) -> None:
    desk = neighbours()
    desk.server.script = lambda request, _connection: _echo(request.head)
    package = desk.prepare()

    for tool in ("list_tickets", "purge_tickets"):
        try:
            said = repr(package.tool(tool).execute({"host": desk.at(API)}))
        except ToolError as error:
            said = f"{error!r}{error.as_dict()}"
        assert TOKEN not in said
        assert KEY not in said


def _echo(head: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(head), head)
