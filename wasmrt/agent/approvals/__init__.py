"""Approvals: requests to people, their answers, what is remembered of these, and confirmation tokens."""

from __future__ import annotations

from wasmrt.agent.approvals._approvals import Approvals
from wasmrt.agent.approvals._approvers import CallbackApprover, DenyApprover
from wasmrt.agent.approvals._choice import Choice, choose, reach_in_words
from wasmrt.agent.approvals._failure import LIST_HINT, check_user, closed_request, unknown_request, unusable
from wasmrt.agent.approvals._model import (
    ApprovalAnswer,
    ApprovalRequest,
    ApprovalScope,
    Approver,
    new_request_id,
    params_digest,
)
from wasmrt.agent.approvals._parked import Parked, ParkedRequests
from wasmrt.agent.approvals._pattern import ParamsPattern, Wide, Widening
from wasmrt.agent.approvals._queue import QueueApprover
from wasmrt.agent.approvals._remembered import Remembered
from wasmrt.agent.approvals._rows import QueuedRequest, State, short_note
from wasmrt.agent.approvals._show import Shown, bounded, changes_shown, origins_shown, params_shown, request_lines
from wasmrt.agent.approvals._store import ApprovalStore
from wasmrt.agent.approvals._terminal import TerminalApprover, default_approver, person
from wasmrt.agent.approvals._tokens import ConfirmationTokens, Redeemed

__all__ = [
    "LIST_HINT",
    "ApprovalAnswer",
    "ApprovalRequest",
    "ApprovalScope",
    "ApprovalStore",
    "Approvals",
    "Approver",
    "CallbackApprover",
    "Choice",
    "ConfirmationTokens",
    "DenyApprover",
    "ParamsPattern",
    "Parked",
    "ParkedRequests",
    "QueueApprover",
    "QueuedRequest",
    "Redeemed",
    "Remembered",
    "Shown",
    "State",
    "TerminalApprover",
    "Wide",
    "Widening",
    "bounded",
    "changes_shown",
    "check_user",
    "choose",
    "closed_request",
    "default_approver",
    "new_request_id",
    "origins_shown",
    "params_digest",
    "params_shown",
    "person",
    "reach_in_words",
    "request_lines",
    "short_note",
    "unknown_request",
    "unusable",
]
