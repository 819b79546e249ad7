"""System calls of programs that we did not write: a broad list, in the manner of containers' default profiles.

What is not on it fails with EPERM, among them ptrace, process_vm_*, bpf, io_uring, userfaultfd, perf_event_open,
keyctl, mount and its family, unshare, setns, chroot, modules, clocks, System V IPC, message queues and pidfd_getfd.
"""

from __future__ import annotations

import errno

from wasmrt.sandbox.isolation.confine._bpf import Check, Clause, Rule
from wasmrt.sandbox.isolation.confine._calls import Group, allow, only, refuse, without

_O_CREATES = 0o100 | 0o20000000  # O_CREAT, and the bit of O_TMPFILE
_SET_ID = 0o6000
_FILE_TYPE, _REGULAR, _FIFO = 0o170000, 0o100000, 0o010000
_CLONE_NEW = 0x7E020000  # CLONE_NEWNS, CGROUP, UTS, IPC, USER, PID, NET
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C  # type into the terminal of whoever started the program
_PERSONALITIES = (0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)  # as containers allow: none of them weakens the process
_UNIX, _INET, _INET6 = 1, 2, 10
_STREAM, _DATAGRAM, _SEQUENCED = 1, 2, 5
_SOCKET_TYPE = 0x7FF  # without SOCK_NONBLOCK and SOCK_CLOEXEC
_ANY, _TCP, _UDP = 0, 6, 17
_MSG_FASTOPEN = 0x20000000


def _creating(flags: int, mode: int) -> tuple[Clause, ...]:
    """Clauses for an open: it makes no file, or one that is not set-user-id."""
    return (without(flags, _O_CREATES),), (without(mode, _SET_ID),)


_FILES: Group = {
    **allow(
        "close read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek stat fstat lstat"
        " newfstatat statx statfs fstatfs access faccessat faccessat2 getdents getdents64 getcwd chdir fchdir rename"
        " renameat renameat2 mkdir mkdirat rmdir link linkat unlink unlinkat symlink symlinkat readlink readlinkat"
        " umask truncate ftruncate fallocate fadvise64 readahead sync_file_range fsync fdatasync sync syncfs"
        " copy_file_range sendfile splice tee vmsplice utime utimes futimesat utimensat flock fcntl dup dup2 dup3 pipe"
        " pipe2 getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr inotify_init inotify_init1"
        " inotify_add_watch inotify_rm_watch cachestat close_range chown"
        " lchown fchown fchownat"
    ),
    # SECURITY: no set-user-id file is left behind for others to run. openat2 has its mode in memory.
    "open": Rule(_creating(1, 2)),
    "openat": Rule(_creating(2, 3)),
    **dict.fromkeys(("creat", "chmod", "fchmod"), only(without(1, _SET_ID))),
    **dict.fromkeys(("fchmodat", "fchmodat2"), only(without(2, _SET_ID))),
    "mknod": only(Check(1, (0, _REGULAR, _FIFO), _FILE_TYPE | _SET_ID)),
    "mknodat": only(Check(2, (0, _REGULAR, _FIFO), _FILE_TYPE | _SET_ID)),
    **refuse(errno.ENOSYS, "openat2"),
    **refuse(errno.EOPNOTSUPP, "setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr"),
    "ioctl": only(Check(1, (_TIOCSTI, _TIOCLINUX), negated=True)),
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
    # SECURITY: its own limits and priority, not those of the user's other processes.
    "prlimit64": only(Check(0, (0,))),
    **dict.fromkeys(("setpriority", "ioprio_set"), only(Check(1, (0,)))),
    "clone": only(without(0, _CLONE_NEW)),
    "personality": only(Check(0, _PERSONALITIES)),
    **refuse(errno.ENOSYS, "clone3"),  # its flags lie in memory
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
    # SECURITY: never `socket` of AF_UNIX: Landlock does not cover sockets with a path, and behind them are daemons.
    # Not datagrams either, whose sender may name any path.
    "socketpair": only(Check(0, (_UNIX,)), Check(1, (_STREAM, _SEQUENCED), _SOCKET_TYPE)),
    # SECURITY: a message with MSG_FASTOPEN connects without Landlock being asked.
    **dict.fromkeys(("sendto", "sendmmsg"), only(without(3, _MSG_FASTOPEN))),
    "sendmsg": only(without(2, _MSG_FASTOPEN)),
    **allow("recvfrom recvmsg recvmmsg shutdown getsockopt setsockopt getsockname getpeername"),
}

PROGRAM: tuple[Group, ...] = (_FILES, _PROCESSES, _MEMORY, _WAITING, _LOCAL_SOCKETS)
"""A program without the network."""

_LEAVING = ("setsid", "setpgid")
GROUPED_PROGRAM: tuple[Group, ...] = tuple(
    {name: rule for name, rule in group.items() if name not in _LEAVING} for group in PROGRAM
)
"""SECURITY: a program that cannot leave its process group, so that killing the group ends all that it started."""

NETWORK: Group = {
    # SECURITY: plain TCP and UDP only: Landlock's ports do not bind MPTCP, and raw sockets have none.
    "socket": only(
        Check(0, (_INET, _INET6)), Check(1, (_STREAM, _DATAGRAM), _SOCKET_TYPE), Check(2, (_ANY, _TCP, _UDP))
    ),
    **allow("connect bind listen accept accept4"),
}
"""The calls that a program needs to reach the network, beside `PROGRAM`."""

OUTLET: Group = {
    # SECURITY: in a network of its own, where nothing is but the outlet. No datagrams, no IPv6, nothing to listen on.
    "socket": only(Check(0, (_INET,)), Check(1, (_STREAM,), _SOCKET_TYPE), Check(2, (_ANY, _TCP))),
    **allow("connect"),
}
"""The calls that a program needs to reach its outlet, beside `PROGRAM`."""
