"""Starts the process that workers come from beside the imports of a command that will need it."""

from __future__ import annotations

from wasmrt.guest.settings import DEFAULT_ISOLATION, EngineConfig, Isolation
from wasmrt.isolation.pool import launcher
from wasmrt.places import find_places


def start_workers() -> None:
    """Have the process start that a runtime with default settings will ask for; it ends with this one."""
    # Where there is a file, it may say that guests live elsewhere.
    if DEFAULT_ISOLATION is Isolation.PROCESS and not find_places().config.exists():
        launcher.retain(EngineConfig())
