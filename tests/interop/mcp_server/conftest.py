"""A world, and a client in it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compiled import Installation
from tests.interop.mcp_server.processes import WASMRT
from tests.interop.mcp_server.site import Site
from tests.interop.mcp_server.world import Line, World
from wasmrt.interop.mcp.server.http import UserTokens


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def line(world: World) -> Iterator[Line]:
    with world.serve() as line:
        yield line


@pytest.fixture
def site(world: World, tmp_path: Path) -> Iterator[Site]:
    users = UserTokens(tmp_path / "tokens.json")
    with world.serve_http(users) as url:
        found = Site(world, url, users)
        yield found
        found.client.close()


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory, sharing_code: Installation) -> Path:
    """An installation in which the tools that come with wasmrt are already compiled."""
    folder = sharing_code(tmp_path_factory.mktemp("installation") / "home")
    environment = os.environ | {"WASMRT_HOME": str(folder)}
    subprocess.run([*WASMRT, "serve"], input=b"", env=environment, timeout=60, check=True)
    return folder


@pytest.fixture
def home(compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    shutil.copytree(compiled, folder, symlinks=True)
    monkeypatch.setenv("WASMRT_HOME", str(folder))
    return folder
