"""Named groups of system calls, with rules for their arguments: what the filters of all kinds are made of."""

from __future__ import annotations

import errno

from wasmrt.sandbox.isolation.confine._bpf import ALWAYS, KILL, TRAP, Check, Rule, assemble, errno_action
from wasmrt.sandbox.isolation.confine._syscalls import MACHINE, audit_architecture, numbers

Group = dict[str, Rule]

CONNECTION = 3
"""The one descriptor of a worker."""

_PROT_EXEC = 4
_PAGEMAP_SCAN = 0xC0606610  # linux/fs.h, _IOWR('f', 16, struct pm_scan_arg)
# CLONE_VM|FS|FILES|SIGHAND|THREAD|SYSVSEM|SETTLS|PARENT_SETTID|CHILD_CLEARTID: what pthread_create asks for. musl
# adds CLONE_DETACHED, which does nothing.
_THREAD_FLAGS, _CLONE_DETACHED = 0x003D0F00, 0x00400000
_FORK_FLAGS = 0x01200011  # CLONE_CHILD_SETTID|CHILD_CLEARTID and SIGCHLD: what fork() asks for
_PR_SET_NAME = 15


def allow(names: str) -> Group:
    """Return the group that allows the calls `names` with any argument."""
    return dict.fromkeys(names.split(), ALWAYS)


def refuse(number: int, names: str) -> Group:
    """Return the group in which the calls `names` fail with the errno `number`."""
    return dict.fromkeys(names.split(), Rule((), errno_action(number)))


def only(*checks: Check, otherwise: int | None = None) -> Rule:
    """Return the rule that allows a call where every check holds."""
    return Rule((checks,), otherwise)


def without(argument: int, bits: int) -> Check:
    """Return the check that none of `bits` is set in an argument."""
    return Check(argument, (0,), bits)


_TRANSFER = "read write recvfrom sendto recvmsg sendmsg"

WORKER_GROUPS: dict[str, Group] = {
    "compute": allow(
        "munmap mremap madvise brk futex rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack getpid gettid"
        " clock_gettime clock_nanosleep getrandom sched_yield rseq membarrier restart_syscall exit exit_group"
        " poll ppoll"
    )
    | {"ioctl": only(Check(1, (_PAGEMAP_SCAN,)))},
    "connection": dict.fromkeys(_TRANSFER.split(), only(Check(0, (CONNECTION,)))),
    "memory": dict.fromkeys(("mmap", "mprotect"), only(without(2, _PROT_EXEC))),
    # Mapping code from memory by its name under /proc/self/fd; Landlock keeps every real file out of reach.
    "memory-files": allow("openat fstat newfstatat lseek") | refuse(errno.ENOSYS, "statx"),
    # A fork, and what its child needs to become a worker that is sealed further.
    "forking": {"clone": only(Check(0, (_FORK_FLAGS,)))}
    | allow(
        "wait4 set_robust_list set_tid_address getsockname setsockopt fcntl dup2 dup3 close close_range"
        " pread64 prctl capset prlimit64 landlock_restrict_self seccomp"
    ),
    "code": allow("mmap mprotect"),
    "threads": {
        "clone": only(Check(0, (_THREAD_FLAGS,), ~_CLONE_DETACHED & 0xFFFFFFFF)),
        "prctl": only(Check(0, (_PR_SET_NAME,)), otherwise=errno_action(errno.EPERM)),
        # Reading one's own limits; both halves of the pointer to new ones are zero.
        "prlimit64": only(Check(0, (0,)), Check(2, (0,)), Check(2, (0,), upper=True)),
    }
    | allow("set_robust_list sched_getaffinity")
    | refuse(errno.ENOSYS, "clone3"),  # its flags lie in memory; the C library falls back on clone
    # Rust looks for /proc/self/cgroup before it counts processors; without memfd_create wasmtime copies memory images.
    "no-files": refuse(errno.EPERM, "openat") | refuse(errno.ENOSYS, "memfd_create"),
}
"""Groups for workers, which run code that we know. Everything else ends the process."""


def compile_filter(
    groups: tuple[Group, ...], *, default: int, unknown: int, report: int | None = None, machine: str = MACHINE
) -> bytes:
    """Return the filter that allows what `groups` allow.

    Args:
        groups: Where two have a rule for one call, it is allowed if one of them allows it.
        default: The action for every other call.
        unknown: The action for calls newer than the tables.
        report: A descriptor that may always be written to.
        machine: The machine that the numbers are of.
    """
    rules: Group = {}
    for group in groups:
        for name, rule in group.items():
            rules[name] = rules[name].joined(rule) if name in rules else rule
    if report is not None:
        reporting = only(Check(0, (report,)))
        rules["write"] = rules["write"].joined(reporting) if "write" in rules else reporting
    known = numbers(machine)
    return assemble(
        {known[name]: rule for name, rule in rules.items() if name in known},
        default=default,
        unknown=unknown,
        first_unknown=max(known.values()) + 1,
        architecture=audit_architecture(machine),
    )


KILLED, LISTED, REFUSED, NOT_THERE = KILL, TRAP, errno_action(errno.EPERM), errno_action(errno.ENOSYS)
"""Actions: end the process, report, EPERM, ENOSYS."""
