"""Confirmation tokens: signed, short-lived proof that a user confirmed a call, with a counted number of uses."""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache
from hmac import compare_digest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blake3 import blake3

from wasmrt.agent.approvals._requests import unusable_error
from wasmrt.core.database import Connection, open_store
from wasmrt.core.effects import Effect
from wasmrt.core.errors import ApprovalError, ConfigurationError, NotAuthorizedError, WasmrtError
from wasmrt.core.files import KEY_BYTES, private_key
from wasmrt.core.limits import MAX_LIVE_TOKENS, MAX_TOKEN_BYTES, MAX_TOKEN_TOOLS, MAX_TOKEN_TTL_SECONDS, MAX_TOKEN_USES

if TYPE_CHECKING:
    from wasmrt.core.postgres import Postgres


class Clock:
    """A clock in Unix milliseconds that never goes back, for all hosts that share a store.

    The latest time is stored. If the wall clock is set back, time continues from the stored value, measured with
    CLOCK_BOOTTIME, which cannot be set. If the wall clock of a host is set ahead and later corrected, this clock does
    not go back. Tokens may then expire too early, but never too late.

    Args:
        wall: Returns Unix seconds.
        boot: Returns an ID of the current boot, empty if unknown, and the seconds since the boot.
    """

    def __init__(self, wall: Callable[[], float] | None = None, boot: Callable[[], tuple[str, float]] | None = None):
        self._wall = wall or time.time
        self._boot = boot or _read_boot_clock

    def now_ms(self, db: Connection) -> int:
        """Return the time, and store it as the latest time of this boot in the caller's transaction."""
        current, seconds = self._boot()
        current_ms = int(seconds * 1000)
        known = {boot: (seen_ms, boot_ms) for seen_ms, boot, boot_ms in db.execute("SELECT * FROM clock")}
        now_ms: int = max(int(self._wall() * 1000), *(seen_ms for seen_ms, _ in known.values()), 0)
        if current and current in known:  # each host continues from its own entry: others have another boot clock
            seen_ms, boot_ms = known[current]
            now_ms = max(now_ms, seen_ms + max(0, current_ms - boot_ms))
        db.execute("DELETE FROM clock WHERE boot = ? OR seen_ms <= ?", (current, now_ms - _CLOCK_DAYS_MS))
        db.execute("INSERT INTO clock VALUES (?, ?, ?)", (now_ms, current, current_ms))
        return now_ms


def _read_boot_clock() -> tuple[str, float]:
    if not hasattr(time, "CLOCK_BOOTTIME"):  # available on Linux only
        return "", 0.0
    return _read_boot_id(), time.clock_gettime(time.CLOCK_BOOTTIME)


@cache
def _read_boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


_VERSION = 1
_SCHEMA = """
CREATE TABLE used (id TEXT PRIMARY KEY, uses INTEGER NOT NULL, expires_ms INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX used_expires ON used (expires_ms);
CREATE TABLE store (id TEXT NOT NULL);
CREATE TABLE clock (seen_ms INTEGER NOT NULL, boot TEXT NOT NULL, boot_ms INTEGER NOT NULL);
"""
_CLOCK_DAYS_MS = int(MAX_TOKEN_TTL_SECONDS * 1000)
_PREFIX = "confirm1"
_CONTEXT = b"wasmrt confirmation token 1\0"
_HINT = "ask the user to confirm this call again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Redeemed:
    """An accepted token. `uses_left` is the number of uses after this one."""

    id: str
    trace: str
    tools: tuple[str, ...]
    scopes: frozenset[Effect]
    content: str
    expires_ms: int
    uses_left: int


