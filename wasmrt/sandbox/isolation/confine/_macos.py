"""The macOS sandbox: a deny-by-default profile, entered through a function that Apple has deprecated.

Not tested: written from documentation and other projects' use.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Iterable, Sequence

from wasmrt.core.errors import ConfineError

ON_MACOS: bool = sys.platform == "darwin"


def write_profile(
    read: Iterable[str], write: Iterable[str], execute: Iterable[str], connect: Sequence[int] | None
) -> str | None:
    """Return a sandbox profile (SBPL) that denies everything not listed, or None on other systems."""
    if not ON_MACOS:
        return None
    read, write, execute = tuple(read), tuple(write), tuple(execute)
    rules = ["(version 1)", "(deny default)", "(allow sysctl-read)", "(allow file-read-metadata)"]
    rules += [f"(allow file-read* (subpath {json.dumps(path)}))" for path in (*read, *write, *execute)]
    rules += [f"(allow file-write* (subpath {json.dumps(path)}))" for path in write]
    rules += [f"(allow process-exec (subpath {json.dumps(path)}))" for path in execute]
    if execute:
        rules.append("(allow process-fork)")
    if connect is None:
        rules.append("(allow network-outbound)")
    rules += [f'(allow network-outbound (remote tcp "*:{port}"))' for port in connect or ()]
    return "\n".join(rules)


def enter(text: str) -> None:
    """Confine this process with `sandbox_init_with_parameters`.

    Raises:
        ConfineError: the system rejects the profile.
    """
    library = ctypes.CDLL("/usr/lib/libSystem.dylib")
    problem = ctypes.c_char_p()
    parameters = (ctypes.c_char_p * 1)(None)
    if library.sandbox_init_with_parameters(text.encode(), ctypes.c_uint64(0), parameters, ctypes.byref(problem)):
        raise ConfineError(f"macOS rejected the sandbox profile: {(problem.value or b'').decode(errors='replace')}")
