"""Steps by which a process gives up capabilities, descriptors, memory, privileges and a life after its parent's."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress
from struct import pack
from typing import NamedTuple

from wasmrt.core.errors import ConfineError
from wasmrt.sandbox.isolation.confine import _libc

if sys.platform != "win32":
    import fcntl
    import resource

_CAPABILITY_VERSION_3 = 0x20080522
_LAST_CAPABILITY = 63
_LAST_DESCRIPTOR = 0xFFFFFFFF
_FIRST_HIGH = 100
_NAMESPACES = {"user": 0x10000000, "net": 0x40000000, "ipc": 0x08000000, "uts": 0x04000000}
_NO_CAPABILITIES = pack("=IIIIII", 0, 0, 0, 0, 0, 0)
_OWN_CAPABILITIES = pack("=Ii", _CAPABILITY_VERSION_3, 0)


def drop_capabilities(bounding: int = -1) -> None:
    """Give up every capability: bounding set where allowed, ambient, effective, permitted and inheritable.

    `bounding` is the present bounding set, if known: a bit for each capability.

    Raises:
        OSError: the kernel refuses the empty sets.
    """
    for number in range(_LAST_CAPABILITY + 1):
        if bounding >> number & 1:
            try:
                _libc.prctl(_libc.PR_CAPBSET_DROP, number)
            except OSError:
                break  # the kernel knows no more of them, or we may not: no_new_privs keeps them out of reach
    with suppress(OSError):  # before 4.3 there is no such set
        _libc.prctl(_libc.PR_CAP_AMBIENT, _libc.PR_CAP_AMBIENT_CLEAR_ALL)
    _libc.syscall("capset", _libc.address(_OWN_CAPABILITIES), _libc.address(_NO_CAPABILITIES))


def close_descriptors(keep: Iterable[int]) -> None:
    """Close every descriptor but `keep`.

    Raises:
        OSError: the kernel has no close_range (before 5.9).
    """
    first = 0
    for kept in sorted(set(keep)):
        if kept > first:
            _libc.syscall("close_range", first, kept - 1, 0)
        first = kept + 1
    _libc.syscall("close_range", first, _LAST_DESCRIPTOR, 0)


def high(descriptor: int) -> int:
    """Move a descriptor out of the way of those that a forked process puts in their places."""
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST_HIGH)
    finally:
        os.close(descriptor)


def limit(name: str, value: int) -> None:
    """Set the soft and the hard limit RLIMIT_`name`, never above the present hard one."""
    which = getattr(resource, f"RLIMIT_{name}")
    _, hard = resource.getrlimit(which)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(which, (value, value))


def open_own_status() -> int:
    """Open the file that `own_status` reads, for a time when opening is no longer possible."""
    return high(os.open("/proc/self/status", os.O_RDONLY | os.O_CLOEXEC))


class OwnStatus(NamedTuple):
    """A process's own state, as the kernel tells it (proc(5))."""

    threads: int
    bounding: int
    """The capability bounding set."""
    data_bytes: int
    """The memory that RLIMIT_DATA counts."""


def own_status(status: int) -> OwnStatus:
    """Read the state of this process.

    Raises:
        ConfineError: the kernel does not tell all of it.
    """
    fields = dict(line.split(b":", 1) for line in os.pread(status, 8192, 0).splitlines())
    try:
        threads, bounding, data = int(fields[b"Threads"]), int(fields[b"CapBnd"], 16), fields[b"VmData"].split()[0]
        return OwnStatus(threads, bounding, int(data) * 1024)
    except (KeyError, ValueError) as error:
        raise ConfineError("the kernel does not tell a process its threads, capabilities and memory") from error


def processes_of_this_user() -> int:
    """Count the tasks that RLIMIT_NPROC counts: all threads of this real user id."""
    user, count = os.getuid(), 0
    for process in os.scandir("/proc"):
        if process.name.isdigit():
            with suppress(OSError):  # it may end meanwhile
                if process.stat().st_uid == user:
                    count += sum(1 for _ in os.scandir(f"/proc/{process.name}/task"))
    return count


def die_with(parent: int | None) -> None:
    """Have the kernel kill this process when the thread that made it ends.

    Raises:
        ConfineError: `parent` is not, or no longer, the parent.
    """
    _libc.prctl(_libc.PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent is not None and os.getppid() != parent:
        raise ConfineError("the parent process ended before this one was confined")


def forbid_privileges() -> None:
    """Gain nothing by executing a file any more, and be no file of /proc to others of the same user.

    Raises:
        OSError: the kernel refuses.
    """
    _libc.prctl(_libc.PR_SET_DUMPABLE, 0)
    _libc.prctl(_libc.PR_SET_NO_NEW_PRIVS, 1)


def enter_namespaces(names: Iterable[str]) -> tuple[str, ...]:
    """Enter new namespaces (user, net, ipc, uts) and return their names; () where the machine refuses.

    The user keeps its own id in a new user namespace. The process must have one thread.
    """
    names = tuple(names)
    if not names or not _user_namespace_works():
        return ()
    try:
        _unshare(names)
    except OSError:
        return ()
    return names


def _user_namespace_works() -> bool:
    """Try one in a child: who has entered it and then may not map its own id cannot get out again."""
    child = os.fork()
    if child == 0:
        try:
            _unshare(("user",))
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def _unshare(names: tuple[str, ...]) -> None:
    user, group = os.getuid(), os.getgid()
    _libc.syscall("unshare", sum(_NAMESPACES[name] for name in names))
    if "user" in names:
        for file, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{file}", "w") as control:  # noqa: PTH123
                control.write(text)
