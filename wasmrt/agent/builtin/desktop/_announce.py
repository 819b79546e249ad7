"""Notifications for requests that wait for a user's answer."""

from __future__ import annotations

import logging
import threading
import time

from wasmrt.agent.builtin.desktop._tools import send_notification
from wasmrt.core.errors import ToolError
from wasmrt.core.limits import MAX_NOTIFICATION_BODY_CHARS

_log = logging.getLogger("wasmrt.approvals")
_STEP = "\nTo answer: wasmrt approvals --web"
_MIN_SECONDS_BETWEEN = 5.0
_lock = threading.Lock()
_next_at = 0.0


def announce_request(headline: str) -> None:
    """Show a notification for a new request in the background.

    If several requests arrive in quick succession, only the first is shown. A failure is only logged, because the
    request waits for an answer in any case.
    """
    global _next_at
    with _lock:
        now = time.monotonic()
        if now < _next_at:
            return
        _next_at = now + _MIN_SECONDS_BETWEEN
    threading.Thread(target=_show, args=(headline,), name="wasmrt-notification", daemon=True).start()


def _show(headline: str) -> None:
    body = headline[: MAX_NOTIFICATION_BODY_CHARS - len(_STEP)] + _STEP
    try:
        send_notification("A request waits for your answer", body, "normal", sender="wasmrt")
    except ToolError as error:
        _log.warning("no notification about a request: %s; %s", error.message, error.hint)
