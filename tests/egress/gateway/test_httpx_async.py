"""Asynchronous clients: many requests on one loop, and cancellation of a task's own request."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from wasmrt.testing import FakeResolver, ReceivedRequest, ServerConnection, http_response

from wasmrt import AsyncGuardedTransport
from wasmrt.capabilities import HttpCapability, RateLimitConfig
from wasmrt.egress.gateway import NetworkConfig

from .clients import OTHER, SECRET, bearer, both_families, capability, guarded_async
from .test_streaming import EVENTS, HEAD, Turns, chunk
from .world import HOST, MakeWorld, watch_end


def echo(request: ReceivedRequest, connection: ServerConnection) -> bytes:
    return http_response(f"{request.method} {request.target} ".encode() + request.body)


class Silent:
    """A server that sends nothing, or the header and one event, and records when its client disconnects."""

    def __init__(self, head: bytes = b"") -> None:
        self.head = head
        self.asked = threading.Event()
        self.left = threading.Event()

    def __call__(self, request: ReceivedRequest, connection: ServerConnection) -> None:
        if self.head:
            connection.send(self.head + chunk(EVENTS[0]))
        self.asked.set()
        try:
            if not connection.sock.recv(1):
                self.left.set()
        except OSError:
            self.left.set()


CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


@both_families
def test_a_request_returns_the_clients_own_types(world: MakeWorld, family: Any) -> None:
    w = world(echo)

    async def main() -> None:
        async with family.AsyncClient(transport=guarded_async(w)) as client:
            response = await client.post(w.url("/x"), json={"n": 1})
            assert isinstance(response, family.Response) and response.text.startswith('POST /x {"n"')
            await client.get(w.url())

    asyncio.run(main())
    assert w.server.connections == 1


@both_families
def test_denials_and_failures_match_the_synchronous_client(world: MakeWorld, family: Any) -> None:
    w = world(echo, answers={HOST: ["127.0.0.1"], OTHER: ["127.0.0.2"]})

    async def main() -> None:
        async with family.AsyncClient(transport=guarded_async(w)) as client:
            response = await client.get(w.url(host="third.example.com"))
            assert (response.status_code, response.headers["x-wasmrt-denied"]) == (403, "host-not-allowed")
            assert response.json()["error"]["hint"].startswith("add to http.allowlist")
            with pytest.raises(family.ConnectError):
                await client.get(w.url(host=OTHER))

    asyncio.run(main())


@both_families
def test_redirects_are_checked_and_cookies_are_kept(world: MakeWorld, family: Any) -> None:
    def script(request: ReceivedRequest, connection: ServerConnection) -> bytes:
        if request.target == "/1":
            return http_response(status=302, headers=(("Location", w.url("/2", OTHER)), ("Set-Cookie", "sid=1")))
        return http_response((request.header("Authorization") or "no login").encode())

    w = world(script)

    async def main() -> None:
        transport = guarded_async(w, bearer())
        async with family.AsyncClient(transport=transport, follow_redirects=True) as client:
            assert (await client.get(w.url("/1"))).text == "no login"
            assert dict(client.cookies) == {"sid": "1"}

    asyncio.run(main())
    assert w.server.requests[0].header("Authorization") == f"Bearer {SECRET}"


def test_a_streamed_body_is_sent_completely_but_not_over_the_limit(world: MakeWorld) -> None:
    w = world(lambda r, c: http_response(str(len(r.body)).encode()))

    async def pieces(count: int) -> AsyncIterator[bytes]:
        for _ in range(count):
            yield b"x" * 1000

    async def main() -> None:
        async with httpx.AsyncClient(transport=guarded_async(w, max_request_bytes=50_000)) as client:
            assert (await client.post(w.url(), content=pieces(30))).text == "30000"
            assert (await client.post(w.url(), content=pieces(1000))).status_code == 403

    asyncio.run(main())
    assert len(w.server.requests) == 1


@both_families
@pytest.mark.parametrize("credential", [False, True])
def test_an_event_is_read_before_the_server_sends_the_next(world: MakeWorld, family: Any, credential: bool) -> None:
    script = Turns(*EVENTS)
    w = world(script)

    async def main() -> None:
        transport = guarded_async(w, *([bearer()] if credential else []))
        async with family.AsyncClient(transport=transport) as client, client.stream("GET", w.url()) as response:
            read = []
            async for piece in response.aiter_raw():
                read.append(piece)
                script.was_read.release()
            assert tuple(read) == EVENTS

    asyncio.run(main())


def test_an_incomplete_body_is_the_clients_own_exception(world: MakeWorld) -> None:
    def script(request: ReceivedRequest, connection: ServerConnection) -> bytes:
        connection.keep_alive = False
        return http_response(b"half", length=100)

    w = world(script)

    async def main() -> None:
        async with httpx.AsyncClient(transport=guarded_async(w)) as client:
            with pytest.raises(httpx.ReadError):
                await client.get(w.url())

    asyncio.run(main())


def test_a_timeout_is_the_clients_own_exception(world: MakeWorld) -> None:
    w = world(Silent())

    async def main() -> None:
        timeout = httpx.Timeout(None, read=0.1)
        async with httpx.AsyncClient(transport=guarded_async(w), timeout=timeout) as client:
            with pytest.raises(httpx.ReadTimeout):
                await client.get(w.url())

    asyncio.run(main())


@pytest.mark.parametrize("head", [b"", CHUNKED], ids=["before the head", "in the body"])
def test_a_cancelled_task_ends_its_request(world: MakeWorld, head: bytes) -> None:
    script = Silent(head)
    w = world(script)

    async def main() -> None:
        async with httpx.AsyncClient(transport=guarded_async(w), timeout=None) as client:
            task = asyncio.create_task(client.get(w.url()))
            await asyncio.to_thread(script.asked.wait, 10)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            # The server sees the disconnection although the client stays open.
            assert await asyncio.to_thread(script.left.wait, 10)

    asyncio.run(main())


def test_a_timeout_of_the_event_loop_ends_the_request(world: MakeWorld) -> None:
    script = Silent()
    w = world(script)

    async def main() -> None:
        async with httpx.AsyncClient(transport=guarded_async(w), timeout=None) as client:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await client.get(w.url())
            assert await asyncio.to_thread(script.left.wait, 10)

    asyncio.run(main())


def test_a_partly_read_response_releases_its_connection(world: MakeWorld) -> None:
    script = Silent(CHUNKED)
    w = world(script)

    async def main() -> None:
        async with httpx.AsyncClient(transport=guarded_async(w), timeout=None) as client:
            async with client.stream("GET", w.url()) as response:
                async for piece in response.aiter_raw():
                    assert piece == EVENTS[0]
                    break
            assert await asyncio.to_thread(script.left.wait, 10)

    asyncio.run(main())


def test_a_response_that_arrives_after_cancellation_is_closed(world: MakeWorld) -> None:
    """The task is cancelled while the thread is about to return: the connection must not be lost."""
    w = world(lambda r, c: http_response(b"one line\n" * 50_000))
    opened, go_on, closed = threading.Event(), threading.Event(), threading.Event()
    transport = guarded_async(w)
    gateway = transport._client.gateway
    real = gateway.open

    def late(*args: Any, **kwargs: Any) -> Any:
        response = real(*args, **kwargs)
        body = response._body
        release = body.close
        body.close = lambda: (release(), closed.set())
        opened.set()
        go_on.wait(10)
        return response

    gateway.open = late

    async def main() -> None:
        async with httpx.AsyncClient(transport=transport) as client:
            task = asyncio.create_task(client.get(w.url()))
            await asyncio.to_thread(opened.wait, 10)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            go_on.set()

    asyncio.run(main())
    assert closed.wait(10)


def test_a_piece_that_arrives_after_cancellation_closes_the_response() -> None:
    class Late:
        """A response whose body arrives when the test releases it."""

        status, headers = 200, ()

        def __init__(self) -> None:
            self.reading, self.go_on, self.closed = threading.Event(), threading.Event(), threading.Event()

        def read(self) -> bytes:
            self.reading.set()
            self.go_on.wait(10)
            return b"late"

        def close(self) -> None:
            self.closed.set()

    class Gateway:
        def open(self, *args: Any, **kwargs: Any) -> Late:
            return late

    late = Late()
    transport = AsyncGuardedTransport(HttpCapability(), gateway=Gateway())  # type: ignore[arg-type]

    async def main() -> None:
        response = await transport.handle_async_request(httpx.Request("GET", f"https://{HOST}/"))
        task = asyncio.create_task(response.aread())
        await asyncio.to_thread(late.reading.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not late.closed.is_set()  # a thread is still reading from it
        late.go_on.set()
        assert await asyncio.to_thread(late.closed.wait, 10)

    asyncio.run(main())


def test_requests_run_concurrently_up_to_the_limit(world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wasmrt.egress.gateway.transports.MAX_ASYNC_HTTP_THREADS", 4)
    lock, meet = threading.Lock(), threading.Barrier(4)
    running: list[int] = []
    most = 0

    def script(request: ReceivedRequest, connection: ServerConnection) -> bytes:
        nonlocal most
        with lock:
            running.append(1)
            most = max(most, len(running))
        meet.wait(10)  # passes only while four requests are in progress
        with lock:
            running.pop()
        return http_response(request.target.encode())

    w = world(script)

    async def main() -> None:
        transport = guarded_async(w, rate_limit=RateLimitConfig(1000, 1000))
        async with httpx.AsyncClient(transport=transport, timeout=None) as client:
            answers = await asyncio.gather(*(client.get(w.url(f"/{n}")) for n in range(12)))
        assert [answer.text for answer in answers] == [f"/{n}" for n in range(12)]

    asyncio.run(main())
    assert most == 4


@both_families
def test_a_request_without_a_free_thread_is_a_pool_timeout(
    world: MakeWorld, family: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wasmrt.egress.gateway.transports.MAX_ASYNC_HTTP_THREADS", 1)
    answered, asked = threading.Event(), threading.Event()

    def script(request: ReceivedRequest, connection: ServerConnection) -> bytes:
        asked.set()
        assert answered.wait(30)
        return http_response(b"ok")

    w = world(script)

    async def main() -> None:
        timeout = family.Timeout(None, pool=0.05)
        async with family.AsyncClient(transport=guarded_async(w), timeout=timeout) as client:
            first = asyncio.create_task(client.get(w.url("/first")))
            await asyncio.to_thread(asked.wait, 30)
            with pytest.raises(family.PoolTimeout, match="none ended within"):
                await client.get(w.url("/second"))
            answered.set()
            assert (await first).text == (await client.get(w.url("/third"))).text == "ok"

    asyncio.run(main())
    assert [request.target for request in w.server.requests] == ["/first", "/third"]


def test_one_transport_works_in_several_event_loops(world: MakeWorld) -> None:
    w = world(echo)
    transport = guarded_async(w)

    async def ask() -> str:
        response = await transport.handle_async_request(httpx.Request("GET", w.url("/x")))
        return (await response.aread()).decode()

    assert [asyncio.run(ask()) for _ in range(2)] == ["GET /x ", "GET /x "]
    assert w.server.connections == 1


def test_closing_a_client_closes_the_connections_of_an_unshared_gateway(world: MakeWorld, ca_file: Any) -> None:
    gone = threading.Event()

    def script(request: ReceivedRequest, connection: ServerConnection) -> bytes:
        watch_end(connection, gone)
        return http_response(b"x")

    w = world(script)
    network = NetworkConfig(
        unsafe_allowed_networks=("127.0.0.0/8",), resolver=FakeResolver({HOST: ["127.0.0.1"]}), ca_file=ca_file
    )

    async def main() -> None:
        transport = AsyncGuardedTransport(capability(w), network=network)
        async with httpx.AsyncClient(transport=transport) as client:
            assert (await client.get(w.url())).text == "x"

    asyncio.run(main())
    assert gone.wait(10)


def test_reading_a_closed_stream_ends_at_once(world: MakeWorld) -> None:
    w = world(lambda r, c: http_response(b"one line\n" * 50_000))

    async def main() -> list[bytes]:
        transport = guarded_async(w)
        response = await transport.handle_async_request(httpx.Request("GET", w.url()))
        await response.stream.aclose()
        return [piece async for piece in response.stream]

    assert asyncio.run(main()) == []
