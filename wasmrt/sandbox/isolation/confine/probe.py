"""Test which confinement layers work on this machine, each in a separate process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import NamedTuple

from wasmrt.sandbox.isolation.confine import _landlock, _outlet, _process, _seccomp
from wasmrt.sandbox.isolation.confine._bpf import ALLOW, assemble
from wasmrt.sandbox.isolation.confine._command import stub_command
from wasmrt.sandbox.isolation.confine._macos import ON_MACOS
from wasmrt.sandbox.isolation.confine._syscalls import MACHINE, SUPPORTED, audit_architecture

OUTLET_LAYER = "network-outlet"
_SECONDS = 30.0
_OPTIONAL = {"namespaces", OUTLET_LAYER}


class Layer(NamedTuple):
    """A layer of confinement. `name` is its name in the setting `required` of a start (`Specifics`)."""

    name: str
    standing: bool
    sentence: str
    optional: bool = False
    """True if wasmrt works without it."""


def layers() -> tuple[Layer, ...]:
    """Return every layer and whether it works, as tested by a short-lived process; takes about 50 ms."""
    if not SUPPORTED:
        return (_test_other_system(),)
    try:
        answer = subprocess.run(  # noqa: S603
            stub_command("probe"), stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=True, env={}
        )
        rows = json.loads(answer.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return (Layer("seccomp", False, f"the test of the layers failed: {type(error).__name__}"),)
    return tuple(Layer(name, standing, sentence, name in _OPTIONAL) for name, standing, sentence in rows)


def main() -> None:
    """Test each layer in a forked child of this bare process, and print the results as JSON."""
    rows = []
    for name, (attempt, works) in _TRIALS.items():
        problem = _test_in_child(attempt)
        rows.append((name, not problem, problem or works()))
    sys.stdout.write(json.dumps(rows))


def _test_in_child(attempt: Callable[[], object]) -> str:
    """Return why an attempt failed in a child process, or "" if it worked."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        text = ""
        try:
            attempt()
        except Exception as error:
            text = str(error) or type(error).__name__
        os.write(writing, text.encode()[:1000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    return text or (f"the test ended with status {status}" if status else "")


def _try_seccomp() -> None:
    _process.forbid_privileges()
    architecture = audit_architecture(MACHINE)
    program = assemble({}, default=ALLOW, unknown=ALLOW, first_unknown=0, architecture=architecture)
    _seccomp.Filter(program).install()


def _try_landlock() -> None:
    ruleset = _landlock.Ruleset((), (), (), ())
    _process.forbid_privileges()
    ruleset.enter()
    try:
        os.open("/", os.O_RDONLY)
    except PermissionError:
        return
    raise RuntimeError("Landlock did not deny access that was not granted")


def _try_limits() -> None:
    status = _process.open_own_status()
    _process.set_limit("DATA", _process.own_status(status).data_bytes)
    try:
        bytearray(64 << 20)
    except MemoryError:
        return
    raise RuntimeError("RLIMIT_DATA does not limit memory")


def _try_namespaces() -> None:
    if not _process.enter_namespaces(("user", "ipc", "uts", "net")):
        raise RuntimeError("user namespaces are not allowed here, as in most containers; wasmrt works without them")


def _try_outlet() -> None:
    from socket import AF_UNIX, recv_fds, socketpair

    ours, theirs = socketpair(AF_UNIX)
    active = [f"namespace-{name}" for name in _process.enter_namespaces(("user", "net"))]
    _outlet.send(theirs.fileno(), active)
    if not recv_fds(ours, 1, 1)[1]:
        raise RuntimeError("no listening socket was received from the network namespace")


def _describe_landlock() -> str:
    version = _landlock.read_abi()
    parts = ["files"]
    parts += ["TCP ports"] if version >= 4 else []
    parts += ["abstract sockets", "signals"] if version >= 6 else []
    return f"ABI {version}: {', '.join(parts)}"


def _test_other_system() -> Layer:
    if ON_MACOS:
        return Layer("sandbox", True, "the macOS sandbox with a deny-by-default profile; not tested")
    return Layer("seccomp", False, "wasmrt cannot confine processes on this platform; it only separates them")


_TRIALS: dict[str, tuple[Callable[[], object], Callable[[], str]]] = {
    "seccomp": (_try_seccomp, lambda: f"system calls by allowlist, {MACHINE}"),
    "landlock": (_try_landlock, _describe_landlock),
    "no-new-privileges": (_process.forbid_privileges, lambda: "executing a file gains no privileges"),
    "capabilities": (_process.drop_capabilities, lambda: "every capability can be dropped"),
    "descriptors": (lambda: _process.close_descriptors(range(1024)), lambda: "close_range closes what was inherited"),
    "limits": (_try_limits, lambda: "RLIMIT_DATA limits memory on top of the memory in use"),
    "namespaces": (_try_namespaces, lambda: "unprivileged user, ipc, uts and net namespaces, used if available"),
    OUTLET_LAYER: (_try_outlet, lambda: "programs can be limited to hosts, through wasmrt's proxy"),
}
