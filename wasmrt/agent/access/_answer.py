"""Show an access request to an approver, and apply the answer: check it, change the grant and write a receipt."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from blake3 import blake3

from wasmrt.agent.access._model import AccessRequest, AccessScope, AccessState
from wasmrt.agent.access._store import AccessStore
from wasmrt.agent.approvals import (
    LIST_HINT,
    Phrase,
    Quoted,
    Shown,
    shorten_lines,
    show_client,
    start_of,
    to_plain_text,
    unknown_request_error,
)
from wasmrt.capabilities import Capabilities, effects_of, read_narrower_entry, with_added_entries
from wasmrt.capabilities.file import format_file
from wasmrt.catalog import Kept
from wasmrt.catalog.granted import read_granted
from wasmrt.core.errors import ApprovalError, InstallError, NotInstalledError
from wasmrt.core.model import Addition, Decision, Reason
from wasmrt.runtime.audit import EMPTY_RECEIPT, OK, Approval, Receipt
from wasmrt.runtime.stores import open_catalog

_WORDS = {"once": "once", "session": "for this session", "keep": "permanently"}


def list_access_parts(request: AccessRequest, *, whole: bool = False) -> list[tuple[str, Shown]]:
    """Return the non-empty parts of a request, each with its title.

    SECURITY: paths, hosts and parameters are untrusted. They are escaped, and are never part of a sentence that wasmrt
    writes.
    """
    denied = request.denied
    parts = (
        ("entry", (denied.addition.hint,)),
        ("allows", denied.sentences),
        ("limits and side effects", denied.limited),
        ("granted once before, and required again", tuple(each.hint for each in denied.again)),
        ("denied", (denied.refused,) if denied.refused else ()),
        ("provenance", denied.origins),
        ("parameters", tuple(denied.params.split("\n")) if denied.params else ()),
    )
    return [(title, shorten_lines(lines, whole=whole)) for title, lines in parts if lines]


def describe_access(request: AccessRequest) -> Phrase:
    """Return the requested access in one phrase: `Let reader also read notes/`."""
    first = request.denied.sentences[0] if request.denied.sentences else request.denied.addition.hint
    return (
        "Let ",
        Quoted(start_of(request.caller.tool, 48)),
        " also ",
        Quoted(start_of(first.removeprefix("may "), 120)),
    )


def format_access(request: AccessRequest, *, whole: bool = False) -> tuple[list[str], bool]:
    """Format a request as lines. Return the lines, and whether a part was cut; with `whole`, nothing is cut."""
    head = shorten_lines(
        (
            f"access {request.id}: {to_plain_text(describe_access(request))}",
            f"  tool: {request.caller.tool}",
            f"  user: {request.caller.user}",
            *([f"  client: {show_client(request.caller.client)}"] if request.caller.client else []),
            f"  requested: {describe_asking(request)}, first by call {request.denied.call}",
            f"  can be granted: {', '.join(_WORDS[scope] for scope in request.scopes)}",
        ),
        whole=True,
    )
    lines, cut = list(head.lines), False
    for title, part in list_access_parts(request, whole=whole):
        lines += [f"  {title}:", *(f"    {line}" for line in part.lines)]
        cut = cut or part.cut
    return lines, cut


def describe_asking(request: AccessRequest) -> str:
    """Describe how often calls requested the access, for example `once` or `3 times`."""
    return "once" if request.asked == 1 else f"{request.asked:,} times"


def describe_answer(request: AccessRequest) -> str:
    """Describe the answer to a request; if there is none, return the state of the request."""
    if request.scope is None:
        return f"{request.state} ({request.note})" if request.note else str(request.state)
    if request.granted is None:
        reach = "for this session" if request.denied.lasting else "this time"
        reach = "permanently" if request.scope is AccessScope.KEEP else reach
        return f"denied ({reach})"
    narrower = "" if request.granted.entry == request.denied.addition.entry else f", narrower: {request.granted.entry}"
    return f"granted {_WORDS[request.scope]}{narrower}"


ACCESS = "access"
"""The value of `kind` in the receipts of answers."""
_MAX_BY_CHARS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessChoice:
    """The answer that a user chose: grant or deny the access, the scope, and optionally a narrower entry.

    Examples:
        >>> from wasmrt import AccessChoice, AccessScope
        >>> AccessChoice(granted=True, scope=AccessScope.KEEP).granted
        True
    """

    granted: bool
    scope: AccessScope = AccessScope.ONCE
    narrower: str = ""
    """A narrower entry to grant instead of the requested entry; empty to grant the requested entry."""
    note: str = ""


def answer_access(
    store: AccessStore,
    request_id: str,
    choice: AccessChoice,
    *,
    user: str,
    by: str,
    data: Path | None = None,
    receipts: Callable[[Receipt], None] | None = None,
) -> AccessRequest:
    """Answer an access request on behalf of the user whose call was denied. Return the answered request.

    Args:
        store: The store that contains the request.
        request_id: The ID of the request.
        choice: The answer, as the approver chose it.
        user: The user whose call was denied.
        by: The name of the approver.
        data: The directory of the catalog with the stored grants; None if no tool is installed.
        receipts: Called with the receipt of the answer.

    Raises:
        ConfigurationError: the narrower entry is invalid or allows more than the requested entry, or the requested
            entry does not name a tool.
        ApprovalError: the request does not exist, belongs to another user or is not pending; the tool or its grant has
            changed; or the scope is not available. Nothing was changed.

    Examples:
        >>> from pathlib import Path
        >>> from wasmrt import AccessChoice, AccessStore, WasmrtError, answer_access
        >>> store = AccessStore(Path("access.db"))
        >>> try:
        ...     answer_access(store, "no-such-id", AccessChoice(granted=True), user="ann", by="ann")
        ... except WasmrtError as error:
        ...     print(error.code)
        unknown
    """
    try:
        with store.answering(request_id, user=user) as (request, settle):
            if not choice.granted:
                scope = AccessScope.KEEP if choice.scope is AccessScope.KEEP else AccessScope.SESSION
                _write_receipt(receipts, request, None, scope, by)
                settle(AccessState.DENIED, scope, by=by, note=choice.note)
            else:
                granted = _choose_entry(request, choice)
                with _change_catalog(request, granted, choice.scope, data, by):
                    _write_receipt(receipts, request, granted, choice.scope, by)
                settle(AccessState.GRANTED, choice.scope, granted, by=by, note=choice.note)
    except _ChangedError:
        store.outdate(request_id)
        raise ApprovalError(
            f"{request_id} is outdated: its tool or grant has changed; nothing was modified",
            code="outdated", hint="the next denied call creates a new request",
        ) from None  # fmt: skip
    found = store.get(request_id)
    if found is None:
        raise unknown_request_error(request_id)
    return found


def grant_digest(grant: Capabilities) -> str:
    """Return a digest that identifies the complete grant of a component."""
    return blake3(repr(grant).encode()).hexdigest()


class _ChangedError(Exception):
    """The version of the tool, or its grant, is no longer the one in the request."""


def _choose_entry(request: AccessRequest, choice: AccessChoice) -> Addition:
    """Return the entry to grant. SECURITY: the entry never allows more than the requested entry."""
    if choice.scope not in request.scopes:
        raise ApprovalError(
            f"{request.id} does not support the scope {choice.scope}: {_explain_unavailable(choice.scope, request)}",
            code="not-offered", hint=f"choose {' or '.join(request.scopes)}",
        )  # fmt: skip
    asked = request.denied.addition
    entry = read_narrower_entry(asked, choice.narrower) if choice.narrower.strip() else asked
    with_added_entries(Capabilities.none(), (entry,))
    return entry


def _explain_unavailable(scope: AccessScope, request: AccessRequest) -> str:
    if scope is AccessScope.SESSION:
        if request.denied.lasting:
            return "the call does not belong to a conversation"
        return "the program that requested the access has ended"
    return "the tool is not installed, so it has no stored grant"


@contextmanager
def _change_catalog(
    request: AccessRequest, granted: Addition, scope: AccessScope, data: Path | None, by: str
) -> Iterator[None]:
    """Add an entry of scope `keep` to the stored grant. If the `with` block fails, remove the entry again.

    The block writes the receipt. Therefore, no grant is widened without a receipt.

    SECURITY: an answer is rejected if the version of the tool, or its grant, has changed since the request.
    """
    denied = request.denied
    if not denied.component:  # not installed, so there is no stored grant
        yield
        return
    if data is None:
        raise ApprovalError("no catalog directory was given; nothing was changed", code="not-offered", hint=LIST_HINT)
    catalog = open_catalog(data)
    try:
        version = catalog.get(denied.component)
    except NotInstalledError:
        raise _ChangedError from None
    stored, before = read_granted(version), version.grant
    if before is None or version.digest != request.caller.digest or grant_digest(stored) != denied.stored_grant:
        raise _ChangedError
    if scope is not AccessScope.KEEP:
        yield
        return
    at = datetime.now(UTC).isoformat(timespec="seconds")
    kept = (*version.kept, Kept(granted, denied.part, by[:_MAX_BY_CHARS], at))
    grant = with_added_entries(stored, (granted,), denied.part)
    try:
        changed = catalog.regrant(version, format_file(grant), kept)
    except InstallError as error:
        raise (_ChangedError() if error.code == "changed" else error) from error
    try:
        yield
    except BaseException:
        catalog.regrant(changed, before, version.kept)
        raise


def _write_receipt(
    receipts: Callable[[Receipt], None] | None,
    request: AccessRequest,
    granted: Addition | None,
    scope: AccessScope,
    by: str,
) -> None:
    """Write the receipt for an answer."""
    if receipts is None:
        return
    caller, entry = request.caller, granted or request.denied.addition
    alone = effects_of(Capabilities.none().with_addition(entry))
    now = time.time_ns() // 1_000_000
    reason = Reason.APPROVAL_DENIED if granted is None else Reason.ALLOWED
    rule = f"{'denied' if granted is None else 'granted'} by the approver: {entry.hint}"
    capability = entry.to.partition(".")[0]
    receipts(
        EMPTY_RECEIPT._replace(
            started_ms=now, ended_ms=now, trace_id=caller.trace or request.id, call_id=request.id,
            parent_id=request.denied.call, tool=caller.tool, kind=ACCESS, digest=caller.digest, user=caller.user,
            chain=(caller.tool,), effects=tuple(sorted(alone)),
            approval=Approval("person" if granted is not None else "denied", by[:_MAX_BY_CHARS], str(scope)),
            outcome=OK if granted is not None else str(Reason.APPROVAL_DENIED),
            decisions=(Decision(granted is not None, reason, rule, entry, capability),),
        )
    )  # fmt: skip
