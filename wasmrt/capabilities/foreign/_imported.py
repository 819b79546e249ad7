"""The result of an import."""

from __future__ import annotations

from typing import NamedTuple

from wasmrt.capabilities.file import CapabilityFile


class Imported(NamedTuple):
    """A capability file made from another host's, never wider than that."""

    file: CapabilityFile
    left: tuple[str, ...]
    """A line for each thing that was not taken over: its place, and why."""
