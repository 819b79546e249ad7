"""The package version, which hatchling reads; a constant, because `importlib.metadata` is slow."""

from __future__ import annotations

VERSION = "0.1.0"
