"""Hostile machine code in a sealed worker, as after an engine bug: what it can find and do."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from wasmrt.testing import MemorySecrets

from tests.sandbox.isolation.conftest import ECHO, needs_seccomp, prepared
from tests.sandbox.isolation.escape import SUPPORTED, masked
from wasmrt import OptLevel, PreparedTool, WasmRuntimeConfig, WasmToolRuntime
from wasmrt.core.errors import WorkerCrashedError
from wasmrt.egress.secrets import Secret
from wasmrt.sandbox.isolation.pool import spawn

pytestmark = [
    needs_seccomp,
    pytest.mark.skipif(not SUPPORTED, reason="the machine code is for x86_64"),
    pytest.mark.usefixtures("unmeasured"),
]
SECRET = "canary-of-" + "the-host-" + "0815"
VARIABLE = "canary-of-" + "the-environment-" + "0816"
OTHER_USER = "canary-of-" + "another-user-" + "0817"
OTHER_TOOL = "canary-of-" + "another-tool-" + "0818"
OWN = "canary-of-" + "this-very-call-" + "0819"


@pytest.fixture(scope="module")
def runtime() -> Iterator[WasmToolRuntime]:
    """A runtime with the zygotes of `escape.py`."""
    store = MemorySecrets()
    store.set("ann", "token", Secret(SECRET))
    config = WasmRuntimeConfig(cache_compiled=False, optimization_level=OptLevel.SPEED_AND_SIZE, secrets=store)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WASMRT_CANARY", VARIABLE)
        patch.setattr(
            spawn,
            "_BOOT",
            spawn._BOOT.replace("wasmrt.sandbox.isolation.worker.zygote", "tests.sandbox.isolation.escape"),
        )
        with WasmToolRuntime(config) as runtime:
            yield runtime


@pytest.fixture(scope="module")
def escaped(runtime: WasmToolRuntime) -> PreparedTool:
    """A tool whose worker executes its params; other tools have been called before."""
    other = prepared(runtime, ECHO, name="other")
    tool = prepared(runtime, ECHO)
    assert other.execute({"text": OTHER_TOOL}, user="bob").result == {"text": OTHER_TOOL}
    assert tool.execute({"text": OTHER_USER}, user="ann").result == {"text": OTHER_USER}
    return tool


def search(tool: PreparedTool, wanted: str, user: str = "bob", **more: Any) -> int:
    result: dict[str, int] = tool.execute({"native": {"search": masked(wanted)}, **more}, user=user).result
    return result["found"]


def call(tool: PreparedTool, name: str, *arguments: int | str) -> int:
    result: dict[str, int] = tool.execute({"native": {"call": [name, *arguments]}}, user="bob").result
    return result["found"]


@pytest.mark.ci("slow")
def test_the_memory_search_finds_a_known_secret(escaped: PreparedTool) -> None:
    """Search for the params of the call itself, and, in another user's worker, for that user's params."""
    assert search(escaped, OWN, text=OWN) > 0
    assert search(escaped, OTHER_USER, user="ann", text=OTHER_USER) > 0


@pytest.mark.ci("slow")
@pytest.mark.parametrize("text", [SECRET, VARIABLE, OTHER_USER, OTHER_TOOL], ids=lambda text: text[10:-5])
def test_native_code_finds_no_foreign_data_in_its_memory(escaped: PreparedTool, text: str) -> None:
    assert search(escaped, text) == 0


def test_an_allowed_system_call_succeeds(escaped: PreparedTool) -> None:
    assert call(escaped, "getpid") > 1
    assert call(escaped, "brk", 0) > 0


FILE, SHELL = "/etc/passwd", "/bin/sh"
HOST = os.getpid()
DEEDS: list[tuple[int | str, ...]] = [
    # files
    ("open", FILE, 0), ("openat", -100, FILE, 0), ("openat2", -100, FILE, 0, 24), ("creat", "/tmp/made", 0o600),
    ("open_by_handle_at", -100, 0, 0), ("stat", FILE), ("statx", -100, FILE, 0, 0), ("readlink", "/proc/self/exe"),
    ("unlink", "/tmp/made"), ("chdir", "/"), ("getcwd", 0, 0), ("chmod", FILE, 0o777), ("memfd_create", "made", 0),
    # its descriptors: it may read and write only its own socket, and open nothing
    ("read", 0, 0, 0), ("write", 1, FILE, 1), ("write", 2, FILE, 1), ("read", 4, 0, 0), ("write", 4, FILE, 1),
    ("dup", 3), ("dup2", 3, 9), ("fcntl", 3, 0, 0), ("pidfd_getfd", 3, 0, 0), ("sendfile", 3, 4, 0, 100),
    # the network
    ("socket", 2, 1, 0), ("socket", 1, 1, 0), ("socket", 16, 3, 0), ("socket", 17, 3, 0), ("socketpair", 1, 1, 0, 0),
    ("connect", 3, 0, 0), ("bind", 3, 0, 0), ("accept", 3, 0, 0), ("listen", 3, 1),
    # other processes
    ("kill", HOST, 0), ("kill", -1, 0), ("tgkill", HOST, HOST, 0), ("ptrace", 16, HOST), ("pidfd_open", HOST, 0),
    ("process_vm_readv", HOST, 0, 0, 0, 0), ("process_vm_writev", HOST, 0, 0, 0, 0), ("kcmp", HOST, HOST, 0),
    ("getppid",), ("prlimit64", HOST, 7, 0, 0), ("sched_setaffinity", HOST, 0, 0), ("setpriority", 0, HOST, 19),
    # new processes, threads and code
    ("fork",), ("vfork",), ("clone", 0), ("clone3", 0, 88), ("execve", SHELL, 0, 0), ("execveat", -100, SHELL, 0, 0, 0),
    ("mmap", 0, 4096, 7, 0x22, -1, 0), ("mmap", 0, 4096, 4, 0x22, -1, 0), ("mprotect", 0, 4096, 4),
    ("pkey_mprotect", 0, 4096, 7, -1), ("prctl", 23), ("personality", 0), ("modify_ldt", 0), ("arch_prctl", 0x1002, 0),
    # the kernel's own interfaces
    ("io_uring_setup", 1, 0), ("bpf", 0, 0, 0), ("perf_event_open", 0, 0, 0, 0, 0), ("userfaultfd", 0),
    ("keyctl", 0, 0), ("shmget", 0, 4096, 0o600), ("msgget", 0, 0o600), ("semget", 0, 1, 0o600),
    ("unshare", 0x10000000), ("setns", 3, 0), ("mount", 0, "/", 0, 0, 0), ("chroot", "/"), ("pivot_root", "/", "/"),
    ("reboot", 0, 0, 0), ("init_module", 0, 0, 0), ("seccomp", 1, 0, 0), ("landlock_create_ruleset", 0, 0, 0),
    ("setuid", 0), ("capset", 0, 0), ("ioctl", 3, 0x541B, 0), ("inotify_init", 0), ("timer_create", 0, 0, 0),
    ("quotactl", 0, 0, 0, 0),
    # ways around the list
    ("32 bits", 20), ("by number", 0x40000000 + 39), ("by number", 0x40000000 + 512), ("by number", 10_000),
]  # fmt: skip


@pytest.mark.table
@pytest.mark.parametrize(
    "deed",
    DEEDS,
    ids=lambda deed: " ".join("HOST" if part is HOST else str(part).replace("/", "|") for part in deed[:2]),
)
def test_other_system_calls_of_native_code_are_killed_by_the_kernel(
    escaped: PreparedTool, deed: tuple[int | str, ...]
) -> None:
    with pytest.raises(WorkerCrashedError) as caught:
        call(escaped, str(deed[0]), *deed[1:])
    assert caught.value.signal == signal.SIGSYS


@pytest.mark.ci("slow")
def test_arbitrary_socket_data_from_native_code_ends_only_its_call(escaped: PreparedTool) -> None:
    with pytest.raises(WorkerCrashedError, match="violated the protocol"):
        call(escaped, "write", 3, "\x10" * 64, 64)
    assert escaped.execute({"after": 1}, user="bob").result == {"after": 1}