class ConfirmationTokens:
    """Issues and redeems tokens. Any number of threads and processes can share the store and the key.

    A token is signed with a key of this installation (keyed BLAKE3). It is bound to a trace, tools, effects and,
    optionally, parameters. Each use is counted in a transaction, with a clock that never goes back. If the store is
    lost, all tokens that were issued with it become invalid.

    Args:
        store: The SQLite file that counts uses, which is created on first use, or a database that several hosts share.
        key: The file with the private key, which is created on first use, or a function that returns the key, of 32
            bytes. Hosts that share the store need the same key.
        wall: Replaces the wall clock in tests; returns Unix seconds.
        boot: Replaces the boot clock in tests; returns the ID of the current boot and the seconds since the boot.

    Examples:
        >>> from pathlib import Path
        >>> from wasmrt import ConfirmationTokens, ToolRegistry
        >>> tokens = ConfirmationTokens(Path("used.db"), Path("tokens.key"))
        >>> registry = ToolRegistry(tokens=tokens)
    """

    def __init__(
        self,
        store: Path | Postgres,
        key: Path | Callable[[], bytes],
        *,
        wall: Callable[[], float] | None = None,
        boot: Callable[[], tuple[str, float]] | None = None,
    ) -> None:
        self._database = open_store(store, "tokens", _SCHEMA, _VERSION, unusable=unusable_error)
        self._key = key
        self._clock = Clock(wall, boot)

    def issue(
        self,
        *,
        trace: str,
        tools: Collection[str],
        scopes: Collection[Effect],
        params_digest: str | None = None,
        content: str = "",
        ttl_seconds: float,
        reusable: bool = False,
        max_uses: int = 1,
    ) -> str:
        """Return a new token. Call this only after a user has confirmed the call.

        Args:
            trace: The trace for which the token is valid.
            tools: The tools for which the token is valid.
            scopes: The effects that a call with the token may have.
            params_digest: The digest of the only valid parameters, from `params_digest`; None for any parameters.
            content: The digest of the files that the confirmed call runs, from `ShellTool.content_digest`.
            ttl_seconds: Seconds until the token expires, at most a day.
            reusable: True for a token with more than one use.
            max_uses: The number of uses of a reusable token.

        Raises:
            ConfigurationError: an argument is invalid.
            ApprovalError: the store or the key cannot be used.
        """
        named = [] if isinstance(tools, str) else sorted(set(tools))  # a string is a collection of characters
        allowed = sorted({Effect(scope) for scope in scopes})
        _check_arguments(trace, named, ttl_seconds, max_uses, reusable=reusable)
        key = self._read_key()
        with self._database.writing() as db:
            now_ms = self._clock.now_ms(db)
            claims = {
                "id": os.urandom(16).hex(),
                "store": _read_store_id(db),
                "trace": trace,
                "tools": named,
                "scopes": allowed,
                "params": params_digest,
                "content": content,
                "expires_ms": now_ms + int(ttl_seconds * 1000),
                "uses": max_uses,
            }
        body = f"{_PREFIX}.{_encode(json.dumps(claims, separators=(',', ':')).encode())}"
        token = f"{body}.{_sign(body, key)}"
        if len(token) > MAX_TOKEN_BYTES:
            raise ConfigurationError("the trace and the tool names are too long for a token")
        return token

    def redeem(
        self, token: str, *, trace: str, tool: str, effects: Collection[Effect], params_digest: str | None
    ) -> Redeemed:
        """Use a token once, for one call.

        Raises:
            NotAuthorizedError: the token was not issued here (`token-signature`), is for another trace, tool or
                parameters (`token-trace`, `token-tool`, `token-params`), does not allow an effect of the call
                (`token-scope`), has expired (`token-expired`), has no uses left (`token-used`), or cannot be checked
                (`token-store`). No use was counted.
        """
        try:
            claims = _verify_claims(token, self._read_key())
            _check_binding(claims, trace, tool, effects, params_digest)
            with self._database.writing() as db:
                # The error is returned instead of raised, so that the transaction still stores the time.
                used = _count_use(db, claims, self._clock.now_ms(db))
        except ApprovalError as error:
            raise _invalid_token_error("store", "it cannot be checked here") from error
        if isinstance(used, NotAuthorizedError):
            raise used
        return used

    def check(self) -> None:
        """Check that tokens can be issued and redeemed.

        Raises:
            ApprovalError: the store or the key cannot be used.
        """
        self._read_key()
        if self._database.exists:
            with self._database.reading():
                pass

    def _read_key(self) -> bytes:
        try:
            key = private_key(self._key) if isinstance(self._key, Path) else self._key()
        except OSError as error:
            raise unusable_error(str(error.strerror)) from error
        except WasmrtError as error:
            raise unusable_error(error.message) from error
        if len(key) != KEY_BYTES:
            raise unusable_error(f"expected a key of {KEY_BYTES} bytes, got {len(key)}")
        return key


