"""The proxy of one program run. Each connection is served by a separate thread."""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http import HTTPStatus

from wasmrt.capabilities import EndpointPattern, HttpCapability, RateLimitConfig
from wasmrt.core.errors import ExternalServiceError, RateLimitedError
from wasmrt.core.lifetime import EndEvent
from wasmrt.core.limits import PROXY_BODY_BYTES, PROXY_HEAD_SECONDS
from wasmrt.core.model import Decision
from wasmrt.egress.gateway._gateway import EgressGateway
from wasmrt.egress.gateway._headers import FRAMING, remove_headers
from wasmrt.egress.gateway._host import HostCall, HostClient
from wasmrt.egress.gateway._model import Face, HttpFailure, HttpRequest
from wasmrt.egress.proxy._request import ProxyRequest, RefusedError, read_request
from wasmrt.egress.proxy._tunnel import Tunnel, reword_for_program
from wasmrt.egress.rates import RateLimiter

_RATE = RateLimitConfig(requests_per_minute=600, requests_per_hour=20_000)
_MAX_CONNECTIONS = 32
"""Simultaneous connections; more connections wait."""
_MAX_DECISIONS = 256
"""Maximum number of stored decisions of a run, for allowed requests and for denials separately."""
_BODYLESS = (204, 304)


