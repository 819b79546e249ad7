"""Transports for httpx and httpx2, which restrict an agent's own HTTP client to an `HttpCapability`.

    capability = HttpCapability([EndpointPattern("api.openai.com", "/v1/")], timeout_seconds=600)
    client = openai.OpenAI(api_key="unused", http_client=httpx.Client(transport=GuardedTransport(capability)))

A request passes the same checks in the same order as a guest's request: allowlist, rate limit, headers, leak scan,
addresses. Then the capability's credentials are injected, and its timeout and size limits apply. Every redirect is a
separate request. Differences from a guest's requests:

- A login that the client sets itself (`Authorization`, `Cookie`, `X-Api-Key` and others) is sent unchanged, unless a
  credential of the capability replaces it. URL, body and all other headers are scanned for tokens.
- The client sees every header of a response, including cookies and challenges, and tokens that a server issues to it.
  Secrets that the capability injected are always redacted from headers and bodies, even if they are split into pieces.
- A denial is a response with status 403, the header `x-wasmrt-denied`, and `{"error": {"code", "message", "hint"}}`.
  A network failure is httpx's own exception.
- The client's timeouts apply to each wait; the capability's `timeout_seconds` limits the whole exchange.

A request's body, at most `max_request_bytes`, is read into memory and sent after it was scanned. Only HTTP/1.1 is used.
Do not give the client an additional `proxy` or `mounts`: they would bypass the gateway.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from wasmrt.capabilities import HttpCapability
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import MAX_ASYNC_HTTP_THREADS
from wasmrt.egress.gateway._gateway import EgressGateway
from wasmrt.egress.gateway._host import HostCall, HostClient, OnDecision
from wasmrt.egress.gateway._httpx_family import find_family, read_request
from wasmrt.egress.gateway._model import Face, HttpFailure, HttpRequest, SecretsView
from wasmrt.egress.gateway._network import NetworkConfig
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
        http: The allowed requests, their credentials and limits.
        network: The operator's network settings; None for public addresses only. Not allowed together with `gateway`.
        gateway: A gateway to share, with its connections and rate limits. The transport does not close it.
        secrets: The secrets of the user, such as `UserSecrets(store, user)`; None if no credential is needed.
        user: The user whose rate limits apply.
        name: The client's name in rate limits and decisions.
        on_decision: Called with every decision, allowed or not, on the thread of the request.

    Raises:
        ConfigurationError: both a gateway and a network are given, or the network's CA file cannot be used.

    Examples:
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
        """Send one request. Return a denial as a response; raise a network failure as an exception of the library."""
        family = find_family(request)
        body = bytearray()
        for piece in request.stream:  # type: ignore[union-attr]
            body += piece
            if len(body) > self._client.http.max_request_bytes:
                break  # too large; the gateway reports it
        asked = read_request(request, bytes(body))
        try:
            response = self._client.gateway.open(self._client.new_call(), asked, face=Face.HOST)
        except HttpFailure as failure:
            if (error := family.exception(failure)) is not None:
                raise error from failure
            refusal: httpx.Response = family.refusal(failure)
            return refusal
        answer: httpx.Response = family.response(response, response.read)
        return answer

    def close(self) -> None:
        """Close the gateway and its idle connections, unless the gateway is shared."""
        self._client.close()


class AsyncGuardedTransport(httpx.AsyncBaseTransport):
    """A transport for `httpx.AsyncClient` and `httpx2.AsyncClient`; see `GuardedTransport` for its parameters.

    Requests run on threads, at most `MAX_ASYNC_HTTP_THREADS` at a time; a stream uses a thread only while it waits for
    data. The client's pool timeout limits the wait for a thread. Cancelling a task ends its request, and closes its
    connection, within 50 ms.
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
        # One limiter for each event loop.
        self._limiter: anyio.lowlevel.RunVar[anyio.CapacityLimiter] = anyio.lowlevel.RunVar("wasmrt.egress")

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request. Return a denial as a response; raise a network failure as an exception of the library."""
        family = find_family(request)
        body = bytearray()
        async for piece in request.stream:  # type: ignore[union-attr]
            body += piece
            if len(body) > self._client.http.max_request_bytes:
                break  # too large; the gateway reports it
        exchange = _Exchange(self._client.gateway, self._client.new_call(), read_request(request, bytes(body)))
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
        """Close the gateway and its idle connections, unless the gateway is shared."""
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
                alone = anyio.CapacityLimiter(1)  # `limiter` already limits this step
                return await anyio.to_thread.run_sync(step, abandon_on_cancel=True, limiter=alone)
            finally:
                limiter.release()
        except anyio.get_cancelled_exc_class():
            exchange.close()
            raise

    async def _acquire(self, limiter: anyio.CapacityLimiter, timeout: float | None) -> None:
        """Wait for a free thread.

        Raises:
            HttpFailure: no thread was free within the client's pool timeout and the capability's timeout.
        """
        longest = self._client.http.timeout_seconds
        seconds = longest if timeout is None else min(timeout, longest)
        with anyio.move_on_after(seconds) as waiting:
            await limiter.acquire()
        if waiting.cancelled_caught:
            message = f"{MAX_ASYNC_HTTP_THREADS} requests are in progress, and none ended within {seconds:g} s"
            raise HttpFailure(FailureKind.OPERATION_FAILED, "pool-timeout", message)


class _Exchange:
    """A request that runs on threads. One thread at a time may open or read it; any thread may close it at any time."""

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
        """Send the request and return the response once its headers have arrived."""
        response = self._gateway.open(self._call, self._request, face=Face.HOST)
        with self._lock:
            self._response = response
            self._release_if_closed()  # the waiting task may have been cancelled
        return response

    def read(self) -> bytes:
        """Return the next piece of the body, or b"" at the end of the body or after the exchange was closed."""
        with self._lock:
            if self._closed or self._response is None:
                return b""
            response, self._busy = self._response, True
        try:
            return response.read()
        finally:
            with self._lock:
                self._busy = False
                self._release_if_closed()

    def close(self) -> None:
        """Release the connection. If a thread is waiting for data, the connection is released when the wait ends."""
        with self._lock:
            self._closed = True
            self._call.cancelled.set()
            self._release_if_closed()

    def _release_if_closed(self) -> None:
        if self._closed and not self._busy and self._response is not None:
            self._response.close()
