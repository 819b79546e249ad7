"""Create a separate network namespace that only contains one loopback port, the outlet to wasmrt's proxy.

The port's listening socket is sent to the parent over a Unix socket. The parent is outside of the namespace, and
accepts connections on this socket. No process outside of the namespace can connect to the port.
"""

from __future__ import annotations

import array
import fcntl
import os
import socket
from collections.abc import Collection
from struct import pack, unpack

from wasmrt.core.errors import ConfineError

OUTLET_PORT = 3128
"""The loopback port of the outlet in a process's separate network namespace."""
_BACKLOG = 64
_SIOCGIFFLAGS, _SIOCSIFFLAGS = 0x8913, 0x8914
_IFF_UP = 1
_REQUEST = "16sH22x"  # struct ifreq: a name and flags


def send(over: int, active: Collection[str]) -> None:
    """Open the outlet's port in this process's network namespace, and send its listening socket.

    Raises:
        ConfineError: this process has no separate network namespace, or may not configure it.
    """
    if "namespace-net" not in active or "namespace-user" not in active:
        # SECURITY: Landlock rules have ports but no addresses: alone, they would allow this port on any host.
        raise ConfineError(
            "this machine does not allow separate network namespaces, which an outlet needs",
            hint="wasmrt doctor shows network-outlet; allow unprivileged user namespaces, or grant no network",
        )
    try:
        listener = _open_listener()
        with listener, socket.socket(fileno=os.dup(over)) as channel:
            channel.sendmsg([b"d"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listener.fileno()]))])
    except OSError as error:
        raise ConfineError(f"cannot set up the network namespace: {error.strerror}") from error


def _open_listener() -> socket.socket:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        (flags,) = unpack("16xH22x", fcntl.ioctl(control, _SIOCGIFFLAGS, pack(_REQUEST, b"lo", 0)))
        fcntl.ioctl(control, _SIOCSIFFLAGS, pack(_REQUEST, b"lo", flags | _IFF_UP))
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", OUTLET_PORT))
    listener.listen(_BACKLOG)
    return listener
