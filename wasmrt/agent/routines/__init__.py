"""Routines: prompts that run on a schedule, on an event, on a webhook or on demand."""

from __future__ import annotations

from wasmrt.agent.routines._schedule import Schedule

__all__ = ["Schedule"]
