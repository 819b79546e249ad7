"""Numbers for the host's resource types: wasmtime tells host resources apart by a u32 of ours."""

from __future__ import annotations

import itertools
import threading

_lock = threading.Lock()
_numbers: dict[str, int] = {}
_counter = itertools.count(1)


def number_of(resource: str) -> int:
    """The number of a resource such as `wasi:io/streams#output-stream`, the same for the whole process."""
    with _lock:
        if resource not in _numbers:
            _numbers[resource] = next(_counter)
        return _numbers[resource]