def _check_arguments(trace: str, tools: list[str], ttl_seconds: float, max_uses: int, *, reusable: bool) -> None:
    if not trace or not all(tools) or not 1 <= len(tools) <= MAX_TOKEN_TOOLS:
        raise ConfigurationError(f"a token requires a trace and 1 to {MAX_TOKEN_TOOLS} tools")
    if not 0 < ttl_seconds <= MAX_TOKEN_TTL_SECONDS:
        raise ConfigurationError(
            f"token lifetime: expected up to {MAX_TOKEN_TTL_SECONDS:.0f} seconds, got {ttl_seconds!r}"
        )
    most = MAX_TOKEN_USES if reusable else 1
    if not isinstance(max_uses, int) or not 1 <= max_uses <= most:
        raise ConfigurationError(
            f"token uses: expected 1 to {most}, got {max_uses!r}", hint=None if reusable else "pass reusable=True"
        )


def _check_binding(
    claims: dict[str, Any], trace: str, tool: str, effects: Collection[Effect], params_digest: str | None
) -> None:
    """SECURITY: the call must match everything that the token is bound to."""
    if claims["trace"] != trace:
        raise _invalid_token_error("trace", "it is for another trace")
    if tool not in claims["tools"]:
        raise _invalid_token_error("tool", "it is for another tool")
    if not {str(effect) for effect in effects} <= set(claims["scopes"]):
        raise _invalid_token_error("scope", "the call has effects that the token does not allow")
    if claims["params"] is not None and claims["params"] != params_digest:
        raise _invalid_token_error("params", "it is for other parameters")


def _count_use(db: Connection, claims: dict[str, Any], now_ms: int) -> Redeemed | NotAuthorizedError:
    if claims["store"] != _read_store_id(db):  # issued by a store that was lost, together with the number of uses
        return _invalid_token_error("signature", "it was not issued here")
    if claims["expires_ms"] <= now_ms:
        return _invalid_token_error("expired", "it has expired")
    db.execute("DELETE FROM used WHERE expires_ms <= ?", (now_ms,))
    found = db.execute("SELECT uses FROM used WHERE id = ?", (claims["id"],)).fetchone()
    uses = 0 if found is None else found[0]
    if uses >= claims["uses"]:
        return _invalid_token_error("used", "it was already used")
    if found is None and db.execute("SELECT count(*) FROM used").fetchone()[0] >= MAX_LIVE_TOKENS:
        return _invalid_token_error("store", "too many tokens are in use")
    count = "INSERT INTO used VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET uses = excluded.uses"
    db.execute(count, (claims["id"], uses + 1, claims["expires_ms"]))
    return Redeemed(
        id=claims["id"], trace=claims["trace"], tools=tuple(claims["tools"]), expires_ms=claims["expires_ms"],
        scopes=frozenset(map(Effect, claims["scopes"])), content=claims.get("content", ""),
        uses_left=claims["uses"] - uses - 1,
    )  # fmt: skip


def _verify_claims(token: str, key: bytes) -> dict[str, Any]:
    """Return a token's claims. SECURITY: the signature is verified before any part of the token is parsed."""
    body, _, signature = token.rpartition(".") if _may_be_token(token) else ("", "", "")
    if not compare_digest(_sign(body, key).encode(), signature.encode("utf-8", "replace")):
        raise _invalid_token_error("signature", "it was not issued here")
    encoded = body.removeprefix(f"{_PREFIX}.")
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
    return claims


def _may_be_token(token: object) -> bool:
    return isinstance(token, str) and len(token) <= MAX_TOKEN_BYTES


def _sign(body: str, key: bytes) -> str:
    return _encode(blake3(_CONTEXT + body.encode("utf-8", "replace"), key=key).digest())


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _read_store_id(db: Connection) -> str:
    """Return the ID of the store, which is created on first use."""
    found = db.execute("SELECT id FROM store").fetchone()
    if found is None:
        found = (os.urandom(16).hex(),)
        db.execute("INSERT INTO store VALUES (?)", found)
    return str(found[0])


def _invalid_token_error(code: str, reason: str) -> NotAuthorizedError:
    return NotAuthorizedError(f"the confirmation token is not valid: {reason}", code=f"token-{code}", hint=_HINT)
