"""The cost of the guarded gateway compared with bare httpx, and of a hundred concurrent calls.

    python benches/bench_http.py            prints the figures
    pytest benches/bench_http.py            fails if a bound is missed

Bounds: at most 1.3 times bare httpx on a persistent connection, for bodies of 1 KiB and of 1 MiB, but 2.0 for 1 MiB
sent; a hundred concurrent requests in at most twice the time of the slowest one. The server is a separate process, and
the two clients take turns, so that other load affects both. The first large bodies take longer, until the prefilter of
the leak scan is compiled.
"""

from __future__ import annotations

import contextlib
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import trustme
from wasmrt.testing import FakeCall, MemorySecrets

from wasmrt.capabilities import (
    Capabilities,
    CredentialLocation,
    CredentialMapping,
    EndpointPattern,
    HttpCapability,
    RateLimitConfig,
)
from wasmrt.egress.gateway import EgressGateway, HttpRequest, NetworkConfig
from wasmrt.egress.secrets import DEFAULT_USER, Secret, UserSecrets

HOST = "127.0.0.1"
TEXT = b'{"id": 12345, "name": "a plain name", "tags": ["one", "two"], "note": "nothing to see"},\n' * 12000
IN_A_ROW = 10
KIB, MIB = 1024, 1024 * 1024
WHAT = {"no": "no secret", "first": "a call each, with a secret", "every": "one call, with a secret"}
MAX_RATIO = 1.3
MAX_SPREAD = 2.0

