"""The virtual WASI: an implementation in Python of the parts of `wasi:*@0.2` that real guests import.

SECURITY: the engine's WASI can be neither interrupted nor limited from Python, so it is never linked. In this
implementation, waits end at the call's deadline, all resources are limited, and no files or sockets are opened.
"""

from wasmrt.sandbox.guest.engine import HostInterface
from wasmrt.sandbox.guest.wasi import _cli, _clocks, _filesystem, _http, _io, _sockets
from wasmrt.sandbox.guest.wasi._cli import Printed, Program, ProgramFolder, log_printed
from wasmrt.sandbox.guest.wasi._signatures import SIGNATURES

__all__ = ["Printed", "Program", "ProgramFolder", "interfaces", "log_printed"]

_ALL: tuple[HostInterface, ...] = tuple(
    interface._replace(signatures=SIGNATURES.get(interface.name, {}))
    for package in (_io, _clocks, _cli, _filesystem, _sockets, _http)
    for interface in package.INTERFACES
)


def interfaces() -> tuple[HostInterface, ...]:
    """Return the WASI interfaces that a guest may import."""
    return _ALL
