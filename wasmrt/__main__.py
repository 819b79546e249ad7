"""`python -m wasmrt`, and the script `wasmrt`."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line. What guests live in starts beside the imports of a command that will need it."""
    _occupy_standard_descriptors()
    if sys.argv[1:2] == ["run"]:
        _start_ahead()
    from wasmrt.cli import main as run_command_line

    run_command_line()


def _start_ahead() -> None:
    """Have the process start that a runtime with default settings will ask for; it ends with this one."""
    from wasmrt.core.errors import ConfigurationError, InternalError
    from wasmrt.core.places import find_places

    try:
        # Where there is a file, it may say that guests live elsewhere, as they do on other systems.
        if sys.platform == "linux" and not find_places().config.exists():
            from wasmrt.sandbox.isolation.pool import spawn

            spawn.start_ahead()
    except (ConfigurationError, InternalError, OSError):  # a head start; the command meets what it needs, and tells
        pass


def _occupy_standard_descriptors() -> None:
    """SECURITY: where one was closed, the next file that is opened would take its place, and words go into it."""
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(handle, True)
    os.close(handle)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - for as long as the process lives


if __name__ == "__main__":
    main()
