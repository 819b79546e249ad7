"""Lists of tools that lie: each is one problem of `wasmrt search`, and no other server is reached."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from wasmrt.testing import ReceivedRequest, ServerConnection, http_response

from tests.cli.registry import Answer, FakeRegistry, log_in

Run = Callable[..., Result]
Lie = Callable[[FakeRegistry], Answer]
INDEX, WELL_KNOWN, CATALOG, TAGS = "/tools.json", "/registry.json", "/v2/_catalog", "/tags/list"
GOOD = {
    INDEX: b'{"tools": [{"name": "parrot", "reference": "oci://r.example.com/acme/parrot:1.0.0"}]}',
    WELL_KNOWN: b'{"oci": {"registry": "HOST", "namespacePrefix": "acme/"}}',
    CATALOG: b'{"repositories": ["acme/parrot"]}',
    TAGS: b'{"tags": ["1.0.0"]}',
}


@pytest.fixture
def registry(registry: FakeRegistry, tmp_path: Path) -> FakeRegistry:
    log_in(tmp_path / "docker", registry.host)
    return registry


def fixed(*bodies: bytes, **options: object) -> Lie:
    return lambda _: http_response(*bodies, **options)  # type: ignore[arg-type]


def located(target: str, status: int = 307) -> Lie:
    def lie(registry: FakeRegistry) -> bytes:
        location = target.format(inner=f"127.0.0.1:{registry.inner.port}", port=registry.inner.port)
        return http_response(status=status, headers=(("Location", location),))

    return lie


def demanded(realm: str) -> Lie:
    def lie(registry: FakeRegistry) -> bytes:
        challenge = f'Bearer realm="{realm.format(inner=f"127.0.0.1:{registry.inner.port}")}"'
        return http_response(b"{}", status=401, headers=(("WWW-Authenticate", challenge),))

    return lie


def well_known(host: str) -> Lie:
    return lambda registry: http_response(
        json.dumps({"oci": {"registry": host.format(port=registry.inner.port)}}).encode()
    )


def next_page(target: str, body: bytes) -> Lie:
    def lie(registry: FakeRegistry) -> bytes:
        link = f'<{target.format(inner=f"127.0.0.1:{registry.inner.port}")}>; rel="next"'
        return http_response(body, headers=(("Link", link),))

    return lie


CODED = {"headers": (("Content-Encoding", "gzip"),)}
BOMB = gzip.compress(bytes(20_000_000))
EVERYWHERE: dict[str, tuple[Lie, str]] = {
    "longer than 1 MiB": (fixed(b" " * 2_000_000), "more than 1048576 bytes"),
    "gzip bomb": (fixed(BOMB, **CODED), ""),
    "shorter than its length": (fixed(b"{}", length=100), "broke before"),
    "web page": (fixed(b"<html>"), "not JSON"),
    "nested JSON": (fixed(b"[" * 1000), "nest"),
    "not an object": (fixed(b"[]"), ""),
    "status 206": (fixed(b"{}", status=206), "206"),
    "status 304": (fixed(status=304), "304"),
    "redirect to another port": (located("https://{inner}/"), "entries for this host cover other ports"),
    "redirect to another name": (located("https://localhost:{port}/"), "cover"),
    "redirect to the cloud's metadata": (located("https://169.254.169.254/"), "not public"),
    "redirect to http": (located("http://{inner}/"), "https"),
    "redirect to a file": (located("file:///etc/passwd"), ""),
    "login at another port": (demanded("https://{inner}/token"), ""),
}
LIES: dict[str, tuple[str, Lie, str]] = {
    **{f"{name} as {end}": (end, *lie) for end in GOOD for name, lie in EVERYWHERE.items()},
    "duplicate tools": (INDEX, fixed(b'{"tools": [], "tools": [{"name": "parrot"}]}'), "duplicate"),
    "100,000 entries": (INDEX, fixed(b'{"tools": [%s{}]}' % (b"{}," * 100_000)), "over 10,000 lists and objects"),
    **{
        f"well-known file that names {host}": (WELL_KNOWN, well_known(host), problem)
        for host, problem in (
            ("169.254.169.254", "not public"), ("10.0.0.1", "not public"), ("[::1]", "not public"),
            ("localhost/../x", "expected oci://HOST"), ("a:b@example.com", "host is invalid"), ("", "host is invalid"),
        )
    },
    "next page at another port": (CATALOG, next_page("https://{inner}/", GOOD[CATALOG]), "another address"),
    "next page of tags at another port": (TAGS, next_page("https://{inner}/", GOOD[TAGS]), "another address"),
    "next page over http": (CATALOG, next_page("http://{inner}/", GOOD[CATALOG]), "https"),
}  # fmt: skip


@pytest.mark.table
@pytest.mark.parametrize("name", LIES)
def test_a_list_that_lies_finds_nothing_and_reaches_no_other_server(
    wasmrt: Run, home: Path, registry: FakeRegistry, name: str
) -> None:
    end, lie, problem = LIES[name]
    source = f"https://{registry.host}" + (INDEX if end == INDEX else "")
    with (home / "data/config.toml").open("a") as file:
        file.write(f'[install]\nsearch = ["{source}"]\n')
    registry.lies = {at: http_response(body.replace(b"HOST", registry.host.encode())) for at, body in GOOD.items()}
    assert len(json.loads(wasmrt("search", "parrot", "--json").stdout)["tools"]) == 1
    registry.lies[end] = lie(registry)
    found = json.loads(wasmrt("search", "parrot", "--json", code=0 if end == TAGS else 1).stdout)
    assert found["tools"] == [] and len(found["problems"]) <= 1
    assert problem in "".join(found["problems"])
    assert registry.inner.connections == 0


def test_a_registry_that_lists_pages_without_end_is_read_in_part(
    wasmrt: Run, home: Path, registry: FakeRegistry
) -> None:
    def page(request: ReceivedRequest, _: ServerConnection) -> bytes:
        names = [f"acme/parrot{number}" for number in range(10_000)]
        body = json.dumps({"repositories": names}).encode()
        return http_response(body, headers=(("Link", f'<{request.target}&a>; rel="next"'),))

    with (home / "data/config.toml").open("a") as file:
        file.write(f'[install]\nsearch = ["oci://{registry.host}"]\n')
    registry.lies = {CATALOG: page, TAGS: http_response(GOOD[TAGS])}
    found = json.loads(wasmrt("search", "parrot", "--json").stdout)
    pages = [each for each in registry.server.requests if "_catalog" in each.target]
    assert (len(pages), len(found["tools"]), found["more"]) == (10, 20, 49_980)
    assert "only the first repositories" in found["problems"][0]
