"""Starts the process that workers come from beside the imports of a command that will need it."""

from __future__ import annotations

from wasmrt.guest.settings import EngineConfig
from wasmrt.isolation.pool import launcher
from wasmrt.places import find_places


def start_workers() -> None:
    """Have the process start that a runtime with default settings will ask for; it ends with this one."""
    if not find_places().config.exists():  # which may say that guests live elsewhere
        launcher.retain(EngineConfig())
