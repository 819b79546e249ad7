"""The confinement of each kind of process: one declaration each."""

from __future__ import annotations

from wasmrt.sandbox.isolation.confine._calls import CONNECTION, GROUPED_PROGRAM, PROGRAM, WORKER_GROUPS, Group
from wasmrt.sandbox.isolation.confine._confinement import Confinement, Kind, ProcessLimits

_MIB = 1024 * 1024
_GIB = 1024 * _MIB

RUN_WORKER = Confinement(
    kind=Kind.RUN_WORKER,
    calls=tuple(WORKER_GROUPS[name] for name in ("compute", "connection", "memory")),
    kills=True,
    limits=ProcessLimits(data_bytes=256 * _MIB, new_processes=0, file_bytes=0, descriptors=CONNECTION + 1),
    keep=(CONNECTION,),
    streams=False,
)
"""Runs one component, whose code is mapped before it is sealed: no file, no socket but its connection, no new code."""

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
"""Maps one component's code and forks its run workers: no file, no socket but those that its host passes it."""

COMPILE_WORKER = Confinement(
    kind=Kind.COMPILE_WORKER,
    calls=tuple(WORKER_GROUPS[name] for name in ("compute", "connection", "code", "threads", "no-files")),
    kills=True,
    limits=ProcessLimits(data_bytes=2048 * _MIB, cpu_seconds=300, file_bytes=0, descriptors=CONNECTION + 1),
    keep=(CONNECTION,),
    streams=False,
)
"""Compiles one component, with threads: like a run worker, but it may make code."""

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


def _program(
    kind: Kind, limits: ProcessLimits, *, parent_death: bool, calls: tuple[Group, ...] = PROGRAM
) -> Confinement:
    """Declare a kind of program that others wrote: the system to read and execute, and nothing of the user's."""
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


SHELL = _program(
    Kind.SHELL,
    ProcessLimits(data_bytes=4 * _GIB, cpu_seconds=600, new_processes=256, file_bytes=_GIB, descriptors=1024),
    parent_death=True,
    calls=GROUPED_PROGRAM,
)
"""A command that an agent wrote. The thread that starts it waits for it; its processes stay in one group."""

NATIVE_PLUGIN = _program(
    Kind.NATIVE_PLUGIN,
    ProcessLimits(data_bytes=2 * _GIB, new_processes=64, file_bytes=_GIB, descriptors=1024),
    parent_death=True,
    calls=GROUPED_PROGRAM,
)
"""A plugin in native code, for one call. The thread that starts it waits for it; its processes stay in one group."""

MCP_SERVER = _program(
    Kind.MCP_SERVER,
    ProcessLimits(data_bytes=4 * _GIB, new_processes=256, file_bytes=_GIB, descriptors=1024),
    parent_death=False,
    calls=GROUPED_PROGRAM,
)
"""An MCP server on standard streams. It outlives the thread that starts it, and ends when its standard input does; its
processes stay in one group."""

BUILD_TOOL = _program(
    Kind.BUILD_TOOL,
    ProcessLimits(data_bytes=8 * _GIB, cpu_seconds=3600, new_processes=1024, file_bytes=4 * _GIB, descriptors=4096),
    parent_death=True,
)
"""A compiler or a build script of a stranger's project. The thread that starts it waits for it."""

CONFINEMENTS: dict[Kind, Confinement] = {
    one.kind: one for one in (RUN_WORKER, TEMPLATE, COMPILE_WORKER, SHELL, NATIVE_PLUGIN, MCP_SERVER, BUILD_TOOL)
}
"""The confinement of each kind."""
