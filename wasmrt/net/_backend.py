"""The sockets. httpcore asks for a connection to a host; it gets one to the address that was judged."""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import ssl
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Any

import httpcore

from wasmrt.net._exchange import Exchange
from wasmrt.net._model import FailureKind

_SOCKET_OPTION = tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]


class PinnedBackend(httpcore.NetworkBackend):
    """Dials `address` and nothing else, whatever host it is asked for.

    SECURITY: a name is resolved once, before its addresses are judged. Here it is not looked at again, so an answer
    that changes in between changes nothing. SNI and the certificate check still go by the name: httpcore passes it
    to `start_tls`. No proxy variable is read, because no proxy is ever given to httpcore.
    """

    def __init__(self, address: str, connect_timeout_seconds: float) -> None:
        self._address = address
        self._connect_timeout = connect_timeout_seconds

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[_SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        exchange = _exchange(timeout)
        exchange.dialled = True
        family = socket.AF_INET6 if ip_address(self._address).version == 6 else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            _connect(sock, (self._address, port), exchange, self._connect_timeout)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            sock.close()
            raise httpcore.ConnectError(error.strerror or "connect failed") from None
        except BaseException:
            sock.close()
            raise
        return GuardedStream(sock)


class GuardedStream(httpcore.NetworkStream):
    """A socket whose every wait is short and whose every byte is counted."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        exchange = _exchange(timeout)
        while True:
            self._sock.settimeout(exchange.wait_seconds())
            try:
                data = self._sock.recv(max_bytes)
            except TimeoutError:
                continue
            except OSError as error:
                raise httpcore.ReadError(error.strerror or "read failed") from None
            exchange.charge_received(len(data))
            return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        exchange = _exchange(timeout)
        rest = memoryview(buffer)
        while rest:
            self._sock.settimeout(exchange.wait_seconds())
            try:
                count = self._sock.send(rest)
            except TimeoutError:
                continue
            except OSError as error:
                raise httpcore.WriteError(error.strerror or "write failed") from None
            exchange.sent += count
            rest = rest[count:]

    def close(self) -> None:
        self._sock.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        exchange = _exchange(timeout)
        try:
            self._sock.settimeout(exchange.wait_seconds())
            wrapped = ssl_context.wrap_socket(
                self._sock, server_hostname=server_hostname, do_handshake_on_connect=False
            )
            self._sock = wrapped
            while True:
                wrapped.settimeout(exchange.wait_seconds())
                with contextlib.suppress(TimeoutError):
                    wrapped.do_handshake()
                    return self
        except ssl.SSLCertVerificationError:
            self.close()
            raise exchange.failure(
                FailureKind.OPERATION_FAILED, "tls-certificate", "the server's certificate is not valid for this host"
            ) from None
        except OSError:
            self.close()
            raise exchange.failure(FailureKind.OPERATION_FAILED, "tls", "the TLS handshake failed") from None
        except BaseException:
            self.close()
            raise

    def get_extra_info(self, info: str) -> Any:
        if info == "ssl_object":
            return self._sock if isinstance(self._sock, ssl.SSLSocket) else None
        if info == "is_readable":
            return _is_readable(self._sock)
        return None


def _exchange(timeout: float | None) -> Exchange:
    # A stream without bounds is a bug of this room; it must not become an endless wait.
    if not isinstance(timeout, Exchange):
        raise TypeError("a guarded stream was used outside an exchange")
    return timeout


def _connect(sock: socket.socket, address: tuple[str, int], exchange: Exchange, limit_seconds: float) -> None:
    sock.setblocking(False)
    code = sock.connect_ex(address)
    poll = select.poll()
    poll.register(sock, select.POLLOUT)
    waited = 0.0
    while code in (errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EINTR):
        step = exchange.wait_seconds()
        if waited > limit_seconds:
            raise TimeoutError(errno.ETIMEDOUT, "no answer")
        if poll.poll(step * 1000):
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            break
        waited += step
    if code:
        raise OSError(code, errno.errorcode.get(code, "connect failed"))
    # SECURITY: belt and braces. What was dialled is what was judged.
    if ip_address(sock.getpeername()[0]) != ip_address(address[0]):
        raise OSError(errno.EHOSTUNREACH, "connected elsewhere")


def _is_readable(sock: socket.socket) -> bool:
    """Whether an idle connection has something to read, which for an idle one means: it was closed."""
    if sock.fileno() < 0:
        return True
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))
