"""A world, and a client in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mcp_server.world import Line, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def line(world: World) -> Iterator[Line]:
    with world.serve() as line:
        yield line
