"""Code mode: programs of a model that call tools, suspended runs that wait for an approval, and `search_tools`."""

from __future__ import annotations

from wasmrt.agent.builtin.code_mode._runs import Answered, CodeRuns, Run, call_digest
from wasmrt.agent.builtin.code_mode._search import search_tool, write_declaration
from wasmrt.agent.builtin.code_mode._tool import CodeTool
from wasmrt.agent.builtin.code_mode._waiting import WaitingRun, drop_run, waiting_runs

__all__ = [
    "Answered",
    "CodeRuns",
    "CodeTool",
    "Run",
    "WaitingRun",
    "call_digest",
    "drop_run",
    "search_tool",
    "waiting_runs",
    "write_declaration",
]
