"""Code mode: programs of a model's that call tools, the runs of them that wait for a person, and stubs in pages."""

from __future__ import annotations

from wasmrt.agent.builtin.code_mode._runs import Answered, CodeRuns, Run, asked_digest
from wasmrt.agent.builtin.code_mode._search import search_tool
from wasmrt.agent.builtin.code_mode._stubs import stub
from wasmrt.agent.builtin.code_mode._tool import CodeTool
from wasmrt.agent.builtin.code_mode._waiting import WaitingRun, drop_run, waiting_runs

__all__ = [
    "Answered",
    "CodeRuns",
    "CodeTool",
    "Run",
    "WaitingRun",
    "asked_digest",
    "drop_run",
    "search_tool",
    "stub",
    "waiting_runs",
]
