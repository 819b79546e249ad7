"""The shell tool: parses command lines with a grammar, checks them against lists of rules, and runs them confined."""

from __future__ import annotations

from wasmrt.agent.builtin.shell._backend import Backend, HeadAndTail, choose_backend, missing_requirement, shell_command
from wasmrt.agent.builtin.shell._tool import ShellTool
from wasmrt.agent.builtin.shell._verdict import Action, Verdict
from wasmrt.runtime.config_values import ShellSettings

__all__ = [
    "Action",
    "Backend",
    "HeadAndTail",
    "ShellSettings",
    "ShellTool",
    "Verdict",
    "choose_backend",
    "missing_requirement",
    "shell_command",
]
