"""Ways around the proxy, each tried separately: `python outlet_escapes.py SCENE`. Standard library only."""

import base64
import ctypes
import errno
import json
import os
import socket
import ssl
import struct
import sys

SCENE = json.loads(sys.argv[1]) if __name__ == "__main__" else {}
SECONDS = 2
TLS, SINK, GREETER, PLAIN, INTERNAL = (SCENE.get(name, 0) for name in ("tls", "sink", "greeter", "plain", "internal"))
GRANTED, OTHER = "granted.example", "other.example"
CREDENTIAL = SCENE.get("credential", "")
LIBC = ctypes.CDLL(None, use_errno=True)


class Refused(Exception):
    """Nothing was reached."""


# -- around the proxy -------------------------------------------------------------------------------------------------


def reached(connection):
    connection.settimeout(SECONDS)
    with connection:
        connection.sendall(b"hello")
        if not connection.recv(100):
            raise Refused


def tcp(host, port, family=socket.AF_INET, protocol=0):
    def act():
        connection = socket.socket(family, socket.SOCK_STREAM, protocol)
        connection.settimeout(SECONDS)
        connection.connect((host, port))
        reached(connection)

    return act


def datagram(family, address):
    def act():
        with socket.socket(family, socket.SOCK_DGRAM) as connection:
            connection.settimeout(SECONDS)
            connection.connect(address)
            connection.send(b"hello")
            if family != socket.AF_UNIX:
                connection.recv(10)

    return act


def unix(address):
    def act():
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(address)
        reached(connection)

    return act


def fast_open():
    connection = socket.socket()
    connection.sendto(b"hello", 0x20000000, ("127.0.0.1", SINK))
    reached(connection)


def call(number, *arguments):
    if LIBC.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), "refused")


def enter_network():
    pidfd = os.pidfd_open(SCENE["victim"])
    call(308, pidfd, 0x40000000)  # setns of x86_64
    tcp("127.0.0.1", SINK)()


def own_network():
    call(272, 0x10000000 | 0x40000000)  # unshare


def listen():
    with socket.create_server(("127.0.0.1", 0)):
        pass


# -- through the proxy ------------------------------------------------------------------------------------------------


def raw(head, then=b"", credential=None, count=1):
    """Send a request to the proxy, and return the connection and the first bytes of the response."""
    credential = CREDENTIAL if credential is None else credential
    line = f"Proxy-Authorization: Basic {base64.b64encode(f'wasmrt:{credential}'.encode()).decode()}\r\n"
    connection = socket.create_connection(("127.0.0.1", SCENE["proxy"]), timeout=SECONDS)
    connection.sendall(head.encode("latin-1") + (line * count if credential else "").encode() + b"\r\n" + then)
    answer = b""
    while b"\r\n\r\n" not in answer:
        more = connection.recv(1)
        if not more:
            break
        answer += more
    if not answer.startswith((b"HTTP/1.1 200", b"HTTP/1.0 200")):
        raise Refused(answer)
    return connection


def tunnel(target, host=None, more="", **options):
    return raw(f"CONNECT {target} HTTP/1.1\r\nHost: {host or target}\r\n{more}", **options)


def connected(target, **options):
    return lambda: reached(tunnel(target, **options))


def sends(data, target=f"{GRANTED}:{SINK}"):
    """Return whether bytes reach the granted host and a response returns."""

    def act():
        connection = tunnel(target)
        connection.sendall(data() if callable(data) else data)
        if not connection.recv(100):
            raise Refused

    return act


def handshake(name):
    def act():
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        with context.wrap_socket(tunnel(f"{GRANTED}:{TLS}"), server_hostname=name) as connection:
            connection.sendall(f"GET / HTTP/1.1\r\nHost: {name}\r\n\r\n".encode())
            if not connection.recv(100):
                raise Refused

    return act


def hello(*names, extensions=b"", record=1 << 14, kind=0):
    """A ClientHello for these names, in records of at most `record` bytes."""
    listed = b"".join(struct.pack("!BH", kind, len(name)) + name.encode() for name in names)
    server_name = struct.pack("!HHH", 0, len(listed) + 2, len(listed)) + listed if names else b""
    extensions = server_name + extensions
    body = b"\3\3" + bytes(32) + b"\0" + b"\0\2\x13\1" + b"\1\0" + struct.pack("!H", len(extensions)) + extensions
    message = b"\1" + len(body).to_bytes(3, "big") + body
    pieces = [message[at : at + record] for at in range(0, len(message), record)]
    return b"".join(b"\x16\3\1" + struct.pack("!H", len(piece)) + piece for piece in pieces)


def plain(line, headers="", then=b"", **options):
    """Send a request over plain HTTP, and return whether its server responds."""

    def act():
        connection = raw(f"{line} HTTP/1.1\r\n{headers}Connection: close\r\n", then, **options)
        answer = b""
        while more := connection.recv(1000):
            answer += more
        if b"served" not in answer:
            raise Refused(answer)

    return act


def banner():
    if not tunnel(f"{GRANTED}:{GREETER}").recv(10):
        raise Refused


