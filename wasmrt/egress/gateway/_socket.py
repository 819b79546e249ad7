"""Sockets: dialled to the checked address, every wait short, every byte counted."""

from __future__ import annotations

import errno
import select
import socket
import ssl
from contextlib import ExitStack
from ipaddress import ip_address

from wasmrt.egress.gateway._budget import ExchangeBudget, Wait
from wasmrt.sandbox.component.worlds import FailureKind

_READ_BYTES = 64 * 1024
# OpenSSL's x509_vfy.h, X509_V_ERR_*. Its texts are not shown: they may quote the certificate.
_UNKNOWN_AUTHORITY = frozenset({2, 18, 19, 20, 21, 27})
_OTHER_NAME = frozenset({62, 64})
_NOT_YET_VALID = 9
_EXPIRED = 10
_RECORD_BYTES = 16 * 1024
"""RFC 8446 5.1: TLS returns one record at a time, and a larger buffer is allocated in vain."""


class UnreachableError(Exception):
    """An address did not take the connection: the next one may. Never leaves this package."""


class BoundedSocket:
    """A connected socket, used within the budget of one exchange after another."""

    __slots__ = ("_at_most", "_sock", "_timeout")

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._timeout: float | None = None
        self._at_most = _RECORD_BYTES if isinstance(sock, ssl.SSLSocket) else _READ_BYTES

    def receive(self, budget: ExchangeBudget, at_most: int = _READ_BYTES) -> bytes:
        """Return the bytes that have come in, or none at the end. Raises OSError where the connection broke."""
        budget.begin(Wait.READ)
        while True:
            self._set_timeout(budget.wait_seconds())
            try:
                data = self._sock.recv(min(at_most, self._at_most))
            except TimeoutError:
                continue
            budget.charge_received(len(data))
            return data

    def send(self, data: bytes, budget: ExchangeBudget) -> None:
        """Send all of it. Raises OSError where the connection broke."""
        rest = memoryview(data)
        budget.begin(Wait.WRITE)
        while rest:
            self._set_timeout(budget.wait_seconds())
            try:
                count = self._sock.send(rest)
            except TimeoutError:
                continue
            budget.charge_sent(count)
            budget.begin(Wait.WRITE)
            rest = rest[count:]

    def is_readable(self) -> bool:
        """Tell whether an idle connection has bytes to read: it was closed, or its server is out of step."""
        if isinstance(self._sock, ssl.SSLSocket) and self._sock.pending():
            return True  # decrypted already: the descriptor no longer shows it
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        return bool(poll.poll(0))

    def release(self) -> socket.socket:
        """Hand the socket over to somebody with bounds of their own."""
        return self._sock

    def close(self) -> None:
        """Close it, without a farewell: a TLS close_notify could wait."""
        self._sock.close()

    def _set_timeout(self, seconds: float) -> None:
        if seconds != self._timeout:  # setting it is a call into the kernel, and nearly always the same
            self._sock.settimeout(seconds)
            self._timeout = seconds


def dial(
    address: str, port: int, host: str, tls: ssl.SSLContext | None, budget: ExchangeBudget, limit_seconds: float
) -> BoundedSocket:
    """Connect to `address`; with `tls`, shake hands with the server as `host`.

    SECURITY: `address` was checked, and `host` is used for SNI and the certificate alone: a name that resolves
    differently by now changes nothing. No proxy variable is read anywhere in this package.

    Raises:
        UnreachableError: nobody answers at that address.
        HttpFailure: the handshake failed, or the budget is spent.
    """
    family = socket.AF_INET6 if ip_address(address).version == 6 else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    budget.begin(Wait.CONNECT)
    try:
        try:
            _connect(sock, address, port, budget, limit_seconds)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:
            raise UnreachableError from None
        if tls is not None:
            sock = _handshake(sock, tls, host, budget)
    except BaseException:
        sock.close()
        raise
    return BoundedSocket(sock)


def _connect(sock: socket.socket, address: str, port: int, budget: ExchangeBudget, limit_seconds: float) -> None:
    sock.setblocking(False)
    code = sock.connect_ex((address, port))
    poll = select.poll()
    poll.register(sock, select.POLLOUT)
    waited = 0.0
    while code in (errno.EINPROGRESS, errno.EINTR):
        if waited >= limit_seconds:
            raise TimeoutError
        step = budget.wait_seconds()
        if poll.poll(step * 1000):
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        waited += step
    # SECURITY: a second check, after the fact: the peer is the checked address.
    if code or ip_address(sock.getpeername()[0]) != ip_address(address):
        raise OSError(code, "not connected")


def _handshake(sock: socket.socket, tls: ssl.SSLContext, host: str, budget: ExchangeBudget) -> ssl.SSLSocket:
    budget.begin(Wait.CONNECT)
    with ExitStack() as stack:
        try:
            wrapped = tls.wrap_socket(sock, server_hostname=host, do_handshake_on_connect=False)
            stack.callback(wrapped.close)
            while True:
                wrapped.settimeout(budget.wait_seconds())
                try:
                    wrapped.do_handshake()
                except TimeoutError:
                    continue
                stack.pop_all()
                return wrapped
        except ssl.SSLCertVerificationError as error:
            problem, hint = _certificate_problem(error.verify_code)
            message = f"the certificate of {budget.origin} {problem}"
            failure = budget.failure(FailureKind.OPERATION_FAILED, "tls-certificate", message, hint)
        except (OSError, ValueError):
            message = f"the TLS handshake with {budget.origin} failed"
            failure = budget.failure(FailureKind.OPERATION_FAILED, "tls", message)
    raise failure  # out here it has no context, whose text may quote the certificate


def _certificate_problem(code: int) -> tuple[str, str | None]:
    """Return the problem of a certificate and the next step, by OpenSSL's error number alone."""
    if code in _UNKNOWN_AUTHORITY:
        trust = "ca_file under [network] in config.toml, or NetworkConfig(ca_file=...) in Python"
        return "is not from an authority that is trusted here", f"an operator may name the authority: {trust}"
    if code in _OTHER_NAME:
        return "is for another host name", "check the host's name in the URL"
    clock = "check this machine's clock, or ask who runs the server"
    if code == _EXPIRED:
        return "has expired", clock
    if code == _NOT_YET_VALID:
        return "is not valid yet", clock
    return f"cannot be trusted (OpenSSL's verify error {code})", None
