"""The version, for those who cannot wait for `importlib.metadata`; a test holds it against the package's own."""

from __future__ import annotations

VERSION = "0.1.0"
