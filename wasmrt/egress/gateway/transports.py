"""Transports for httpx and httpx2: an agent's own client, under an `HttpCapability`.

    capability = HttpCapability([EndpointPattern("api.openai.com", "/v1/")], timeout_seconds=600)
    client = openai.OpenAI(api_key="unused", http_client=httpx.Client(transport=GuardedTransport(capability)))

A request passes the same checks in the same order as a guest's: allowlist, rate limit, headers, leak scan, addresses;
then the capability's credentials are injected, and the exchange keeps to its bounds. Every redirect is a request of
its own. Where the two faces differ:

- A login that the client sets itself (`Authorization`, `Cookie`, `X-Api-Key` and the like) is sent unchanged, unless a
  credential of the capability has that place: then the credential replaces it. URL, body and all other headers are
  scanned for tokens as a guest's are.
- The client sees every header of a response, cookies and challenges included, and tokens that a server issues to it.
  A secret that the capability injected is redacted in any case, from headers and bodies, whole or in pieces.
- A refusal is a response with status 403, the header `x-wasmrt-denied`, and `{"error": {"code", "message", "hint"}}`.
  A failure of the network is httpx's own exception.
- Its time limits apply to each wait, under the capability's `timeout_seconds` for the whole exchange.

A request's body is read into memory, at most `max_request_bytes`, and sent when all of it was scanned. HTTP/1.1 only.
Give the transport to a client as its only one: an additional `proxy` or `mounts` would bypass the gateway.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from wasmrt.capabilities import HttpCapability
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import MAX_ASYNC_HTTP_THREADS
from wasmrt.egress.gateway._config import NetworkConfig
from wasmrt.egress.gateway._gateway import EgressGateway
from wasmrt.egress.gateway._host import HostCall, HostClient, OnDecision
from wasmrt.egress.gateway._httpx_family import family_of, read_request
from wasmrt.egress.gateway._model import Face, HttpFailure, HttpRequest, SecretsView
from wasmrt.egress.gateway._response import Response
from wasmrt.egress.secrets import DEFAULT_USER
from wasmrt.sandbox.component.worlds import FailureKind

try:
    import anyio
    import anyio.lowlevel
    import anyio.to_thread

    try:
        import httpx
    except ImportError:
        import httpx2 as httpx  # type: ignore[no-redef]
except ImportError:
    raise ConfigurationError(
        "the transports need httpx", hint="pip install 'wasmrt[httpx]', or install httpx2"
    ) from None

Result = TypeVar("Result")


class GuardedTransport(httpx.BaseTransport):
    """A transport for `httpx.Client` and `httpx2.Client` that sends every request through the gateway.

    Attributes:
        http: The requests that may leave, their credentials and their bounds.
        network: The operator's settings; None for public addresses only. Not with `gateway`.
        gateway: A gateway to share, with its connections and rate limits; closing the transport leaves it open.
        secrets: The secrets of the user, such as `UserSecrets(store, user)`; None where no credential is needed.
        user: Whose rate limits count.
        name: The client's name, in rate limits and decisions.
        on_decision: Called with every decision, allowed or not, on the thread of the request.

    Raises:
        ConfigurationError: both a gateway and a network are given, or the network's CA file cannot be used.

    Example:
        >>> import httpx
        >>> from wasmrt import EndpointPattern, GuardedTransport, HttpCapability
        >>> http = HttpCapability(allowlist=(EndpointPattern.host("api.example.com"),))
        >>> with httpx.Client(transport=GuardedTransport(http)) as client:
        ...     client.get("https://elsewhere.example/").status_code
        403
    """

    def __init__(
        self,
        http: HttpCapability,
        *,
        network: NetworkConfig | None = None,
        gateway: EgressGateway | None = None,
        secrets: SecretsView | None = None,
        user: str = DEFAULT_USER,
        name: str = "httpx",
        on_decision: OnDecision | None = None,
    ) -> None:
        self._client = HostClient(
            http, network=network, gateway=gateway, secrets=secrets, user=user, name=name, on_decision=on_decision
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request. Raises the exceptions of the client's own family; a refusal is a response."""
        family = family_of(request)
        body = bytearray()
        for piece in request.stream:  # type: ignore[union-attr]
            body += piece
            if len(body) > self._client.http.max_request_bytes:
                break  # too large; the gateway reports it
        asked = read_request(request, bytes(body))
        try:
            response = self._client.gateway.open(self._client.call(), asked, face=Face.HOST)
        except HttpFailure as failure:
            if (error := family.exception(failure)) is not None:
                raise error from failure
            refusal: httpx.Response = family.refusal(failure)
            return refusal
        answer: httpx.Response = family.response(response, response.read)
        return answer

    def close(self) -> None:
        """Close the transport's own gateway and its idle connections."""
        self._client.close()


