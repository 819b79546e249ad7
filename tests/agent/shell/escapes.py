"""Attempts to escape: run by the system's Python inside the shell, and outside it for comparison.

It imports no other module of the tests. Its argument is a JSON object with paths and addresses. It prints the outcome
of each attempt: "done", or an error.
"""

import ctypes
import errno
import json
import os
import signal
import socket
import struct
import sys

SCENE = json.loads(sys.argv[1])
VICTIM, SECRET, OUTSIDE = SCENE["victim"], SCENE["secret"], SCENE["outside"]
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
kept = []


def call(name, *arguments):
    given = []
    for each in arguments:
        if isinstance(each, bytes):
            each = ctypes.create_string_buffer(each)
            kept.append(each)
            each = ctypes.addressof(each)
        given.append(ctypes.c_long(each))
    result = libc.syscall(ctypes.c_long(SCENE["numbers"][name]), *given)
    if result == -1:
        raise OSError(ctypes.get_errno(), name)
    return result


def read(path, flags=os.O_RDONLY):
    descriptor = os.open(path, flags)
    if not flags & os.O_WRONLY:
        os.read(descriptor, 1)


def through_link(make):
    def act():
        if os.path.lexists("way"):
            os.unlink("way")
        make(SECRET, "way")
        read("way")

    return act


def reopened():
    descriptor = os.open(SECRET, os.O_PATH)
    read(f"/proc/self/fd/{descriptor}")


def from_a_folder():
    folder = os.open(os.path.dirname(SECRET), os.O_PATH)
    os.open(os.path.basename(SECRET), os.O_RDONLY, dir_fd=folder)


def memory(name):
    def act():
        mine = ctypes.create_string_buffer(8)
        here = struct.pack("=QQ", ctypes.addressof(mine), 8)
        there = struct.pack("=QQ", SCENE["address"], 8)
        call(name, VICTIM, here, 1, there, 1, 0)

    return act


def memory_file():
    """Execute a program from a memfd that reads the secret."""
    made = os.memfd_create("cat")
    with open(SCENE["cat"], "rb") as program:
        os.write(made, program.read())
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.execve(made, ["cat", SECRET], {})
    if os.waitpid(child, 0)[1]:
        raise OSError(errno.EACCES, "cat")


