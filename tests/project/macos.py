"""Make this process look like macOS to Python code: without Linux's functions, /proc and /sys, then run a script.

    python -m tests.project.macos CODE [LIBRARY...]

The engine's library and packages of other projects load the files of this machine, so they are imported before.
"""

from __future__ import annotations

import builtins
import fcntl
import importlib
import io
import os
import platform
import resource
import select
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import ModuleType
from typing import Any

_LINUX: dict[ModuleType, str] = {
    os: "memfd_create pidfd_open sched_getaffinity sched_setaffinity eventfd splice posix_fadvise posix_fallocate"
    " copy_file_range getrandom setns unshare O_PATH O_NOATIME O_DIRECT setresuid setresgid getresuid"
    " getresgid MFD_CLOEXEC MFD_ALLOW_SEALING getxattr setxattr listxattr waitid P_PIDFD pipe2",
    signal: "pidfd_send_signal sigtimedwait sigwaitinfo SIGRTMIN SIGRTMAX SIGPWR SIGSTKFLT SIGCLD SIGPOLL",
    select: "epoll",
    socket: "SO_PEERCRED SO_PASSCRED SCM_CREDENTIALS SOCK_CLOEXEC SOCK_NONBLOCK AF_NETLINK AF_VSOCK AF_ALG"
    " SO_BINDTODEVICE MSG_CMSG_CLOEXEC MSG_NOSIGNAL",
    fcntl: "F_ADD_SEALS F_GET_SEALS F_SEAL_WRITE F_SEAL_SHRINK F_SEAL_GROW F_SEAL_SEAL F_OFD_GETLK F_OFD_SETLK"
    " F_OFD_SETLKW F_SETPIPE_SZ F_GETPIPE_SZ",
    resource: "prlimit RUSAGE_THREAD RLIMIT_SIGPENDING RLIMIT_MSGQUEUE RLIMIT_NICE RLIMIT_RTPRIO RLIMIT_RTTIME",
}


def become_macos(libraries: Sequence[str]) -> None:
    """Import libraries, then remove what macOS does not have, and report the platform as macOS."""
    for library in ("urllib.request", "truststore", *libraries):
        with suppress(ImportError):
            importlib.import_module(library)
    for module, names in _LINUX.items():
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)
    own = os.uname()
    os.uname = lambda: os.uname_result(("Darwin", *own[1:]))
    platform.system = lambda: "Darwin"
    importlib.import_module("wasmrt.sandbox.guest.engine._ffi")
    sys.platform = "darwin"
    os.open = _without_proc(os.open)
    io.open = builtins.open = _without_proc(builtins.open)


def _without_proc(opening: Any) -> Any:
    def open_path(path: Any, *arguments: Any, **options: Any) -> Any:
        if isinstance(path, (str, os.PathLike)) and os.fspath(path).startswith(("/proc", "/sys")):
            raise FileNotFoundError(2, "No such file or directory", path)
        return opening(path, *arguments, **options)

    return open_path


if __name__ == "__main__":
    become_macos(sys.argv[2:])
    exec(sys.argv[1])
