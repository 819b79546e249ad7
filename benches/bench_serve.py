"""`wasmrt serve` compared with the official SDK's server: start, echo, memory, many clients, in one run.

    python benches/bench_serve.py [rounds]

Both servers offer the same registry, so each call runs in the sandbox with policy, leak scan and receipt: the
difference is the protocol and the transport. The servers take turns, so other load on the machine affects both. Memory
is that of the server's process; worker processes are reported separately. Exits with 1 if a target is missed.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benches._mcp import META, SDK_SERVER
from benches._mcp_http import CALLS_EACH, CLIENTS, listening, many_clients, new_token, one_client

TARGETS = {"start": 0.3, "echo": 0.6, "HTTP": 0.8, "memory": 0.6, "100 at once": None}
_CALLS = 300
_SDK = f"""{SDK_SERVER}import anyio
from mcp.server.stdio import stdio_server
async def main():
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())
anyio.run(main)
registry.close()
runtime.close()
"""
SERVERS = {"wasmrt": [sys.executable, "-m", "wasmrt", "serve"], "SDK": [sys.executable, "-c", _SDK]}


class Server:
    """A server process and a minimal client."""

    def __init__(self, command: list[str], environ: dict[str, str]) -> None:
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._number = 0

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        assert self.process.stdin is not None and self.process.stdout is not None
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params | {"_meta": META}}
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        return answer["result"]

    def echo(self, text: str = "hi") -> float:
        start = time.perf_counter()
        result = self.ask("tools/call", name="echo", arguments={"message": text})
        taken = time.perf_counter() - start
        assert result["content"][0]["text"] == text, result
        return taken

    def memory_bytes(self) -> int:
        """Return the proportional memory (PSS) of the process."""
        return _proportional(self.process.pid)

    def workers_bytes(self) -> int:
        """Return the memory of its child processes."""
        return sum(map(_proportional, _family(self.process.pid))) - self.memory_bytes()


@contextmanager
def serving(name: str, environ: dict[str, str]) -> Iterator[Server]:
    server = Server(SERVERS[name], environ)
    try:
        yield server
    finally:
        server.process.communicate(timeout=60)


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 11
    times: dict[tuple[str, str], list[float]] = {(what, name): [] for what in TARGETS for name in SERVERS}
    tools: dict[str, list[float]] = {name: [] for name in SERVERS}
    slowest: dict[str, list[float]] = {name: [] for name in SERVERS}
    workers: dict[str, list[int]] = {name: [] for name in SERVERS}
    with tempfile.TemporaryDirectory() as folder:
        environ = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        environ |= {"WASMRT_HOME": folder, "PYTHONPYCACHEPREFIX": f"{folder}/bytecode"}
        for name in SERVERS:  # compile the tools, write bytecode
            with serving(name, environ) as server:
                server.echo()
        token = new_token(environ)
        for _ in range(rounds):
            for name in SERVERS:
                with serving(name, environ) as server:
                    server.ask("server/discover")
                    times["start", name].append(time.perf_counter() - server.started)
                    server.ask("tools/list")
                    tools[name].append(time.perf_counter() - server.started)
                    server.echo()
                    times["echo", name].append(median(server.echo() for _ in range(_CALLS)))
                    times["memory", name].append(server.memory_bytes())
                    workers[name].append(server.workers_bytes())
                with listening(name, environ, token) as site:
                    times["HTTP", name].append(asyncio.run(one_client(site, _CALLS)))
                    each, longest = asyncio.run(many_clients(site))
                    times["100 at once", name].append(each)
                    slowest[name].append(longest)
    ours, theirs = (median(workers[name]) / 2**20 for name in SERVERS)
    print(f"worker processes: {ours:.0f} MiB, SDK {theirs:.0f} MiB")
    ours, theirs = (median(slowest[name]) * 1e3 for name in SERVERS)
    print(f"slowest call of {CLIENTS} clients with {CALLS_EACH} calls each: {ours:.0f} ms, SDK {theirs:.0f} ms")
    return _report(times, tools)


def _report(times: dict[tuple[str, str], list[float]], tools: dict[str, list[float]]) -> int:
    failed = 0
    for what, target in TARGETS.items():
        ours, theirs = (median(times[what, name]) for name in SERVERS)
        unit, scale = {"start": ("ms", 1e3), "memory": ("MiB", 2**-20)}.get(what, ("us", 1e6))
        ratio = ours / theirs
        failed |= target is not None and ratio > target
        wanted = "no target" if target is None else f"target: at most {target}"
        print(
            f"{what:<12} wasmrt {ours * scale:7.1f} {unit}   SDK {theirs * scale:7.1f} {unit}   "
            f"ratio {ratio:.2f} ({wanted})"
        )
    ours, theirs = (median(tools[name]) for name in SERVERS)
    print(f"start to the list of tools: {ours * 1e3:.0f} ms, SDK {theirs * 1e3:.0f} ms, ratio {ours / theirs:.2f}")
    return int(failed)


def _family(pid: int) -> list[int]:
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += _family(int(child))
    return found


def _proportional(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:  # sealed workers cannot be inspected
        return 0
    return sum(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:"))


if __name__ == "__main__":
    sys.exit(main())
