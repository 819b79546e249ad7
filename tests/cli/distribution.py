"""The registry of the project distribution, as a process.

Set `WASMRT_TEST_REGISTRY` to the program of another version, such as 3.0: `go install
github.com/distribution/distribution/v3/cmd/registry@v3.0.0`.
"""

from __future__ import annotations

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
