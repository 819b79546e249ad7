"""Show and answer access requests for `wasmrt approvals`."""

from __future__ import annotations

from wasmrt.agent.access import (
    AccessChoice,
    AccessRequest,
    AccessScope,
    AccessState,
    AccessStore,
    answer_access,
    describe_answer,
    format_access,
)
from wasmrt.agent.approvals import current_user_name
from wasmrt.cli.shared.output import print_message, show, show_columns, show_json
from wasmrt.cli.shared.receipts import receipt_writer
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.places import find_places
from wasmrt.runtime.stores import store_place


def access_store() -> AccessStore:
    """Return the store of this installation's access requests."""
    return AccessStore(store_place(find_places().access))


def is_access(request_id: str) -> bool:
    """Return whether an ID belongs to an access request."""
    return access_store().get(request_id) is not None


def access_scope(scope: str) -> AccessScope:
    """Convert the text of the option --scope to the scope of an access grant.

    Raises:
        ConfigurationError: access cannot be granted with this scope. It is only for approvals of calls.
    """
    if scope not in set(AccessScope):
        hint = f"choose one of {', '.join(AccessScope)}"
        raise ConfigurationError(f"access cannot be granted with the scope {scope}", hint=hint)
    return AccessScope(scope)


def show_access(request: AccessRequest, *, as_json: bool) -> None:
    """Print all of a pending request, or the outcome of an ended request."""
    if as_json:
        show_json(request.as_dict())
    elif request.state is AccessState.PENDING:
        show("\n".join(format_access(request, whole=True)[0]))
    else:
        row = (request.id, request.caller.tool, request.caller.user, describe_answer(request), request.by)
        show_columns(("ENDED", "TOOL", "USER", "ACCESS", "BY"), [row])


def answer_access_request(request_id: str, choice: AccessChoice, *, user: str, as_json: bool) -> None:
    """Answer a request, record a receipt, and print the answer.

    Raises:
        ConfigurationError, ApprovalError: as `answer_access`.
    """
    with receipt_writer() as receipts:
        answered = answer_access(
            access_store(),
            request_id,
            choice,
            user=user,
            by=current_user_name(),
            data=find_places().data,
            receipts=receipts,
        )
    if as_json:
        show_json(answered.as_dict())
        return
    line = (answered.granted or answered.denied.addition).hint
    print_message(f"{describe_answer(answered)} {request_id}: {answered.caller.tool}, {line}")
