"""`wasmrt list` with 10,000 installed tools next to 10, and `wasmrt run` of one of them, as processes.

    python benches/bench_list.py [rounds]

Exits with 1 if the large catalog takes 3 times as long as the small one, or a run depends on the catalog's size.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from wasmrt.catalog import Catalog, ComponentInfo, NewVersion
from wasmrt.catalog._rows import activate, insert
from wasmrt.core.component_bytes import ComponentBytes

SMALL, LARGE = 10, 10_000
LIST_TARGET, RUN_TARGET = 3.0, 1.2
WASMRT = [sys.executable, "-m", "wasmrt"]
SIDECAR = '{"http": {"allowlist": [{"host": "api.example.com", "path_prefix": "/v1/"}]}}'


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    with tempfile.TemporaryDirectory() as folder:
        homes = {count: fill(Path(folder) / str(count), count) for count in (SMALL, LARGE)}
        commands = {
            "list": [*WASMRT, "list"],
            "list --json": [*WASMRT, "list", "--json"],
            "run": [*WASMRT, "run", "tool-00005", '{"message": "hi"}'],
        }
        times: dict[tuple[str, int], list[float]] = {}
        for turn in range(rounds + 1):
            for what, command in commands.items():
                for count, home in homes.items():
                    taken = seconds(home, f"{folder}/bytecode", command)
                    if turn:  # the first turn writes bytecode and compiles
                        times.setdefault((what, count), []).append(taken)
    worst = []
    for what in commands:
        # The best of each: on a busy machine medians depend on other load.
        small, large = min(times[what, SMALL]), min(times[what, LARGE])
        target = RUN_TARGET if what == "run" else LIST_TARGET
        print(
            f"{what:<12} {SMALL} tools {small * 1000:6.1f} ms   {LARGE} tools {large * 1000:6.1f} ms   "
            f"ratio {large / small:.2f} (target: under {target})"
        )
        worst.append(large / small >= target)
    return int(any(worst))


def fill(home: Path, count: int) -> Path:
    """Create a catalog of `count` tools with distinct rows and the component of the bundled echo."""
    data = (Path(__file__).parents[1] / "wasmrt" / "catalog" / "shipped" / "echo.wasm").read_bytes()
    component = ComponentBytes(data)
    info = ComponentInfo(
        world="wasmrt:tool/provider@0.1.0",
        description="Repeats its message, with a description of the usual length of a tool description.",
        imports=tuple(f"wasi:io/streams@0.2.6#function-{n}" for n in range(20)),
    )
    catalog = Catalog(home / "data")
    drafts = [
        NewVersion(name=f"tool-{number:05}", component=component, info=info, sidecar=SIDECAR) for number in range(count)
    ]
    catalog.add(drafts[0], SIDECAR)
    with catalog._index.writing() as db:  # one transaction, because separate ones would be slow
        for draft in drafts[1:]:
            insert(db, draft, 1, SIDECAR)
            activate(db, draft.name, 1)
    return home


def seconds(home: Path, bytecode: str, command: list[str]) -> float:
    environ = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environ |= {"WASMRT_HOME": str(home), "PYTHONPYCACHEPREFIX": bytecode}
    start = time.perf_counter()
    subprocess.run(command, env=environ, check=True, capture_output=True)
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())
