"""A network of a process's own, in which nothing is but a port of loopback that leads to whoever started it.

The socket that listens there is sent out over a Unix socket. Whoever gets it accepts the connections, though it stands
in another network; nobody else on the machine reaches that port.
"""

from __future__ import annotations

import array
import fcntl
import os
import socket
from collections.abc import Collection
from struct import pack, unpack

from wasmrt.core.errors import ConfineError
from wasmrt.sandbox.isolation.confine._confinement import OUTLET_PORT

_BACKLOG = 64
_SIOCGIFFLAGS, _SIOCSIFFLAGS = 0x8913, 0x8914
_IFF_UP = 1
_REQUEST = "16sH22x"  # struct ifreq: a name and flags


def send(over: int, standing: Collection[str]) -> None:
    """Make the port of this process's own network and send the socket that listens there; needs the namespaces.

    Raises:
        ConfineError: this process has no network of its own, or may not set it up.
    """
    if "namespace-net" not in standing or "namespace-user" not in standing:
        # SECURITY: ports of Landlock have no address: with them alone a program could dial any host at this port.
        raise ConfineError(
            "this machine gives a process no network of its own, and without one no outlet can be guarded",
            hint="wasmrt doctor shows network-outlet; allow unprivileged user namespaces, or grant no network",
        )
    try:
        listener = _listening()
        with listener, socket.socket(fileno=os.dup(over)) as channel:
            channel.sendmsg([b"d"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listener.fileno()]))])
    except OSError as error:
        raise ConfineError(f"the network of its own cannot be set up: {error.strerror}") from error


def _listening() -> socket.socket:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        (flags,) = unpack("16xH22x", fcntl.ioctl(control, _SIOCGIFFLAGS, pack(_REQUEST, b"lo", 0)))
        fcntl.ioctl(control, _SIOCSIFFLAGS, pack(_REQUEST, b"lo", flags | _IFF_UP))
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", OUTLET_PORT))
    listener.listen(_BACKLOG)
    return listener
