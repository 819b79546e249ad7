"""A tunnel to a granted host: checked by host and port, connected to a checked address, and limited to TLS."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable
from contextlib import suppress

from wasmrt.capabilities import AllowlistValidator
from wasmrt.core.limits import (
    CONNECT_TIMEOUT_SECONDS,
    MAX_PROXY_HELLO_BYTES,
    MAX_PROXY_TUNNEL_BYTES,
    PROXY_HEAD_SECONDS,
    PROXY_IDLE_SECONDS,
    PROXY_TUNNEL_SECONDS,
)
from wasmrt.core.model import Addition, Decision, Reason, Step
from wasmrt.core.url import InvalidUrlError, ParsedUrl, parse_url
from wasmrt.egress.gateway._connection import UnreachableError, dial
from wasmrt.egress.gateway._exchange import ExchangeBudget
from wasmrt.egress.gateway._gateway import EgressGateway
from wasmrt.egress.gateway._host import HostCall
from wasmrt.egress.proxy._request import Hello, NotAHelloError, RefusedError, read_hello

_CHUNK = 64 * 1024
_ANY_METHOD = "GET"
"""The method for checks of a tunnel. An entry cannot restrict the methods in a tunnel, because TLS hides them."""
Record = Callable[[Decision], None]


class Tunnel:
    """One CONNECT request of a program."""

    def __init__(self, target: str, gateway: EgressGateway, call: HostCall, record: Record) -> None:
        self._gateway, self._call, self._record = gateway, call, record
        self._url = self._parse(target)
        self._subject = f"CONNECT {self._url.origin}"

    def open(self) -> socket.socket:
        """Check the target, resolve it and connect; return the connection to the host.

        Raises:
            RefusedError: the host is not granted, has no allowed address, or no server accepts the connection.
        """
        http = self._call.grant.http
        allowlist = AllowlistValidator(() if http is None else http.allowlist, self._gateway.networks)
        self._check(allowlist.check(self._url, _ANY_METHOD))
        networks = allowlist.get_networks(self._url, _ANY_METHOD)
        budget = ExchangeBudget(
            self._url.origin, seconds=PROXY_HEAD_SECONDS * 2, max_response_bytes=0, call=self._call, http=http
        )
        addresses, decision = self._gateway.look_up(self._url, networks, self._call.user, budget.ends_at)
        if not decision.allowed:
            self._check(decision)
        for address in addresses:
            # SECURITY: connect to the checked address; the name is not resolved again.
            with suppress(UnreachableError):
                limit = CONNECT_TIMEOUT_SECONDS
                return dial(address, self._url.port, self._url.host, None, budget, limit).release()
        raise RefusedError(502, "connect", f"no server accepts connections at {self._url.origin}")

    def join(self, client: socket.socket, server: socket.socket) -> None:
        """Read the program's ClientHello. If it names the granted host, relay bytes in both directions.

        Raises:
            OSError: a connection failed.
        """
        try:
            first = self._read_hello(client)
        except NotAHelloError as error:
            rule = f"a tunnel may only carry TLS for the granted host: {error}"
            self._record_denial(
                Reason.HOST_NOT_ALLOWED, rule, "no setting allows it; use TLS to the host of the CONNECT"
            )
            return
        if not _Relay(client, server, first).run():
            rule = "the tunnel exceeded its limit of bytes or time"
            self._record_denial(Reason.RESPONSE_TOO_LARGE, rule, "no setting raises it; fetch the data in parts")

    def _read_hello(self, client: socket.socket) -> bytes:
        data, ends_at = b"", time.monotonic() + PROXY_HEAD_SECONDS
        while True:
            if (left := ends_at - time.monotonic()) <= 0:
                raise NotAHelloError("no ClientHello was received in time")
            client.settimeout(left)
            try:
                more = client.recv(MAX_PROXY_HELLO_BYTES - len(data))
            except TimeoutError:
                raise NotAHelloError("no ClientHello was received in time") from None
            if not more:
                raise NotAHelloError("no ClientHello was received")
            data += more
            if (hello := read_hello(data)) is not None:
                self._check_hello(hello)
                return data

    def _check_hello(self, hello: Hello) -> None:
        # SECURITY: many hosts share an address, and the name in the handshake selects the host.
        if hello.encrypted:
            raise NotAHelloError("the ClientHello contains an encrypted server name (ECH), which cannot be checked")
        is_address = self._url.address is not None
        if hello.server_name.rstrip(".") != ("" if is_address else self._url.host):
            shown = f"{hello.server_name!r:.100}" if hello.server_name else "none"
            raise NotAHelloError(f"expected the requested host as server name in the ClientHello, got {shown}")

    def _parse(self, target: str) -> ParsedUrl:
        try:
            return parse_url(f"https://{target}/")
        except InvalidUrlError as error:
            decision = Decision(False, Reason.INVALID_URL, error.message, error.hint, "http", "CONNECT")
            self._record(decision)
            raise RefusedError(403, error.code, error.message, error.hint or "") from None

    def _check(self, decision: Decision) -> None:
        """Record a decision; raise `RefusedError` for a denial."""
        suggestion = decision.suggestion
        if isinstance(suggestion, Addition):
            port = "" if self._url.port == 443 else f', "port": {self._url.port}'
            suggestion = Addition(suggestion.to, f'{{"host": "{self._url.host}"{port}}}')
        decision = reword_for_program(decision._replace(subject=self._subject, suggestion=suggestion))
        self._record(decision)
        if not decision.allowed:
            raise RefusedError(403, str(decision.reason), decision.rule, decision.hint or "")

    def _record_denial(self, reason: Reason, rule: str, hint: str) -> None:
        self._record(Decision(False, reason, rule, hint, "http", self._subject))


class _Relay:
    """A relay of bytes between two sockets in both directions, with limits of bytes, time and idle time."""

    def __init__(self, client: socket.socket, server: socket.socket, first: bytes) -> None:
        self._other = {client: server, server: client}
        self._waiting = {client: b"", server: first}
        """Bytes to write to each socket."""
        self._open = {client, server}
        """Sockets that may still send bytes."""
        self._shut: set[socket.socket] = set()
        self._left = MAX_PROXY_TUNNEL_BYTES - len(first)
        for each in (client, server):
            each.setblocking(False)

    def run(self) -> bool:
        """Relay bytes until both sides have finished; return False if a limit was exceeded.

        Raises:
            OSError: a connection failed.
        """
        ends_at = time.monotonic() + PROXY_TUNNEL_SECONDS
        with selectors.DefaultSelector() as selector:
            while self._open or any(self._waiting.values()):
                left = min(PROXY_IDLE_SECONDS, ends_at - time.monotonic())
                if self._left < 0 or left <= 0 or not self._wait(selector, left):
                    return False
        return True

    def _wait(self, selector: selectors.BaseSelector, seconds: float) -> bool:
        for each, other in self._other.items():
            # Only read if the other side's buffer is empty, so that a slow receiver slows down its sender.
            reads = each in self._open and not self._waiting[other]
            events = (selectors.EVENT_READ if reads else 0) | (selectors.EVENT_WRITE if self._waiting[each] else 0)
            _watch(selector, each, events)
        ready = selector.select(seconds)
        for key, found in ready:
            if found & selectors.EVENT_READ:
                self._read(key.fileobj)  # type: ignore[arg-type]
            if found & selectors.EVENT_WRITE:
                self._write(key.fileobj)  # type: ignore[arg-type]
        return bool(ready)

    def _read(self, source: socket.socket) -> None:
        target = self._other[source]
        with suppress(BlockingIOError):
            data = source.recv(_CHUNK)
            self._left -= len(data)
            self._waiting[target] += data
            if not data:
                self._open.discard(source)
            self._write(target)

    def _write(self, target: socket.socket) -> None:
        with suppress(BlockingIOError):
            if self._waiting[target]:
                self._waiting[target] = self._waiting[target][target.send(self._waiting[target]) :]
        if not self._waiting[target] and self._other[target] not in self._open and target not in self._shut:
            self._shut.add(target)
            target.shutdown(socket.SHUT_WR)


def reword_for_program(decision: Decision) -> Decision:
    """Reword a decision for a program: a program's allowlist is the setting `network`, not `http.allowlist`."""
    suggestion = decision.suggestion
    if isinstance(suggestion, Addition):
        suggestion = Step(f"an operator can grant it in network: {suggestion.entry}")
    return decision._replace(rule=decision.rule.replace("http.allowlist", "network"), suggestion=suggestion)


def _watch(selector: selectors.BaseSelector, each: socket.socket, events: int) -> None:
    registered = each in selector.get_map()
    if not events:
        if registered:
            selector.unregister(each)
    elif registered:
        selector.modify(each, events)
    else:
        selector.register(each, events)