def twice(target):
    def act():
        tunnel(target).close()
        reached(tunnel(target))

    return act


def half_open():
    """Hold idle connections open, and return whether another one is still served."""
    held = [socket.create_connection(("127.0.0.1", SCENE["proxy"]), timeout=SECONDS) for _ in range(40)]
    for each in held:
        each.sendall(b"CONNECT ")
    connected(f"{OTHER}:{SINK}")()


ROOT = f"http://{GRANTED}:{PLAIN}"
HOST = f"Host: {GRANTED}:{PLAIN}\r\n"
BOTH_LENGTHS = "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n"
SMUGGLED = f"GET {ROOT}/secret HTTP/1.1\r\n{HOST}\r\n".encode()
ENCRYPTED = struct.pack("!HH", 0xFE0D, 4) + b"\0\0\1\0"

ATTEMPTS = {
    "tcp to the granted address": tcp("127.0.0.1", SINK),
    "tcp to another port": tcp("127.0.0.1", INTERNAL),
    "tcp to another address of loopback": tcp("127.0.0.2", INTERNAL),
    "tcp by IPv6": tcp("::1", SCENE.get("six", 0), socket.AF_INET6),
    "tcp by a mapped IPv6 address": tcp("::ffff:127.0.0.1", SINK, socket.AF_INET6),
    "tcp in several paths": tcp("127.0.0.1", SINK, protocol=262),
    "tcp at once with data": fast_open,
    "udp": datagram(socket.AF_INET, ("127.0.0.1", SCENE.get("udp", 0))),
    "a lookup": lambda: socket.create_connection(("localhost", SINK), timeout=SECONDS).close(),
    "a raw socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1),
    "a packet socket": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW),
    "netlink": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),
    "vsock": lambda: socket.socket(40, socket.SOCK_STREAM),
    "a socket with a path": unix(SCENE.get("path", "")),
    "a datagram to a path": datagram(socket.AF_UNIX, SCENE.get("dgram", "")),
    "an abstract socket": unix("\0" + SCENE.get("abstract", "")),
    "to listen": listen,
    "the network of another process": enter_network,
    "one more network": own_network,
    "io_uring": lambda: call(425, 1, bytes(120)),
    "a host that was not granted": connected(f"{OTHER}:{SINK}"),
    "another port of the granted host": connected(f"{GRANTED}:{INTERNAL}"),
    "a name below the granted one": connected(f"a.{GRANTED}:{SINK}"),
    "a name that ends like it": connected(f"x{GRANTED}:{SINK}"),
    "loopback by number": connected(f"127.0.0.1:{SINK}"),
    "loopback by name": connected(f"localhost:{SINK}"),
    "loopback by IPv6": connected(f"[::1]:{SINK}"),
    "loopback by a mapped address": connected(f"[::ffff:127.0.0.1]:{SINK}"),
    "loopback by one number": connected(f"2130706433:{SINK}"),
    "loopback in hexadecimal": connected(f"0x7f.1:{SINK}"),
    "any address": connected(f"0.0.0.0:{SINK}"),
    "the metadata address": connected(f"169.254.169.254:{SINK}"),
    "a private network": connected(f"10.0.0.1:{SINK}"),
    "a granted name of a private address": connected(f"inside.example:{SINK}"),
    "a granted name of good and bad addresses": connected(f"mixed.example:{SINK}"),
    "a granted name that changes its address": twice(f"rebind.example:{SINK}"),
    "TLS for another host": handshake(OTHER),
    "TLS without a name": sends(hello()),
    "TLS for two hosts": sends(lambda: hello(GRANTED, OTHER)),
    "TLS with the name twice": sends(
        lambda: hello(GRANTED, extensions=struct.pack("!HHHBH", 0, 18, 16, 0, 13) + OTHER.encode())
    ),
    "TLS with an encrypted name": sends(lambda: hello(GRANTED, extensions=ENCRYPTED)),
    "TLS in small records for another host": sends(lambda: hello(OTHER, record=5)),
    "TLS with a name of another kind": sends(lambda: hello(GRANTED, kind=1)),
    "TLS with a null in its name": sends(lambda: hello(GRANTED + "\0." + OTHER)),
    "TLS that is broken": sends(hello(GRANTED)[:-4] + b"\xff\xff\xff\xff"),
    "HTTP in a tunnel": sends(b"GET / HTTP/1.1\r\nHost: other.example\r\n\r\n"),
    "SSH in a tunnel": sends(b"SSH-2.0-x\r\n"),
    "an old TLS in a tunnel": sends(b"\x80\x2e\x01\x00\x02" + bytes(60)),
    "the first word of the host": banner,
    "a Host beside the target": connected(f"{GRANTED}:{SINK}", host=f"{OTHER}:{SINK}"),
    "two Hosts": connected(f"{GRANTED}:{SINK}", more=f"Host: {OTHER}\r\n"),
    "a body in a CONNECT": connected(f"{GRANTED}:{SINK}", more="Content-Length: 5\r\n", then=b"hello"),
    "chunks in a CONNECT": connected(f"{GRANTED}:{SINK}", more="Transfer-Encoding: chunked\r\n"),
    "bytes behind a CONNECT": connected(f"{GRANTED}:{SINK}", then=b"GET / HTTP/1.1\r\n\r\n"),
    "a user in the target": connected(f"{GRANTED}:443@{OTHER}:{SINK}", host=GRANTED),
    "a path in the target": connected(f"{OTHER}:{SINK}/{GRANTED}", host=f"{OTHER}:{SINK}"),
    "a URL as the target": connected(f"https://{OTHER}:{SINK}"),
    "a header that goes on": connected(f"{GRANTED}:{SINK}", more=f"X: a\r\n b\r\nHost : {OTHER}\r\n"),
    "bare line ends": lambda: reached(raw(f"CONNECT {OTHER}:{SINK} HTTP/1.1\nHost: {GRANTED}\n")),
    "no credential": connected(f"{GRANTED}:{SINK}", credential=""),
    "a credential made up": connected(f"{GRANTED}:{SINK}", credential="x" * 32),
    "another run's credential": connected(f"{GRANTED}:{SINK}", credential=SCENE.get("foreign", "")),
    "a credential twice": connected(f"{GRANTED}:{SINK}", count=2),
    "another host in plain HTTP": plain(f"GET http://{OTHER}:{PLAIN}/open/", f"Host: {OTHER}:{PLAIN}\r\n"),
    "another Host in plain HTTP": plain(f"GET {ROOT}/open/", f"Host: {OTHER}\r\n"),
    "another path in plain HTTP": plain(f"GET {ROOT}/secret", HOST),
    "another path by dots": plain(f"GET {ROOT}/open/../secret", HOST),
    "another path by escapes": plain(f"GET {ROOT}/open/%2e%2e/secret", HOST),
    "another path by a backslash": plain(f"GET {ROOT}/open/..\\secret", HOST),
    "another method": plain(f"POST {ROOT}/open/", HOST + "Content-Length: 0\r\n"),
    "another method by a header": plain(f"GET {ROOT}/open/", HOST + "X-HTTP-Method-Override: DELETE\r\n"),
    "a request in a request": plain(f"GET {ROOT}/open/", HOST + BOTH_LENGTHS, b"0\r\n\r\n" + SMUGGLED),
    "a request behind a request": plain(f"GET {ROOT}/open/", HOST, SMUGGLED),
    "two lengths": plain(f"GET {ROOT}/open/", HOST + "Content-Length: 0\r\nContent-Length: 5\r\n", b"hello"),
    "an upgrade": plain(f"GET {ROOT}/open/", HOST + "Upgrade: websocket\r\n"),
    "a request without a host": plain("GET /open/", f"Host: {OTHER}:{PLAIN}\r\n"),
    "https without TLS": plain(f"GET https://{GRANTED}:{PLAIN}/open/", HOST),
    "a token in the address": plain(f"GET {ROOT}/open/?t=" + "ghp" + "_16C7e42F292c6912E7710c838347Ae178B4a", HOST),
    "held connections": half_open,
}


