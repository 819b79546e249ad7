"""Approvals: requests to people, their answers, what is remembered of these, and confirmation tokens."""

from __future__ import annotations

from wasmrt.approvals._approvals import Approvals
from wasmrt.approvals._approvers import CallbackApprover, DenyApprover
from wasmrt.approvals._model import (
    ApprovalAnswer,
    ApprovalRequest,
    ApprovalScope,
    Approver,
    new_request_id,
    params_digest,
)
from wasmrt.approvals._pattern import ParamsPattern, Wide, Widening
from wasmrt.approvals._remembered import Remembered

__all__ = [
    "ApprovalAnswer",
    "ApprovalRequest",
    "ApprovalScope",
    "Approvals",
    "Approver",
    "CallbackApprover",
    "DenyApprover",
    "ParamsPattern",
    "Remembered",
    "Wide",
    "Widening",
    "new_request_id",
    "params_digest",
]
