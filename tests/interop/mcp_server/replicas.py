"""Two replicas of `wasmrt serve --http`, as processes, behind HAProxy with `deploy/haproxy.cfg`."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.interop.mcp_server.processes import WASMRT

ADDRESSES = {"a": "127.0.0.2", "b": "127.0.0.3"}
CONFIG = Path(__file__).parents[3] / "deploy/haproxy.cfg"
DRAIN_SECONDS = 3


def free_port(*hosts: str) -> int:
    """Return a port that is free on all hosts."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind((hosts[0], 0))
            port: int = first.getsockname()[1]
            try:
                second.bind((hosts[-1], port if len(hosts) > 1 else 0))
            except OSError:
                continue
            return port


def wait_until(holds: Callable[[], bool], what: str) -> None:
    for _ in range(3000):
        if holds():
            return
        threading.Event().wait(0.02)
    pytest.fail(f"waited too long: {what}")


def status(url: str) -> int:
    """Return the status of a response, or 0 if there is none."""
    try:
        return httpx.get(url, trust_env=False).status_code
    except httpx.TransportError:
        return 0


class Replicas:
    """The replicas' processes by name, and the addresses of the proxy and of each replica."""

    def __init__(self, homes: dict[str, Path], token: str, environment: dict[str, str]) -> None:
        self.homes, self.token, self._environment = homes, token, environment
        self._port, self.proxy_port = free_port(*ADDRESSES.values()), free_port("127.0.0.1")
        self._metrics_port = free_port(*ADDRESSES.values())
        self.url = f"http://127.0.0.1:{self.proxy_port}/mcp"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        """Start a replica, and wait until it is ready."""
        address = f"{ADDRESSES[name]}:{self._port}"
        with (self.homes[name] / "log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [
                    *WASMRT, "serve", "--http", address, "--log-format", "json", "--drain", str(DRAIN_SECONDS),
                    "--metrics", f"{ADDRESSES[name]}:{self._metrics_port}",
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment(name),
            )  # fmt: skip
        ready, process = f"http://{ADDRESSES[name]}:{self._port}/readyz", self.processes[name]
        wait_until(lambda: process.poll() is not None or status(ready) == 200, "the replica is ready")
        assert process.poll() is None, (self.homes[name] / "log").read_text()
        wait_until(lambda: status(self.url) == 401, "the proxy uses the replica")

    def calls(self, name: str) -> int:
        """Return the number of calls in a replica's log."""
        lines = map(json.loads, (self.homes[name] / "log").read_text().splitlines())
        return sum(line["event"] == "call" for line in lines)

    def metrics(self, name: str) -> str:
        """Return the metrics of a replica."""
        return httpx.get(f"http://{ADDRESSES[name]}:{self._metrics_port}/metrics", trust_env=False).text

    def environment(self, name: str) -> dict[str, str]:
        return os.environ | self._environment | {"WASMRT_HOME": str(self.homes[name])}

    def wasmrt(self, name: str, *arguments: str) -> str:
        """Run a command on the host of a replica."""
        command = [*WASMRT, *arguments]
        done = subprocess.run(command, env=self.environment(name), capture_output=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def proxy_config(self) -> str:
        """Return the shipped configuration with this test's ports, and without TLS."""
        text = CONFIG.read_text()
        text, bound = re.subn(r"bind :8443 ssl .*", f"bind 127.0.0.1:{self.proxy_port}", text)
        assert bound == 1
        return text.replace(":8931", f":{self._port}")

    def stop(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
        for process in self.processes.values():
            process.wait(30)


@contextmanager
def proxied(replicas: Replicas, folder: Path) -> Iterator[None]:
    """Run HAProxy in front of the replicas."""
    program = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
    if program is None:
        pytest.skip("NO HAPROXY: install haproxy, or several replicas behind a proxy stay untested")
    file = folder / "haproxy.cfg"
    file.write_text(replicas.proxy_config())
    with (folder / "haproxy.log").open("wb") as log:
        process = subprocess.Popen([program, "-db", "-f", file], stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait(20)
        replicas.stop()
