"""Named groups of system calls with rules for their arguments. Every kind's filter consists of such groups."""

from __future__ import annotations

import errno

from wasmrt.sandbox.isolation.confine._bpf import ALWAYS, KILL, TRAP, Check, Clause, Rule, assemble, errno_action
from wasmrt.sandbox.isolation.confine._syscalls import MACHINE, audit_architecture, list_numbers

Group = dict[str, Rule]

CONNECTION = 3
"""The only descriptor of a worker."""

_PROT_EXEC = 4
_PAGEMAP_SCAN = 0xC0606610  # linux/fs.h, _IOWR('f', 16, struct pm_scan_arg)
# The flags that pthread_create uses: CLONE_VM|FS|FILES|SIGHAND|THREAD|SYSVSEM|SETTLS|PARENT_SETTID|CHILD_CLEARTID. musl
# adds CLONE_DETACHED, which has no effect.
_THREAD_FLAGS, _CLONE_DETACHED = 0x003D0F00, 0x00400000
_FORK_FLAGS = 0x01200011  # the flags that fork() uses: CLONE_CHILD_SETTID|CHILD_CLEARTID and SIGCHLD
_PR_SET_NAME = 15


def allow(names: str) -> Group:
    """Return the group that allows the calls `names` with any arguments."""
    return dict.fromkeys(names.split(), ALWAYS)


def fail_with(number: int, names: str) -> Group:
    """Return the group that fails the calls `names` with the errno `number`."""
    return dict.fromkeys(names.split(), Rule((), errno_action(number)))


def allow_if_all(*checks: Check, otherwise: int | None = None) -> Rule:
    """Return the rule that allows a call only if every check matches."""
    return Rule((checks,), otherwise)


def without(argument: int, bits: int) -> Check:
    """Return a check that none of `bits` is set in an argument."""
    return Check(argument, (0,), bits)


_TRANSFER = "read write recvfrom sendto recvmsg sendmsg"

WORKER_GROUPS: dict[str, Group] = {
    "compute": allow(
        "munmap mremap madvise brk futex rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack getpid gettid"
        " clock_gettime clock_nanosleep getrandom sched_yield rseq membarrier restart_syscall exit exit_group"
        " poll ppoll"
    )
    | {"ioctl": allow_if_all(Check(1, (_PAGEMAP_SCAN,)))},
    "connection": dict.fromkeys(_TRANSFER.split(), allow_if_all(Check(0, (CONNECTION,)))),
    "memory": dict.fromkeys(("mmap", "mprotect"), allow_if_all(without(2, _PROT_EXEC))),
    # Code is mapped from a memfd through /proc/self/fd; Landlock denies access to real files.
    "memory-files": allow("openat fstat newfstatat lseek") | fail_with(errno.ENOSYS, "statx"),
    # Forking, and the calls with which a child confines itself further.
    "forking": {"clone": allow_if_all(Check(0, (_FORK_FLAGS,)))}
    | allow(
        "wait4 set_robust_list set_tid_address getsockname setsockopt fcntl dup2 dup3 close close_range"
        " pread64 prctl capset prlimit64 landlock_restrict_self seccomp"
    ),
    "code": allow("mmap mprotect"),
    "threads": {
        "clone": allow_if_all(Check(0, (_THREAD_FLAGS,), ~_CLONE_DETACHED & 0xFFFFFFFF)),
        "prctl": allow_if_all(Check(0, (_PR_SET_NAME,)), otherwise=errno_action(errno.EPERM)),
        # Reading the process's own limits: both halves of the pointer to new limits must be zero.
        "prlimit64": allow_if_all(Check(0, (0,)), Check(2, (0,)), Check(2, (0,), upper=True)),
    }
    | allow("set_robust_list sched_getaffinity")
    | fail_with(errno.ENOSYS, "clone3"),  # its flags are in memory, which filters cannot read; libc falls back to clone
    # Rust reads /proc/self/cgroup before it counts processors; without memfd_create, wasmtime copies memory images.
    "no-files": fail_with(errno.EPERM, "openat") | fail_with(errno.ENOSYS, "memfd_create"),
}
"""Groups for workers, which only run wasmrt's code. Any other call kills the process."""


