"""A Ray cluster on this machine whose nodes have an address each, in network namespaces of their own."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.interop.mcp_peers import install

HERE = Path(__file__).parent
PORT = 6379
_SECONDS = 120


class Cluster:
    """A head without actors, and nodes with two processors each."""

    def __init__(self, packages: Path, nodes: int, *, tokens: bool = True) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="r-", dir="/tmp"))  # Ray's sockets need a short path
        self._name = f"wasmrt{os.getpid()}{'' if tokens else 'open'}"
        self._environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(HERE.parents[2]), str(packages)]),
            "HOME": str(self._folder),
            "RAY_AUTH_MODE": "token" if tokens else "disabled",
            "RAY_AUTH_TOKEN": secrets.token_hex(24) if tokens else "",
            "RAY_health_check_period_ms": "500",
            "RAY_health_check_failure_threshold": "4",
        }
        self.nodes = range(1, nodes + 1)
        self.head = f"10.77.0.1:{PORT}"
        self.folder = self._folder / "out"
        self.folder.mkdir()

    def start(self) -> None:
        """Start the head, then the nodes. Namespace 0 has the head and the bridge to the others."""
        head = self._namespace(0)
        self._ip("netns", "add", head)
        self._ip("-n", head, "link", "set", "lo", "up")
        self._ip("-n", head, "link", "add", "br0", "type", "bridge")
        self._ip("-n", head, "addr", "add", "10.77.0.1/24", "dev", "br0")
        self._ip("-n", head, "link", "set", "br0", "up")
        self._ray(0, "--head", f"--port={PORT}", "--num-cpus=0", "--include-dashboard=false")
        for node in self.nodes:
            name = self._namespace(node)
            self._ip("netns", "add", name)
            self._ip("-n", head, "link", "add", f"n{node}", "type", "veth", "peer", "name", "eth0", "netns", name)
            self._ip("-n", head, "link", "set", f"n{node}", "master", "br0", "up")
            self._ip("-n", name, "addr", "add", f"10.77.0.{node + 1}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                self._ip("-n", name, "link", "set", device, "up")
            self._ray(node, f"--address={self.head}", "--num-cpus=2")

    def run(self, scenario: str, address: str = "", **environment: str) -> dict[str, Any]:
        """Run a scenario of `driver.py` in the namespace of the head, and return what it prints."""
        command = [sys.executable, str(HERE / "driver.py"), scenario, address or self.head, str(self.folder)]
        done = self._in(0, command, self._environment | environment)
        assert done.returncode == 0, done.stdout + done.stderr
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return answer

    def verify_receipts(self, scenario: str) -> subprocess.CompletedProcess[str]:
        """Run `wasmrt audit verify` with the key of the cluster's user."""
        command = [sys.executable, "-m", "wasmrt", "audit", "verify", str(self.folder / scenario)]
        return self._in(0, command, self._environment)

    def start_run(self, scenario: str) -> subprocess.Popen[str]:
        """Start a scenario; its standard output can be read while it runs."""
        command = [sys.executable, str(HERE / "driver.py"), scenario, self.head, str(self.folder)]
        return subprocess.Popen(
            ["ip", "netns", "exec", self._namespace(0), *command], env=self._environment, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip

    def kill(self, node: int) -> None:
        """Kill every process of a node at once."""
        listed = subprocess.run(
            ["ip", "netns", "pids", self._namespace(node)], capture_output=True, text=True, check=False
        )
        for pid in listed.stdout.split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)

    def close(self) -> None:
        """Kill the processes of the cluster and remove its namespaces and files."""
        for node in (0, *self.nodes):
            self.kill(node)
            subprocess.run(["ip", "netns", "del", self._namespace(node)], capture_output=True, check=False)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _ray(self, node: int, *options: str) -> None:
        command = [
            sys.executable, "-m", "ray.scripts.scripts", "start", *options, f"--node-ip-address=10.77.0.{node + 1}",
            "--disable-usage-stats", "--object-store-memory=100000000", f"--temp-dir={self._folder}/{node}",
        ]  # fmt: skip
        done = self._in(node, command, self._environment)
        assert done.returncode == 0, done.stdout + done.stderr

    def _in(self, node: int, command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["ip", "netns", "exec", self._namespace(node), *command], env=environment, capture_output=True, text=True,
            timeout=_SECONDS, check=False,
        )  # fmt: skip

    def _namespace(self, node: int) -> str:
        return f"{self._name}-{node}"

    @staticmethod
    def _ip(*arguments: str) -> None:
        subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


def run_cluster(nodes: int, *, tokens: bool = True) -> Iterator[Cluster]:
    """Run a cluster; tests skip without Ray, or without the right to create network namespaces."""
    try:
        packages = install.ray(prepare=os.environ.get("WASMRT_PEERS_PREPARE") == "1")
    except install.NotHere as absent:
        pytest.skip(f"not tried with programs of others, missing: {absent}")
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("not tried with programs of others, missing: root and iproute2, for network namespaces")
    made = Cluster(packages, nodes, tokens=tokens)
    try:
        made.start()
        yield made
    finally:
        made.close()
