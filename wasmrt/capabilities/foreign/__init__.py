"""Capability files of other hosts, read as ours: what could not be taken over is said line by line."""

from __future__ import annotations

from wasmrt.capabilities.foreign._imported import Imported
from wasmrt.capabilities.foreign._ironclaw import import_sidecar
from wasmrt.capabilities.foreign._wassette import import_policy

__all__ = ["Imported", "import_policy", "import_sidecar"]