def compile_filter(
    groups: tuple[Group, ...], *, default: int, unknown: int, report: int | None = None, machine: str = MACHINE
) -> bytes:
    """Compile a filter that allows the calls in `groups`.

    Args:
        groups: If two groups have a rule for the same call, the call is allowed if either rule allows it.
        default: The action for every other call.
        unknown: The action for calls newer than the tables.
        report: A descriptor that may always be written to.
        machine: The machine type whose call numbers are used.
    """
    rules: Group = {}
    for group in groups:
        for name, rule in group.items():
            rules[name] = rules[name].union(rule) if name in rules else rule
    if report is not None:
        reporting = allow_if_all(Check(0, (report,)))
        rules["write"] = rules["write"].union(reporting) if "write" in rules else reporting
    known = list_numbers(machine)
    return assemble(
        {known[name]: rule for name, rule in rules.items() if name in known},
        default=default,
        unknown=unknown,
        first_unknown=max(known.values()) + 1,
        architecture=audit_architecture(machine),
    )


KILLED, LISTED, REFUSED, NOT_THERE = KILL, TRAP, errno_action(errno.EPERM), errno_action(errno.ENOSYS)
"""Filter actions: kill the process, report the call, fail with EPERM, fail with ENOSYS."""


_O_CREATES = 0o100 | 0o20000000  # O_CREAT and the bit of O_TMPFILE
_SET_ID = 0o6000
_FILE_TYPE, _REGULAR, _FIFO = 0o170000, 0o100000, 0o010000
_CLONE_NEW = 0x7E020000  # CLONE_NEWNS, CGROUP, UTS, IPC, USER, PID, NET
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C  # both insert input into the controlling terminal
_PERSONALITIES = (0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)  # the values that containers allow; they weaken no protection
_UNIX, _INET, _INET6 = 1, 2, 10
_STREAM, _DATAGRAM, _SEQUENCED = 1, 2, 5
_SOCKET_TYPE = 0x7FF  # without SOCK_NONBLOCK and SOCK_CLOEXEC
_ANY, _TCP, _UDP = 0, 6, 17
_MSG_FASTOPEN = 0x20000000


def _make_creating_clauses(flags: int, mode: int) -> tuple[Clause, ...]:
    """Create clauses that allow an open call if it creates no file, or if the new file is not set-user-ID."""
    return (without(flags, _O_CREATES),), (without(mode, _SET_ID),)


_FILES: Group = {
    **allow(
        "close read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek stat fstat lstat"
        " newfstatat statx statfs fstatfs access faccessat faccessat2 getdents getdents64 getcwd chdir fchdir rename"
        " renameat renameat2 mkdir mkdirat rmdir link linkat unlink unlinkat symlink symlinkat readlink readlinkat"
        " umask truncate ftruncate fallocate fadvise64 readahead sync_file_range fsync fdatasync sync syncfs"
        " copy_file_range sendfile splice tee vmsplice utime utimes futimesat utimensat flock fcntl dup dup2 dup3 pipe"
        " pipe2 getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr cachestat close_range"
        " chown lchown fchown fchownat"
    ),
    # SECURITY: no set-user-ID file may be created for other users to run. The mode of openat2 is in memory.
    "open": Rule(_make_creating_clauses(1, 2)),
    "openat": Rule(_make_creating_clauses(2, 3)),
    **dict.fromkeys(("creat", "chmod", "fchmod"), allow_if_all(without(1, _SET_ID))),
    **dict.fromkeys(("fchmodat", "fchmodat2"), allow_if_all(without(2, _SET_ID))),
    "mknod": allow_if_all(Check(1, (0, _REGULAR, _FIFO), _FILE_TYPE | _SET_ID)),
    "mknodat": allow_if_all(Check(2, (0, _REGULAR, _FIFO), _FILE_TYPE | _SET_ID)),
    **fail_with(errno.ENOSYS, "openat2"),
    **fail_with(errno.EOPNOTSUPP, "setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr"),
    "ioctl": allow_if_all(Check(1, (_TIOCSTI, _TIOCLINUX), negated=True)),
}

