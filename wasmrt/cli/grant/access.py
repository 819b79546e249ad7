"""Access requests at the command line: one of them in words, and an answer with its receipt."""

from __future__ import annotations

from wasmrt.agent.access import (
    AccessChoice,
    AccessRequest,
    AccessScope,
    AccessState,
    AccessStore,
    access_lines,
    answer_access,
    granted_words,
)
from wasmrt.agent.approvals import person
from wasmrt.cli.shared.output import print_message, show, show_columns, show_json
from wasmrt.cli.shared.receipts import receipt_writer
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.places import find_places


def access_store() -> AccessStore:
    """Return the access requests of this installation."""
    return AccessStore(find_places().access)


def is_access(request_id: str) -> bool:
    """Tell whether an id is that of an access request."""
    return access_store().get(request_id) is not None


def access_scope(scope: str) -> AccessScope:
    """Return the scope of an answer.

    Raises:
        ConfigurationError: it is one of calls alone.
    """
    if scope not in set(AccessScope):
        raise ConfigurationError(f"access is not granted {scope}", hint=f"choose one of {', '.join(AccessScope)}")
    return AccessScope(scope)


def show_access(request: AccessRequest, *, as_json: bool) -> None:
    """Print a request, whole; of one that has ended, how it ended."""
    if as_json:
        show_json(request.as_dict())
    elif request.state is AccessState.PENDING:
        show("\n".join(access_lines(request, whole=True)[0]))
    else:
        row = (request.id, request.caller.tool, request.caller.user, granted_words(request), request.by)
        show_columns(("ENDED", "TOOL", "USER", "ACCESS", "BY"), [row])


def answer_in_words(request_id: str, choice: AccessChoice, *, user: str, as_json: bool) -> None:
    """Answer a request, and print how.

    Raises:
        ConfigurationError, ApprovalError: as `answer_access`.
    """
    with receipt_writer() as receipts:
        answered = answer_access(
            access_store(), request_id, choice, user=user, by=person(), data=find_places().data, receipts=receipts
        )
    if as_json:
        show_json(answered.as_dict())
        return
    line = (answered.granted or answered.denied.addition).hint
    print_message(f"{granted_words(answered)} {request_id}: {answered.caller.tool}, {line}")
