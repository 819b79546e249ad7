"""The forbidden actions, and the kinds of processes that must not be able to perform them."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import resource
import signal
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from struct import pack
from typing import Any

from wasmrt.sandbox.isolation.confine import SYSTEM_CALLS, Kind

WORKERS = frozenset({Kind.RUN_WORKER, Kind.COMPILE_WORKER})
RUN = frozenset({Kind.RUN_WORKER})
ALL = WORKERS | {Kind.SHELL}

CANARY = ctypes.create_string_buffer(b"canary of the victim")
"""Memory that has the same address in all processes that are forked from this process."""


@dataclass(frozen=True, slots=True)
class Scene:
    """The targets of an attempt, none of which is granted to the confined process.

    `folder` contains the files secret, moved, removed and program. `victim` is another process of the same user. `port`
    is a listening TCP port on loopback. `abstract` and `path` are listening AF_UNIX sockets.
    """

    folder: str
    victim: int
    port: int
    abstract: str
    path: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """A forbidden action.

    `act` makes the forbidden call as its last step, and raises OSError if the call is refused. It does not clean up,
    because a refused cleanup would look like a refused action. `undo` cleans up after the result was reported.
    """

    name: str
    kinds: frozenset[Kind]
    act: Callable[[Scene], Any]
    undo: Callable[[Scene, Any], object] | None = None


class OpenDescriptor(IntEnum):
    """Descriptors that the process opens before it is confined, so that only the calls on them are tested."""

    PROCESS = 10
    """The pidfd of the victim."""
    NAMESPACE = 11
    INTERNET = 12
    """An unconnected TCP socket."""
    LOCAL = 13
    """An unconnected stream socket of AF_UNIX."""


def _connect(scene: Scene) -> None:
    target = pack("=H", socket.AF_INET) + pack("!H4B8x", scene.port, 127, 0, 0, 1)
    syscall("connect", OpenDescriptor.INTERNET, address(target), len(target))


def _connect_local(name: Callable[[Scene], str]) -> Callable[[Scene], object]:
    def act(scene: Scene) -> None:
        target = pack("=H", socket.AF_UNIX) + name(scene).encode()
        syscall("connect", OpenDescriptor.LOCAL, address(target), len(target))

    return act


def _open(place: Callable[[Scene], str], flags: int = os.O_RDONLY) -> Callable[[Scene], object]:
    return lambda scene: os.open(place(scene), flags)


def _make_path_getter(name: str) -> Callable[[Scene], str]:
    return lambda scene: f"{scene.folder}/{name}"


def _call_openat2(scene: Scene) -> None:
    how = pack("=QQQ", os.O_RDONLY, 0, 0)
    syscall("openat2", -100, address(f"{scene.folder}/secret".encode()), address(how), len(how))


def _fork(_: Scene) -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def _call_clone3(_: Scene) -> None:
    arguments = pack("=11Q", 0, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, 0)
    child = syscall("clone3", address(arguments), len(arguments))
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def _start_thread(_: Scene) -> None:
    try:
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()
    except RuntimeError as error:
        raise OSError(errno.EAGAIN, str(error)) from error


def _call_execve(scene: Scene) -> None:
    os.execve(f"{scene.folder}/program", ["program"], {})  # noqa: S606


def _call_execveat(scene: Scene) -> None:
    path = address(f"{scene.folder}/program".encode())
    syscall("execveat", -100, path, address(pack("=QQ", path, 0)), address(pack("=Q", 0)), 0)


def _access_memory(name: str) -> Callable[[Scene], object]:
    def act(scene: Scene) -> None:
        mine = ctypes.create_string_buffer(len(CANARY))
        here = pack("=QQ", ctypes.addressof(mine), len(mine))
        there = pack("=QQ", ctypes.addressof(CANARY), len(CANARY))
        syscall(name, scene.victim, address(here), 1, address(there), 1, 0)

    return act


def _call_mount(scene: Scene) -> None:
    syscall("mount", address(b"none"), address(scene.folder.encode()), address(b"tmpfs"), 0, 0)


def _create_message_queue(_: Scene) -> int:
    name = address(f"wasmrt-wall-{os.getpid()}".encode())
    syscall("mq_open", name, os.O_CREAT | os.O_RDWR, 0o600, 0)
    return name


def _map_executable_memory(_: Scene) -> None:
    mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)


_page = mmap.mmap(-1, 4096)


def _make_executable(_: Scene) -> None:
    view = ctypes.c_char.from_buffer(_page)
    syscall("mprotect", ctypes.addressof(view), 4096, 1 | 4)


def _open_perf_event(_: Scene) -> None:
    attributes = pack("=IIQ", 1, 112, 0) + bytes(96)  # PERF_TYPE_SOFTWARE, size, PERF_COUNT_SW_CPU_CLOCK
    syscall("perf_event_open", address(attributes), 0, -1, -1, 0)


def _call_bpf(_: Scene) -> None:
    attributes = pack("=IIII", 2, 4, 4, 1) + bytes(64)  # BPF_MAP_TYPE_ARRAY with one entry
    syscall("bpf", 0, address(attributes), len(attributes))


def _add_key(_: Scene) -> None:
    syscall("add_key", address(b"user"), address(b"wasmrt-wall"), address(b"x"), 1, -2)  # KEY_SPEC_PROCESS_KEYRING


def _call_name_to_handle(scene: Scene) -> None:
    handle = pack("=Ii", 128, 0) + bytes(128)
    syscall(
        "name_to_handle_at", -100, address(f"{scene.folder}/secret".encode()), address(handle), address(bytes(8)), 0
    )


def _rename(scene: Scene) -> None:
    os.rename(f"{scene.folder}/moved", f"{scene.folder}/elsewhere")  # noqa: PTH104


def _make(make: Callable[[str, str], object]) -> Callable[[Scene], object]:
    return lambda scene: make(f"{scene.folder}/secret", f"{scene.folder}/made")


ATTEMPTS: tuple[Attempt, ...] = (
    # The network
    Attempt("socket AF_INET", ALL, lambda _: syscall("socket", 2, 1, 0)),
    Attempt("socket AF_INET6", ALL, lambda _: syscall("socket", 10, 1, 0)),
    Attempt("socket AF_INET datagram", ALL, lambda _: syscall("socket", 2, 2, 0)),
    Attempt("socket AF_UNIX", ALL, lambda _: syscall("socket", 1, 1, 0)),
    Attempt("socket AF_NETLINK", ALL, lambda _: syscall("socket", 16, 3, 0)),
    Attempt("socket AF_PACKET", ALL, lambda _: syscall("socket", 17, 3, 0)),
    Attempt("socket raw", ALL, lambda _: syscall("socket", 2, 3, 1)),
    Attempt("socketpair", WORKERS, lambda _: socket.socketpair()),
    Attempt("connect loopback", ALL, _connect),
    Attempt("connect abstract socket", ALL, _connect_local(lambda scene: scene.abstract)),
    Attempt("connect socket with a path", ALL, _connect_local(lambda scene: scene.path)),
    # Files
    Attempt("open", ALL, _open(_make_path_getter("secret"))),
    Attempt("open for writing", ALL, _open(_make_path_getter("secret"), os.O_WRONLY)),
    Attempt("open to create", ALL, _open(_make_path_getter("removed"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)),
    Attempt("open a folder", ALL, _open(lambda scene: scene.folder)),
    Attempt("openat2", ALL, _call_openat2),
    Attempt("name_to_handle_at", ALL, _call_name_to_handle),
    Attempt("truncate", ALL, lambda scene: os.truncate(f"{scene.folder}/removed", 0)),
    Attempt("rename", ALL, _rename),
    Attempt("unlink", ALL, lambda scene: os.unlink(f"{scene.folder}/removed")),  # noqa: PTH108
    Attempt("symlink", ALL, _make(os.symlink)),
    Attempt("link", ALL, _make(os.link)),
    Attempt("mkdir", ALL, _make(lambda _, made: os.mkdir(made))),  # noqa: PTH102
    Attempt("mknod a pipe", ALL, _make(lambda _, made: os.mkfifo(made))),
    Attempt("chmod set-user-id", ALL, lambda scene: os.chmod(f"{scene.folder}/moved", 0o4755)),  # noqa: PTH101, S103
    Attempt("chmod", WORKERS, lambda scene: os.chmod(f"{scene.folder}/moved", 0o600)),  # noqa: PTH101
    Attempt("chown", ALL, lambda scene: os.chown(f"{scene.folder}/moved", 1, 1)),
    Attempt("stat", WORKERS, lambda scene: os.stat(f"{scene.folder}/secret")),  # noqa: PTH116
    Attempt("readlink", WORKERS, lambda _: os.readlink("/proc/self/exe")),  # noqa: PTH115
    Attempt("mount", ALL, _call_mount, lambda scene, _: syscall("umount2", address(scene.folder.encode()), 2)),
    Attempt("fsopen", ALL, lambda _: syscall("fsopen", address(b"tmpfs"), 1)),
    Attempt("chroot", ALL, lambda _: os.chroot("/")),
    # Descriptors
    Attempt("write to 1", WORKERS, lambda _: os.write(1, b"x")),
    Attempt("read from 0", WORKERS, lambda _: os.read(0, 1)),
    Attempt("dup", WORKERS, lambda _: syscall("dup", 3)),
    Attempt("pipe2", WORKERS, lambda _: os.pipe()),
    Attempt("eventfd2", WORKERS, lambda _: syscall("eventfd2", 0, 0)),
    Attempt("epoll_create1", WORKERS, lambda _: syscall("epoll_create1", 0)),
    Attempt("inotify_init1", WORKERS, lambda _: syscall("inotify_init1", 0)),
    Attempt("memfd_create", WORKERS, lambda _: syscall("memfd_create", address(b"x"), 0)),
    # Other processes
    Attempt("execve", ALL, _call_execve),
    Attempt("execveat", ALL, _call_execveat),
    Attempt("fork", WORKERS, _fork),
    Attempt("clone3", ALL, _call_clone3),
    Attempt("thread", RUN, _start_thread),
    Attempt("ptrace", ALL, lambda scene: syscall("ptrace", 0x4206, scene.victim, 0, 0)),
    Attempt("process_vm_readv", ALL, _access_memory("process_vm_readv")),
    Attempt("process_vm_writev", ALL, _access_memory("process_vm_writev")),
    Attempt("kill", ALL, lambda scene: os.kill(scene.victim, signal.SIGCONT)),
    Attempt("tgkill", ALL, lambda scene: syscall("tgkill", scene.victim, scene.victim, signal.SIGCONT)),
    Attempt("pidfd_open", WORKERS, lambda scene: syscall("pidfd_open", scene.victim, 0)),
    Attempt(
        "pidfd_send_signal", ALL, lambda _: syscall("pidfd_send_signal", OpenDescriptor.PROCESS, signal.SIGCONT, 0, 0)
    ),
    Attempt("pidfd_getfd", ALL, lambda _: syscall("pidfd_getfd", OpenDescriptor.PROCESS, 0, 0)),
    Attempt("kcmp", ALL, lambda scene: syscall("kcmp", os.getpid(), scene.victim, 1, 0, 0)),
    Attempt("environ of another process", ALL, _open(lambda scene: f"/proc/{scene.victim}/environ")),
    Attempt("mem of another process", ALL, _open(lambda scene: f"/proc/{scene.victim}/mem", os.O_RDWR)),
    Attempt("mem of itself", WORKERS, _open(lambda _: "/proc/self/mem", os.O_RDWR)),
    Attempt("environ of process 1", ALL, _open(lambda _: "/proc/1/environ")),
    # The process's privileges
    Attempt("mmap PROT_EXEC", RUN, _map_executable_memory),
    Attempt("mprotect PROT_EXEC", RUN, _make_executable),
    Attempt("unshare", ALL, lambda _: syscall("unshare", 0x10000000)),
    Attempt("setns", ALL, lambda _: syscall("setns", OpenDescriptor.NAMESPACE, 0)),
    Attempt("setuid", ALL, lambda _: os.setresuid(12345, 12345, 12345)),
    Attempt("setgroups", ALL, lambda _: os.setgroups([12345])),
    Attempt("prctl", WORKERS, lambda _: syscall("prctl", 4, 1, 0, 0, 0)),
    Attempt("personality", ALL, lambda _: syscall("personality", 0x0040000)),
    Attempt("setrlimit", WORKERS, lambda _: resource.setrlimit(resource.RLIMIT_CORE, (0, 0))),
    Attempt("seccomp", WORKERS, lambda _: syscall("seccomp", 2, 0, address(pack("=I", 0x7FFF0000)))),
    Attempt("landlock_create_ruleset", WORKERS, lambda _: syscall("landlock_create_ruleset", 0, 0, 1)),
    # The kernel
    Attempt("io_uring_setup", ALL, lambda _: syscall("io_uring_setup", 1, address(bytes(120)))),
    Attempt("userfaultfd", ALL, lambda _: syscall("userfaultfd", 1)),
    Attempt("perf_event_open", ALL, _open_perf_event),
    Attempt("bpf", ALL, _call_bpf),
    Attempt("keyctl", ALL, lambda _: syscall("keyctl", 0, -2, 1)),
    Attempt("add_key", ALL, _add_key),
    Attempt("shmget", ALL, lambda _: syscall("shmget", 0, 4096, 0o600), lambda _, made: syscall("shmctl", made, 0, 0)),
    Attempt("msgget", ALL, lambda _: syscall("msgget", 0, 0o600), lambda _, made: syscall("msgctl", made, 0, 0)),
    Attempt("semget", ALL, lambda _: syscall("semget", 0, 1, 0o600), lambda _, made: syscall("semctl", made, 0, 0, 0)),
    Attempt("mq_open", ALL, _create_message_queue, lambda _, name: syscall("mq_unlink", name)),
    Attempt("syslog", ALL, lambda _: syscall("syslog", 10, 0, 0)),
    Attempt("sethostname", ALL, lambda _: socket.sethostname(os.uname().nodename)),
)


_syscall = ctypes.CDLL(None, use_errno=True).syscall
_syscall.restype = ctypes.c_long
_alive: list[bytes] = []


def syscall(name: str, *arguments: int) -> int:
    """Make a system call by its name, and raise OSError if it fails."""
    result = int(_syscall(ctypes.c_long(SYSTEM_CALLS[name]), *map(ctypes.c_long, arguments)))
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def address(data: bytes) -> int:
    """Return the address of bytes, and keep them alive until the process of the attempt ends."""
    _alive.append(data)
    return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0
