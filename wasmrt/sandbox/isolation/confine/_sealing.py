"""Confine a process: everything is prepared in memory first, then applied step by step."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from wasmrt.core.errors import ConfineError
from wasmrt.sandbox.isolation.confine import _landlock, _macos, _process, _seccomp
from wasmrt.sandbox.isolation.confine._syscalls import SUPPORTED

CORE = frozenset(("sandbox",) if _macos.ON_MACOS else ("seccomp", "no-new-privileges"))
"""Layers required by default. On systems with none of them, confinement fails unless the caller requires fewer."""


class Plan(NamedTuple):
    """A fully resolved confinement: the plain values that a process applies to itself.

    Attributes:
        filter: The seccomp program.
        read, write, execute: Paths that may be accessed recursively.
        optional: The paths among these that may be missing.
        connect: TCP ports that may be connected to; None for all.
        limits: Names and values of rlimits.
        data_bytes: Memory budget, on top of the memory in use if `data_relative`, or in total.
        new_processes: Number of tasks that may be started; None for no limit.
        keep: Descriptors that stay open, in addition to 0, 1 and 2.
        outlet: The socket over which the outlet's listening socket is sent, or None.
        streams: Whether 0, 1 and 2 are kept; otherwise they become /dev/null.
        environment: Names of the variables that are kept; None for all.
        parent: The expected parent process ID, or None to skip the check.
        report: The descriptor for reports of disallowed calls in mode "log".
        required: Layers without which confinement fails.
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
        self._filter = _seccomp.Filter(plan.filter) if SUPPORTED and _seccomp.is_available() else None
        self._landlock = SUPPORTED and _landlock.read_abi() > 0
        self._profile = _macos.write_profile(plan.read, plan.write, plan.execute, plan.connect)
        self._reporter = _seccomp.Reporter(plan.report) if SUPPORTED and plan.report is not None else None
        self._require(self._expected())
        self._ruleset = self._rules() if self._landlock else None
        self._null = None if plan.streams else _process.move_high(os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC))

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Descriptors that must stay open until the confinement is entered."""
        ruleset = () if self._ruleset is None else (self._ruleset.descriptor,)
        return ruleset if self._null is None else (*ruleset, self._null)

    def apply(
        self,
        before_filter: Callable[[], None] | None = None,
        *,
        data_in_use: int | None = None,
        keep: tuple[int, ...] = (),
    ) -> tuple[str, ...]:
        """Confine this process permanently; return the names of the active layers.

        Args:
            before_filter: Called before the last limits and the filter are applied, to start threads.
                A process that already has threads is rejected.
            data_in_use: Bytes of private memory in use, for a process that is already confined and cannot read
                this itself. Such a process must have a single thread.
            keep: Descriptors that stay open, in addition to the declared ones.

        Raises:
            ConfineError: a layer could not be applied. The process is partly confined and must end.
        """
        try:
            if SUPPORTED:
                active = self._apply(before_filter, data_in_use, keep)
            else:
                active = self._apply_elsewhere(before_filter)
        except OSError as error:
            raise ConfineError(f"cannot confine this process: {error}") from error
        self._require(active)
        return active

    def _apply(
        self, before_filter: Callable[[], None] | None, in_use: int | None, keep: tuple[int, ...]
    ) -> tuple[str, ...]:
        # The order matters: each step needs permissions that a later step removes.
        plan = self._plan
        status = _process.open_own_status() if in_use is None else None
        before = None if status is None else _process.own_status(status)
        if before is not None and before.threads > 1:
            # SECURITY: capabilities and Landlock apply per thread: other threads would keep their permissions.
            raise ConfineError("a process with threads cannot be confined", hint="start threads in before_filter")
        if plan.session and os.getpid() != os.getpgrp():
            os.setsid()
        active = [f"namespace-{name}" for name in _process.enter_namespaces(plan.namespaces)]
        self._send_outlet(active)
        self._close_descriptors(keep if status is None else (*keep, status))
        _keep_environment(plan.environment)
        started = _process.processes_of_this_user() if plan.new_processes else 0
        _process.drop_capabilities(0 if before is None else before.bounding)  # an already confined process has none
        for name, value in plan.limits:
            _process.set_limit(name, value)
        if plan.parent_death:
            _process.die_with(plan.parent)
        _process.forbid_privileges()
        active += ["descriptors", "capabilities", "limits", "no-new-privileges"]
        if self._ruleset is not None:
            self._ruleset.enter()
            active.append("landlock")
        if before_filter is not None:
            before_filter()
        if plan.data_bytes is not None:
            now = in_use or 0 if status is None else _process.own_status(status).data_bytes
            _process.set_limit("DATA", plan.data_bytes + (now if plan.data_relative else 0))
        if status is not None:
            os.close(status)
        if plan.new_processes is not None:
            _process.set_limit("NPROC", started + plan.new_processes)
        if self._reporter is not None:
            self._reporter.install()
        if self._filter is None:
            return tuple(active)
        result = (*active, "seccomp")
        self._filter.install()
        return result

    def _send_outlet(self, active: list[str]) -> None:
        if self._plan.outlet is not None:
            from wasmrt.sandbox.isolation.confine import _outlet  # imports socket, which few stubs need

            _outlet.send(self._plan.outlet, active)

    def _apply_elsewhere(self, before_filter: Callable[[], None] | None) -> tuple[str, ...]:
        """Confine a process on a platform other than Linux: on macOS, enter its sandbox."""
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

    def _require(self, active: tuple[str, ...]) -> None:
        missing = sorted(set(self._plan.required) - set(active))
        if missing:
            raise ConfineError(
                f"this machine lacks required confinement layers: {', '.join(missing)}",
                hint="wasmrt doctor lists the layers and their requirements",
            )


def _keep_environment(names: tuple[str, ...] | None) -> None:
    if names is not None:
        for name in set(os.environ) - set(names):
            del os.environ[name]
