"""The tool worlds' imports, one module per interface: what a guest asks for becomes a call to a guarded room.

The total wrapper round every function is the engine's trampoline; the call's context is wasmrt.context.
"""

from wasmrt.host._worlds import AGENT_VERSIONS, interfaces

__all__ = ["AGENT_VERSIONS", "interfaces"]
