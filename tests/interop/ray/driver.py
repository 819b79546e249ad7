"""Scenarios for the tests of `RayPool`: `driver.py SCENARIO ADDRESS FOLDER` prints a JSON object in its last line."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

from wasmrt import (
    Capabilities,
    ConfigurationError,
    RayPool,
    RayTool,
    ResourceLimits,
    WasmRuntimeConfig,
    WasmToolRuntime,
    WorkspaceWriteCapability,
)

CALLS = 10_000
_SCENARIO, ADDRESS, FOLDER = sys.argv[1], sys.argv[2], Path(sys.argv[3])


def make_runtime() -> WasmToolRuntime:
    """Return a runtime with receipts. The nodes share the folder, since they are on one machine."""
    return WasmToolRuntime(WasmRuntimeConfig(audit=FOLDER / _SCENARIO))


def open_pool(*tools: RayTool | str) -> RayPool:
    return RayPool(tools, address=ADDRESS, actors=4, make_runtime=make_runtime, actor_options={"num_cpus": 1})


def echoing(name: str, **settings: object) -> RayTool:
    bundled = RayTool.installed("echo")
    return RayTool(name, bundled.component, tools=bundled.tools, **settings)  # type: ignore[arg-type]


def run_bulk() -> dict[str, object]:
    """Run calls of which every tenth is invalid, and calls of a tool without fuel."""
    with open_pool("echo", echoing("hungry", limits=ResourceLimits(fuel=10))) as pool:
        batch = ({"message": str(i)} if i % 10 else {} for i in range(500))
        found = list(pool.execute_many("echo", batch))
        starved = [error for _, _, error in pool.execute_many("hungry", [{"message": "x"}])]
    return {
        "places": [place for place, _, _ in found] == list(range(500)),
        "answers": all(output is None or str(place) in output.raw for place, output, _ in found),
        "codes": Counter(error.code for _, _, error in found if error),
        "starved": [error.as_dict()["code"] for error in starved if error],
    }


def count_through_a_death(tool: RayTool | str, name: str) -> dict[str, object]:
    """Run all calls, and print a line after a fifth of them, at which the test kills a node."""
    codes: Counter[str] = Counter()
    places: set[int] = set()
    with open_pool(tool) as pool:
        batch = ({"message": str(i)} for i in range(CALLS))
        for place, _, error in pool.execute_many(name, batch, ordered=False):
            places.add(place)
            codes[error.code if error else "ok"] += 1
            if len(places) == CALLS // 5:
                print("kill", flush=True)
    return {"places": len(places), "codes": codes}


def read_through_a_death() -> dict[str, object]:
    return count_through_a_death("echo", "echo")


def write_through_a_death() -> dict[str, object]:
    grant = Capabilities.none().with_workspace_write(WorkspaceWriteCapability(("out/",)))
    return count_through_a_death(echoing("writer", capabilities=grant), "writer")


def connect() -> dict[str, object]:
    try:
        open_pool("echo").close()
    except ConfigurationError as error:
        return {"error": error.message, "hint": error.hint}
    return {"error": None}


if __name__ == "__main__":
    scenarios = {
        "bulk": run_bulk, "read": read_through_a_death, "write": write_through_a_death, "connect": connect,
    }  # fmt: skip
    print(json.dumps(scenarios[_SCENARIO]()), flush=True)
