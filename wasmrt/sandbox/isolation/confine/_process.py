"""Steps with which a process drops capabilities, descriptors and privileges, and limits its resources."""

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
    """Drop every capability: bounding set (if permitted), ambient, effective, permitted and inheritable.

    `bounding` is the current bounding set, if known, with one bit for each capability.

    Raises:
        OSError: the kernel rejects the empty sets.
    """
    for number in range(_LAST_CAPABILITY + 1):
        if bounding >> number & 1:
            try:
                _libc.prctl(_libc.PR_CAPBSET_DROP, number)
            except OSError:
                break  # no more capabilities, or not permitted; no_new_privs keeps the process from gaining them
    with suppress(OSError):  # kernels before 4.3 have no ambient set
        _libc.prctl(_libc.PR_CAP_AMBIENT, _libc.PR_CAP_AMBIENT_CLEAR_ALL)
    _libc.syscall("capset", _libc.address(_OWN_CAPABILITIES), _libc.address(_NO_CAPABILITIES))


def close_descriptors(keep: Iterable[int]) -> None:
    """Close every descriptor except `keep`.

    Raises:
        OSError: the kernel has no close_range (before 5.9).
    """
    first = 0
    for kept in sorted(set(keep)):
        if kept > first:
            _libc.syscall("close_range", first, kept - 1, 0)
        first = kept + 1
    _libc.syscall("close_range", first, _LAST_DESCRIPTOR, 0)


def move_high(descriptor: int) -> int:
    """Move a descriptor to a high number, so that a forked process can use the low numbers."""
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST_HIGH)
    finally:
        os.close(descriptor)


def set_limit(name: str, value: int) -> None:
    """Set the soft and hard limit RLIMIT_`name`, but never above the current hard limit."""
    which = getattr(resource, f"RLIMIT_{name}")
    _, hard = resource.getrlimit(which)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(which, (value, value))


def open_own_status() -> int:
    """Open the file that `own_status` reads, for use after the process can no longer open files."""
    return move_high(os.open("/proc/self/status", os.O_RDONLY | os.O_CLOEXEC))


class OwnStatus(NamedTuple):
    """A process's own status, as reported by the kernel (proc(5))."""

    threads: int
    bounding: int
    """The capability bounding set."""
    data_bytes: int
    """The memory counted by RLIMIT_DATA."""


def own_status(status: int) -> OwnStatus:
    """Read the status of this process.

    Raises:
        ConfineError: the kernel does not report every field.
    """
    fields = dict(line.split(b":", 1) for line in os.pread(status, 8192, 0).splitlines())
    try:
        threads, bounding, data = int(fields[b"Threads"]), int(fields[b"CapBnd"], 16), fields[b"VmData"].split()[0]
        return OwnStatus(threads, bounding, int(data) * 1024)
    except (KeyError, ValueError) as error:
        raise ConfineError("/proc/self/status lacks this process's threads, capabilities or memory") from error


def processes_of_this_user() -> int:
    """Count the tasks that RLIMIT_NPROC limits: all threads of this real user ID."""
    user, count = os.getuid(), 0
    for process in os.scandir("/proc"):
        if process.name.isdigit():
            with suppress(OSError):  # the process may have ended
                if process.stat().st_uid == user:
                    count += sum(1 for _ in os.scandir(f"/proc/{process.name}/task"))
    return count


def die_with(parent: int | None) -> None:
    """Ask the kernel to kill this process when the thread that created it ends.

    Raises:
        ConfineError: `parent` is not the parent, or no longer.
    """
    _libc.prctl(_libc.PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent is not None and os.getppid() != parent:
        raise ConfineError("the parent process ended before this one was confined")


def forbid_privileges() -> None:
    """Disallow new privileges on exec, and hide /proc files from other processes of the same user.

    Raises:
        OSError: the kernel refuses.
    """
    _libc.prctl(_libc.PR_SET_DUMPABLE, 0)
    _libc.prctl(_libc.PR_SET_NO_NEW_PRIVS, 1)


def enter_namespaces(names: Iterable[str]) -> tuple[str, ...]:
    """Enter new namespaces (user, net, ipc, uts) and return their names, or () if the machine does not allow it.

    The user keeps the same ID in a new user namespace. The process must have a single thread.
    """
    names = tuple(names)
    if not names or not _test_user_namespace():
        return ()
    try:
        _unshare(names)
    except OSError:
        return ()
    return names


def _test_user_namespace() -> bool:
    """Test in a child process whether user namespaces work.

    A process that has entered one cannot leave it, even if it may not map its user ID there.
    """
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
