"""The duration of `wasmrt run` with a cached tool as a process, compared with `python -c "import wasmtime"`.

    python benches/bench_start.py [rounds]

Both commands run in turn, so that other load affects both. Exits with 1 if the target is missed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

TARGET = 2.0
WASMRT = [sys.executable, "-m", "wasmrt"]
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "python -c 'import wasmtime'": [sys.executable, "-c", "import wasmtime"],
    "wasmrt run echo": [*WASMRT, "run", "echo", '{"message": "hi"}'],
    "wasmrt run echo, installed": [*WASMRT, "run", "installed", '{"message": "hi"}'],
    "wasmrt --version": [*WASMRT, "--version"],
}


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 21
    with tempfile.TemporaryDirectory() as folder:
        # With bytecode, as in an installed package, even if the environment disables writing it.
        environ = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        environ |= {"WASMRT_HOME": folder, "PYTHONPYCACHEPREFIX": f"{folder}/bytecode"}
        echo = Path(__file__).parents[1] / "wasmrt" / "catalog" / "shipped" / "echo.wasm"
        seconds(environ, [*WASMRT, "install", str(echo), "--name", "installed"])
        for command in COMMANDS.values():
            seconds(environ, command)
        times: dict[str, list[float]] = {name: [] for name in COMMANDS}
        for _ in range(rounds):
            for name, command in COMMANDS.items():
                times[name].append(seconds(environ, command))
    for name, taken in times.items():
        print(f"{name:<30} median {median(taken) * 1000:6.1f} ms   best {min(taken) * 1000:6.1f} ms")
    ratio = median(times["wasmrt run echo"]) / median(times["python -c 'import wasmtime'"])
    print(f"ratio {ratio:.2f} (target: at most {TARGET})")
    return int(ratio > TARGET)


def seconds(environ: dict[str, str], command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, env=environ, check=True, capture_output=True)
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())
