"""Sealing a process: everything prepared in memory first, then one pass that gives up one thing after the other."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from wasmrt.core.errors import ConfineError
from wasmrt.sandbox.isolation.confine import _landlock, _macos, _process, _seccomp
from wasmrt.sandbox.isolation.confine._syscalls import SUPPORTED

CORE = frozenset(("sandbox",) if _macos.ON_MACOS else ("seccomp", "no-new-privileges"))
"""The layers without which sealing fails unless the caller asks for less; on a system that has none, it fails."""


class Plan(NamedTuple):
    """A confinement with everything decided, as plain values: what a process does to itself.

    Attributes:
        filter: The seccomp program.
        read, write, execute: Paths, with all below them.
        optional: Those of them that may be missing.
        connect: TCP ports that may be connected to; None for all.
        limits: Names of rlimits and values.
        data_bytes: Budget over the memory in use when sealed, if `data_relative`, or the whole.
        new_processes: How many tasks may be started; 0 for none, None for no bound.
        keep: Descriptors that stay open beside 0, 1 and 2.
        outlet: The socket over which the listening socket of this process's own network is sent; None without one.
        streams: Whether 0, 1 and 2 stay what they are; they become /dev/null otherwise.
        environment: Names of variables that stay; None for all.
        parent: The process that has to be the parent, where that is to be checked.
        report: The descriptor that refused calls are reported to, in mode "log".
        required: Layers without which sealing fails.
    """

    filter: bytes
    read: tuple[str, ...]
    write: tuple[str, ...]
    execute: tuple[str, ...]
    optional: tuple[str, ...]
    connect: tuple[int, ...] | None
    limits: tuple[tuple[str, int], ...]
    data_bytes: int | None
    data_relative: bool
    new_processes: int | None
    keep: tuple[int, ...]
    outlet: int | None
    streams: bool
    environment: tuple[str, ...] | None
    session: bool
    namespaces: tuple[str, ...]
    parent_death: bool
    parent: int | None
    report: int | None
    required: tuple[str, ...]


class Prepared:
    """A confinement that the calling process, or a process forked from it, can enter quickly.

    Raises:
        ConfineError: a required layer is missing on this machine, or a path cannot be granted.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._filter = _seccomp.Filter(plan.filter) if SUPPORTED and _seccomp.available() else None
        self._landlock = SUPPORTED and _landlock.abi() > 0
        self._profile = _macos.profile(plan.read, plan.write, plan.execute, plan.connect)
        self._reporter = _seccomp.Reporter(plan.report) if SUPPORTED and plan.report is not None else None
        self._require(self._expected())
        self._ruleset = self._rules() if self._landlock else None
        self._null = None if plan.streams else _process.high(os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC))

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Descriptors that it needs until it is entered."""
        ruleset = () if self._ruleset is None else (self._ruleset.descriptor,)
        return ruleset if self._null is None else (*ruleset, self._null)

    def apply(
        self,
        before_filter: Callable[[], None] | None = None,
        *,
        data_in_use: int | None = None,
        keep: tuple[int, ...] = (),
    ) -> tuple[str, ...]:
        """Seal this process for good and return the names of the layers that stand.

        Args:
            before_filter: Called when all but the last limits and the filter stands: the place to start threads.
                A process that has some already is refused.
            data_in_use: Bytes of private memory that this process has now, where it was sealed before and cannot look
                itself; it has one thread then.
            keep: Descriptors that stay open besides those of the declaration.

        Raises:
            ConfineError: a layer could not be put up. The process is half sealed and must end.
        """
        try:
            standing = (
                self._apply(before_filter, data_in_use, keep) if SUPPORTED else self._apply_elsewhere(before_filter)
            )
        except OSError as error:
            raise ConfineError(f"this process could not be confined: {error}") from error
        self._require(standing)
        return standing

    def _apply(
        self, before_filter: Callable[[], None] | None, in_use: int | None, keep: tuple[int, ...]
    ) -> tuple[str, ...]:
        # The order matters: each step still needs what a later one takes away.
        plan = self._plan
        status = _process.open_own_status() if in_use is None else None
        before = None if status is None else _process.own_status(status)
        if before is not None and before.threads > 1:
            # SECURITY: capabilities and Landlock are a thread's own: the others would keep what they have.
            raise ConfineError("a process with threads cannot be confined", hint="start them in before_filter")
        if plan.session and os.getpid() != os.getpgrp():
            os.setsid()
        standing = [f"namespace-{name}" for name in _process.enter_namespaces(plan.namespaces)]
        self._send_outlet(standing)
        self._close_descriptors(keep if status is None else (*keep, status))
        _keep_environment(plan.environment)
        started = _process.processes_of_this_user() if plan.new_processes else 0
        _process.drop_capabilities(0 if before is None else before.bounding)  # sealed before, it has none
        for name, value in plan.limits:
            _process.limit(name, value)
        if plan.parent_death:
            _process.die_with(plan.parent)
        _process.forbid_privileges()
        standing += ["descriptors", "capabilities", "limits", "no-new-privileges"]
        if self._ruleset is not None:
            self._ruleset.enter()
            standing.append("landlock")
        if before_filter is not None:
            before_filter()
        if plan.data_bytes is not None:
            now = in_use or 0 if status is None else _process.own_status(status).data_bytes
            _process.limit("DATA", plan.data_bytes + (now if plan.data_relative else 0))
        if status is not None:
            os.close(status)
        if plan.new_processes is not None:
            _process.limit("NPROC", started + plan.new_processes)
        if self._reporter is not None:
            self._reporter.install()
        if self._filter is not None:
            standing.append("seccomp")
            result = tuple(standing)
            self._filter.install()
            return result
        return tuple(standing)

    def _send_outlet(self, standing: list[str]) -> None:
        if self._plan.outlet is not None:
            from wasmrt.sandbox.isolation.confine import _outlet  # with sockets, of which few stubs have need

            _outlet.send(self._plan.outlet, standing)

    def _apply_elsewhere(self, before_filter: Callable[[], None] | None) -> tuple[str, ...]:
        """Do what a platform without our system calls can do; on macOS, enter its sandbox."""
        _keep_environment(self._plan.environment)
        if before_filter is not None:
            before_filter()
        if self._profile is None:
            return ()
        _macos.enter(self._profile)
        return ("sandbox",)

    def _rules(self) -> _landlock.Ruleset:
        plan = self._plan
        return _landlock.Ruleset(plan.read, plan.write, plan.execute, plan.connect, frozenset(plan.optional))

    def _close_descriptors(self, further: tuple[int, ...]) -> None:
        plan = self._plan
        if self._null is not None:
            for stream in (0, 1, 2):
                os.dup2(self._null, stream, inheritable=True)
        keep = {0, 1, 2, *plan.keep, *further}
        if self._ruleset is not None:
            keep.add(self._ruleset.descriptor)
        if plan.report is not None:
            keep.add(plan.report)
        _process.close_descriptors(keep)

    def _expected(self) -> tuple[str, ...]:
        if not SUPPORTED:
            return ("sandbox",) if self._profile is not None else ()
        found = ["descriptors", "capabilities", "limits", "no-new-privileges"]
        found += ["landlock"] if self._landlock else []
        return (*found, "seccomp") if self._filter is not None else tuple(found)

    def _require(self, standing: tuple[str, ...]) -> None:
        missing = sorted(set(self._plan.required) - set(standing))
        if missing:
            raise ConfineError(
                f"this machine does not offer what confinement needs: {', '.join(missing)}",
                hint="wasmrt doctor lists the layers and says what each needs",
            )


def _keep_environment(names: tuple[str, ...] | None) -> None:
    if names is not None:
        for name in set(os.environ) - set(names):
            del os.environ[name]