class AsyncGuardedTransport(httpx.AsyncBaseTransport):
    """A transport for `httpx.AsyncClient` and `httpx2.AsyncClient`; see `GuardedTransport` for its parameters.

    The gateway's waits are on threads, at most `MAX_ASYNC_HTTP_THREADS` of them at a time; a stream holds one only
    while it waits. Waiting for one is limited as waiting for a connection is, by the client's pool timeout. A cancelled
    task ends its request, and closes its connection, within 50 ms.
    """

    def __init__(
        self,
        http: HttpCapability,
        *,
        network: NetworkConfig | None = None,
        gateway: EgressGateway | None = None,
        secrets: SecretsView | None = None,
        user: str = DEFAULT_USER,
        name: str = "httpx",
        on_decision: OnDecision | None = None,
    ) -> None:
        self._client = HostClient(
            http, network=network, gateway=gateway, secrets=secrets, user=user, name=name, on_decision=on_decision
        )
        # Of an event loop, because its waiters are.
        self._limiter: anyio.lowlevel.RunVar[anyio.CapacityLimiter] = anyio.lowlevel.RunVar("wasmrt.egress")

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request. Raises the exceptions of the client's own family; a refusal is a response."""
        family = family_of(request)
        body = bytearray()
        async for piece in request.stream:  # type: ignore[union-attr]
            body += piece
            if len(body) > self._client.http.max_request_bytes:
                break  # too large; the gateway reports it
        exchange = _Exchange(self._client.gateway, self._client.call(), read_request(request, bytes(body)))
        try:
            response = await self._wait(exchange, exchange.open)
        except HttpFailure as failure:
            if (error := family.exception(failure)) is not None:
                raise error from failure
            refusal: httpx.Response = family.refusal(failure)
            return refusal
        answer: httpx.Response = family.async_response(
            response, lambda: self._wait(exchange, exchange.read), exchange.close
        )
        return answer

    async def aclose(self) -> None:
        """Close the transport's own gateway and its idle connections."""
        self._client.close()

    async def _wait(self, exchange: _Exchange, step: Callable[[], Result]) -> Result:
        try:
            limiter = self._limiter.get()
        except LookupError:
            limiter = anyio.CapacityLimiter(MAX_ASYNC_HTTP_THREADS)
            self._limiter.set(limiter)
        try:
            await self._acquire(limiter, exchange.pool_timeout)
            try:
                alone = anyio.CapacityLimiter(1)  # this step's own: its turn has come
                return await anyio.to_thread.run_sync(step, abandon_on_cancel=True, limiter=alone)
            finally:
                limiter.release()
        except anyio.get_cancelled_exc_class():
            exchange.close()
            raise

    async def _acquire(self, limiter: anyio.CapacityLimiter, timeout: float | None) -> None:
        """Wait for a thread to be free.

        Raises:
            HttpFailure: none was, within the client's pool timeout and the capability's time for an exchange.
        """
        longest = self._client.http.timeout_seconds
        seconds = longest if timeout is None else min(timeout, longest)
        with anyio.move_on_after(seconds) as waiting:
            await limiter.acquire()
        if waiting.cancelled_caught:
            message = (
                f"{MAX_ASYNC_HTTP_THREADS} requests are waiting for their servers, and none ended in {seconds:g} s"
            )
            raise HttpFailure(FailureKind.OPERATION_FAILED, "pool-timeout", message)


class _Exchange:
    """One request on threads: opened and read by one after another, closed from anywhere at any time."""

    def __init__(self, gateway: EgressGateway, call: HostCall, request: HttpRequest) -> None:
        self._gateway = gateway
        self._call = call
        self._request = request
        self._lock = threading.Lock()
        self._response: Response | None = None
        self._busy = False
        self._closed = False
        self.pool_timeout = request.wait_timeouts.pool

    def open(self) -> Response:
        """Send the request and return the head of its response."""
        response = self._gateway.open(self._call, self._request, face=Face.HOST)
        with self._lock:
            self._response = response
            self._settle()  # the waiter may be gone
        return response

    def read(self) -> bytes:
        """Return the next piece of the body; nothing at its end, or when the exchange is closed."""
        with self._lock:
            if self._closed or self._response is None:
                return b""
            response, self._busy = self._response, True
        try:
            return response.read()
        finally:
            with self._lock:
                self._busy = False
                self._settle()

    def close(self) -> None:
        """Release the connection: now, or, where a thread is waiting on it, when that thread notices."""
        with self._lock:
            self._closed = True
            self._call.cancelled.set()
            self._settle()

    def _settle(self) -> None:
        if self._closed and not self._busy and self._response is not None:
            self._response.close()
