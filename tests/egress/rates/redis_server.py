"""A Redis for this test run, on loopback, for tests with shared rate limits."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Redis that may contain data of earlier tests."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("NO REDIS: install redis-server, or the shared rate limits stay untested")
    home = tmp_path_factory.mktemp("redis")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = Path(home, "log")
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(home)]
    with log.open("wb") as out:
        server = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        _wait_until_it_answers(server, port)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        server.terminate()
        server.wait(timeout=10)


@pytest.fixture
def redis_url(redis_server: str) -> str:
    """The URL of an empty Redis."""
    import redis

    with redis.Redis.from_url(redis_server) as client:
        client.flushall()
    return redis_server


def _wait_until_it_answers(server: subprocess.Popen[bytes], port: int) -> None:
    for _ in range(200):  # old clients do not retry
        assert server.poll() is None
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            threading.Event().wait(0.05)
        else:
            return
    pytest.fail("redis-server does not respond")
