"""Approvals: requests to people, their answers, what is remembered of these, and confirmation tokens."""

from __future__ import annotations

from wasmrt.approvals._approvals import Approvals
from wasmrt.approvals._approvers import CallbackApprover, DenyApprover
from wasmrt.approvals._choice import Choice, choose, reach_in_words
from wasmrt.approvals._failure import LIST_HINT, check_user, closed_request, unknown_request, unusable
from wasmrt.approvals._model import (
    ApprovalAnswer,
    ApprovalRequest,
    ApprovalScope,
    Approver,
    new_request_id,
    params_digest,
)
from wasmrt.approvals._parked import Parked, ParkedRequests
from wasmrt.approvals._pattern import ParamsPattern, Wide, Widening
from wasmrt.approvals._queue import QueueApprover
from wasmrt.approvals._remembered import Remembered
from wasmrt.approvals._rows import QueuedRequest, State, short_note
from wasmrt.approvals._show import Shown, bounded, changes_shown, origins_shown, params_shown, request_lines
from wasmrt.approvals._store import ApprovalStore
from wasmrt.approvals._terminal import TerminalApprover, default_approver, person
from wasmrt.approvals._tokens import ConfirmationTokens, Redeemed

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
