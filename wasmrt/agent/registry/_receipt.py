"""The receipts of a registry: of every call that it answers, those that it refused included."""

from __future__ import annotations

import json
import time
from typing import Any

from blake3 import blake3

from wasmrt.agent.registry._state import CallState
from wasmrt.core.errors import ToolError
from wasmrt.core.model import NOTHING_USED
from wasmrt.core.names import MAX_NAME_LENGTH
from wasmrt.core.strict_json import written_by
from wasmrt.runtime.audit import EMPTY_RECEIPT, OK, Approval, Receipt

_ENCODER = json.JSONEncoder(ensure_ascii=False, sort_keys=True, default=str)
_MAX_BY_CHARS = 256


def known_receipt(state: CallState) -> Receipt:
    """Return what is known of the receipt before the tool runs."""
    entry, answer = state.entry, state.answer
    approval = None
    if answer is not None and (answer.approved or answer.by):
        how = "denied" if not answer.approved else answer.way if answer.params is None else f"{answer.way}, edited"
        approval = Approval(how, answer.by[:_MAX_BY_CHARS], str(answer.scope))
    elif state.approved_by is not None:
        approval = Approval(*state.approved_by)
    return EMPTY_RECEIPT._replace(
        trace_id=state.trace or state.receipt_trace,
        parent_id=state.parent_id,
        chain=state.chain,
        source="" if entry is None else str(entry.source),
        effects=() if entry is None else tuple(sorted(state.effects)),
        policy=system_policy(state),
        approval=approval,
        decisions=tuple(state.decisions),
    )


def system_policy(state: CallState) -> str:
    """Return the digest of the policy with all its rules, and of the presets of the view."""
    own, presets = state.system.policy, state.lens.presets
    added = [preset.digest for preset in presets if preset is not own.active]
    return own.digest if not added else blake3("\n".join([own.digest, *added]).encode()).hexdigest()


def write_receipt(state: CallState, failure: ToolError | None) -> None:
    """Write the receipt of a call that has ended, unless the call of a component has written it."""
    system, entry = state.system, state.entry
    if system.receipts is None or (state.in_sandbox and system.runtime_writes):
        return
    output = state.output
    # A host's own tool decides too while it runs, such as the outlet of a confined program.
    ended = output if output is not None else failure
    name = state.name[:MAX_NAME_LENGTH] if entry is None else entry.name
    hashed = system.hashed
    system.receipts(
        known_receipt(state)._replace(
            started_ms=state.started_ms,
            ended_ms=time.time_ns() // 1_000_000,
            trace_id=state.trace or state.receipt_trace or state.call_id,
            call_id=state.call_id,
            tool=name,
            kind="" if entry is None else "component" if entry.is_component else str(entry.source),
            digest="" if entry is None else entry.digest,
            user=state.user,
            chain=(*state.chain, name),
            args_hash="" if hashed is None else hashed(_text(state.params or state.arguments)),
            output_hash="" if hashed is None or output is None else hashed(_text(output.result)),
            outcome=OK if failure is None else failure.code,
            usage=NOTHING_USED if output is None else output.usage,
            decisions=tuple(state.decisions if ended is None else ended.decisions),
        )
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else written_by(_ENCODER, value)
