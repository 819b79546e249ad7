"""The shell: command lines read by a grammar, decided by lists, and run confined."""

from __future__ import annotations

from wasmrt.config_values import ShellSettings
from wasmrt.shell._backend import Backend, choose_backend, lacking
from wasmrt.shell._tool import ShellTool
from wasmrt.shell._verdict import Action, Verdict

__all__ = ["Action", "Backend", "ShellSettings", "ShellTool", "Verdict", "choose_backend", "lacking"]
