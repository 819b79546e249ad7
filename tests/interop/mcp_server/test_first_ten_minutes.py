"""The first steps of a user with an empty home, by commands only, until the official SDK's client calls the tools."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.interop.mcp_server.processes import WASMRT
from tests.interop.mcp_server.sdk_session import connect_2

Command = Callable[..., str]
_SECONDS = 600
_SERVERS: list[tuple[str, list[str], dict[str, Any], str]] = [
    ("calc_calculate", ["calc", "--", "uvx", "mcp-server-calculator"], {"expression": "6*7"}, "42"),
    ("hello_echo", ["hello", "--", "npx", "-y", "mcp-hello-world"], {"message": "otters"}, "otters"),
]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs `wasmrt` in a new folder of an empty home, and returns its messages."""
    for name in [name for name in os.environ if name.startswith(("WASMRT_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> str:
        done = subprocess.run([*WASMRT, *arguments], capture_output=True, text=True, timeout=_SECONDS, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    return run


def with_client(use: Callable[[Any, Any], Awaitable[None]]) -> None:
    """Start `wasmrt serve` with the SDK's client, and pass its functions that call and list tools."""

    async def connect() -> None:
        async with AsyncExitStack() as stack:
            await use(*await connect_2({"command": [*WASMRT, "serve"]}, stack))

    asyncio.run(connect())


@pytest.mark.ci("toolchain")
def test_an_own_python_tool_is_called_by_an_mcp_client_after_three_commands(command: Command) -> None:
    command("new", "words", "--lang", "python")
    command("build", "words", "--yes")
    assert "agents can use words" in command("install", "words", "--yes")

    async def use(call: Any, names: Any) -> None:
        assert "words" in await names()
        failed, text = await call("words", {"text": "one two three"})
        assert not failed and "3" in text

    with_client(use)


@pytest.mark.ci("peers")
def test_tools_of_servers_of_pypi_and_npm_are_called_after_an_approval(command: Command) -> None:
    if shutil.which("npm") is None:
        pytest.skip("not tried: npm is not installed")
    for lookup in (
        ("npm", "view", "mcp-hello-world"),
        (sys.executable, "-m", "pip", "index", "versions", "mcp-server-calculator"),
    ):
        if subprocess.run(lookup, capture_output=True, timeout=60, check=False).returncode:
            pytest.skip(f"not tried: {lookup[-1]} is not in reach")
    for _, words, _, _ in _SERVERS:
        assert "agents can use the tools of" in command("mcp", "add", "--yes", *words)

    async def use(call: Any, names: Any) -> None:
        listed = await names()
        for name, _, params, part in _SERVERS:
            assert name in listed
            failed, text = await call(name, params)
            request = re.search(r"wasmrt approvals approve (\S+?)`", text)
            assert failed and request is not None, "each call of a new server requires approval"
            await asyncio.to_thread(command, "approvals", "approve", request[1])
            failed, text = await call(name, params)
            assert not failed and part in text
            failed, text = await call(name, params)
            assert failed and "approval" in text, "an approval is used once"

    with_client(use)