def fresh_process(flags):
    child = call("clone", flags | signal.SIGCHLD, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def connect(family, kind, place):
    with socket.socket(family, kind) as made:
        made.connect(place)


def create(path):
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    os.unlink(path)


def set_user_id():
    with open("made", "w"):
        os.chmod("made", 0o4755)


def type_into_terminal():
    import fcntl

    try:
        fcntl.ioctl(0, 0x5412, b"x")
    except OSError as error:
        if error.errno not in (errno.ENOTTY, errno.EIO):
            raise


def device(number):
    def act():
        os.mknod("device", 0o20600, number)
        os.unlink("device")

    return act


def handle():
    room = struct.pack("=Ii", 128, 0) + bytes(128)
    call("name_to_handle_at", -100, SECRET.encode(), room, bytes(8), 0)


def limits_of_another():
    call("prlimit64", VICTIM, 7, struct.pack("=QQ", 512, 512), 0)


def mounted():
    os.makedirs("point", exist_ok=True)
    call("mount", b"none", b"point", b"tmpfs", 0, 0)
    call("umount2", b"point", 2)


def bound():
    os.makedirs("point", exist_ok=True)
    call("mount", os.path.dirname(SECRET).encode(), b"point", b"", 4096, 0)
    call("umount2", b"point", 2)


def watch():
    handle = call("inotify_init1", 0)
    call("inotify_add_watch", handle, SECRET.encode(), 2)


def own_keyring():
    call("keyctl", 0, -2, 1)


ATTEMPTS = {
    "tcp": lambda: connect(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", SCENE["port"])),
    "udp": lambda: connect(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 53)),
    "tcp by v6": lambda: socket.socket(socket.AF_INET6, socket.SOCK_STREAM),
    "raw socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1),
    "packet socket": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW),
    "netlink": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),
    "kernel crypto socket": lambda: socket.socket(38, socket.SOCK_SEQPACKET),
    "vsock": lambda: socket.socket(40, socket.SOCK_STREAM),
    "abstract socket": lambda: connect(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + SCENE["abstract"]),
    "socket with a path": lambda: connect(socket.AF_UNIX, socket.SOCK_STREAM, SCENE["path"]),
    "listen": lambda: socket.create_server(("127.0.0.1", 0)),
    "the secret": lambda: read(SECRET),
    "the secret by its folder": from_a_folder,
    "the secret by ..": lambda: read("../" * 40 + SECRET[1:]),
    "the secret by /proc/self/root": lambda: read("/proc/self/root" + SECRET),
    "the secret by /proc/self/cwd": lambda: read("/proc/self/cwd/" + os.path.relpath(SECRET)),
    "the secret by /proc/1/root": lambda: read("/proc/1/root" + SECRET),
    "the secret by another's root": lambda: read(f"/proc/{VICTIM}/root{SECRET}"),
    "the secret by another's folder": lambda: read(f"/proc/{VICTIM}/cwd/{os.path.basename(SECRET)}"),
    "the secret by a symbolic link": through_link(os.symlink),
    "the secret by a hard link": through_link(os.link),
    "the secret by O_PATH": reopened,
    "the secret by a handle": handle,
    "the secret by openat2": lambda: call("openat2", -100, SECRET.encode(), struct.pack("=QQQ", 0, 0, 0), 24),
    "the secret by a program in memory": memory_file,
    "the secret written": lambda: read(SECRET, os.O_WRONLY),
    "the secret renamed": lambda: (os.rename(SECRET, "mine"), os.rename("mine", SECRET)),
    "the folder of secrets listed": lambda: os.listdir(os.path.dirname(SECRET)),
    "the home listed": lambda: os.listdir(SCENE["home"]),
    "another user's file": lambda: read(SCENE["foreign"]),
    "a file outside made": lambda: create(OUTSIDE + "/made"),
    "a folder outside made": lambda: (os.mkdir(OUTSIDE + "/folder"), os.rmdir(OUTSIDE + "/folder")),
    "a link outside made": lambda: (os.symlink("x", OUTSIDE + "/link"), os.unlink(OUTSIDE + "/link")),
    "a pipe outside made": lambda: (os.mkfifo(OUTSIDE + "/pipe"), os.unlink(OUTSIDE + "/pipe")),
    "the system written": lambda: create("/usr/lib/wasmrt-escape"),
    "the configuration written": lambda: create("/etc/wasmrt-escape"),
    "/tmp written": lambda: create("/tmp/wasmrt-escape"),
    "shared memory": lambda: create("/dev/shm/wasmrt-escape"),
    "a program outside": lambda: os.posix_spawn(SCENE["program"], ["program"], {}),
    "processes listed": lambda: os.listdir("/proc"),
    "another's environment": lambda: read(f"/proc/{VICTIM}/environ"),
    "another's command line": lambda: read(f"/proc/{VICTIM}/cmdline"),
    "another's memory file": lambda: os.open(f"/proc/{VICTIM}/mem", os.O_RDWR),
    "the first process's environment": lambda: read("/proc/1/environ"),
    "another's memory read": memory("process_vm_readv"),
    "another's memory written": memory("process_vm_writev"),
    "kill": lambda: os.kill(VICTIM, signal.SIGCONT),
    "kill a thread": lambda: call("tgkill", VICTIM, VICTIM, signal.SIGCONT),
    "kill by a handle": lambda: signal.pidfd_send_signal(os.pidfd_open(VICTIM), signal.SIGCONT),
    "a descriptor of another": lambda: call("pidfd_getfd", os.pidfd_open(VICTIM), 0, 0),
    "ptrace": lambda: call("ptrace", 0x4206, VICTIM, 0, 0),
    "compare processes": lambda: call("kcmp", os.getpid(), VICTIM, 1, 0, 0),
    "another's limits": limits_of_another,
    "another's priority": lambda: os.setpriority(os.PRIO_PROCESS, VICTIM, 5),
    "leave the group": lambda: fork_and(os.setsid),
    "set-user-id": set_user_id,
    "another user": lambda: os.setresuid(12345, 12345, 12345),
    "other groups": lambda: os.setgroups([12345]),
    "another owner": lambda: os.chown(sys.argv[0], 1, 1),
    "a device": device(os.makedev(1, 1)),
    "user namespace": lambda: fresh_process(0x10000000),
    "mount namespace": lambda: fresh_process(0x00020000),
    "process namespace": lambda: fresh_process(0x20000000),
    "network namespace": lambda: fresh_process(0x40000000),
    "unshare": lambda: call("unshare", 0x04000000),
    "another's namespace": lambda: call("setns", os.pidfd_open(VICTIM), 0x08000000),
    "mount": mounted,
    "bind mount": bound,
    "a new file system": lambda: os.close(call("fsopen", b"tmpfs", 1)),
    "io_uring": lambda: call("io_uring_setup", 1, bytes(120)),
    "bpf": lambda: call("bpf", 0, struct.pack("=IIII", 2, 4, 4, 1) + bytes(64), 80),
    "userfaultfd": lambda: call("userfaultfd", 1),
    "perf events": lambda: call("perf_event_open", struct.pack("=IIQ", 1, 112, 0) + bytes(96), 0, -1, -1, 0),
    "keyctl": own_keyring,
    "add_key": lambda: call("add_key", b"user", b"wasmrt", b"x", 1, -2),
    "shared memory of System V": lambda: call("shmctl", call("shmget", 0, 4096, 0o600), 0, 0),
    "message queue": lambda: (call("mq_open", b"wasmrt-shell", 0o102, 0o600, 0), call("mq_unlink", b"wasmrt-shell")),
    "kernel log": lambda: call("syslog", 10, 0, 0),
    "weaker addresses": lambda: call("personality", 0x0040000),
    "type into the terminal": type_into_terminal,
    "a terminal": lambda: os.openpty(),
    "/dev/mem": lambda: read("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK),
    "a watch on the secret": watch,
    "host name": lambda: socket.sethostname(socket.gethostname()),
    "chroot": lambda: fork_and(lambda: os.chroot("/")),
}


def fork_and(act):
    child = os.fork()
    if child == 0:
        try:
            act()
        except OSError as error:
            os._exit(error.errno)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        raise OSError(code, "child")


def attempt(act):
    """Run an attempt in a separate process, so that attempts do not affect each other."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            act()
            outcome = "done"
        except OSError as error:
            outcome = errno.errorcode.get(error.errno, "error")
        except BaseException as error:
            outcome = type(error).__name__
        os.write(writing, outcome.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        outcome = pipe.readline() or "killed"
    os.waitpid(child, 0)
    return outcome


if __name__ == "__main__":
    json.dump({name: attempt(act) for name, act in ATTEMPTS.items()}, sys.stdout)
