"""The proxy reaches only granted hosts; each way around it works without the confinement."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.sandbox.isolation import outlet_escapes
from tests.sandbox.isolation.conftest import STANDING, needs_landlock, needs_seccomp
from tests.sandbox.isolation.outlet_world import GRANTED, World, made
from wasmrt.capabilities import RateLimitConfig, program_network_line, read_program_network
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.model import Decision
from wasmrt.egress.outlet import describe_denials
from wasmrt.sandbox.isolation.confine import NOT_CONFINED, OUTLET_LAYER, OUTLET_PORT, SHELL, confined_command

PYTHON = shutil.which("python3", path="/usr/bin:/usr/local/bin")
SCRIPT = Path(outlet_escapes.__file__)
HELLO = outlet_escapes.hello(GRANTED)
LEAST = 60
HOLD = """
import base64, os, socket, sys
target, hello = sys.argv[1:]
connection = socket.create_connection(("127.0.0.1", 3128))
login = base64.b64encode(os.environ["HTTPS_PROXY"][7:].partition("@")[0].encode()).decode()
head = f"CONNECT {target} HTTP/1.1", f"Proxy-Authorization: Basic {login}", f"Host: {target}", "", ""
connection.sendall("\\r\\n".join(head).encode())
connection.recv(1000)
connection.sendall(bytes.fromhex(hello))
sys.stdin.read()
"""
pytestmark = [
    needs_seccomp,
    needs_landlock,
    pytest.mark.skipif(PYTHON is None, reason="no python3 in /usr/bin"),
    pytest.mark.skipif(OUTLET_LAYER not in STANDING, reason="this machine does not allow separate network namespaces"),
]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with made(tmp_path) as world:
        yield world


def refusals(decisions: tuple[Decision, ...]) -> set[str]:
    return {str(each.reason) for each in decisions if not each.allowed}


@pytest.mark.ci("slow")
def test_more_than_sixty_ways_around_the_proxy_fail(world: World) -> None:
    assert PYTHON is not None
    shutil.copy(SCRIPT, world.folder / "escapes.py")
    control = subprocess.run(
        [PYTHON, "escapes.py", json.dumps(world.scene)], cwd=world.folder, capture_output=True, text=True, timeout=120
    )
    assert control.returncode == 0, control.stderr
    outside = json.loads(control.stdout)["found"]
    with world.outlet() as other, world.outlet() as outlet:
        foreign = other.env["HTTPS_PROXY"].partition("wasmrt:")[2].partition("@")[0]
        credential = outlet.env["HTTPS_PROXY"].partition("wasmrt:")[2].partition("@")[0]
        scene = world.scene | {"proxy": OUTLET_PORT, "credential": credential, "foreign": foreign, "ca": str(world.ca)}
        done = world.run(outlet, PYTHON, "escapes.py", json.dumps(scene))
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        decisions = outlet.decisions()
    assert {name: end for name, end in answer["allowed"].items() if end != "done"} == {}
    assert {name: end for name, end in answer["found"].items() if end == "done"} == {}
    proven = [name for name, end in outside.items() if end == "done"]
    assert len(proven) >= LEAST, {name: end for name, end in outside.items() if end != "done"}
    assert {"host-not-allowed", "port-not-allowed", "address-not-allowed", "path-not-allowed"} <= refusals(decisions)


def test_the_proxy_of_a_run_cannot_be_used_afterwards(world: World) -> None:
    with world.outlet() as outlet:
        address = f"https://{GRANTED}:{world.scene['tls']}/"
        curl = ["curl", "--silent", "--cacert", str(world.ca), address]
        assert world.run(outlet, *curl).stdout == b"served /"
        credential = outlet.env["HTTPS_PROXY"]
    before = world.servers.accepted
    with world.outlet() as later:
        done = world.run(later, *curl, HTTPS_PROXY=credential, https_proxy=credential)
        assert done.stdout == b"" and refusals(later.decisions()) == set()  # no decision, since it had no credentials
    assert world.servers.accepted == before


def test_other_processes_cannot_reach_the_proxys_port(world: World) -> None:
    with world.outlet() as outlet:
        held = f"import socket; s = socket.create_connection(('127.0.0.1', {OUTLET_PORT})); input()"
        with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", OUTLET_PORT), timeout=5):
            pass
        assert world.run(outlet, str(PYTHON), "-c", held).stderr.endswith(b"EOFError: EOF when reading a line\n")


def test_open_connections_end_with_the_proxy(world: World) -> None:
    reached = threading.Event()
    gone = threading.Event()

    def hold(connection: socket.socket) -> None:
        connection.recv(65536)
        reached.set()
        while connection.recv(65536):
            pass
        gone.set()

    port = world.servers.tcp(hold)
    (world.folder / "hold.py").write_text(HOLD)
    argv = [str(PYTHON), "hold.py", f"{GRANTED}:{port}", HELLO.hex()]
    with world.outlet({"host": GRANTED, "port": port}) as outlet:
        command = confined_command(SHELL, argv, env=outlet.env, read=[world.folder], outlet=outlet.descriptor)
        process = command.start(str(world.folder))
        assert reached.wait(30)
        assert not gone.is_set()
    assert gone.wait(30)
    process.communicate(timeout=30)


@pytest.mark.parametrize("bound", ["MAX_PROXY_TUNNEL_BYTES", "PROXY_TUNNEL_SECONDS", "PROXY_IDLE_SECONDS"])
def test_tunnels_have_a_maximum_duration(world: World, monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    monkeypatch.setattr(f"wasmrt.egress.proxy._tunnel.{bound}", 5000 if bound.endswith("BYTES") else 0.2)

    def endless(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n")
        while bound != "PROXY_IDLE_SECONDS":
            connection.sendall(bytes(4096))
        while connection.recv(65536):
            pass

    port = world.servers.tcp(endless, tls=world.tls)
    with world.outlet({"host": GRANTED, "port": port}) as outlet:
        url = f"https://{GRANTED}:{port}/"
        done = world.run(outlet, "curl", "--silent", "--output", "/dev/null", "--cacert", str(world.ca), url)
        decisions = outlet.decisions()
    assert done.returncode != 0
    assert refusals(decisions) == {"response-too-large"}


def test_plain_http_bodies_are_limited(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wasmrt.egress.proxy._proxy.PROXY_BODY_BYTES", 5000)
    monkeypatch.setattr("wasmrt.egress.proxy._request.PROXY_BODY_BYTES", 5000)

    def endless(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            connection.sendall(bytes(65536))

    port = world.servers.tcp(endless)
    (world.folder / "large").write_bytes(bytes(6000))
    with world.outlet({"host": GRANTED, "scheme": "http", "port": port}) as outlet:
        url = f"http://{GRANTED}:{port}/"
        assert b"more than 5000 bytes" in world.run(outlet, "curl", "--silent", url).stdout
    with world.outlet({"host": GRANTED, "scheme": "http", "port": port}) as outlet:
        sent = world.run(outlet, "curl", "--silent", "--data-binary", "@large", url)
        assert b"too long for the proxy" in sent.stdout


def test_tunnels_are_limited_for_each_user(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wasmrt.egress.proxy._proxy._RATE", RateLimitConfig(1, 1))
    url = f"https://{GRANTED}:{world.scene['tls']}/"
    curl = ["--silent", "--verbose", "--cacert", str(world.ca)]
    with world.outlet() as outlet:
        done = world.run(outlet, "curl", *curl, url, "--next", *curl, "--no-keepalive", "--http1.1", url)
    assert done.stdout.startswith(b"served /") and b"429" in done.stderr


def test_git_python_and_pip_use_the_proxy_automatically(world: World) -> None:
    port = world.scene["tls"]
    python = f"import urllib.request as u; print(u.urlopen('https://{GRANTED}:{port}/p').read())"
    with world.outlet() as outlet:
        done = world.run(outlet, str(PYTHON), "-c", python, SSL_CERT_FILE=str(world.ca))
        assert done.stdout == b"b'served /p'\n", done.stderr
    with world.outlet() as outlet:
        world.run(outlet, "git", "-c", f"http.sslCAInfo={world.ca}", "ls-remote", f"https://{GRANTED}:{port}/r.git")
        allowed = [each for each in outlet.decisions() if each.allowed]
        assert {each.subject for each in allowed} == {f"CONNECT https://{GRANTED}:{port}"}
    assert world.servers.accepted >= 2


def test_each_proxy_refusal_names_the_allowing_entry(world: World) -> None:
    with world.outlet() as outlet:
        world.run(outlet, "curl", "--silent", "https://packages.example.com/")
        (refused,) = outlet.decisions()
    assert refused.subject == "CONNECT https://packages.example.com"
    assert refused.hint == 'an operator can grant it in network: {"host": "packages.example.com"}'
    assert list(describe_denials([refused])) == [f"wasmrt: {refused.subject}: {refused.rule}; {refused.hint}"]


def test_without_network_namespaces_no_program_is_started(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    no_namespaces = replace(SHELL, namespaces=("net",))  # alone, it needs privileges that are missing
    with world.outlet() as outlet:
        command = confined_command(no_namespaces, ["true"], env=outlet.env, outlet=outlet.descriptor)
        process = command.start(str(world.folder))
        _, err = process.communicate(timeout=30)
    assert process.returncode == NOT_CONFINED or os.getuid() == 0
    assert b"does not allow separate network namespaces" in err


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"host": GRANTED, "path_prefix": "/x/"}, "path_prefix cannot be enforced for https"),
        ({"host": GRANTED, "methods": ["GET"]}, "methods cannot be enforced for https"),
        ({"host": GRANTED, "schemes": ["http", "https"], "path": "/x"}, "path cannot be enforced for https"),
        ({"hots": GRANTED}, "unknown key"),
        ("https://a.example/", "host"),
        ("a.example:80", "port"),
        ("*", "host"),
        (7, "network"),
        ({"host": GRANTED, "any_public_host": True}, "network"),
    ],
)
def test_a_grant_that_cannot_be_enforced_is_refused(entry: object, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        read_program_network([entry])
    with pytest.raises(ConfigurationError, match="list"):
        read_program_network(GRANTED)


def test_a_network_grant_is_described_in_sentences() -> None:
    entries = read_program_network([GRANTED, {"host": GRANTED, "scheme": "http", "path_prefix": "/x/"}])
    assert [program_network_line(entry) for entry in entries] == [
        "granted.example (https on port 443, every path and method: TLS hides them)",
        "granted.example (http on port 80, /x/ and below, every method)",
    ]
