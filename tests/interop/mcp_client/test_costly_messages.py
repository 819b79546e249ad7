"""Messages of a server that are costly to parse: they delay no other thread, and take little memory of the host."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator

import anyio
import pytest

from tests.interop.mcp_client.hostile_http import hostile_process
from tests.interop.mcp_client.test_hostile_sites import server_at
from tests.interop.mcp_client.world import World, hostile_server
from tests.project.c_call_cases import GROWTH_MIB, LATE_MS, reset_peak, status_kib, ticks
from wasmrt.core.errors import GuestOutputError, ToolError
from wasmrt.interop.mcp.client import McpServerConfig
from wasmrt.interop.mcp.client._transport import _Body

PROGRAMS = {
    "names-with-gaps": "mcp-protocol", "long-integers": "mcp-protocol", "short-texts": "mcp-protocol",
}  # fmt: skip
"""Values of `COSTLY_VALUES`, and the code of the error, empty if the value is accepted."""
SITES = {
    "costly-names-with-lines": "mcp-protocol", "costly-lists-with-lines": "mcp-protocol",
    "costly-long-integers": "mcp-protocol", "costly-escapes": "mcp-protocol", "headers": "mcp-server",
}  # fmt: skip


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with hostile_process() as address:
        yield address


@pytest.mark.ci("slow")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_costly_message_of_a_program_delays_no_thread(name: str) -> None:
    check_cost(hostile_server(f"costly-{name}"), PROGRAMS[name])


@pytest.mark.ci("slow")
@pytest.mark.parametrize("case", SITES)
def test_a_costly_message_of_a_site_delays_no_thread(address: str, case: str) -> None:
    check_cost(server_at(address + case, timeout_seconds=20.0), SITES[case])


def check_cost(server: McpServerConfig, code: str) -> None:
    late, found = float("inf"), ""
    with World(server) as world:
        for run in range(3):  # the best of three: a thread may also wait for other load
            before = reset_peak()
            with ticks(time.CLOCK_PROCESS_CPUTIME_ID) as gaps:
                try:
                    world.call()
                except ToolError as error:
                    found = error.code
            if run == 0:
                assert (status_kib("VmHWM") - before) / 1024 <= GROWTH_MIB
            late = min(late, 1000 * max(gaps))
            if late <= LATE_MS:
                break
    assert late <= LATE_MS and found == code


@pytest.mark.parametrize("size", [399, 5000])
@pytest.mark.parametrize(("digits", "is_accepted"), [(150_000, True), (250_000, False)])
def test_long_numbers_are_counted_across_the_pieces_of_a_message(size: int, digits: int, is_accepted: bool) -> None:
    text = b"[" + (b"9" * 4000 + b",") * (digits // 4000) + b"1]"

    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(text), size):
            yield text[at : at + size]

    async def read() -> bytes:
        return b"".join([piece async for piece in _Body(pieces(), is_stream=False)])

    if is_accepted:
        assert anyio.run(read) == text
    else:
        with pytest.raises(GuestOutputError, match="400 digits"):
            anyio.run(read)
