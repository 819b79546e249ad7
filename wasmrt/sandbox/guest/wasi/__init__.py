"""The virtual WASI: a Python implementation of the parts of `wasi:*@0.2` that real guests import.

SECURITY: the engine's own WASI is never linked, because Python can neither interrupt nor limit it. In this
implementation, waits end at the call's deadline, all resources are limited, and no file or socket is opened.
"""

from wasmrt.sandbox.guest.engine import HostInterface
from wasmrt.sandbox.guest.wasi import _cli, _clocks, _config, _filesystem, _http, _io, _sockets
from wasmrt.sandbox.guest.wasi._cli import Printed, Program, ProgramFolder, log_printed
from wasmrt.sandbox.guest.wasi._http_fields import check_fields
from wasmrt.sandbox.guest.wasi._http_request import is_path
from wasmrt.sandbox.guest.wasi._http_server import METHODS, IncomingRequest, OutgoingResponse, start_exchange
from wasmrt.sandbox.guest.wasi._signatures import SIGNATURES

__all__ = [
    "METHODS",
    "IncomingRequest",
    "OutgoingResponse",
    "Printed",
    "Program",
    "ProgramFolder",
    "check_fields",
    "interfaces",
    "is_path",
    "log_printed",
    "start_exchange",
]

_ALL: tuple[HostInterface, ...] = tuple(
    interface._replace(signatures=SIGNATURES.get(interface.name, {}))
    for package in (_io, _clocks, _cli, _config, _filesystem, _sockets, _http)
    for interface in package.INTERFACES
)


def interfaces() -> tuple[HostInterface, ...]:
    """Return the WASI interfaces that a guest may import."""
    return _ALL
