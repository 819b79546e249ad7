"""Implement `wasi:sockets@0.2` by denying and recording every attempt to use sockets or DNS.

Tools can use the network only over HTTP. No guest receives a socket or a stream of addresses, so no guest can call the
methods of these resources.
"""

from __future__ import annotations

from wasmrt.core.model import Reason
from wasmrt.sandbox.component import Err
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.engine import HostInterface
from wasmrt.sandbox.guest.requests import Refuse
from wasmrt.sandbox.guest.wasi._io import Handles, IoError, drop_handle, unreachable

_SHOWN_CHARACTERS = 80
_OPTIONS = (
    "local-address remote-address address-family "
    "receive-buffer-size set-receive-buffer-size send-buffer-size set-send-buffer-size subscribe"
)
_TCP = (
    "start-bind finish-bind start-connect finish-connect start-listen finish-listen accept is-listening "
    "set-listen-backlog-size keep-alive-enabled set-keep-alive-enabled keep-alive-idle-time "
    "set-keep-alive-idle-time keep-alive-interval set-keep-alive-interval keep-alive-count set-keep-alive-count "
    "hop-limit set-hop-limit shutdown "
)
_UDP = "start-bind finish-bind stream unicast-hop-limit set-unicast-hop-limit "


class Network:
    """The resource that socket functions take as a parameter. It gives no access to a network."""


def _refuse_socket(ctx: GuestCall, subject: str) -> Err:
    ctx.services.handle(Refuse(Reason.SOCKETS_DENIED, subject))
    return Err("access-denied")


def _network(ctx: GuestCall) -> int:
    return ctx.part(Handles).add(Network())


def _error_code(ctx: GuestCall, rep: int) -> None:
    ctx.part(Handles).get(rep, IoError)


def _lookup(ctx: GuestCall, _network: int, name: str) -> Err:
    shown = name[:_SHOWN_CHARACTERS].encode("ascii", "backslashreplace").decode()
    return _refuse_socket(ctx, f"look up {shown}" if shown.isprintable() else "look up a name")


def _tcp(ctx: GuestCall, family: str) -> Err:
    return _refuse_socket(ctx, f"open a TCP socket ({family})")


def _udp(ctx: GuestCall, family: str) -> Err:
    return _refuse_socket(ctx, f"open a UDP socket ({family})")


INTERFACES = (
    HostInterface("wasi:sockets/network@0.2.0", {"network-error-code": _error_code}, {"network": drop_handle}),
    HostInterface("wasi:sockets/instance-network@0.2.0", {"instance-network": _network}),
    HostInterface(
        "wasi:sockets/ip-name-lookup@0.2.0",
        {"resolve-addresses": _lookup, **unreachable("resolve-address-stream", "resolve-next-address subscribe")},
        {"resolve-address-stream": drop_handle},
    ),
    HostInterface("wasi:sockets/tcp@0.2.0", unreachable("tcp-socket", _TCP + _OPTIONS), {"tcp-socket": drop_handle}),
    HostInterface("wasi:sockets/tcp-create-socket@0.2.0", {"create-tcp-socket": _tcp}),
    HostInterface(
        "wasi:sockets/udp@0.2.0",
        {
            **unreachable("udp-socket", _UDP + _OPTIONS),
            **unreachable("incoming-datagram-stream", "receive subscribe"),
            **unreachable("outgoing-datagram-stream", "check-send send subscribe"),
        },
        {"udp-socket": drop_handle, "incoming-datagram-stream": drop_handle, "outgoing-datagram-stream": drop_handle},
    ),
    HostInterface("wasi:sockets/udp-create-socket@0.2.0", {"create-udp-socket": _udp}),
)
