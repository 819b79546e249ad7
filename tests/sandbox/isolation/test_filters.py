"""Filters decide by number and argument; here they are interpreted, not installed."""

from __future__ import annotations

import errno
import re
from pathlib import Path

import pytest

from tests.sandbox.isolation.interpreter import AARCH64, X86_64, verdict
from wasmrt.sandbox.isolation.confine import COMPILE_WORKER, CONFINEMENTS, RUN_WORKER, SHELL, Confinement, Kind
from wasmrt.sandbox.isolation.confine._bpf import ALLOW, ALWAYS, KILL, Check, Rule, assemble, errno_action
from wasmrt.sandbox.isolation.confine._calls import KILLED, NETWORK, NOT_THERE, REFUSED, compile_filter
from wasmrt.sandbox.isolation.confine._syscalls import audit_architecture, list_numbers

NUMBERS = list_numbers("x86_64")
HEADERS = [Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), Path("/usr/include/asm/unistd_64.h")]


def filter_of(confinement: Confinement, machine: str = "x86_64", *, network: bool = False) -> bytes:
    default = KILLED if confinement.kills else REFUSED
    unknown = KILLED if confinement.kills else NOT_THERE
    groups = (*confinement.calls, NETWORK) if network else confinement.calls
    return compile_filter(groups, default=default, unknown=unknown, machine=machine)


RUN, COMPILE, PROGRAM = filter_of(RUN_WORKER), filter_of(COMPILE_WORKER), filter_of(SHELL)
CONNECTED = filter_of(SHELL, network=True)


def asked(program: bytes, name: str, *arguments: int) -> int:
    return verdict(program, NUMBERS[name], *arguments)


def test_syscall_numbers_match_the_kernel_header() -> None:
    header = next((path for path in HEADERS if path.exists()), None)
    if header is None:
        pytest.skip("this machine has no header with the numbers of x86_64")
    listed = {name: int(number) for name, number in re.findall(r"#define __NR_(\w+) (\d+)", header.read_text())}
    assert {name: NUMBERS.get(name) for name in listed} == listed


def test_syscall_numbers_are_unique() -> None:
    for machine in ("x86_64", "aarch64"):
        found = list_numbers(machine)
        assert len(set(found.values())) == len(found)


def test_aarch64_uses_the_generic_syscall_table() -> None:
    found = list_numbers("aarch64")
    known = {"openat": 56, "read": 63, "write": 64, "futex": 98, "mmap": 222, "mprotect": 226, "clone": 220}
    known |= {"prlimit64": 261, "execve": 221, "getrandom": 278, "seccomp": 277, "rseq": 293, "exit_group": 94}
    assert {name: found[name] for name in known} == known
    assert "open" not in found
    assert "fork" not in found


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_another_architecture_ends_the_process(kind: Kind, machine: str) -> None:
    program = filter_of(CONFINEMENTS[kind], machine)
    number = list_numbers(machine)["exit_group"]
    assert verdict(program, number, architecture=audit_architecture(machine)) == ALLOW
    for architecture in {0x40000003, 0x40000028, X86_64, AARCH64} - {audit_architecture(machine)}:
        assert verdict(program, number, architecture=architecture) == KILL


@pytest.mark.parametrize("kind", Kind)
def test_x32_calls_end_the_process(kind: Kind) -> None:
    program = filter_of(CONFINEMENTS[kind])
    for name in ("read", "getpid", "exit_group", "openat"):
        assert verdict(program, NUMBERS[name] | 0x40000000) == KILL
    assert verdict(program, 0xFFFFFFFF) == KILL


@pytest.mark.parametrize("program", [RUN, COMPILE])
def test_a_worker_transfers_bytes_only_over_its_connection(program: bytes) -> None:
    for name in ("read", "write", "recvfrom", "sendto", "recvmsg", "sendmsg"):
        assert asked(program, name, 3) == ALLOW
        assert {asked(program, name, descriptor) for descriptor in (0, 1, 2, 4, 0xFFFFFFFF)} == {KILL}


