"""`build_software`: a tool with which a model builds software, and its connection to a registry."""

from wasmrt.interop.builder._tool import builder_tool, software_builder

__all__ = ["builder_tool", "software_builder"]
