"""The confinement of each kind of process: one declaration each."""

from __future__ import annotations

from wasmrt.isolation.confine._calls import CONNECTION, WORKER_GROUPS
from wasmrt.isolation.confine._confinement import Confinement, Kind, ProcessLimits

_MIB = 1024 * 1024

RUN_WORKER = Confinement(
    kind=Kind.RUN_WORKER,
    calls=tuple(WORKER_GROUPS[name] for name in ("compute", "connection", "memory")),
    kills=True,
    limits=ProcessLimits(data_bytes=256 * _MIB, new_processes=0, file_bytes=0, descriptors=CONNECTION + 1),
    keep=(CONNECTION,),
    streams=False,
)
"""Runs one component, whose code is mapped before it is sealed: no file, no socket but its connection, no new code."""

COMPILE_WORKER = Confinement(
    kind=Kind.COMPILE_WORKER,
    calls=tuple(WORKER_GROUPS[name] for name in ("compute", "connection", "code", "threads", "no-files")),
    kills=True,
    limits=ProcessLimits(data_bytes=2048 * _MIB, cpu_seconds=300, file_bytes=0, descriptors=CONNECTION + 1),
    keep=(CONNECTION,),
    streams=False,
)
"""Compiles one component, with threads: like a run worker, but it may make code."""

CONFINEMENTS: dict[Kind, Confinement] = {one.kind: one for one in (RUN_WORKER, COMPILE_WORKER)}
"""The confinement of each kind."""