def test_a_run_worker_gets_no_executable_memory() -> None:
    for name in ("mmap", "mprotect"):
        assert asked(RUN, name, 0, 4096, 1 | 2) == ALLOW
        assert {asked(RUN, name, 0, 4096, bits) for bits in (4, 5, 6, 7)} == {KILL}
        assert asked(COMPILE, name, 0, 4096, 5) == ALLOW


@pytest.mark.parametrize("program", [RUN, COMPILE])
def test_a_worker_has_only_the_pagemap_scan_ioctl(program: bytes) -> None:
    assert asked(program, "ioctl", 7, 0xC0606610) == ALLOW
    assert {asked(program, "ioctl", 7, request) for request in (0x5412, 0x541C, 0x5401, 0)} == {KILL}


def test_a_compile_worker_starts_threads_and_no_processes() -> None:
    threads = 0x3D0F00
    assert asked(COMPILE, "clone", threads) == ALLOW
    assert asked(COMPILE, "clone", threads | 0x400000) == ALLOW
    assert {asked(COMPILE, "clone", flags) for flags in (17, threads | 17, threads | 0x10000000, 0x10000)} == {KILL}
    assert asked(COMPILE, "clone3") == errno_action(errno.ENOSYS)
    assert asked(RUN, "clone", threads) == KILL


def test_a_compile_worker_can_read_but_not_change_its_limits() -> None:
    assert asked(COMPILE, "prlimit64", 0, 8, 0, 1) == ALLOW
    assert asked(COMPILE, "prlimit64", 0, 8, 0x1000, 0) == KILL
    assert asked(COMPILE, "prlimit64", 0, 8, 0x1_0000_0000, 0) == KILL
    assert asked(COMPILE, "prlimit64", 1, 8, 0, 0) == KILL


@pytest.mark.parametrize("program", [RUN, COMPILE])
def test_a_forbidden_call_kills_the_worker(program: bytes) -> None:
    names = "socket connect open openat2 execve execveat ptrace kill tgkill fork vfork unshare io_uring_setup bpf"
    names += " pidfd_open pidfd_getfd userfaultfd keyctl mount setns shmget personality perf_event_open dup chmod"
    names += " process_vm_readv process_vm_writev statx readlink seccomp pkey_mprotect shmat remap_file_pages"
    assert {name for name in names.split() if asked(program, name) != KILL} == set()
    assert verdict(program, 5000) == KILL


def test_forbidden_calls_of_a_program_fail_with_eperm_or_enosys() -> None:
    names = (
        "ptrace process_vm_readv bpf io_uring_setup userfaultfd perf_event_open keyctl add_key mount umount2 unshare"
    )
    names += " setns chroot pivot_root init_module finit_module kexec_load reboot swapon settimeofday shmget msgget"
    names += " semget mq_open pidfd_getfd open_by_handle_at name_to_handle_at memfd_secret process_madvise kcmp"
    names += " socket connect bind iopl ioperm fsopen move_mount open_tree syslog acct quotactl"
    assert {name for name in names.split() if asked(PROGRAM, name) != REFUSED} == set()
    assert verdict(PROGRAM, 5000) == NOT_THERE
    assert asked(PROGRAM, "clone3") == NOT_THERE


def test_a_program_cannot_create_setuid_files() -> None:
    creates = 0o102
    assert asked(PROGRAM, "openat", 0, 0, creates, 0o755) == ALLOW
    assert asked(PROGRAM, "openat", 0, 0, 0, 0o7777) == ALLOW  # without O_CREAT the mode is ignored
    for mode in (0o4755, 0o2755, 0o6000):
        assert asked(PROGRAM, "openat", 0, 0, creates, mode) == REFUSED
        assert asked(PROGRAM, "openat", 0, 0, 0o20200000, mode) == REFUSED  # O_TMPFILE
        assert asked(PROGRAM, "chmod", 0, mode) == REFUSED
        assert asked(PROGRAM, "fchmodat2", 0, 0, mode) == REFUSED
        assert asked(PROGRAM, "mknod", 0, 0o100000 | mode) == REFUSED
    assert asked(PROGRAM, "chmod", 0, 0o755) == ALLOW
    assert asked(PROGRAM, "mknod", 0, 0o060000) == REFUSED  # a block device


