"""Many calls in flight: `aexecute` calls that wait for an HTTP server, and `execute_many` with calls that sleep.

    python benches/bench_inflight.py [--source PATH ...] [--calls 1000 5000] [--permits 0 1000]

The calls send a request to a server on loopback that answers after two seconds; for our tool `http`, with TLS
on port 443, which needs root. `--source` names the
checkouts to compare, which take turns; each case runs in a separate process. `--permits 0` is the default of
`max_concurrent_calls`; `--isolation in-process` uses at most as many as the engine's pool allows, so that the other
calls wait for a permit.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

WAIT_SECONDS = 2.0
SLEEP_NS = 20_000_000
BATCH_CALLS = 2000
_TIMEOUT_SECONDS = 600.0
_SAMPLE_SECONDS = 0.05
_MEMORY_SECONDS = 1.5

SERVER = """
import asyncio, ssl, sys
async def serve(reader, writer):
    try:
        while True:
            await reader.readuntil(b"\\r\\n\\r\\n")
            await asyncio.sleep(float(sys.argv[1]))
            writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Type: text/plain\\r\\nContent-Length: 2\\r\\n\\r\\nok")
            await writer.drain()
    except (asyncio.IncompleteReadError, OSError):
        writer.close()
async def main():
    tls = None
    if len(sys.argv) > 2:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(sys.argv[2])
    server = await asyncio.start_server(serve, "127.0.0.1", 443 if tls else 0, backlog=8192, ssl=tls)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", nargs="*", default=[str(Path(__file__).parents[1])])
    parser.add_argument("--calls", nargs="*", type=int, default=[1000, 5000])
    parser.add_argument("--permits", nargs="*", type=int, default=[0])
    parser.add_argument("--parallel", nargs="*", type=int, default=[32, 64, 256])
    parser.add_argument("--tool", nargs="*", default=["small", "http"])
    parser.add_argument("--isolation", nargs="*", default=["process"])
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(_run_case(json.loads(options.case))))
        return
    cases: list[dict[str, Any]] = [
        {"kind": "aexecute", "tool": name, "calls": calls, "permits": permits, "isolation": isolation}
        for name in options.tool
        for calls in options.calls
        for permits in options.permits
        for isolation in options.isolation
    ]
    cases += [{"kind": "execute_many", "parallel": parallel, "permits": 256} for parallel in options.parallel]
    for case in cases:
        for source in options.source:
            print(f"{source}  {case}\n    {_in_a_process(case, source)}", flush=True)


def _in_a_process(case: dict[str, Any], source: str) -> str:
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run(
            [sys.executable, __file__, "--case", json.dumps(case)],
            env=os.environ | {"PYTHONPATH": source, "WASMRT_HOME": home},
            capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False,
        )  # fmt: skip
    return done.stdout.strip() or f"failed: {done.stderr.strip().splitlines()[-1:]}"


def _run_case(case: dict[str, Any]) -> dict[str, Any]:
    if case["kind"] == "aexecute":
        return asyncio.run(_aexecute(case["tool"], case["calls"], case["permits"], case["isolation"]))
    return _execute_many(case["parallel"], case["permits"])


async def _aexecute(name: str, calls: int, permits: int, isolation: str) -> dict[str, Any]:
    from wasmrt import NetworkConfig, WasmRuntimeConfig, WasmToolRuntime
    from wasmrt.capabilities import Capabilities, EndpointPattern, HttpCapability, RateLimitConfig
    from wasmrt.sandbox.guest.settings import Isolation, find_capacity

    if isolation == Isolation.IN_PROCESS:
        permits = min(permits, find_capacity(Isolation.IN_PROCESS).calls)
    files = _certificate() if name == "http" else []
    with _server(*files[:1]) as port:
        pattern = EndpointPattern("127.0.0.1", schemes=("https" if files else "http",), ports=(port,))
        rate = RateLimitConfig(10**6, 10**6)
        http = HttpCapability((pattern,), rate_limit=rate)
        config = WasmRuntimeConfig(
            isolation=isolation,  # type: ignore[arg-type]  # a str is converted
            network=NetworkConfig(
                unsafe_allowed_networks=("127.0.0.1/32",), max_connections=max(128, 4 * permits),
                ca_file=files[1] if files else None,
            ),
        )  # fmt: skip
        config = replace(config, max_concurrent_calls=permits or config.max_concurrent_calls)
        limits = replace(config.default_limits, timeout_seconds=300.0)
        with WasmToolRuntime(config) as runtime:
            component, params = _component(name, port)
            slow = runtime.prepare("slow", component, Capabilities.none().with_http(http), limits)
            slow = slow.tool("http") if name == "http" else slow
            await slow.aexecute(params)
            with _sampled() as (threads, memory):
                lags: list[float] = []
                watch = asyncio.create_task(_measure_lag(lags))
                used, start = time.process_time(), time.perf_counter()
                ends = await asyncio.gather(*(slow.aexecute(params) for _ in range(calls)), return_exceptions=True)
                seconds, used = time.perf_counter() - start, time.process_time() - used
                watch.cancel()
    host, workers = max(memory, default=_memory(), key=lambda sample: sample[1])
    failed = [type(end).__name__ for end in ends if isinstance(end, BaseException)]
    return {
        "permits": config.max_concurrent_calls, "seconds": round(seconds, 1),
        "ok": calls - len(failed), "failed": sorted(set(failed)),
        "lag_max_s": round(max(lags, default=seconds), 2), "host_cpu_s": round(used, 1), "threads": max(threads),
        "host_mib": host, "workers_mib": workers[0], "processes": workers[1],
    }  # fmt: skip


