"""Connect to checked addresses, and exchange HTTP/1.1 messages over one connection."""

from __future__ import annotations

import errno
import select
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack
from ipaddress import ip_address

import h11

from wasmrt.core.lifetime import QUICK_SECONDS, await_ready
from wasmrt.core.limits import KEEPALIVE_SECONDS, MAX_HEADER_BYTES
from wasmrt.core.setting_commands import set_command
from wasmrt.core.tasks import current_task
from wasmrt.egress.gateway._exchange import ExchangeBudget, Wait, WireRequest
from wasmrt.egress.http1 import new_connection
from wasmrt.sandbox.component.worlds import FailureKind

_READ_BYTES = 64 * 1024
# OpenSSL's x509_vfy.h, X509_V_ERR_*. Its error texts are not shown: they may quote the certificate.
_UNKNOWN_AUTHORITY = frozenset({2, 18, 19, 20, 21, 27})
_OTHER_NAME = frozenset({62, 64})
_NOT_YET_VALID = 9
_EXPIRED = 10
_RECORD_BYTES = 16 * 1024
"""Maximum size of a TLS record (RFC 8446, 5.1). TLS returns one record at a time, so a larger buffer is useless."""


_UNREADY = (TimeoutError, BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


def _quick_seconds() -> float:
    """Return how long a socket operation may block before the call waits in `await_ready`.

    The time is 0 in a task, because a task shares its thread with other tasks.
    """
    return QUICK_SECONDS if current_task() is None else 0.0


def _awaited(error: OSError, otherwise: int) -> int:
    """Return the events of `poll` after which the operation that raised `error` can be repeated.

    A TLS write may have to wait until the socket is readable, and a TLS read until it is writable.
    """
    if isinstance(error, ssl.SSLWantReadError):
        return select.POLLIN
    return select.POLLOUT if isinstance(error, ssl.SSLWantWriteError) else otherwise


class UnreachableError(Exception):
    """An address does not accept connections, so the next address is tried. Internal to this package."""


class BoundedSocket:
    """A connected socket. Each operation is limited by the budget of the current exchange."""

    __slots__ = ("_at_most", "_sock", "_timeout")

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._timeout: float | None = None
        self._at_most = _RECORD_BYTES if isinstance(sock, ssl.SSLSocket) else _READ_BYTES

    def receive(self, budget: ExchangeBudget, at_most: int = _READ_BYTES) -> bytes:
        """Return the received bytes, or b"" if the server has closed the connection.

        Raises:
            OSError: the connection failed.
            HttpFailure: the budget is exhausted.
        """
        budget.begin(Wait.READ)
        while True:
            self._set_timeout(budget.wait_seconds())
            try:
                data = self._sock.recv(min(at_most, self._at_most))
            except _UNREADY as error:
                events = _awaited(error, select.POLLIN)
            else:
                budget.charge_received(len(data))
                return data
            budget.await_ready(self._sock.fileno(), events)  # outside of `except`, which would keep the error alive

    def send(self, data: bytes, budget: ExchangeBudget) -> None:
        """Send all of `data`.

        Raises:
            OSError: the connection failed.
            HttpFailure: the budget is exhausted.
        """
        rest = memoryview(data)
        budget.begin(Wait.WRITE)
        while rest:
            self._set_timeout(budget.wait_seconds())
            try:
                count = self._sock.send(rest)
            except _UNREADY as error:
                budget.await_ready(self._sock.fileno(), _awaited(error, select.POLLOUT))
                continue
            budget.charge_sent(count)
            budget.begin(Wait.WRITE)
            rest = rest[count:]

    def is_readable(self) -> bool:
        """Return whether the server of an idle connection has closed it, or has sent unexpected bytes."""
        if isinstance(self._sock, ssl.SSLSocket) and self._sock.pending():
            return True  # bytes that are already decrypted do not make the descriptor readable
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        return bool(poll.poll(0))

    def release(self) -> socket.socket:
        """Return the socket, for a caller that enforces its own limits."""
        return self._sock

    def close(self) -> None:
        """Close the socket without a TLS close_notify, which could block."""
        self._sock.close()

    def _set_timeout(self, left: float) -> None:
        seconds = min(left, _quick_seconds())
        if seconds != self._timeout:  # avoid a system call: the value rarely changes
            self._sock.settimeout(seconds)
            self._timeout = seconds


def dial(
    address: str, port: int, host: str, tls: ssl.SSLContext | None, budget: ExchangeBudget, limit_seconds: float
) -> BoundedSocket:
    """Connect to `address`; with `tls`, perform the handshake with the server as `host`.

    SECURITY: the caller has checked `address`. `host` is only used for SNI and the certificate, so a later change of
    DNS has no effect. No proxy variable is read anywhere in this package.

    Raises:
        UnreachableError: no server accepts connections at that address.
        HttpFailure: the handshake failed, or the budget is exhausted.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    budget.begin(Wait.CONNECT)
    try:
        try:
            _connect(sock, address, port, budget, limit_seconds)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:
            raise UnreachableError from None
        if tls is not None:
            sock = _shake_hands(sock, tls, host, budget)
    except BaseException:
        sock.close()
        raise
    return BoundedSocket(sock)


def _connect(sock: socket.socket, address: str, port: int, budget: ExchangeBudget, limit_seconds: float) -> None:
    sock.setblocking(False)
    code = sock.connect_ex((address, port))
    until = time.monotonic() + limit_seconds
    while code in (errno.EINPROGRESS, errno.EINTR):
        left = min(budget.wait_seconds(), until - time.monotonic())
        if left <= 0:
            raise TimeoutError
        if await_ready(sock.fileno(), select.POLLOUT, left, budget.cancelled):
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    # SECURITY: check again after connecting that the peer is the checked address.
    if code or not _is_same_address(sock.getpeername()[0], address):
        raise OSError(code, "not connected")


def _is_same_address(first: str, second: str) -> bool:
    return first == second or ip_address(first) == ip_address(second)


def _shake_hands(sock: socket.socket, tls: ssl.SSLContext, host: str, budget: ExchangeBudget) -> ssl.SSLSocket:
    budget.begin(Wait.CONNECT)
    with ExitStack() as stack:
        try:
            wrapped = tls.wrap_socket(sock, server_hostname=host, do_handshake_on_connect=False)
            stack.callback(wrapped.close)
            wrapped.settimeout(_quick_seconds())
            while True:
                try:
                    wrapped.do_handshake()
                except _UNREADY as error:
                    budget.await_ready(wrapped.fileno(), _awaited(error, select.POLLIN))
                    continue
                stack.pop_all()
                return wrapped
        except ssl.SSLCertVerificationError as error:
            problem, hint = _explain_certificate(error.verify_code)
            message = f"the certificate of {budget.origin} {problem}"
            failure = budget.failure(FailureKind.OPERATION_FAILED, "tls-certificate", message, hint)
        except (OSError, ValueError):
            message = f"the TLS handshake with {budget.origin} failed"
            failure = budget.failure(FailureKind.OPERATION_FAILED, "tls", message)
    raise failure  # outside of `except`, so that it has no context: OpenSSL's error may quote the certificate


def _explain_certificate(code: int) -> tuple[str, str | None]:
    """Return the problem of a certificate and the suggested fix, from OpenSSL's error number alone."""
    if code in _UNKNOWN_AUTHORITY:
        trust = set_command("network.ca_file", "FILE")
        return "is not from a trusted authority", f"an operator can add the authority: {trust}"
    if code in _OTHER_NAME:
        return "is for another host name", "check the host name in the URL"
    clock = "check this machine's clock, or ask the server's operator"
    if code == _EXPIRED:
        return "has expired", clock
    if code == _NOT_YET_VALID:
        return "is not valid yet", clock
    return f"cannot be trusted (OpenSSL's verify error {code})", None


_COPIED_BYTES = 64 * 1024
"""A body of at most this size is copied and sent together with the headers. A larger body is sent separately."""


class DeadConnectionError(Exception):
    """The server closed an idle connection before it returned any byte of a response. Internal to this package."""


class Connection:
    """An HTTP/1.1 connection that carries one exchange at a time."""

    __slots__ = ("_http", "_idle_since", "_socket", "_stays_open")

    def __init__(self, socket: BoundedSocket) -> None:
        self._socket = socket
        self._http = _new_http()
        self._idle_since = 0.0
        self._stays_open = False

    def send(self, request: WireRequest, budget: ExchangeBudget) -> h11.Response:
        """Send the request and return the response header.

        Raises:
            DeadConnectionError: the server returned no byte.
            HttpFailure: the response is not HTTP, or the budget is exhausted.
        """
        before = budget.received
        self._write(request, budget)
        failure: Exception
        try:
            while True:
                event = self._next_event(budget)
                if isinstance(event, h11.Response):
                    self._stays_open = _is_reusable(event)
                    return event
                if not isinstance(event, h11.InformationalResponse) or event.status_code == 101:
                    raise h11.RemoteProtocolError("no response")  # pragma: no cover - h11 rejects it first
        except (OSError, h11.RemoteProtocolError) as error:
            failure = DeadConnectionError() if budget.received == before else self._to_failure(error, budget)
        raise failure  # SECURITY: raised here without `__context__`, because h11's error quotes the response

    def body(self, head: h11.Response, budget: ExchangeBudget) -> Iterator[bytes | bytearray]:
        """Yield the body as it arrives, with the transfer coding removed.

        Raises:
            HttpFailure: the body is incomplete, or the budget is exhausted.
        """
        left = content_length(head)
        try:
            while True:
                event = self._http.next_event()
                if isinstance(event, h11.EndOfMessage):
                    return
                if isinstance(event, h11.Data):
                    left -= len(event.data)
                    yield event.data
                elif event is not h11.NEED_DATA:  # pragma: no cover - h11 has no other event within a body
                    raise h11.RemoteProtocolError("body is incomplete")
                elif left > 0:
                    break
                else:
                    self._http.receive_data(self._socket.receive(budget))
            # Only a known number of bytes is left. Reading them directly avoids a copy through h11's buffer, which is
            # slower than TLS.
            yield from self._read_rest(left, budget)
            self._http = _new_http()
            return
        except (OSError, h11.RemoteProtocolError) as error:
            failure = self._to_failure(error, budget)
        raise failure

    def skip_rest(self) -> bool:
        """Skip the rest of a response if it has arrived; return False if more would have to be read."""
        try:
            while isinstance(event := self._http.next_event(), h11.Data):
                pass
        except h11.RemoteProtocolError:
            return False
        return isinstance(event, h11.EndOfMessage)

    def become_idle(self) -> bool:
        """Prepare for the next exchange; return False if the connection cannot be reused.

        SECURITY: bytes after the response would be read as the response to the next request, possibly of another user.
        h11, and pools built on h11, would keep such bytes. Here, such bytes close the connection, and so does any data
        that arrives before the connection is reused.
        """
        if not self._stays_open:
            return False
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            if self._http.trailing_data != (b"", False):
                return False
            self._http.start_next_cycle()
        elif self._http.our_state is not h11.IDLE or self._socket.is_readable():
            return False
        self._idle_since = time.monotonic()
        return True

    def is_fresh(self, now: float) -> bool:
        """Return whether an idle connection can be reused."""
        return now - self._idle_since < KEEPALIVE_SECONDS and not self._socket.is_readable()

    def is_expired(self, now: float) -> bool:
        """Return whether a connection has been idle too long."""
        return now - self._idle_since >= KEEPALIVE_SECONDS

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _write(self, request: WireRequest, budget: ExchangeBudget) -> None:
        try:
            head = h11.Request(method=request.method, target=request.target, headers=list(request.headers))
            parts = [self._http.send(head) or b""]
            if request.body:
                parts += self._http.send_with_data_passthrough(h11.Data(request.body)) or ()
            parts.append(self._http.send(h11.EndOfMessage()) or b"")
        except h11.LocalProtocolError:
            raise budget.failure(FailureKind.INPUT, "invalid-request", "the request is not valid HTTP") from None
        if len(request.body or b"") < _COPIED_BYTES:
            parts = [b"".join(parts)]
        try:
            for part in parts:
                self._socket.send(part, budget)
        except OSError:
            # A server may reject a long request early, with a response that is still worth reading.
            return

    def _next_event(self, budget: ExchangeBudget) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        while True:
            event = self._http.next_event()
            if event is not h11.NEED_DATA:
                return event
            self._http.receive_data(self._socket.receive(budget))

    def _read_rest(self, left: int, budget: ExchangeBudget) -> Iterator[bytes]:
        while left:
            data = self._socket.receive(budget, left)
            if not data:
                raise OSError("the body is too short")
            left -= len(data)
            yield data

    def _to_failure(self, error: Exception, budget: ExchangeBudget) -> Exception:
        if isinstance(error, OSError) or self._http.trailing_data[1]:
            return budget.make_connection_failure()
        message = f"the response of {budget.origin} is not valid HTTP"
        return budget.failure(FailureKind.OPERATION_FAILED, "protocol", message)


def _new_http() -> h11.Connection:
    return new_connection(h11.CLIENT, max_head_bytes=MAX_HEADER_BYTES)


def content_length(head: h11.Response) -> int:
    """Return the length of the body according to Content-Length, or 0 if that header is missing or does not apply.

    h11 has already validated Content-Length and Transfer-Encoding.
    """
    if head.status_code in (204, 304):  # RFC 9112 6.3: no body, whatever the Content-Length
        return 0
    named = {name: value for name, value in head.headers if name in (b"content-length", b"transfer-encoding")}
    return int(named.get(b"content-length", 0)) if b"transfer-encoding" not in named else 0


def _is_reusable(head: h11.Response) -> bool:
    """Return whether the connection can carry another exchange after this response (RFC 9112 9.3)."""
    names = {name for name, _ in head.headers}
    # SECURITY: with a length and chunks, a proxy may have used the length, so the rest may be anything (RFC 9112 6.3).
    if head.http_version != b"1.1" or {b"content-length", b"transfer-encoding"} <= names:
        return False
    options = b",".join(value.lower() for name, value in head.headers if name == b"connection")
    return b"close" not in {option.strip() for option in options.split(b",")}
