"""The registry of the project distribution, as a process, and programs in Rust and Go that use or are registries.

Set `WASMRT_TEST_REGISTRY` to the program of another version, such as 3.0: `go install
github.com/distribution/distribution/v3/cmd/registry@v3.0.0`.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

REGISTRY = os.environ.get("WASMRT_TEST_REGISTRY") or shutil.which("docker-registry")
needs_distribution = pytest.mark.skipif(REGISTRY is None, reason="needs docker-registry (apt install docker-registry)")


@contextmanager
def serve(folder: Path, settings: str, *, store: Path | None = None) -> Iterator[int]:
    """Run the registry with settings in YAML, and yield its port. Several can share the files in `store`."""
    folder.mkdir()
    config = folder / "config.yml"
    storage = f"storage: {{filesystem: {{rootdirectory: {store or folder / 'store'}}}}}"
    config.write_text(f"version: 0.1\nlog: {{accesslog: {{disabled: true}}}}\n{storage}\n{settings}")
    process = subprocess.Popen([str(REGISTRY), "serve", str(config)], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        log = ""
        for line in process.stderr:
            log += line
            if found := re.search(r"listening on 127\.0\.0\.1:(\d+)", line):
                rest = threading.Thread(target=process.stderr.read)  # a full pipe would stop the registry
                rest.start()
                yield int(found[1])
                process.terminate()
                rest.join()
                return
        pytest.fail(log)
    finally:
        process.kill()
        process.communicate(timeout=10)


def build(folder: Path, download: list[str], compile_: list[str], name: str) -> Path:
    """Return the program of a folder, built once for the same sources. The compiler writes it to `name` in `.built`.

    Skip the test if the compiler or the network is missing.
    """
    sources = sorted(path for path in folder.rglob("*") if path.is_file() and ".built" not in path.parts)
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    program = folder / ".built" / f"{folder.name}-{digest[:16]}"
    program.parent.mkdir(exist_ok=True)
    with (program.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if program.exists():
            return program
        if shutil.which(download[0]) is None:
            pytest.skip(f"needs {download[0]}")
        if subprocess.run(download, cwd=folder, capture_output=True, check=False).returncode:
            pytest.skip(f"{download[0]} cannot download the dependencies")
        built = subprocess.run(compile_, cwd=folder, capture_output=True, check=False, text=True)
        assert built.returncode == 0, built.stderr
        shutil.copy(folder / ".built" / name, program)
    return program


def build_wkg() -> Path:
    """Return the program in tests/cli/wkg. Building it takes 90 seconds of processor time. See `build`."""
    if shutil.which("pkg-config") is None or subprocess.run(["pkg-config", "openssl"], check=False).returncode:
        pytest.skip("needs OpenSSL's headers (apt install libssl-dev pkg-config)")
    compile_ = ["cargo", "build", "--quiet", "--locked", "--offline", "--target-dir", ".built"]
    return build(Path(__file__).with_name("wkg"), ["cargo", "fetch", "--locked"], compile_, "debug/wkg")
