"""The `requestState` of a pending call: signed, short-lived, and valid once for one call of one user.

The state passes through the client, so it is accepted only with a valid signature of this server. It contains no
secrets; it is signed, not encrypted.
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
    """The contents of a state, which the client must send back unchanged."""

    request: str
    """The ID of the approval request."""
    nonce: str
    """The nonce of the question; each question has its own."""
    tool: str
    params: str
    """The digest of the arguments."""
    user: str
    expires_ms: int


class Sealer:
    """Signs states with the key that hosts share, or a key of this process, so that they are invalid after a restart.

    A state is accepted once by each process. The approval store uses the answer to a request once.
    """

    def __init__(self, key: bytes | None = None, *, now: Callable[[], float] = time.time) -> None:
        self._key = key or secrets.token_bytes(32)
        self._now = now
        self._used: dict[str, int] = {}
        """The expiry times of used states, by nonce."""

    def seal(self, state: State) -> str:
        """Return a state in its signed form."""
        body = _encode(json.dumps(state).encode())
        return f"{body}.{self._signature(body)}"

    def open(self, text: object, *, tool: str, params: str, user: str) -> State:
        """Verify a signed state for this call, mark it as used, and return it.

        Raises:
            RpcError: the state was not signed here, has expired, was used, or is for another call or user.
        """
        if not isinstance(text, str) or not 0 < len(text) <= MAX_STATE_CHARS or not text.isascii():
            raise _make_refusal("was not issued by this server")
        body, _, signature = text.rpartition(".")
        if not compare_digest(signature, self._signature(body)):
            raise _make_refusal("was not issued by this server, or was modified")
        try:
            state = State(*_decode(body))
        except (ValueError, TypeError, binascii.Error):  # pragma: no cover - signed text is a state
            raise _make_refusal("was not issued by this server") from None
        now_ms = self._now() * 1000
        if state.expires_ms <= now_ms:
            raise _make_refusal("has expired")
        # SECURITY: edited arguments are a different call, which is not approved.
        if (state.tool, state.params, state.user) != (tool, params, user):
            raise _make_refusal("is for another call")
        if state.nonce in self._used:
            raise _make_refusal("was used before")
        self._used = {nonce: expires for nonce, expires in self._used.items() if expires > now_ms}
        self._used[state.nonce] = state.expires_ms
        return state

    def _signature(self, body: str) -> str:
        return blake3(_CONTEXT + body.encode(), key=self._key).hexdigest()


def new_nonce() -> str:
    """Return a random name for a question."""
    return secrets.token_hex(16)


def _make_refusal(why: str) -> RpcError:
    return RpcError(INVALID_PARAMS, f"requestState {why}; call the tool again without it")


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decode(text: str) -> Any:
    return json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