# The response to /N has N bytes of JSON-like text.
SERVER = """
import asyncio, ssl, sys
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1])
text = (b'{"id": 12345, "name": "a plain name", "tags": ["one", "two"], "note": "nothing to see"},\\n' * 12000)
answers = {}
async def serve(reader, writer):
    try:
        while True:
            asked = await reader.readuntil(b"\\r\\n\\r\\n")
            size = int(asked.split(b" ", 2)[1].lstrip(b"/"))
            sent = asked.lower().partition(b"content-length:")[2].split(b"\\r\\n")[0]
            if int(sent or 0):
                await reader.readexactly(int(sent))
            if size not in answers:
                head = b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nContent-Length: %d\\r\\n\\r\\n"
                answers[size] = head % size + text[:size]
            writer.write(answers[size])
            await writer.drain()
    except (asyncio.IncompleteReadError, OSError):
        writer.close()
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context, backlog=256)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


@dataclass(frozen=True)
class Setting:
    port: int
    ca_file: Path
    gateway: EgressGateway

    def call(self, *, credential: bool = True) -> FakeCall:
        mapping = CredentialMapping(
            secret_name="bench_token", location=CredentialLocation.bearer(), host_patterns=(HOST,)
        )
        http = HttpCapability(
            allowlist=(EndpointPattern(HOST, ports=(self.port,)),),
            credentials=(mapping,) if credential else (),
            rate_limit=RateLimitConfig(10**6, 10**6),
            max_request_bytes=2 * MIB,
        )
        store = MemorySecrets()
        store.set(DEFAULT_USER, "bench_token", Secret("bench-" + "value-" * 4))
        return FakeCall(
            Capabilities.none().with_http(http),
            secrets=UserSecrets(store, DEFAULT_USER),
            requests_left=10**9,
            timeout_seconds=3600,
        )


@contextlib.contextmanager
def setting() -> Iterator[Setting]:
    authority = trustme.CA()
    with tempfile.TemporaryDirectory() as folder:
        ca_file, certificate = Path(folder, "ca.pem"), Path(folder, "server.pem")
        authority.cert_pem.write_to_path(str(ca_file))
        authority.issue_cert(HOST).private_key_and_cert_chain_pem.write_to_path(str(certificate))
        command = [sys.executable, "-c", SERVER, str(certificate)]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            config = NetworkConfig(unsafe_allowed_networks=("127.0.0.0/8",), ca_file=ca_file)
            with EgressGateway(config) as gateway:
                yield Setting(port, ca_file, gateway)
        finally:
            server.terminate()
            server.wait(timeout=10)


@dataclass(frozen=True)
class Taken:
    """The seconds of bare and of guarded requests."""

    bare: list[float]
    guarded: list[float]

    def ratio(self, percent: int = 50) -> float:
        """Return the ratio of guarded to bare times: medians, or a lower percentile that other load affects less."""
        return percentile(self.guarded, percent) / percentile(self.bare, percent)


def percentile(times: list[float], percent: int) -> float:
    return sorted(times)[len(times) * percent // 100]


def compare(here: Setting, size: int, rounds: int, *, secret: str = "every", upload: bool = False) -> Taken:
    """Time requests with and without the gateway.

    The guarded requests have "no" credential, or a separate call each with a credential in the "first" request, or all
    belong to one call, in which "every" body is scanned for the credential. `size` is the size of the response body, or
    of the request body with `upload`. Each client makes several requests in a row, so that the clients do not return
    memory to the system for each other.
    """
    url = f"https://{HOST}:{here.port}/{0 if upload else size}"
    method, body = ("POST", TEXT[:size]) if upload else ("GET", None)
    calls = [here.call(credential=secret != "no") for _ in range(rounds + 20 if secret == "first" else 1)]
    verify = ssl.create_default_context(cafile=str(here.ca_file))
    with httpx.Client(verify=verify, trust_env=False) as client:

        def bare() -> bytes:
            return client.request(method, url, headers={"Authorization": "Bearer x"}, content=body).content

        def guarded() -> bytes:
            call = calls.pop() if len(calls) > 1 else calls[0]
            return here.gateway.fetch(call, HttpRequest(method, url, body=body)).body

        assert bare() == guarded() and len(bare()) == (0 if upload else size)
        times: dict[Callable[[], bytes], list[float]] = {bare: [], guarded: []}
        for turn in range(-(-rounds // IN_A_ROW)):
            for ask in (bare, guarded) if turn % 2 else (guarded, bare):
                for _ in range(IN_A_ROW):
                    started = time.perf_counter()
                    ask()
                    times[ask].append(time.perf_counter() - started)
        return Taken(times[bare], times[guarded])


def burst(here: Setting, count: int = 100) -> tuple[float, float]:
    """Return the seconds for `count` concurrent requests in separate calls, and the seconds of the slowest one."""
    calls = [here.call() for _ in range(count)]
    start = threading.Barrier(count + 1)
    took: list[float] = []

    def one(call: FakeCall) -> None:
        start.wait()
        started = time.perf_counter()
        here.gateway.fetch(call, HttpRequest("GET", f"https://{HOST}:{here.port}/{KIB}"))
        took.append(time.perf_counter() - started)

    threads = [threading.Thread(target=one, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    start.wait()
    started = time.perf_counter()
    for thread in threads:
        thread.join()
    assert len(took) == count
    return time.perf_counter() - started, max(took)


def test_a_guarded_request_costs_at_most_three_tenths_more_than_a_bare_one() -> None:
    with setting() as here:
        for size, rounds in ((KIB, 400), (MIB, 100)):
            taken = compare(here, size, rounds)
            assert taken.ratio() <= MAX_RATIO, (size, taken.ratio())


def test_a_hundred_calls_at_once_take_at_most_twice_their_slowest() -> None:
    with setting() as here:
        total, slowest = burst(here)
        assert total <= MAX_SPREAD * slowest


def main() -> None:
    with setting() as here:
        for size, rounds in ((KIB, 1000), (MIB, 200)):
            for upload in (False, True):
                for secret in ("no", "first", "every"):
                    taken = compare(here, size, rounds, secret=secret, upload=upload)
                    what = f"{size:>8} bytes {'sent' if upload else 'read'}, {WHAT[secret]}"
                    bare, guarded = percentile(taken.bare, 50) * 1e6, percentile(taken.guarded, 50) * 1e6
                    low, seen = taken.ratio(10), taken.ratio()
                    print(f"{what}: bare {bare:.0f} us, guarded {guarded:.0f} us, low {low:.2f}x, {seen:.2f}x")
        total, slowest = burst(here)
        print(f"100 at once: {total * 1e3:.0f} ms, slowest {slowest * 1e3:.0f} ms, {total / slowest:.2f}x")


if __name__ == "__main__":
    main()
