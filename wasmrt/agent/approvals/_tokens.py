"""Confirmation tokens: a person's yes that a program can carry, bound to what was confirmed, counted, and over soon."""

from __future__ import annotations

import base64
import json
import os
import sqlite3
from collections.abc import Callable, Collection
from dataclasses import dataclass
from hmac import compare_digest
from pathlib import Path
from typing import Any

from blake3 import blake3

from wasmrt.agent.approvals import _clock
from wasmrt.agent.approvals._failure import unusable
from wasmrt.core.database import Database
from wasmrt.core.effects import Effect
from wasmrt.core.errors import ApprovalError, ConfigurationError, NotAuthorizedError
from wasmrt.core.files import private_key
from wasmrt.core.limits import MAX_LIVE_TOKENS, MAX_TOKEN_BYTES, MAX_TOKEN_TOOLS, MAX_TOKEN_TTL_SECONDS, MAX_TOKEN_USES

_VERSION = 1
_SCHEMA = """
CREATE TABLE used (id TEXT PRIMARY KEY, uses INTEGER NOT NULL, expires_ms INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX used_expires ON used (expires_ms);
CREATE TABLE store (id TEXT NOT NULL);
INSERT INTO store VALUES (lower(hex(randomblob(16))));
"""
_PREFIX = "confirm1"
_CONTEXT = b"wasmrt confirmation token 1\0"
_HINT = "ask the person to confirm this call again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Redeemed:
    """A token that was accepted, with this use counted."""

    id: str
    trace: str
    tools: tuple[str, ...]
    scopes: frozenset[Effect]
    expires_ms: int
    uses_left: int


class ConfirmationTokens:
    """Issues and redeems tokens, in any number of threads and processes that share the store and the key.

    A token is signed with a key of this installation (keyed BLAKE3) and bound to a trace, tools, effects and, unless it
    says otherwise, parameters. Its uses are counted in one transaction each; its time is that of a clock that does not
    go back. A store that was lost takes the tokens it had issued with it.

    Args:
        store_path: The SQLite file of what was used; made on first use.
        key_path: The file of the key, private; made on first use.
        wall: Unix seconds, for tests.
        boot: The name of this start of the machine and the seconds since, for tests.

    Example:
        >>> from pathlib import Path
        >>> from wasmrt import ConfirmationTokens, ToolRegistry
        >>> tokens = ConfirmationTokens(Path("used.db"), Path("tokens.key"))
        >>> registry = ToolRegistry(tokens=tokens)
    """

    def __init__(
        self,
        store_path: Path,
        key_path: Path,
        *,
        wall: Callable[[], float] | None = None,
        boot: Callable[[], tuple[str, float]] | None = None,
    ) -> None:
        self._database = Database(store_path, _SCHEMA + _clock.SCHEMA, _VERSION, unusable=unusable)
        self._key_path = key_path
        self._clock = _clock.Clock(wall, boot)

    def issue(
        self,
        *,
        trace: str,
        tools: Collection[str],
        scopes: Collection[Effect],
        params_digest: str | None = None,
        ttl_seconds: float,
        reusable: bool = False,
        max_uses: int = 1,
    ) -> str:
        """Return a new token, for a person who has just confirmed.

        Args:
            trace: The run that it is for.
            tools: The tools that it may be used for.
            scopes: The effects that a call may have.
            params_digest: Digest of the only parameters that it is for (`params_digest`); None for any.
            ttl_seconds: Seconds until it ends, at most a day.
            reusable: True for a token of more than one use.
            max_uses: Calls that a reusable one is for.

        Raises:
            ConfigurationError: an argument is none that a token can be bound to.
            ApprovalError: the store or the key cannot be used.
        """
        named = [] if isinstance(tools, str) else sorted(set(tools))  # a text is a collection of its letters
        allowed = sorted({Effect(scope) for scope in scopes})
        _check(trace, named, ttl_seconds, max_uses, reusable=reusable)
        key = self._key()
        with self._database.writing() as db:
            now_ms = self._clock.now_ms(db)
            claims = {
                "id": os.urandom(16).hex(),
                "store": _store_id(db),
                "trace": trace,
                "tools": named,
                "scopes": allowed,
                "params": params_digest,
                "expires_ms": now_ms + int(ttl_seconds * 1000),
                "uses": max_uses,
            }
        body = f"{_PREFIX}.{_encoded(json.dumps(claims, separators=(',', ':')).encode())}"
        token = f"{body}.{_signature(body, key)}"
        if len(token) > MAX_TOKEN_BYTES:
            raise ConfigurationError("the trace and the tools' names are too long for a token")
        return token

    def redeem(
        self, token: str, *, trace: str, tool: str, effects: Collection[Effect], params_digest: str | None
    ) -> Redeemed:
        """Use a token once, for one call.

        Raises:
            NotAuthorizedError: it is none of ours (`token-signature`), for another trace, tool or parameters
                (`token-trace`, `token-tool`, `token-params`), the call has effects that it does not allow
                (`token-scope`), it has expired (`token-expired`) or was used (`token-used`), or that cannot be told
                (`token-store`). Nothing was used then.
        """
        try:
            claims = _claims(token, self._key())
            _check_binding(claims, trace, tool, effects, params_digest)
            with self._database.writing() as db:
                # A refusal is returned, and not raised: the clock's step is kept whatever becomes of the token.
                used = _use(db, claims, self._clock.now_ms(db))
        except ApprovalError as error:
            raise _refused("store", "it cannot be checked here") from error
        if isinstance(used, NotAuthorizedError):
            raise used
        return used

    def _key(self) -> bytes:
        with self._database.translated():
            return private_key(self._key_path)


