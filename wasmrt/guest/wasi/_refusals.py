"""What was refused so far: a guest that tries a million times leaves one line a target, and a bounded number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wasmrt.limits import MAX_REFUSALS

if TYPE_CHECKING:
    from wasmrt.context import CallContext
    from wasmrt.model import Decision


class _Refused(set[tuple[str, str]]):
    pass


def record(ctx: CallContext, decision: Decision) -> None:
    """Put a denial on the call's record, once a target."""
    seen = ctx.part(_Refused)
    key = (decision.capability, decision.subject)
    if key not in seen and len(seen) < MAX_REFUSALS:
        seen.add(key)
        ctx.decide(decision)
