"""The names of telemetry, from the table that they are taken from."""

from __future__ import annotations

from wasmrt.core.telemetry import NAMES


def names() -> str:
    """List every name that leaves by telemetry."""
    rows = ["| name | is | |", "|---|---|---|"]
    return "\n".join(rows + [f"| {each.name} | {each.kind} | {each.meaning} |" for each in NAMES])
