"""`wasmrt approvals --web`: serve the pages of approvals, receipts and grants until Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path

from wasmrt.agent.access import AccessStore
from wasmrt.agent.approvals import ApprovalStore, current_user_name
from wasmrt.agent.flows import FlowMap
from wasmrt.agent.jobs import JobStore
from wasmrt.agent.routines import RoutineStore
from wasmrt.cli.shared.output import print_message, show, show_json
from wasmrt.cli.shared.receipts import receipt_writer, receipts_folder
from wasmrt.cli.shared.registry import open_registry
from wasmrt.core.places import find_places
from wasmrt.interop.pages import OperatorPages, PageSources, announce_address
from wasmrt.interop.web import WebServer
from wasmrt.runtime.audit import Receipt
from wasmrt.runtime.stores import store_place


def serve_pages(
    *, host: str, port: int, origins: tuple[str, ...], beyond_loopback: bool, opened: bool, as_json: bool
) -> None:
    """Serve the pages until SIGINT or SIGTERM; print the link that starts a session.

    Raises:
        ConfigurationError: the server cannot listen on the address.
    """
    pages = operator_pages()
    server = WebServer(
        pages, host=host, port=port, gate=pages.gate, origins=origins, unsafe_beyond_loopback=beyond_loopback
    )
    asyncio.run(_serve(server, pages, opened=opened, as_json=as_json))


def operator_pages(base: str = "/") -> OperatorPages:
    """Create the pages of this installation, below the path `base`. Answers on them count as the current user's."""
    places = find_places()
    sources = PageSources(
        ApprovalStore(store_place(places.approvals)),
        receipts_folder(None),
        places.receipts_key,
        places.data,
        access=AccessStore(store_place(places.access)),
        jobs=JobStore(store_place(places.jobs)),
        routines=RoutineStore(store_place(places.routines)),
        flows=_draw_flows,
        receipt=_write_receipt,
    )
    return OperatorPages(sources, by=current_user_name(), command="wasmrt approvals --web", base=base)


def _draw_flows() -> FlowMap:
    """Return the flow map of the current configuration, as `wasmrt policy flows` draws it."""
    with open_registry() as registry:
        return registry.flows()


def _write_receipt(receipt: Receipt) -> None:
    with receipt_writer() as write:
        if write is not None:
            write(receipt)


async def _serve(server: WebServer, pages: OperatorPages, *, opened: bool, as_json: bool) -> None:
    ended = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(each, ended.set)
    async with server:
        with announce_address(find_places().pages, f"{server.url}/"):
            await _show_link(server, pages, ended, opened=opened, as_json=as_json)


async def _show_link(
    server: WebServer, pages: OperatorPages, ended: asyncio.Event, *, opened: bool, as_json: bool
) -> None:
    link = pages.link(server.url)
    show_json({"url": server.url, "link": link}) if as_json else show(link)
    print_message("open this link in a browser; it works once, within 15 minutes. Press Ctrl-C to stop serving")
    if not opened:
        await ended.wait()
        return
    with _link_file(pages.link(server.url)) as file:
        if not await asyncio.to_thread(webbrowser.open, file.as_uri()):
            print_message("no browser could be started; open the link above")
        await ended.wait()


@contextmanager
def _link_file(link: str) -> Iterator[Path]:
    """Write a file that redirects a browser to a link, and delete it when the block ends.

    SECURITY: a URL passed to a browser is a command-line argument, which other users of the machine can read. Only the
    owner can read the file.
    """
    handle, name = tempfile.mkstemp(prefix="wasmrt-approvals-", suffix=".html")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(
                f'<!doctype html><meta http-equiv="refresh" content="0;url={escape(link)}"><title>wasmrt</title>'
            )
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)
