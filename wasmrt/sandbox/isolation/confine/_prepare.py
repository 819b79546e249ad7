"""From a declaration to a process: everything that a start grants is put together and made ready."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Literal, TypedDict, Unpack

from wasmrt.core.errors import ConfineError
from wasmrt.sandbox.isolation.confine._calls import KILLED, LISTED, NETWORK, NOT_THERE, OUTLET, REFUSED, compile_filter
from wasmrt.sandbox.isolation.confine._confinement import OUTLET_PORT, Confinement
from wasmrt.sandbox.isolation.confine._landlock import NETWORK_ABI, abi
from wasmrt.sandbox.isolation.confine._macos import ON_MACOS
from wasmrt.sandbox.isolation.confine._sealing import CORE, Plan, Prepared
from wasmrt.sandbox.isolation.confine._syscalls import SUPPORTED

Mode = Literal["enforce", "errno", "log"]
"""The answer to a call that is not allowed: what the confinement says, EPERM, or EPERM and a report of its number."""

_FILES = frozenset(() if ON_MACOS else ("landlock",))


class Specifics(TypedDict, total=False):
    """Everything that one start grants or asks beside the confinement of its kind."""

    read: Iterable[str]
    """Paths that may be read too, with all below them."""
    write: Iterable[str]
    """Paths that may be read and written."""
    execute: Iterable[str]
    """Paths that may be read and executed."""
    network: bool
    """True for the network, False for none, instead of what the confinement says."""
    connect: Collection[int]
    """TCP ports that may be connected to, with the network; every port by default. Landlock's ABI 4 is needed."""
    outlet: int | None
    """A connected Unix socket. The process gets a network of its own, in which nothing is but a port of loopback,
    `OUTLET_PORT`, and the socket that listens there is sent over this one. Where the machine has no such networks,
    nothing is sealed. None for no outlet."""
    data_bytes: int
    """Private memory, instead of the confinement's bound."""
    cpu_seconds: int
    """Processor time, instead of the confinement's bound."""
    keep: Iterable[int]
    """Further descriptors that stay open."""
    parent: int
    """The process id that the parent must have: sealing fails if it has ended already."""
    required: Collection[str]
    """Layers without which nothing is sealed, by their names in `layers`.

    By default `CORE`, and for programs Landlock too: a worker cannot open files anyway, a program can.
    """
    mode: Mode
    """The answer to a call that is not allowed; "enforce" by default, everything else is for development."""
    report: int
    """The descriptor that mode "log" writes the numbers of refused calls to, four bytes each."""


def plan(confinement: Confinement, **specifics: Unpack[Specifics]) -> Plan:
    """Decide everything that sealing one process will do.

    Raises:
        ConfineError: arguments do not fit the confinement or each other.
    """
    mode, report = specifics.get("mode", "enforce"), specifics.get("report")
    if (mode == "log") != (report is not None):
        raise ConfineError('mode "log" and a descriptor to report to belong together')
    network, connect = specifics.get("network", confinement.network), specifics.get("connect")
    if network and not confinement.executes:
        raise ConfineError(f"a {confinement.kind} never has the network")
    if connect is not None and not connect:
        raise ConfineError("an empty list of ports is no network: leave network out")
    if connect is not None and not network:
        raise ConfineError("ports can be granted only together with the network")
    outlet = specifics.get("outlet")
    if outlet is not None and (network or "net" not in confinement.namespaces):
        raise ConfineError(f"a {confinement.kind} has an outlet or the network, and not both")
    if outlet is not None and not SUPPORTED:
        raise ConfineError("an outlet needs networks of their own, which this platform has not")
    if outlet is not None and abi() >= NETWORK_ABI:
        connect = (OUTLET_PORT,)  # a second layer: the network of its own has no other port that answers
    if mode == "log" and confinement.executes:
        raise ConfineError('mode "log" ends where a program is executed: it is for workers')
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
        connect=_ports(connect, is_open=network or outlet is not None),
        limits=_limits(confinement, specifics.get("cpu_seconds")),
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
    """Make a confinement ready, so that this process or one forked from it can enter it in under a millisecond.

    Raises:
        ConfineError: a required layer is missing, a path does not exist, or arguments do not fit the confinement.
    """
    return Prepared(plan(confinement, **specifics))


def confine(confinement: Confinement, before_filter: Callable[[], None] | None = None) -> tuple[str, ...]:
    """Seal the calling process at once, with nothing granted beyond the confinement; see `Prepared.apply`."""
    return prepare(confinement).apply(before_filter)


def _ports(connect: Collection[int] | None, *, is_open: bool) -> tuple[int, ...] | None:
    return tuple(connect or ()) if connect is not None or not is_open else None


def _filter(
    confinement: Confinement, network: bool, mode: Mode, report: int | None, *, has_outlet: bool = False
) -> bytes:
    default = {"errno": REFUSED, "log": LISTED}.get(mode, KILLED if confinement.kills else REFUSED)
    # A program made for newer kernels tries a call and falls back on an older one if it is not there.
    unknown = default if confinement.kills or mode != "enforce" else NOT_THERE
    further = (NETWORK,) if network else (OUTLET,) if has_outlet else ()
    calls = (*confinement.calls, *further)
    return compile_filter(calls, default=default, unknown=unknown, report=report)


def _limits(confinement: Confinement, cpu_seconds: int | None) -> tuple[tuple[str, int], ...]:
    limits = confinement.limits
    values = {
        "CORE": 0,
        "MEMLOCK": 0,
        "CPU": limits.cpu_seconds if cpu_seconds is None else cpu_seconds,
        "FSIZE": limits.file_bytes,
        "NOFILE": limits.descriptors,
    }
    return tuple((name, value) for name, value in values.items() if value is not None)
