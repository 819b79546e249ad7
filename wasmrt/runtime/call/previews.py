"""Previews: a component computes the result of a call for the approver, and refuses the call if its result differs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from wasmrt.core.effects import READING
from wasmrt.runtime.context import ToolContext

_DIGEST = "result: sha1:"
"""The start of the last line of a preview."""


def preview_context(context: ToolContext) -> ToolContext:
    """Derive, from the context of a call, the context in which a component previews that call.

    SECURITY: nobody has approved the call yet, so it can only read.
    """
    effects = READING if context.effects is None else READING & context.effects
    receipt = context.receipt._replace(effects=tuple(sorted(effects.intersection(context.receipt.effects))))
    return replace(context, data={"preview": True}, effects=effects, receipt=receipt, on_begin=None)


def preview_text(result: Any) -> str:
    """Return the text that an approver sees: the diff of a preview, and the digest of the result."""
    return f"{result['preview']}\n{_DIGEST}{result['sha1']}"


def with_approved_result(context: ToolContext) -> ToolContext:
    """Return the context with the digest of the result that an approver saw, if one saw it.

    SECURITY: an approval covers only the result that it showed. A file may have changed since then.
    """
    shown = context.shown
    return replace(context, data=None if shown is None else {"shown_sha1": shown.rpartition(_DIGEST)[2]})
