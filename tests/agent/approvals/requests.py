"""Approval requests as the pipeline creates them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from wasmrt import Decision, Reason
from wasmrt.agent.approvals import ApprovalRequest, new_request_id
from wasmrt.core.effects import Effect

WHY = Decision(False, Reason.NOT_GRANTED, "write_file writes", capability="approval", subject="write_file")


def request(params: Mapping[str, Any] | None = None, **changed: Any) -> ApprovalRequest:
    now_ms = time.time_ns() // 1_000_000
    usual: dict[str, Any] = {
        "id": new_request_id(),
        "tool": "write_file",
        "digest": "d1",
        "grant": "g1",
        "params": {"path": "notes/a.txt", "text": "hello"} if params is None else params,
        "effects": (Effect.WRITE_FILESYSTEM,),
        "risk": "medium",
        "why": WHY,
        "user": "alice",
        "trace": "t1",
        "call": "c1",
        "created_ms": now_ms,
        "expires_ms": now_ms + 60_000,
    }
    return ApprovalRequest(**(usual | changed))
