"""The package version, as a constant because `importlib.metadata` is slow; a test compares both."""

from __future__ import annotations

VERSION = "0.1.0"
