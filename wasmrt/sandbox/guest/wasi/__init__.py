"""The virtual WASI: everything of `wasi:*@0.2` that real guests import, none of it the engine's own.

SECURITY: the engine's WASI cannot be interrupted and cannot be bounded from here, so it is never linked. What a
guest sees instead waits on its call's deadline, is capped, and opens neither files nor sockets.
"""

from wasmrt.sandbox.guest.engine import HostInterface
from wasmrt.sandbox.guest.wasi import _cli, _clocks, _filesystem, _http, _io, _sockets
from wasmrt.sandbox.guest.wasi._program import Printed, Program, ProgramFolder, log_printed
from wasmrt.sandbox.guest.wasi._signatures import SIGNATURES

__all__ = ["Printed", "Program", "ProgramFolder", "interfaces", "log_printed"]

_ALL: tuple[HostInterface, ...] = tuple(
    interface._replace(signatures=SIGNATURES.get(interface.name, {}))
    for package in (_io, _clocks, _cli, _filesystem, _sockets, _http)
    for interface in package.INTERFACES
)


def interfaces() -> tuple[HostInterface, ...]:
    """Return what a guest may import of WASI; linking it costs a call nothing until the guest uses it."""
    return _ALL
