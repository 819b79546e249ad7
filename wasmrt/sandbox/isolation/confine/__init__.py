"""Confine the calling process: system calls, files, executables, network and resources."""

from wasmrt.core.errors import ConfineError
from wasmrt.sandbox.isolation.confine._command import Command, confined_command
from wasmrt.sandbox.isolation.confine._libc import NUMBERS as SYSTEM_CALLS
from wasmrt.sandbox.isolation.confine._outlet import OUTLET_PORT
from wasmrt.sandbox.isolation.confine._prepare import Mode, Specifics, confine, prepare
from wasmrt.sandbox.isolation.confine._process import enter_namespaces
from wasmrt.sandbox.isolation.confine._sealing import CORE, Prepared
from wasmrt.sandbox.isolation.confine.kinds import (
    BUILD_TOOL,
    COMPILE_WORKER,
    CONFINEMENTS,
    MCP_SERVER,
    NATIVE_PLUGIN,
    RUN_WORKER,
    SHELL,
    TEMPLATE,
    Confinement,
    Kind,
    ProcessLimits,
)
from wasmrt.sandbox.isolation.confine.probe import OUTLET_LAYER, Layer, layers
from wasmrt.sandbox.isolation.confine.stub import NOT_CONFINED, NOT_EXECUTED

__all__ = [
    "BUILD_TOOL",
    "COMPILE_WORKER",
    "CONFINEMENTS",
    "CORE",
    "MCP_SERVER",
    "NATIVE_PLUGIN",
    "NOT_CONFINED",
    "NOT_EXECUTED",
    "OUTLET_LAYER",
    "OUTLET_PORT",
    "RUN_WORKER",
    "SHELL",
    "SYSTEM_CALLS",
    "TEMPLATE",
    "Command",
    "ConfineError",
    "Confinement",
    "Kind",
    "Layer",
    "Mode",
    "Prepared",
    "ProcessLimits",
    "Specifics",
    "confine",
    "confined_command",
    "enter_namespaces",
    "layers",
    "prepare",
]
