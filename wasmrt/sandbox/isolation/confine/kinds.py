"""The confinement of each kind of process."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from wasmrt.sandbox.isolation.confine._calls import COMMAND, CONNECTION, GROUPED_PROGRAM, PROGRAM, WORKER_GROUPS, Group

_MIB = 1024 * 1024
_GIB = 1024 * _MIB


class Kind(StrEnum):
    """Kinds of confined processes."""

    RUN_WORKER = "run-worker"
    TEMPLATE = "template"
    COMPILE_WORKER = "compile-worker"
    SHELL = "shell"
    NATIVE_PLUGIN = "native-plugin"
    MCP_SERVER = "mcp-server"
    BUILD_TOOL = "build-tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLimits:
    """Resource limits of a process (setrlimit(2)); None means unchanged. Core files and locked memory are always 0."""

    data_bytes: int | None = None
    """Maximum private writable memory (RLIMIT_DATA). For a worker, the memory in use when it is confined is added."""
    cpu_seconds: int | None = None
    """CPU time, after which the process is killed with SIGKILL."""
    new_processes: int | None = None
    """Tasks that may be started. The kernel counts all tasks of the user, so only 0 is exact. Root has no limit."""
    file_bytes: int | None = None
    """Maximum size of a file that the process writes."""
    descriptors: int | None = None
    """Maximum number of open descriptors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """The permissions of processes of one kind. Everything that is not listed is denied.

    Attributes:
        kind: The kind of process.
        calls: Groups of allowed system calls; see `_calls.py`.
        kills: Whether any other call kills the process; otherwise it fails with EPERM.
        read: Paths that may be read recursively, if they exist. Each start may grant more.
        write: The same for paths that may be written recursively.
        execute: The same for paths that may be executed recursively.
        network: Whether the process may open TCP and UDP sockets for IPv4 and IPv6.
        limits: Resource limits.
        keep: Descriptors that stay open, in addition to the standard streams.
        streams: Whether the standard streams are kept; otherwise they become /dev/null.
        environment: Names of the environment variables that are kept.
        parent_death: Whether the process is killed when the thread that started it ends (PR_SET_PDEATHSIG).
        session: Whether the process starts a new session and process group, so that all its processes can be killed.
        namespaces: Namespaces to enter if the machine allows it: user, ipc, uts, and, without network access, net.
    """

    kind: Kind
    calls: tuple[Group, ...]
    kills: bool
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    execute: tuple[str, ...] = ()
    network: bool = False
    limits: ProcessLimits
    keep: tuple[int, ...] = ()
    streams: bool = True
    environment: tuple[str, ...] = ()
    parent_death: bool = True
    session: bool = True
    namespaces: tuple[str, ...] = ()

    @property
    def executes(self) -> bool:
        """True if processes of this kind may execute programs."""
        return bool(self.execute)


RUN_WORKER = Confinement(
    kind=Kind.RUN_WORKER,
    calls=tuple(WORKER_GROUPS[name] for name in ("compute", "connection", "memory")),
    kills=True,
    limits=ProcessLimits(data_bytes=256 * _MIB, new_processes=0, file_bytes=0, descriptors=CONNECTION + 1),
    keep=(CONNECTION,),
    streams=False,
)
"""Runs one component, whose code is mapped before confinement: no files, no new code, no socket but its connection."""

TEMPLATE = Confinement(
    kind=Kind.TEMPLATE,
    calls=tuple(
        WORKER_GROUPS[name] for name in ("compute", "connection", "code", "threads", "memory-files", "forking")
    ),
    kills=True,
    limits=ProcessLimits(data_bytes=2048 * _MIB, file_bytes=0, descriptors=64),
    keep=(CONNECTION,),
    streams=False,
    session=False,
)
"""Maps one component's code and forks its run workers: no files, no sockets except those that the host passes."""

COMPILE_WORKER = Confinement(
    kind=Kind.COMPILE_WORKER,
    calls=tuple(WORKER_GROUPS[name] for name in ("compute", "connection", "code", "threads", "no-files")),
    kills=True,
    limits=ProcessLimits(data_bytes=2048 * _MIB, cpu_seconds=300, file_bytes=0, descriptors=CONNECTION + 1),
    keep=(CONNECTION,),
    streams=False,
)
"""Compiles one component, with threads: like a run worker, but it may generate code."""

_PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64")
_SYSTEM = (
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/os-release"),
    *("/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/localtime", "/etc/timezone", "/etc/locale.alias"),
    *("/etc/hosts", "/etc/host.conf", "/etc/resolv.conf", "/etc/gai.conf", "/etc/services", "/etc/protocols"),
    *("/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ca-certificates", "/etc/pki/tls/certs", "/etc/pki/ca-trust"),
    *("/etc/mime.types", "/etc/magic", "/etc/terminfo", "/etc/inputrc", "/etc/bash.bashrc"),
    *("/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/sys/devices/system/cpu"),
    *("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/loadavg", "/proc/version"),
    *("/proc/filesystems", "/proc/sys/vm/overcommit_memory", "/proc/sys/kernel/random/uuid"),
)
_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM")


def _declare_program(
    kind: Kind, limits: ProcessLimits, *, parent_death: bool, calls: tuple[Group, ...] = PROGRAM
) -> Confinement:
    """Declare a kind of third-party program: it may read and execute the system's files, but none of the user's."""
    return Confinement(
        kind=kind,
        calls=calls,
        kills=False,
        read=_SYSTEM,
        write=("/dev/null",),
        execute=_PROGRAMS,
        limits=limits,
        environment=_ENVIRONMENT,
        parent_death=parent_death,
        namespaces=("user", "ipc", "uts", "net"),
    )


SHELL = _declare_program(
    Kind.SHELL,
    ProcessLimits(data_bytes=4 * _GIB, cpu_seconds=600, new_processes=256, file_bytes=_GIB, descriptors=1024),
    parent_death=True,
    calls=COMMAND,
)
"""A command written by an agent. The thread that starts it waits for its end. All its processes stay in one group."""

NATIVE_PLUGIN = _declare_program(
    Kind.NATIVE_PLUGIN,
    ProcessLimits(data_bytes=2 * _GIB, new_processes=64, file_bytes=_GIB, descriptors=1024),
    parent_death=True,
    calls=GROUPED_PROGRAM,
)
"""A native plugin, for one call. The thread that starts it waits for its end. All its processes stay in one group."""

MCP_SERVER = _declare_program(
    Kind.MCP_SERVER,
    ProcessLimits(data_bytes=4 * _GIB, new_processes=256, file_bytes=_GIB, descriptors=1024),
    parent_death=False,
    calls=GROUPED_PROGRAM,
)
"""An MCP server over stdio. It may outlive the thread that starts it, and exits when its standard input is closed. All
its processes stay in one group.
"""

BUILD_TOOL = _declare_program(
    Kind.BUILD_TOOL,
    ProcessLimits(data_bytes=8 * _GIB, cpu_seconds=3600, new_processes=1024, file_bytes=4 * _GIB, descriptors=4096),
    parent_death=True,
)
"""A compiler or build script of an untrusted project. The thread that starts it waits for its end."""

CONFINEMENTS: dict[Kind, Confinement] = {
    one.kind: one for one in (RUN_WORKER, TEMPLATE, COMPILE_WORKER, SHELL, NATIVE_PLUGIN, MCP_SERVER, BUILD_TOOL)
}
"""The confinement of each kind."""
