"""The reader of lines, where its input cannot be read."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from wasmrt.interop.mcp.server.protocol._stdio import LineReader


def test_an_input_that_cannot_be_read_is_an_input_that_has_ended(tmp_path: Path) -> None:
    async def main() -> list[bytes]:
        taken: list[bytes] = []
        ended = asyncio.Event()
        reader = LineReader(source, taken.append, lambda error: None, ended.set, lambda: False)
        reader.start()
        async with asyncio.timeout(20):
            await ended.wait()
        return taken

    source = os.open(tmp_path, os.O_RDONLY)  # a folder: it is ready, and every read of it fails
    try:
        assert asyncio.run(main()) == []
    finally:
        os.close(source)