def test_a_program_can_create_processes_but_no_namespaces() -> None:
    assert asked(PROGRAM, "clone", 0x1200011) == ALLOW
    for new in (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
        assert asked(PROGRAM, "clone", 17 | new) == REFUSED


def test_a_program_cannot_insert_terminal_input() -> None:
    assert asked(PROGRAM, "ioctl", 0, 0x5401) == ALLOW
    assert asked(PROGRAM, "ioctl", 0, 0x5412) == REFUSED
    assert asked(PROGRAM, "ioctl", 0, 0x541C) == REFUSED


def test_a_program_with_network_has_only_tcp_and_udp() -> None:
    stream, datagram = 1 | 0o2000000, 2
    for family in (2, 10):
        assert asked(CONNECTED, "socket", family, stream, 6) == ALLOW
        assert asked(CONNECTED, "socket", family, datagram, 0) == ALLOW
        assert asked(CONNECTED, "socket", family, 3, 0) == REFUSED  # raw
        assert asked(CONNECTED, "socket", family, 1, 262) == REFUSED  # MPTCP
    assert {asked(CONNECTED, "socket", family, 1) for family in (0, 1, 16, 17, 38, 40)} == {REFUSED}
    assert {asked(PROGRAM, "socket", family, 1) for family in (1, 2, 10, 16)} == {REFUSED}


def test_a_program_connects_only_by_connect() -> None:
    fast_open = 0x20000000
    for program in (PROGRAM, CONNECTED):
        assert asked(program, "sendto", 3, 0, 0, 0x4000) == ALLOW
        assert asked(program, "sendto", 3, 0, 0, fast_open) == REFUSED
        assert asked(program, "sendmsg", 3, 0, fast_open) == REFUSED
        assert asked(program, "sendmmsg", 3, 0, 1, fast_open) == REFUSED
        assert asked(program, "socketpair", 1, 1) == ALLOW
        assert asked(program, "socketpair", 1, 2) == REFUSED


def test_a_call_allowed_by_one_group_is_allowed() -> None:
    refused, allowed = Rule((), errno_action(1)), Rule(((Check(0, (7,)),),))
    program = compile_filter(({"read": refused}, {"read": allowed}), default=KILL, unknown=KILL, machine="x86_64")
    assert asked(program, "read", 7) == ALLOW
    assert asked(program, "read", 8) == errno_action(1)


@pytest.mark.ci("slow")
def test_a_filter_with_all_numbers_matches_each_rule() -> None:
    rules = {number: Rule(((Check(0, (number, 1000)), Check(1, (5,), negated=True)),)) for number in range(400)}
    program = assemble(rules, default=KILL, unknown=NOT_THERE, first_unknown=470, architecture=X86_64)
    for number in range(400):
        assert verdict(program, number, number, 4) == ALLOW
        assert verdict(program, number, 1000, 4) == ALLOW
        assert verdict(program, number, number + 1, 4) == KILL
        assert verdict(program, number, number, 5) == KILL
    assert verdict(program, 469) == KILL
    assert verdict(program, 470) == NOT_THERE


def test_a_filter_that_the_kernel_would_reject_is_refused() -> None:
    rules = {number: Rule(((Check(0, tuple(range(number, number + 20))),),)) for number in range(300)}
    with pytest.raises(ValueError, match="instructions"):
        assemble(rules, default=KILL, unknown=KILL, first_unknown=400, architecture=X86_64)
    assert len(assemble({0: ALWAYS}, default=KILL, unknown=KILL, first_unknown=1, architecture=X86_64)) < 100
