"""The `requestState` of a call that waits for its client: sealed, short-lived, for one call of one user, used once.

The text goes through the client, so it is trusted only with a valid signature of this process. It holds
no secret; it is signed and not encrypted.
"""

from __future__ import annotations

import base64
import binascii
import json
import secrets
import time
from collections.abc import Callable
from hmac import compare_digest
from typing import Any, NamedTuple

from blake3 import blake3

from wasmrt.interop.mcp.server.protocol import INVALID_PARAMS, RpcError

MAX_STATE_CHARS = 2048
_CONTEXT = b"wasmrt mcp requestState 1\0"


class State(NamedTuple):
    """The facts that a client gives back unchanged."""

    request: str
    """The id of the request for approval."""
    nonce: str
    """The question that was put; each question has its own."""
    tool: str
    params: str
    """Digest of the arguments."""
    user: str
    expires_ms: int


class Sealer:
    """Seals states with a key that this process alone has: a state ends with it."""

    def __init__(self, *, now: Callable[[], float] = time.time) -> None:
        self._key = secrets.token_bytes(32)
        self._now = now
        self._used: dict[str, int] = {}
        """When the states that came back expire, by their nonces."""

    def seal(self, state: State) -> str:
        """Return a state as text for a client."""
        body = _encoded(json.dumps(state).encode())
        return f"{body}.{self._signature(body)}"

    def open(self, text: object, *, tool: str, params: str, user: str) -> State:
        """Return the state of a text that was sealed here, for this call, and use it up.

        Raises:
            RpcError: it was not sealed here, has expired, was used, or is for another call or user.
        """
        if not isinstance(text, str) or not 0 < len(text) <= MAX_STATE_CHARS or not text.isascii():
            raise _refused("is none of this server's")
        body, _, signature = text.rpartition(".")
        if not compare_digest(signature, self._signature(body)):
            raise _refused("is none of this server's, or was changed")
        try:
            state = State(*_decoded(body))
        except (ValueError, TypeError, binascii.Error):  # pragma: no cover - what is signed is a state
            raise _refused("is none of this server's") from None
        now_ms = self._now() * 1000
        if state.expires_ms <= now_ms:
            raise _refused("has expired")
        # SECURITY: edited arguments are a different call, which is not approved.
        if (state.tool, state.params, state.user) != (tool, params, user):
            raise _refused("is for another call")
        if state.nonce in self._used:
            raise _refused("was used before")
        self._used = {nonce: expires for nonce, expires in self._used.items() if expires > now_ms}
        self._used[state.nonce] = state.expires_ms
        return state

    def _signature(self, body: str) -> str:
        return blake3(_CONTEXT + body.encode(), key=self._key).hexdigest()


def new_nonce() -> str:
    """Return a name for one question."""
    return secrets.token_hex(16)


def _refused(why: str) -> RpcError:
    return RpcError(INVALID_PARAMS, f"requestState {why}; call the tool again without it")


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decoded(text: str) -> Any:
    return json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
