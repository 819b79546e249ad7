"""Approvals: requests to approvers, their answers, remembered answers, and confirmation tokens."""

from __future__ import annotations

from wasmrt.agent.approvals._approvals import Approvals, CallbackApprover, QueueApprover
from wasmrt.agent.approvals._model import (
    ApprovalAnswer,
    ApprovalRequest,
    ApprovalScope,
    Approver,
    DenyApprover,
    QueuedRequest,
    State,
    new_request_id,
    params_digest,
)
from wasmrt.agent.approvals._owners import current_user_name, this_process
from wasmrt.agent.approvals._parked import DISCONNECTED, Parked, ParkedRequests
from wasmrt.agent.approvals._pattern import ParamsPattern, Wide, Widening
from wasmrt.agent.approvals._remembered import Remembered
from wasmrt.agent.approvals._requests import (
    LIST_HINT,
    Announce,
    RequestKind,
    RequestStore,
    RequestTable,
    short_note,
    unknown_request_error,
)
from wasmrt.agent.approvals._review import (
    Choice,
    Shown,
    choose,
    describe_reach,
    request_lines,
    shorten_lines,
    show_changes,
    show_client,
    show_params,
)
from wasmrt.agent.approvals._store import ApprovalStore
from wasmrt.agent.approvals._summary import Detail, Summary, headline_text, summarize
from wasmrt.agent.approvals._terminal import TerminalApprover, default_approver
from wasmrt.agent.approvals._tokens import ConfirmationTokens, Redeemed
from wasmrt.agent.approvals._warnings import Caution
from wasmrt.agent.approvals._words import Phrase, Quoted, is_cut, start_of, to_plain_text

__all__ = [
    "DISCONNECTED",
    "LIST_HINT",
    "Announce",
    "ApprovalAnswer",
    "ApprovalRequest",
    "ApprovalScope",
    "ApprovalStore",
    "Approvals",
    "Approver",
    "CallbackApprover",
    "Caution",
    "Choice",
    "ConfirmationTokens",
    "DenyApprover",
    "Detail",
    "ParamsPattern",
    "Parked",
    "ParkedRequests",
    "Phrase",
    "QueueApprover",
    "QueuedRequest",
    "Quoted",
    "Redeemed",
    "Remembered",
    "RequestKind",
    "RequestStore",
    "RequestTable",
    "Shown",
    "State",
    "Summary",
    "TerminalApprover",
    "Wide",
    "Widening",
    "choose",
    "current_user_name",
    "default_approver",
    "describe_reach",
    "headline_text",
    "is_cut",
    "new_request_id",
    "params_digest",
    "request_lines",
    "short_note",
    "shorten_lines",
    "show_changes",
    "show_client",
    "show_params",
    "start_of",
    "summarize",
    "this_process",
    "to_plain_text",
    "unknown_request_error",
]
