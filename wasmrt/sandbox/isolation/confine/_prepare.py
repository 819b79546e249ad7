"""Prepare a confinement: combine a kind's permissions with those of a single start."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Literal, TypedDict, Unpack

from wasmrt.core.errors import ConfineError
from wasmrt.sandbox.isolation.confine._calls import KILLED, LISTED, NETWORK, NOT_THERE, OUTLET, REFUSED, compile_filter
from wasmrt.sandbox.isolation.confine._landlock import NETWORK_ABI, read_abi
from wasmrt.sandbox.isolation.confine._macos import ON_MACOS
from wasmrt.sandbox.isolation.confine._outlet import OUTLET_PORT
from wasmrt.sandbox.isolation.confine._sealing import CORE, Plan, Prepared
from wasmrt.sandbox.isolation.confine._syscalls import SUPPORTED
from wasmrt.sandbox.isolation.confine.kinds import Confinement

Mode = Literal["enforce", "errno", "log"]
"""The response to a disallowed call: the confinement's action; EPERM; or EPERM, with a report of the call's number."""

_FILES = frozenset(() if ON_MACOS else ("landlock",))


class Specifics(TypedDict, total=False):
    """Permissions and options of a single start, in addition to its kind's confinement."""

    read: Iterable[str]
    """Additional paths that may be read recursively."""
    write: Iterable[str]
    """Additional paths that may be read and written recursively."""
    execute: Iterable[str]
    """Additional paths that may be read and executed recursively."""
    network: bool
    """True to allow network access; by default, as the confinement specifies."""
    connect: Collection[int]
    """TCP ports that may be connected to, if the network is allowed; all ports by default. Needs Landlock ABI 4."""
    outlet: int | None
    """A connected Unix socket, or None for no outlet. The process gets a separate network namespace with only one
    loopback port, `OUTLET_PORT`, and the port's listening socket is sent over this socket. If the machine does not
    allow network namespaces, confinement fails."""
    data_bytes: int
    """Private memory, instead of the confinement's limit."""
    cpu_seconds: int
    """CPU time, instead of the confinement's limit."""
    keep: Iterable[int]
    """Additional descriptors that stay open."""
    parent: int
    """The expected parent process ID; confinement fails if that process has already ended."""
    required: Collection[str]
    """Names of required layers, as in `layers`; confinement fails if one is missing.

    Defaults to `CORE`, plus Landlock for programs: unlike workers, they may open files.
    """
    mode: Mode
    """The response to a disallowed call; "enforce" by default. The other modes are for development."""
    report: int
    """The descriptor to which mode "log" writes the numbers of disallowed calls, four bytes each."""


def plan(confinement: Confinement, **specifics: Unpack[Specifics]) -> Plan:
    """Resolve everything that confining one process will do.

    Raises:
        ConfineError: the arguments are invalid for this confinement or contradict each other.
    """
    mode, report = specifics.get("mode", "enforce"), specifics.get("report")
    if (mode == "log") != (report is not None):
        raise ConfineError('mode "log" needs a report descriptor, and other modes accept none')
    network, connect = specifics.get("network", confinement.network), specifics.get("connect")
    if network and not confinement.executes:
        raise ConfineError(f"a {confinement.kind} cannot have network access")
    if connect is not None and not connect:
        raise ConfineError("connect is empty: omit network to deny network access")
    if connect is not None and not network:
        raise ConfineError("connect needs network=True")
    outlet = specifics.get("outlet")
    if outlet is not None and (network or "net" not in confinement.namespaces):
        raise ConfineError(f"a {confinement.kind} can have either an outlet or network access, not both")
    if outlet is not None and not SUPPORTED:
        raise ConfineError("an outlet needs network namespaces, which this platform does not support")
    if outlet is not None and read_abi() >= NETWORK_ABI:
        connect = (OUTLET_PORT,)  # a second layer: the namespace has no other listening port
    if mode == "log" and confinement.executes:
        raise ConfineError('mode "log" is only for workers: executing a program removes its signal handler')
    read, write, execute = (
        tuple(map(str, paths))
        for paths in (specifics.get("read", ()), specifics.get("write", ()), specifics.get("execute", ()))
    )
    usual = {*confinement.read, *confinement.write, *confinement.execute}
    return Plan(
        filter=_filter(confinement, network, mode, report, has_outlet=outlet is not None) if SUPPORTED else b"",
        read=confinement.read + read,
        write=confinement.write + write,
        execute=confinement.execute + execute,
        optional=tuple(usual - {*read, *write, *execute}),
        connect=_list_ports(connect, is_open=network or outlet is not None),
        limits=_list_limits(confinement, specifics.get("cpu_seconds")),
        data_bytes=specifics.get("data_bytes", confinement.limits.data_bytes),
        data_relative=not confinement.executes,
        new_processes=confinement.limits.new_processes,
        keep=(*confinement.keep, *specifics.get("keep", ())),
        outlet=outlet,
        streams=confinement.streams,
        environment=None if confinement.executes else confinement.environment,
        session=confinement.session,
        namespaces=tuple(name for name in confinement.namespaces if name != "net" or not network),
        parent_death=confinement.parent_death,
        parent=specifics.get("parent"),
        report=report,
        required=tuple(specifics.get("required", CORE | _FILES if confinement.executes else CORE)),
    )


def prepare(confinement: Confinement, **specifics: Unpack[Specifics]) -> Prepared:
    """Prepare a confinement that this process, or a process forked from it, can enter in under a millisecond.

    Raises:
        ConfineError: a required layer is missing, a path does not exist, or the arguments are invalid.
    """
    return Prepared(plan(confinement, **specifics))


def confine(confinement: Confinement, before_filter: Callable[[], None] | None = None) -> tuple[str, ...]:
    """Confine the calling process now, without additional permissions; see `Prepared.apply`."""
    return prepare(confinement).apply(before_filter)


def _list_ports(connect: Collection[int] | None, *, is_open: bool) -> tuple[int, ...] | None:
    return tuple(connect or ()) if connect is not None or not is_open else None


def _filter(
    confinement: Confinement, network: bool, mode: Mode, report: int | None, *, has_outlet: bool = False
) -> bytes:
    default = {"errno": REFUSED, "log": LISTED}.get(mode, KILLED if confinement.kills else REFUSED)
    # A program built for newer kernels tries a new call and falls back to an older one on ENOSYS.
    unknown = default if confinement.kills or mode != "enforce" else NOT_THERE
    further = (NETWORK,) if network else (OUTLET,) if has_outlet else ()
    calls = (*confinement.calls, *further)
    return compile_filter(calls, default=default, unknown=unknown, report=report)


def _list_limits(confinement: Confinement, cpu_seconds: int | None) -> tuple[tuple[str, int], ...]:
    limits = confinement.limits
    values = {
        "CORE": 0,
        "MEMLOCK": 0,
        "CPU": limits.cpu_seconds if cpu_seconds is None else cpu_seconds,
        "FSIZE": limits.file_bytes,
        "NOFILE": limits.descriptors,
    }
    return tuple((name, value) for name, value in values.items() if value is not None)