def granted_tls():
    context = ssl.create_default_context(cafile=SCENE["ca"])
    with context.wrap_socket(tunnel(f"{GRANTED}:{TLS}"), server_hostname=GRANTED) as connection:
        connection.sendall(f"GET /anything HTTP/1.1\r\nHost: {GRANTED}\r\n\r\n".encode())
        if b"served /anything" not in connection.recv(1000):
            raise Refused


ALLOWED = {
    "TLS for the granted host": granted_tls,
    "TLS in small records for it": sends(lambda: hello(GRANTED, record=5)),
    "a granted path in plain HTTP": plain(f"GET {ROOT}/open/a?b=c", HOST),
}
"""Granted requests, made in the same ways as the forbidden ones."""


def begin(act):
    """Run in a separate process, so that attempts do not affect each other."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            act()
            outcome = "done"
        except OSError as error:
            outcome = errno.errorcode.get(error.errno, type(error).__name__)
        except BaseException as error:
            outcome = f"{type(error).__name__} {error}"[:200].replace("\n", " ")
        os.write(writing, outcome.encode())
        os._exit(0)
    os.close(writing)
    return child, reading


def ended(child, reading):
    with os.fdopen(reading) as pipe:
        outcome = pipe.readline() or "killed"
    os.waitpid(child, 0)
    return outcome


def outcomes(attempts, names):
    """Run several attempts concurrently."""
    begun = [(name, *begin(attempts[name])) for name in names]
    return {name: ended(child, reading) for name, child, reading in begun}


if __name__ == "__main__":
    *names, last = ATTEMPTS
    allowed = outcomes(ALLOWED, ALLOWED)
    found = {}
    for at in range(0, len(names), 10):
        found |= outcomes(ATTEMPTS, names[at : at + 10])
    found |= outcomes(ATTEMPTS, [last])
    json.dump({"allowed": allowed, "found": found}, sys.stdout)