_PROCESSES: Group = {
    **allow(
        "fork vfork execve execveat exit exit_group wait4 waitid getpid getppid gettid getpgid getpgrp setpgid getsid"
        " setsid getuid geteuid getgid getegid getgroups getresuid getresgid setuid setgid setreuid setregid setresuid"
        " setresgid setfsuid setfsgid set_tid_address set_robust_list get_robust_list prctl arch_prctl getrusage times"
        " uname sysinfo getcpu sched_yield sched_getaffinity sched_setaffinity sched_getparam sched_getscheduler"
        " sched_getattr sched_get_priority_max sched_get_priority_min sched_rr_get_interval sched_setscheduler"
        " sched_setparam sched_setattr getpriority ioprio_get getrlimit setrlimit"
        " capget capset kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_open pidfd_send_signal"
        " restart_syscall seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self futex futex_waitv"
        " futex_wake futex_wait futex_requeue rseq membarrier getrandom"
    ),
    # SECURITY: only its own limits and priority, not those of the user's other processes.
    "prlimit64": allow_if_all(Check(0, (0,))),
    **dict.fromkeys(("setpriority", "ioprio_set"), allow_if_all(Check(1, (0,)))),
    "clone": allow_if_all(without(0, _CLONE_NEW)),
    "personality": allow_if_all(Check(0, _PERSONALITIES)),
    **fail_with(errno.ENOSYS, "clone3"),  # its flags are in memory
}

_MEMORY = allow(
    "mmap mprotect munmap mremap madvise brk msync mincore mlock mlock2 munlock mlockall munlockall memfd_create"
    " pkey_mprotect pkey_alloc pkey_free get_mempolicy mseal map_shadow_stack"
)

_WAITING = allow(
    "rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigsuspend sigaltstack pause alarm"
    " getitimer setitimer timer_create timer_settime timer_gettime timer_getoverrun timer_delete timerfd_create"
    " timerfd_settime timerfd_gettime signalfd signalfd4 clock_gettime clock_getres clock_nanosleep nanosleep"
    " gettimeofday time poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait"
    " epoll_pwait2 eventfd eventfd2"
)

_LOCAL_SOCKETS: Group = {
    # SECURITY: `socket` with AF_UNIX is never allowed: Landlock does not cover path-based sockets, and daemons listen
    # on them. Datagrams are not allowed either, because a sender may address any path.
    "socketpair": allow_if_all(Check(0, (_UNIX,)), Check(1, (_STREAM, _SEQUENCED), _SOCKET_TYPE)),
    # SECURITY: MSG_FASTOPEN connects without a Landlock check.
    **dict.fromkeys(("sendto", "sendmmsg"), allow_if_all(without(3, _MSG_FASTOPEN))),
    "sendmsg": allow_if_all(without(2, _MSG_FASTOPEN)),
    **allow("recvfrom recvmsg recvmmsg shutdown getsockopt setsockopt getsockname getpeername"),
}

_WATCHING = allow("inotify_init inotify_init1 inotify_add_watch inotify_rm_watch")

_UNWATCHING: tuple[Group, ...] = (_FILES, _PROCESSES, _MEMORY, _WAITING, _LOCAL_SOCKETS)
PROGRAM = (*_UNWATCHING, _WATCHING)
"""Groups for a program without network access."""


def _remove_group_calls(groups: tuple[Group, ...]) -> tuple[Group, ...]:
    """Return the groups without the calls with which a process leaves its process group."""
    return tuple({name: each for name, each in group.items() if name not in ("setsid", "setpgid")} for group in groups)


GROUPED_PROGRAM = _remove_group_calls(PROGRAM)
"""SECURITY: for programs that cannot leave their process group, so that killing the group ends all their processes."""
COMMAND = _remove_group_calls(_UNWATCHING)
"""SECURITY: for a shell, which must not watch files that were not granted: Landlock does not cover inotify."""

NETWORK: Group = {
    # SECURITY: only plain TCP and UDP: Landlock's port rules do not cover MPTCP, and raw sockets have no ports.
    "socket": allow_if_all(
        Check(0, (_INET, _INET6)), Check(1, (_STREAM, _DATAGRAM), _SOCKET_TYPE), Check(2, (_ANY, _TCP, _UDP))
    ),
    **allow("connect bind listen accept accept4"),
}
"""The additional calls that a program with network access needs."""

OUTLET: Group = {
    # SECURITY: for a separate network namespace that only contains the outlet. No datagrams, IPv6 or listening sockets.
    "socket": allow_if_all(Check(0, (_INET,)), Check(1, (_STREAM,), _SOCKET_TYPE), Check(2, (_ANY, _TCP))),
    **allow("connect"),
}
"""The additional calls that a program with an outlet needs."""
