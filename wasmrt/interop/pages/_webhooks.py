"""RoutineWebhooks: start routines by signed HTTP requests."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable

from wasmrt.agent.routines import MAX_EVENT_CHARS, FireRefusedError, RoutineEngine, Trigger, TriggerType
from wasmrt.core.errors import SecretError, ToolError
from wasmrt.egress.secrets import SecretsStore
from wasmrt.interop.web import Request, Response, plain

WEBHOOKS = "/api/webhooks/"
TIMESTAMP, SIGNATURE = "x-wasmrt-timestamp", "x-wasmrt-signature"
_MAX_AGE_SECONDS = 300


def webhook_secret(routine_id: str) -> str:
    """Return the name of the secret that signs the requests of a routine's webhook."""
    return f"routine_{routine_id}"


def sign(secret: str, timestamp: str, body: bytes) -> str:
    """Return the signature of a request: HMAC-SHA256 over the timestamp, a dot and the body."""
    return "sha256=" + hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


class RoutineWebhooks:
    """Starts a routine with the trigger `webhook` for `POST /api/webhooks/ID`. A `wasmrt.interop.web.Handler`.

    SECURITY: a request is signed with a secret of the routine's user, at most five minutes old, and used once. A
    request for an unknown routine gets the same response as one with a wrong signature.
    """

    def __init__(self, engine: RoutineEngine, store: SecretsStore, *, now: Callable[[], float] = time.time) -> None:
        self._engine, self._secrets, self._now = engine, store, now

    async def __call__(self, request: Request) -> Response:
        """Return the response to a request."""
        if not request.path.startswith(WEBHOOKS):
            return plain(404)
        if request.method != "POST":
            return plain(405, headers=(("allow", "POST"),))
        return await asyncio.to_thread(self._start, request, request.path.removeprefix(WEBHOOKS))

    def _start(self, request: Request, routine_id: str) -> Response:
        signature = request.header(SIGNATURE) or ""
        routine = self._engine.store.find(routine_id)
        if routine is not None and routine.definition.trigger_type is not TriggerType.WEBHOOK:
            routine = None
        try:
            owner = "local" if routine is None else routine.user
            secret = self._secrets.get(owner, webhook_secret(routine_id if routine else "0")).reveal()
        except SecretError:
            secret, routine = secrets.token_hex(32), None  # compare anyway, so that every refusal takes the same time
        timestamp = request.header(TIMESTAMP) or ""
        valid = hmac.compare_digest(
            sign(secret, timestamp, request.body).encode(), signature.encode("utf-8", "replace")
        )
        if not valid or routine is None or not self._is_recent(timestamp):
            return plain(401, f"Expected a signed request: see the headers {TIMESTAMP} and {SIGNATURE}.")
        try:
            text = request.body.decode()
        except UnicodeDecodeError:
            return plain(400, "Expected a body in UTF-8.")
        if len(text) > MAX_EVENT_CHARS:
            return plain(413, f"Expected at most {MAX_EVENT_CHARS} characters.")
        try:
            # SECURITY: the signature is the slot, so that a recorded request starts no second run.
            run = self._engine.fire(routine, Trigger(TriggerType.WEBHOOK, f"webhook {signature}", request.client), text)
        except FireRefusedError as refused:
            return plain(409 if refused.code == "routine-disabled" else 429, refused.message)
        except ToolError:  # deleted since it was found
            return plain(404)
        if run is None:
            return plain(409, "This request was used before.")
        body = json.dumps({"run_id": run.id}).encode()
        return Response(status=202, headers=(("content-type", "application/json"),), body=body)

    def _is_recent(self, timestamp: str) -> bool:
        """Return whether a timestamp in Unix seconds is at most five minutes from now."""
        if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12):
            return False
        return abs(self._now() - int(timestamp)) <= _MAX_AGE_SECONDS
