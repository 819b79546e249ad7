"""A process confined like a container's default profile, in which the forbidden calls are tried.

The filter is shaped like the default profile of Docker (moby/profiles): an allowlist that answers EPERM, without
mount, unshare, bpf, keyctl, io_uring and their like; capabilities are the default fourteen.
"""

from __future__ import annotations

import errno
import json
import os
from struct import pack

from wasmrt.testing.wall._trial import try_all

from wasmrt.sandbox.isolation.confine import _libc
from wasmrt.sandbox.isolation.confine._bpf import Check
from wasmrt.sandbox.isolation.confine._calls import (
    NOT_THERE,
    PROGRAM,
    REFUSED,
    allow,
    allow_if_all,
    compile_filter,
    fail_with,
)
from wasmrt.sandbox.isolation.confine._seccomp import Filter

_CAPABILITIES = (0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31)
_ALSO = allow(
    "open openat openat2 creat chmod fchmod fchmodat fchmodat2 mknod mknodat chown lchown fchown fchownat setxattr"
    " lsetxattr fsetxattr removexattr lremovexattr fremovexattr ptrace process_vm_readv process_vm_writev kcmp"
    " pidfd_getfd process_madvise memfd_secret shmget shmat shmdt shmctl semget semop semtimedop semctl msgget msgsnd"
    " msgrcv msgctl mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr io_setup io_submit"
    " io_getevents io_destroy io_cancel setgroups name_to_handle_at chroot close_range bind connect listen accept"
    " accept4 socketpair sendto sendmsg sendmmsg ioctl modify_ldt remap_file_pages"
) | {"socket": allow_if_all(Check(0, (38, 40), negated=True))}


def enter() -> None:
    program = [{name: rule for name, rule in group.items() if name not in _ALSO} for group in PROGRAM]
    groups = (*program, _ALSO, fail_with(errno.ENOSYS, "clone3"))
    code = compile_filter(groups, default=REFUSED, unknown=NOT_THERE)
    if os.getuid():
        _libc.prctl(_libc.PR_SET_NO_NEW_PRIVS, 1)
    Filter(code).install()
    if os.getuid() == 0:
        for number in range(41):
            if number not in _CAPABILITIES:
                _libc.prctl(_libc.PR_CAPBSET_DROP, number)
        kept = sum(1 << number for number in _CAPABILITIES)
        header, sets = pack("=Ii", 0x20080522, 0), pack("=IIIIII", kept, kept, 0, 0, 0, 0)
        _libc.syscall("capset", _libc.address(header), _libc.address(sets))


if __name__ == "__main__":
    enter()
    print(json.dumps(try_all((0, 65534) if os.getuid() == 0 else (os.getuid(),))))