class ProgramProxy:
    """The proxy through which one run of a program reaches its granted hosts. `close` it after the run.

    For a tunnel (CONNECT), the host and port are checked and resolved like those of a request through the gateway, and
    the tunnel must carry TLS for that host. Plain HTTP requests are sent through the gateway, if an entry grants
    http.

    Args:
        allowlist: The granted hosts.
        gateway: The shared gateway, which resolves names and connects. The proxy does not close it.
        user: The user whose rate limits apply.
        name: The program's name in rate limits and decisions.
        rates: The rate limiter that counts tunnels.
    """

    def __init__(
        self, allowlist: Sequence[EndpointPattern], gateway: EgressGateway, *, user: str, name: str, rates: RateLimiter
    ) -> None:
        self.credential = secrets.token_urlsafe(24)
        """The password of the proxy. SECURITY: it is only valid for this run."""
        self._name, self._user = name, user
        self._gateway = gateway
        self._rates = rates
        http = HttpCapability(
            tuple(allowlist), (), _RATE, max_request_bytes=PROXY_BODY_BYTES, max_response_bytes=PROXY_BODY_BYTES,
            timeout_seconds=PROXY_HEAD_SECONDS * 12,
        )  # fmt: skip
        self._client = HostClient(
            http, network=None, gateway=gateway, secrets=None, user=user, name=name, on_decision=self._store_decision
        )
        self._cancelled = EndEvent()
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._threads: set[threading.Thread] = set()
        self._free = threading.Semaphore(_MAX_CONNECTIONS)
        self._allowed: list[Decision] = []
        self._denied: list[Decision] = []

    def decisions(self) -> tuple[Decision, ...]:
        """Return the distinct decisions made since this method was last called, denials first."""
        with self._lock:
            found = tuple(dict.fromkeys((*self._denied, *self._allowed)))
            self._allowed, self._denied = [], []
        return found

    def serve(self, listener: socket.socket) -> None:
        """Accept connections until `close` is called."""
        with suppress(OSError), self._track_socket(listener):
            while not self._cancelled.is_set():
                self._free.acquire()
                try:
                    client, _ = listener.accept()
                except OSError:
                    self._free.release()
                    return
                self._begin(client)

    def close(self) -> None:
        """Close every connection and wait for their threads."""
        self._cancelled.set()
        with self._lock:
            sockets, threads = tuple(self._sockets), tuple(self._threads)
        for each in sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()

    def _begin(self, client: socket.socket) -> None:
        thread = threading.Thread(target=self._handle_connection, args=(client,), name="wasmrt-proxy", daemon=True)
        with suppress(RuntimeError), self._lock:  # RuntimeError: no thread is available
            if not self._cancelled.is_set():  # after `close`, the thread would not be joined
                thread.start()
                self._threads.add(thread)  # the thread cannot end earlier, because that needs the lock
                return
        self._free.release()
        client.close()

    def _handle_connection(self, client: socket.socket) -> None:
        try:
            with suppress(OSError), self._track_socket(client):
                try:
                    self._serve(client)
                except RefusedError as refused:
                    client.settimeout(PROXY_HEAD_SECONDS)
                    client.sendall(_format_refusal(refused))
                except HttpFailure as failure:
                    client.settimeout(PROXY_HEAD_SECONDS)
                    client.sendall(_format_refusal(_to_refusal(failure)))
        finally:
            with self._lock:
                self._threads.discard(threading.current_thread())
            self._free.release()

    def _serve(self, client: socket.socket) -> None:
        request = read_request(client, self.credential, PROXY_HEAD_SECONDS)
        if request.method != "CONNECT":
            self._forward(client, request)
            return
        self._charge()
        tunnel = Tunnel(request.target, self._gateway, self._new_call(), self._record)
        with tunnel.open() as server, self._track_socket(server):
            client.settimeout(PROXY_HEAD_SECONDS)
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            tunnel.join(client, server)

    def _forward(self, client: socket.socket, received: ProxyRequest) -> None:
        request = HttpRequest(received.method, received.target, received.headers, received.body or None)
        with self._gateway.open(self._new_call(), request, face=Face.HOST) as response:
            body = response.read_all()
        framing = [] if response.status in _BODYLESS else [("Content-Length", str(len(body)))]
        if received.method == "HEAD":
            framing, body = [], b""
        client.settimeout(PROXY_HEAD_SECONDS * 6)
        client.sendall(
            _format_header(response.status, "", [*remove_headers(response.headers, FRAMING), *framing]) + body
        )

    def _charge(self) -> None:
        try:
            self._rates.check_and_record(self._user, self._name, _RATE, setting=lambda *_: "")
        except RateLimitedError as error:
            raise RefusedError(429, error.code, error.message, error.hint or "") from None
        except ExternalServiceError as error:
            raise RefusedError(502, error.code, error.message) from None

    def _new_call(self) -> HostCall:
        call = self._client.new_call()
        call.cancelled = self._cancelled
        return call

    def _record(self, decision: Decision) -> None:
        # SECURITY: the program chose the host name, which may contain a secret.
        self._store_decision(decision.redacted(self._client.new_call().scanner.redact))

    def _store_decision(self, decision: Decision) -> None:
        decision = reword_for_program(decision)
        with self._lock:
            stored = self._allowed if decision.allowed else self._denied
            if len(stored) < _MAX_DECISIONS:
                stored.append(decision)

    @contextmanager
    def _track_socket(self, each: socket.socket) -> Iterator[None]:
        """Register a socket, so that `close` can shut it down, and close it at the end.

        Raises:
            OSError: the run has ended.
        """
        with each:
            with self._lock:
                self._sockets.add(each)
            try:
                if self._cancelled.is_set():
                    raise OSError("the run has ended")
                yield
            finally:
                with self._lock:
                    self._sockets.discard(each)


def _to_refusal(failure: HttpFailure) -> RefusedError:
    status = 403 if failure.decision is not None else 429 if failure.code == "rate-limited" else 502
    decision = None if failure.decision is None else reword_for_program(failure.decision)
    message, hint = (failure.message, failure.hint) if decision is None else (decision.rule, decision.hint)
    return RefusedError(status, failure.code, message, hint or "")


def _format_refusal(refused: RefusedError) -> bytes:
    sentence = f"wasmrt: {refused.sentence}{f'; {refused.hint}' if refused.hint else ''}\n".encode()
    headers = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(sentence)))]
    headers.append(("X-Wasmrt-Denied", refused.code))
    if refused.status == 407:
        headers.append(("Proxy-Authenticate", 'Basic realm="wasmrt"'))
    return _format_header(refused.status, HTTPStatus(refused.status).phrase, headers) + sentence


def _format_header(status: int, reason: str, headers: Sequence[tuple[str, str]]) -> bytes:
    lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {value}" for name, value in headers), "Connection: close"]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")
