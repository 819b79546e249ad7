"""The errors of the stores of requests: for calls, and for access."""

from __future__ import annotations

from wasmrt.core.errors import ApprovalError

LIST_HINT = "wasmrt approvals list shows the requests that wait"


def unusable(reason: str) -> ApprovalError:
    """Return the error of a database that cannot be used."""
    return ApprovalError(
        f"the approvals cannot be kept ({reason})",
        code="approval-store",
        hint="check that the data folder that wasmrt doctor names is yours alone and its disk not full",
    )


def unknown_request(request_id: str) -> ApprovalError:
    """Return the error of an id that no request has."""
    said = f"there is no request {request_id!r:.40}, and nothing was changed"
    return ApprovalError(said, code="unknown", hint=LIST_HINT)


def closed_request(request_id: str, code: str, words: str) -> ApprovalError:
    """Return the error of an answer to a request that has ended."""
    return ApprovalError(f"{request_id} {words}, and nothing was changed", code=code, hint=LIST_HINT)


def check_user(request_id: str, owner: str, user: str) -> None:
    """Refuse an answer to another user's request.

    SECURITY: who may answer is checked before anything of the request is told.

    Raises:
        ApprovalError: it is not the user's.
    """
    if owner != user:
        said = f"{request_id} is another user's request, and nothing was changed"
        raise ApprovalError(said, code="other-user", hint="give the user whose call it is: --user NAME")
