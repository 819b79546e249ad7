"""Implement the header fields of `wasi:http@0.2`. Fields are checked when they are set; number and size are limited."""

from __future__ import annotations

import re

from wasmrt.core.errors import BudgetExceededError
from wasmrt.core.limits import MAX_HEADER_BYTES, MAX_HEADERS
from wasmrt.sandbox.component import Case, Err, Ok
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.wasi._http_bodies import charge
from wasmrt.sandbox.guest.wasi._io import Handles

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}\Z")  # a token, RFC 9110 5.6.2
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*\Z")
# Fields for framing and routing, which only the host may write. Guests expect an immediate error if they set one. The
# gateway denies and records other forbidden fields.
_FORBIDDEN = frozenset(
    (
        *("connection", "host", "http2-settings", "keep-alive", "proxy-authenticate", "proxy-authorization"),
        *("proxy-connection", "te", "transfer-encoding", "upgrade"),
    )
)
_INVALID = Err(Case("invalid-syntax"))
_FORBIDDEN_ERROR = Err(Case("forbidden"))
_IMMUTABLE = Err(Case("immutable"))

_ENTRY_BYTES = 256
"""The approximate size in memory of a field, in addition to its text."""

Entry = tuple[str, bytes]


class Fields:
    """Header fields in order. The guest cannot change the fields of a response, or of a request that it has created."""

    def __init__(self, entries: list[Entry], *, immutable: bool = False) -> None:
        self.entries = entries
        self.immutable = immutable

    def named(self, name: str) -> list[bytes]:
        return [value for known, value in self.entries if known.lower() == name.lower()]

    def as_text(self) -> tuple[tuple[str, str], ...]:
        """Return the fields with their values as text. The gateway sends values that are UTF-8 unchanged."""
        return tuple((name, _decode(value)) for name, value in self.entries)


def _decode(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def is_token(text: str) -> bool:
    return _NAME.match(text) is not None


def declared_length(fields: Fields) -> int | None:
    """Return the `content-length` in `fields`, or None if it is missing, or malformed and thus rejected by the host."""
    lengths = {value for value in fields.named("content-length") if value.isdigit() and len(value) < 20}
    return int(lengths.pop()) if len(lengths) == 1 else None


def new(ctx: GuestCall) -> int:
    return ctx.part(Handles).add(Fields([]))


def from_list(ctx: GuestCall, entries: list[Entry]) -> Ok | Err:
    fields = check_fields(ctx, entries)
    return fields if isinstance(fields, Err) else Ok(ctx.part(Handles).add(fields))


def check_fields(ctx: GuestCall, entries: list[Entry]) -> Fields | Err:
    """Create fields from `entries`, or return the error of an invalid or forbidden entry.

    Raises:
        BudgetExceededError: there are too many entries, or they are too large.
    """
    _check_size(ctx, entries, entries)
    return _find_problem(entries) or Fields(list(entries))


def get(ctx: GuestCall, rep: int, name: str) -> list[bytes]:
    return ctx.part(Handles).get(rep, Fields).named(name)


def has(ctx: GuestCall, rep: int, name: str) -> bool:
    return bool(get(ctx, rep, name))


def put(ctx: GuestCall, rep: int, name: str, values: list[bytes]) -> Ok | Err:
    fields = ctx.part(Handles).get(rep, Fields)
    others = [entry for entry in fields.entries if entry[0].lower() != name.lower()]
    return _change(ctx, fields, others, [(name, value) for value in values], name)


def delete(ctx: GuestCall, rep: int, name: str) -> Ok | Err:
    return put(ctx, rep, name, [])


def append(ctx: GuestCall, rep: int, name: str, value: bytes) -> Ok | Err:
    fields = ctx.part(Handles).get(rep, Fields)
    return _change(ctx, fields, fields.entries, [(name, value)], name)


def entries(ctx: GuestCall, rep: int) -> list[Entry]:
    return ctx.part(Handles).get(rep, Fields).entries


def clone(ctx: GuestCall, rep: int) -> int:
    return ctx.part(Handles).add(Fields(list(entries(ctx, rep))))


def take(ctx: GuestCall, rep: int) -> Fields:
    """Return the fields behind a handle, and drop the handle. The guest passes their ownership to the host."""
    fields = ctx.part(Handles).get(rep, Fields)
    ctx.part(Handles).drop(rep)
    return fields


def share(ctx: GuestCall, fields: Fields) -> int:
    """Create a handle through which the guest can read `fields` but not change them."""
    return ctx.part(Handles).add(Fields(fields.entries, immutable=True))


def _change(ctx: GuestCall, fields: Fields, kept: list[Entry], added: list[Entry], name: str) -> Ok | Err:
    if fields.immutable:
        return _IMMUTABLE
    if not is_token(name):
        return _INVALID
    entries = kept + added
    _check_size(ctx, entries, added)
    problem = _find_problem(added)
    if problem is not None:
        return problem
    fields.entries = entries
    return Ok()


def _find_problem(entries: list[Entry]) -> Err | None:
    # SECURITY: a field must not contain CR, LF or NUL.
    if not all(is_token(name) and _VALUE.match(value) for name, value in entries):
        return _INVALID
    return _FORBIDDEN_ERROR if any(name.lower() in _FORBIDDEN for name, _ in entries) else None


def _check_size(ctx: GuestCall, entries: list[Entry], added: list[Entry]) -> None:
    """Check the number and size of `entries`, and charge the call's budget for the entries in `added`."""
    size = _count_bytes(entries)
    if len(entries) > MAX_HEADERS or size > MAX_HEADER_BYTES:
        raise BudgetExceededError(
            f"the guest created {len(entries):,} headers of {size:,} bytes",
            limit=MAX_HEADERS, used=len(entries), setting="limits.MAX_HEADERS",
            hint=f"a request may have {MAX_HEADERS} headers of {MAX_HEADER_BYTES:,} bytes in total",
        )  # fmt: skip
    charge(ctx, _count_bytes(added) + _ENTRY_BYTES * len(added))


def _count_bytes(entries: list[Entry]) -> int:
    return sum(len(name) + len(value) for name, value in entries)
