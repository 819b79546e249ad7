"""Declarations: what a kind of process may call, read, write, execute, connect to and use up."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from wasmrt.sandbox.isolation.confine._calls import Group

OUTLET_PORT = 3128
"""The port of loopback that leads out of a network of a process's own: nobody else has such a port."""
OUTLET_LAYER = "network-outlet"


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
    """Resource limits of a process (setrlimit(2)). None: as it was. No core file and no locked memory ever."""

    data_bytes: int | None = None
    """Private writable memory (RLIMIT_DATA): for a worker over what it has when sealed, for a program in all."""
    cpu_seconds: int | None = None
    """Processor time, then SIGKILL."""
    new_processes: int | None = None
    """Tasks that may be started. The kernel counts all of the user's, and exempts root; 0 is exact but for root."""
    file_bytes: int | None = None
    """The size of a file that is written."""
    descriptors: int | None = None
    """Open descriptors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """The rights of processes of one kind. What is not named, they may not do.

    Attributes:
        kind: The kind that it is for.
        calls: System calls, as groups; see `_calls.py` and `_program_calls.py`.
        kills: Whether any other call ends the process. It fails with EPERM otherwise.
        read: Paths that may be read where they exist, with all below them; others are granted at each start.
        write: Paths that may be written, likewise.
        execute: Paths that may be executed, likewise.
        network: Whether it may open TCP and UDP sockets of IPv4 and IPv6.
        limits: What it may use up.
        keep: Descriptors that stay open, beside the standard streams.
        streams: Whether the standard streams stay; they are /dev/null otherwise.
        environment: Names of variables that stay.
        parent_death: Whether it is killed when the thread that started it ends (PR_SET_PDEATHSIG).
        session: Whether it leads a session and process group of its own, so that all of it can be killed.
        namespaces: Those it enters where the machine allows: user, ipc, uts, and net unless it has the network.
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
        """True where it runs programs, and not only what is loaded already."""
        return bool(self.execute)
