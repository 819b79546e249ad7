"""List the names that telemetry sends, from `wasmrt.core.telemetry.NAMES`."""

from __future__ import annotations

from wasmrt.core.telemetry import NAMES


def names() -> str:
    """Return a line for each kind of name: spans, attributes and metrics."""
    kinds = dict.fromkeys(each.kind for each in NAMES)
    lines = (f"- {kind}s: {', '.join(each.name for each in NAMES if each.kind == kind)}" for kind in kinds)
    return "\n".join(lines)
