"""Loopback servers that a program may or may not reach, a proxy without rules, and proxies to some servers."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trustme
from wasmrt.testing import FakeResolver

from wasmrt.capabilities import read_program_network
from wasmrt.egress.gateway import NetworkConfig
from wasmrt.egress.outlet import EgressProxySession, EgressProxySessions
from wasmrt.sandbox.isolation.confine import SHELL, confined_command

GRANTED = "granted.example"
NAMES = {
    GRANTED: ["127.0.0.1"],
    "inside.example": ["127.0.0.2"],
    "mixed.example": ["127.0.0.1", "127.0.0.2"],
    "rebind.example": [["127.0.0.1"], ["127.0.0.2"]],
    "other.example": ["127.0.0.1"],
}
Serve = Callable[[socket.socket], None]


def sink(connection: socket.socket) -> None:
    """Answer whatever comes."""
    while connection.recv(65536):
        connection.sendall(b"answer")


def web(connection: socket.socket) -> None:
    """Answer one HTTP request."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        if not more:
            return
        data += more
    body = b"served " + data.split(b" ", 2)[1]
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(body), body))


@dataclass
class Servers:
    """Servers, each connection on a thread."""

    stack: ExitStack
    accepted: int = 0

    def start(self, listener: socket.socket, serve: Serve, tls: ssl.SSLContext | None = None) -> int:
        listener.listen(64)
        self.stack.callback(listener.close)
        self.stack.callback(listener.shutdown, socket.SHUT_RDWR)
        threading.Thread(target=self._accept, args=(listener, serve, tls), daemon=True).start()
        return 0 if listener.family == socket.AF_UNIX else int(listener.getsockname()[1])

    def tcp(self, serve: Serve, address: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> int:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        listener = socket.socket(family)
        listener.bind((address, 0))
        return self.start(listener, serve, tls)

    def _accept(self, listener: socket.socket, serve: Serve, tls: ssl.SSLContext | None) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                self.accepted += 1
                threading.Thread(target=self._serve, args=(connection, serve, tls), daemon=True).start()

    def _serve(self, connection: socket.socket, serve: Serve, tls: ssl.SSLContext | None) -> None:
        connection.settimeout(20)
        with contextlib.suppress(OSError):
            if tls is not None:
                connection = tls.wrap_socket(connection, server_side=True)
            with connection:
                serve(connection)


def lax_proxy(connection: socket.socket) -> None:
    """A proxy without rules: every name resolves to loopback."""
    data = b""
    while b"\r\n\r\n" not in data:
        if not (more := connection.recv(65536)):
            return
        data += more
    head, _, rest = data.partition(b"\r\n\r\n")
    target = head.split()[1].decode()
    if not head.startswith(b"CONNECT"):
        target = target.split("//")[-1].split("/")[0]
        if ":" not in target:
            target = next(line[6:] for line in head.decode().split("\r\n") if line.lower().startswith("host: "))
    port = int(target.split("//")[-1].split("@")[-1].rpartition(":")[2].split("/")[0])
    with socket.create_connection(("127.0.0.1", port)) as server:
        if head.startswith(b"CONNECT"):
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            server.sendall(rest)
        else:
            server.sendall(data)
        other = {connection: server, server: connection}
        while ready := select.select(list(other), [], [], 20)[0]:
            for each in ready:
                if not (more := each.recv(65536)):
                    return
                other[each].sendall(more)


@dataclass
class World:
    """All servers and proxies, with the scene for the script of escapes."""

    scene: dict[str, Any]
    network: NetworkConfig
    ca: Path
    servers: Servers
    folder: Path
    tls: ssl.SSLContext

    def entries(self, *further: object) -> list[object]:
        scene = self.scene
        ports = [scene["tls"], scene["sink"], scene["greeter"]]
        return [
            *({"host": name, "ports": ports} for name in NAMES if name != "other.example"),
            {"host": GRANTED, "scheme": "http", "port": scene["plain"], "path_prefix": "/open/", "methods": ["GET"]},
            *further,
        ]

    @contextlib.contextmanager
    def outlet(self, *entries: object) -> Iterator[EgressProxySession]:
        outlets = EgressProxySessions(
            read_program_network(list(entries or self.entries())), name="shell", network=self.network
        )
        try:
            with outlets.open("ann") as outlet:
                yield outlet
        finally:
            outlets.close()

    def run(self, outlet: EgressProxySession, *argv: str, **env: str) -> subprocess.CompletedProcess[bytes]:
        """Run a program behind a proxy until it exits."""
        given = outlet.env | {"GIT_CONFIG_NOSYSTEM": "1", "HOME": str(self.folder)} | env
        command = confined_command(SHELL, argv, env=given, read=[self.folder, self.ca], outlet=outlet.descriptor)
        process = command.start(str(self.folder))
        out, err = process.communicate(timeout=120)
        return subprocess.CompletedProcess(argv, process.returncode, out, err)


@contextlib.contextmanager
def made(tmp_path: Path) -> Iterator[World]:
    """Start everything."""
    authority = trustme.CA()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*NAMES).configure_cert(tls)
    folder = tmp_path / "outside"
    folder.mkdir()
    ca = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(ca))
    victim = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with ExitStack() as stack, subprocess.Popen(victim, stdin=subprocess.PIPE) as process:
        servers = Servers(stack)
        abstract, path = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
        abstract.bind("")  # a free name: a listener of the last world may not have ended yet
        path.bind(str(folder / "s"))
        for each in (abstract, path):
            servers.start(each, sink)
        datagrams = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        datagrams.bind(str(folder / "d"))
        # The same port at an address that the operator did not exempt.
        sink_port, _ = (servers.start(each, sink) for each in _twins())
        udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("127.0.0.1", 0))
        threading.Thread(target=_echo, args=(udp,), daemon=True).start()
        internal = socket.socket()
        internal.bind(("0.0.0.0", 0))
        dual = socket.socket(socket.AF_INET6)
        dual.bind(("::1", 0))
        scene = {
            "tls": servers.tcp(web, tls=tls), "sink": sink_port,
            "greeter": servers.tcp(lambda connection: connection.sendall(b"welcome")), "plain": servers.tcp(web),
            "internal": servers.start(internal, sink), "six": servers.start(dual, sink),
            "udp": udp.getsockname()[1], "path": str(folder / "s"), "dgram": str(folder / "d"),
            "abstract": abstract.getsockname()[1:].decode(), "victim": process.pid, "proxy": servers.tcp(lax_proxy),
        }  # fmt: skip
        network = NetworkConfig(unsafe_allowed_networks=("127.0.0.1/32",), resolver=FakeResolver(NAMES))  # type: ignore[arg-type]
        yield World(scene, network, ca, servers, folder, tls)
        process.communicate()


def _echo(udp: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            data, sender = udp.recvfrom(100)
            udp.sendto(data, sender)


def _twins() -> tuple[socket.socket, socket.socket]:
    """Sockets with one port at two addresses of loopback."""
    for _ in range(50):
        one, other = socket.socket(), socket.socket()
        one.bind(("127.0.0.1", 0))
        try:
            other.bind(("127.0.0.2", one.getsockname()[1]))
        except OSError:  # in use
            one.close()
            other.close()
        else:
            return one, other
    raise AssertionError("no port is free at both addresses")
