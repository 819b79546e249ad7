"""Standard input: read errors and end of input."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tests.interop.mcp_server.world import Line
from wasmrt.interop.mcp.server.protocol._stdio import LineReader


def test_a_read_error_counts_as_the_end_of_input(tmp_path: Path) -> None:
    async def main() -> list[bytes]:
        taken: list[bytes] = []
        ended = asyncio.Event()
        reader = LineReader(source, taken.append, lambda error: None, ended.set, lambda: False)
        reader.start()
        async with asyncio.timeout(20):
            await ended.wait()
        return taken

    source = os.open(tmp_path, os.O_RDONLY)  # a directory is always ready, and reading it fails
    try:
        assert asyncio.run(main()) == []
    finally:
        os.close(source)


def test_the_end_of_input_is_not_reported_as_a_change_of_the_list(line: Line) -> None:
    line.initialize()
    line.legacy("ping")
    line.end_input()
    with pytest.raises(EOFError):
        line.read()
