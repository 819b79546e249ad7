"""Confinement of processes: what one may call, read, write, execute, connect to and use up, from inside itself."""

from wasmrt.errors import ConfineError
from wasmrt.isolation.confine._confinement import Confinement, Kind, ProcessLimits
from wasmrt.isolation.confine._prepare import Mode, confine, prepare
from wasmrt.isolation.confine._process import enter_namespaces
from wasmrt.isolation.confine._sealing import CORE, Prepared
from wasmrt.isolation.confine.kinds import COMPILE_WORKER, CONFINEMENTS, RUN_WORKER

__all__ = [
    "COMPILE_WORKER",
    "CONFINEMENTS",
    "CORE",
    "RUN_WORKER",
    "ConfineError",
    "Confinement",
    "Kind",
    "Mode",
    "Prepared",
    "ProcessLimits",
    "confine",
    "enter_namespaces",
    "prepare",
]
