"""Public fakes, for our tests and for those of tools and agents. wasmrt itself imports nothing from here."""

from wasmrt.testing._secrets import MemorySecrets

__all__ = ["MemorySecrets"]
