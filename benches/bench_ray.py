"""`RayPool.execute_many` on a running Ray cluster next to `PreparedTool.execute_many` in this process.

    python benches/bench_ray.py 10.0.0.1:6379 [--calls 5000] [--actors 1 2 4]

Both run the bundled tool echo. The last column is the processor time of this process for each call: its inverse is the
highest rate at which one program can give calls to a cluster, however many machines it has.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable
from typing import Any

from wasmrt import Capabilities, RayPool, RayTool, WasmRuntimeConfig, WasmToolRuntime, WorkspaceWriteCapability

_PARALLEL = 8


def make_runtime() -> WasmToolRuntime:
    """Return a runtime without receipts, on both sides of the comparison."""
    return WasmToolRuntime(WasmRuntimeConfig())


def measure(run: Callable[[Iterable[Any]], Iterable[Any]], calls: int) -> tuple[float, float]:
    """Return the calls a second, and the processor time of this process for each call in microseconds."""
    list(run({"message": "warm"} for _ in range(calls // 10)))
    began, used = time.perf_counter(), time.process_time()
    for _, _, error in run({"message": str(i)} for i in range(calls)):
        if error is not None:
            raise error
    return calls / (time.perf_counter() - began), (time.process_time() - used) / calls * 1e6


def main() -> None:
    """Print a row for this process and one for each number of actors, with reading and with writing calls."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("address", help="the cluster's head, for example 10.0.0.1:6379")
    options.add_argument("--calls", type=int, default=5000, help="calls of each measurement (default: 5000)")
    options.add_argument("--actors", type=int, nargs="+", default=[1, 2, 4], help="numbers of actors (default: 1 2 4)")
    chosen = options.parse_args()

    print(f"{'':28}{'calls/s':>10}{'ratio':>8}{'us of this process':>22}")
    with make_runtime() as runtime:
        echo = runtime.prepare_installed("echo")
        single, used = measure(lambda batch: echo.execute_many(batch, parallel=_PARALLEL), chosen.calls)
    print(f"{'one process':28}{single:10.0f}{1:8.2f}{used:22.0f}")
    bundled = RayTool.installed("echo")
    grant = Capabilities.none().with_workspace_write(WorkspaceWriteCapability(("out/",)))
    tools = [bundled, RayTool("writer", bundled.component, grant, tools=bundled.tools)]
    for actors in chosen.actors:
        with RayPool(tools, address=chosen.address, actors=actors, make_runtime=make_runtime) as pool:
            for name, kind in (("echo", "reading"), ("writer", "writing")):
                rate, used = measure(lambda batch, name=name: pool.execute_many(name, batch), chosen.calls)  # type: ignore[misc]
                print(f"{f'{actors} actors, {kind}':28}{rate:10.0f}{rate / single:8.2f}{used:22.0f}")


if __name__ == "__main__":
    main()
