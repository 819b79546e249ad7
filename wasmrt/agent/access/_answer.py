"""A person's answer to an access request: checked against what was asked, put into the grant, written as a receipt."""

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
from wasmrt.agent.approvals import LIST_HINT, unknown_request
from wasmrt.capabilities import Capabilities, effects_of, grown, narrowed
from wasmrt.capabilities.file import format_file
from wasmrt.catalog import Catalog, Kept
from wasmrt.catalog.granted import granted_to
from wasmrt.core.errors import ApprovalError, InstallError, NotInstalledError
from wasmrt.core.model import Addition, Decision, Reason
from wasmrt.runtime.audit import EMPTY_RECEIPT, OK, Approval, Receipt

ACCESS = "access"
"""The kind of receipts of answers."""
_MAX_BY_CHARS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessChoice:
    """Yes or no, for how long, and for less than what was asked.

    Example:
        >>> from wasmrt import AccessChoice, AccessScope
        >>> AccessChoice(granted=True, scope=AccessScope.KEEP).granted
        True
    """

    granted: bool
    scope: AccessScope = AccessScope.ONCE
    narrower: str = ""
    """An entry in place of the one that was asked for; empty for that."""
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
    """Answer an access request on behalf of the user whose call it is; return it with its answer.

    Args:
        store: Has the request.
        request_id: The request.
        choice: What the person chose.
        user: Whose call it is.
        by: Who answers.
        data: The folder of the catalog: what is kept goes there. None where nothing is installed.
        receipts: Takes the receipt of the answer.

    Raises:
        ConfigurationError: the narrower entry is none, is wider, or the entry does not say which tool it means.
        ApprovalError: there is no such request, it is another user's, has ended, is for a tool or a grant that changed
            since, or cannot have this scope. Nothing was changed.

    Example:
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
                _write(receipts, request, None, scope, by)
                settle(AccessState.DENIED, scope, by=by, note=choice.note)
            else:
                granted = _entry(request, choice)
                with _in_catalog(request, granted, choice.scope, data, by):
                    _write(receipts, request, granted, choice.scope, by)
                settle(AccessState.GRANTED, choice.scope, granted, by=by, note=choice.note)
    except _ChangedError:
        store.outdate(request_id)
        raise ApprovalError(
            f"{request_id} is for a tool or a grant that changed meanwhile, and nothing was changed",
            code="outdated", hint="the next call that needs it asks again",
        ) from None  # fmt: skip
    found = store.get(request_id)
    if found is None:
        raise unknown_request(request_id)
    return found


def grant_digest(grant: Capabilities) -> str:
    """Return the digest of a component's grant: of another one, in whatever part, it is another."""
    return blake3(repr(grant).encode()).hexdigest()


class _ChangedError(Exception):
    """The tool is not the one that the person was told of."""


def _entry(request: AccessRequest, choice: AccessChoice) -> Addition:
    """Return the entry that a choice grants. SECURITY: never more than what was asked for."""
    if choice.scope not in request.scopes:
        raise ApprovalError(
            f"{request.id} cannot hold for {choice.scope}: {_why_not(choice.scope, request)}",
            code="not-offered", hint=f"choose {' or '.join(request.scopes)}",
        )  # fmt: skip
    asked = request.wish.addition
    entry = narrowed(asked, choice.narrower) if choice.narrower.strip() else asked
    grown(Capabilities.none(), (entry,))
    return entry


def _why_not(scope: AccessScope, request: AccessRequest) -> str:
    if scope is AccessScope.SESSION:
        return "the call belongs to no conversation" if request.wish.lasting else "the program that asked has ended"
    return "the tool is not installed, so that no grant of it is stored"


@contextmanager
def _in_catalog(
    request: AccessRequest, granted: Addition, scope: AccessScope, data: Path | None, by: str
) -> Iterator[None]:
    """Put an entry that is kept into the stored grant, and take it out again where the block fails.

    Nothing grows unrecorded. SECURITY: another version, or another grant, is not what the person was told of.
    """
    wish = request.wish
    if not wish.component:  # it is not installed, and nothing of it is kept
        yield
        return
    if data is None:
        raise ApprovalError("the catalog is not at hand, so nothing was changed", code="not-offered", hint=LIST_HINT)
    catalog = Catalog(data)
    try:
        version = catalog.get(wish.component)
    except NotInstalledError:
        raise _ChangedError from None
    stored, before = granted_to(version), version.grant
    if before is None or version.digest != request.caller.digest or grant_digest(stored) != wish.stored_grant:
        raise _ChangedError
    if scope is not AccessScope.KEEP:
        yield
        return
    at = datetime.now(UTC).isoformat(timespec="seconds")
    kept = (*version.kept, Kept(granted, wish.part, by[:_MAX_BY_CHARS], at))
    grant = grown(stored, (granted,), wish.part)
    try:
        changed = catalog.regrant(version, format_file(grant), kept)
    except InstallError as error:
        raise (_ChangedError() if error.code == "changed" else error) from error
    try:
        yield
    except BaseException:
        catalog.regrant(changed, before, version.kept)
        raise


def _write(
    receipts: Callable[[Receipt], None] | None,
    request: AccessRequest,
    granted: Addition | None,
    scope: AccessScope,
    by: str,
) -> None:
    """Write the receipt of an answer."""
    if receipts is None:
        return
    caller, entry = request.caller, granted or request.wish.addition
    alone = effects_of(Capabilities.none().with_addition(entry))
    now = time.time_ns() // 1_000_000
    reason = Reason.APPROVAL_DENIED if granted is None else Reason.ALLOWED
    rule = f"a person {'denied' if granted is None else 'granted'} it: {entry.hint}"
    capability = entry.to.partition(".")[0]
    receipts(
        EMPTY_RECEIPT._replace(
            started_ms=now,
            ended_ms=now,
            trace_id=caller.trace or request.id,
            call_id=request.id,
            parent_id=request.wish.call,
            tool=caller.tool,
            kind=ACCESS,
            digest=caller.digest,
            user=caller.user,
            chain=(caller.tool,),
            effects=tuple(sorted(alone)),
            approval=Approval("person" if granted is not None else "denied", by[:_MAX_BY_CHARS], str(scope)),
            outcome=OK if granted is not None else str(Reason.APPROVAL_DENIED),
            decisions=(Decision(granted is not None, reason, rule, entry, capability),),
        )
    )