def _execute_many(parallel: int, permits: int) -> dict[str, Any]:
    from wasmrt.testing.attacks import Body, tool

    from wasmrt import WasmRuntimeConfig, WasmToolRuntime
    from wasmrt.sandbox.guest.engine import wat2wasm

    body = Body(
        imports=("subscribe-duration", "block"),
        execute=f"(call $block (call $subscribe-duration (i64.const {SLEEP_NS}))) (call $ok)",
    )
    with WasmToolRuntime(WasmRuntimeConfig(max_concurrent_calls=permits)) as runtime:
        slow = runtime.prepare("slow", wat2wasm(tool(body)))
        list(slow.execute_many([{}] * parallel, parallel=parallel))
        used, start = time.process_time(), time.perf_counter()
        results = list(slow.execute_many([{}] * BATCH_CALLS, parallel=parallel, ordered=False))
        seconds, used = time.perf_counter() - start, time.process_time() - used
    good = sum(result.error is None for result in results)
    return {"calls_per_second": round(BATCH_CALLS / seconds), "ok": good, "host_cpu_s": round(used, 1)}


def _component(name: str, port: int) -> tuple[Any, dict[str, str]]:
    """Return our tool `http`, which is written in Rust, or a small tool that sends the same request."""
    from wasmrt.testing.attacks import tool

    from wasmrt.catalog.find import find_tool
    from wasmrt.core.places import find_places
    from wasmrt.runtime.stores import open_catalog
    from wasmrt.sandbox.guest.engine import wat2wasm

    if name == "http":
        found = find_tool("http", open_catalog(find_places().data))
        return found.component, {"method": "GET", "url": "https://127.0.0.1/"}
    return wat2wasm(tool(_request(port))), {}


def _certificate() -> list[Path]:
    """Return the files of a server's key with its certificate, and of its authority: `http` sends to https alone."""
    import trustme

    authority, folder = trustme.CA(), Path(os.environ["WASMRT_HOME"])
    files = [folder / "server.pem", folder / "authority.pem"]
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(files[0]))
    authority.cert_pem.write_to_path(str(files[1]))
    return files


def _request(port: int) -> Any:
    from wasmrt.authoring.testing.attacks._build import TEXT_AT, Body

    url = f"http://127.0.0.1:{port}/".encode()
    return Body(
        imports=("http-request",),
        text=b"GET{}" + url,
        execute=f"""(call $http-request (i32.const {TEXT_AT}) (i32.const 3)
          (i32.const {TEXT_AT + 5}) (i32.const {len(url)}) (i32.const {TEXT_AT + 3}) (i32.const 2)
          (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 256))
        (if (i32.load8_u (i32.const 256)) (then (unreachable)))
        (call $ok)""",
    )


async def _measure_lag(lags: list[float]) -> None:
    """Record by how much sleeps of 10 ms are late."""
    while True:
        before = time.perf_counter()
        await asyncio.sleep(0.01)
        lags.append(time.perf_counter() - before - 0.01)


@contextmanager
def _sampled() -> Iterator[tuple[list[int], list[tuple[int, tuple[int, int]]]]]:
    """Yield numbers of threads, and samples of `_memory`, which are fewer because they take long."""
    counts, over = [threading.active_count()], threading.Event()
    memory: list[tuple[int, tuple[int, int]]] = []

    def sample() -> None:
        started = time.monotonic()
        while not over.wait(_SAMPLE_SECONDS):
            counts.append(threading.active_count())
            if time.monotonic() - started > _MEMORY_SECONDS * (len(memory) + 1):
                memory.append(_memory())

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield counts, memory
    finally:
        over.set()
        thread.join()


def _memory() -> tuple[int, tuple[int, int]]:
    """Return the proportional memory of this process and of its descendants in MiB, and the number of these."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            text = stat.read_text()
            children.setdefault(int(text.rpartition(")")[2].split()[1]), []).append(int(stat.parent.name))
    found, left = [], list(children.get(os.getpid(), ()))
    while left:
        found.append(left.pop())
        left += children.get(found[-1], ())
    return _pss_mib(os.getpid()), (sum(map(_pss_mib, found)), len(found))


def _pss_mib(pid: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) // 1024
    return 0


@contextmanager
def _server(*certificate: Path) -> Iterator[int]:
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(WAIT_SECONDS), *map(str, certificate)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    main()
