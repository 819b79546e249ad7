"""Entry point of `python -m wasmrt` and of the `wasmrt` script."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line. For `wasmrt run`, start a worker process first, in parallel with the imports."""
    _occupy_standard_descriptors()
    if sys.argv[1:2] == ["run"]:
        _start_ahead()
    from wasmrt.cli import main as run_command_line

    run_command_line()


def _start_ahead() -> None:
    """Start the worker process of a runtime with default settings early. The worker exits with this process."""
    from wasmrt.core.errors import ConfigurationError, InternalError
    from wasmrt.core.places import find_places

    try:
        # If a configuration file exists, it may choose in-process execution, which is the default on other systems.
        if sys.platform == "linux" and not find_places().config.exists():
            from wasmrt.sandbox.isolation.pool import spawn

            spawn.start_ahead()
    except (ConfigurationError, InternalError, OSError):
        pass  # an early start is optional: the command reports the same problem


def _occupy_standard_descriptors() -> None:
    # SECURITY: if a standard descriptor is closed, the next opened file gets its number, and output would go to it.
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(handle, True)
    os.close(handle)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - stays open until the process exits


if __name__ == "__main__":
    main()