def _check(trace: str, tools: list[str], ttl_seconds: float, max_uses: int, *, reusable: bool) -> None:
    if not trace or not all(tools) or not 1 <= len(tools) <= MAX_TOKEN_TOOLS:
        raise ConfigurationError(f"a token is for one trace and 1 to {MAX_TOKEN_TOOLS} tools")
    if not 0 < ttl_seconds <= MAX_TOKEN_TTL_SECONDS:
        raise ConfigurationError(f"a token lasts up to {MAX_TOKEN_TTL_SECONDS:.0f} seconds, not {ttl_seconds!r}")
    most = MAX_TOKEN_USES if reusable else 1
    if not isinstance(max_uses, int) or not 1 <= max_uses <= most:
        raise ConfigurationError(
            f"this token has 1 to {most} uses, not {max_uses!r}", hint=None if reusable else "say that it is reusable"
        )


def _check_binding(
    claims: dict[str, Any], trace: str, tool: str, effects: Collection[Effect], params_digest: str | None
) -> None:
    """SECURITY: everything that the token is bound to has to be what the person confirmed."""
    if claims["trace"] != trace:
        raise _refused("trace", "it is for another trace")
    if tool not in claims["tools"]:
        raise _refused("tool", "it is for another tool")
    if not {str(effect) for effect in effects} <= set(claims["scopes"]):
        raise _refused("scope", "the call does more than it allows")
    if claims["params"] is not None and claims["params"] != params_digest:
        raise _refused("params", "it is for other parameters")


def _use(db: sqlite3.Connection, claims: dict[str, Any], now_ms: int) -> Redeemed | NotAuthorizedError:
    if claims["store"] != _store_id(db):  # its uses were counted in a store that is gone
        return _refused("signature", "it was not issued here")
    if claims["expires_ms"] <= now_ms:
        return _refused("expired", "it has expired")
    db.execute("DELETE FROM used WHERE expires_ms <= ?", (now_ms,))
    found = db.execute("SELECT uses FROM used WHERE id = ?", (claims["id"],)).fetchone()
    uses = 0 if found is None else found[0]
    if uses >= claims["uses"]:
        return _refused("used", "it was used already")
    if found is None and db.execute("SELECT count(*) FROM used").fetchone()[0] >= MAX_LIVE_TOKENS:
        return _refused("store", "too many tokens are in use")
    db.execute("INSERT OR REPLACE INTO used VALUES (?, ?, ?)", (claims["id"], uses + 1, claims["expires_ms"]))
    return Redeemed(
        id=claims["id"],
        trace=claims["trace"],
        tools=tuple(claims["tools"]),
        scopes=frozenset(map(Effect, claims["scopes"])),
        expires_ms=claims["expires_ms"],
        uses_left=claims["uses"] - uses - 1,
    )


def _claims(token: str, key: bytes) -> dict[str, Any]:
    """Return a token's claims. SECURITY: nothing of it is read before its signature over every character is right."""
    body, _, signature = token.rpartition(".") if _may_be_one(token) else ("", "", "")
    if not compare_digest(_signature(body, key).encode(), signature.encode("utf-8", "replace")):
        raise _refused("signature", "it was not issued here")
    encoded = body.removeprefix(f"{_PREFIX}.")
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
    return claims


def _may_be_one(token: object) -> bool:
    return isinstance(token, str) and len(token) <= MAX_TOKEN_BYTES


def _signature(body: str, key: bytes) -> str:
    return _encoded(blake3(_CONTEXT + body.encode("utf-8", "replace"), key=key).digest())


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _store_id(db: sqlite3.Connection) -> str:
    found: str = db.execute("SELECT id FROM store").fetchone()[0]
    return found


def _refused(code: str, reason: str) -> NotAuthorizedError:
    return NotAuthorizedError(f"the confirmation token does not hold: {reason}", code=f"token-{code}", hint=_HINT)
