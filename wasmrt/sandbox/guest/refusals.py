"""Denials that the guest's side decides because no grant could allow the use, or a size is over its limit.

SECURITY: the host writes rule and hint. A compromised worker only chooses one of these reasons, a subject and a number.
"""

from __future__ import annotations

from wasmrt.core.model import Decision, Reason
from wasmrt.sandbox.guest.requests import Refuse

REFUSALS: dict[Reason, tuple[str, str, str]] = {
    Reason.SOCKETS_DENIED: (
        "sockets",
        "sockets are not available to tools",
        "use HTTP: add the host to http.allowlist and send the request through the http import",
    ),
    Reason.FILESYSTEM_DENIED: (
        "workspace",
        "links, timestamps and files in read-only folders cannot be changed",
        "have the tool return the data as its result",
    ),
    Reason.FILE_TOO_LARGE: (
        "workspace_write",
        "a file may have {} bytes",
        "if the tool needs more, raise workspace_write.max_file_bytes",
    ),
    Reason.REQUEST_TOO_LARGE: (
        "http",
        "the request has more bytes than http.max_request_bytes",
        "send less, or raise http.max_request_bytes (currently {})",
    ),
}
"""Capability, rule and hint for each reason. A limit in bytes is inserted into rule and hint."""


def make_denial(request: Refuse) -> Decision:
    """Create the decision to record, for a denial that the guest's side reports."""
    capability, rule, hint = REFUSALS[request.reason]
    limit = request.limit
    return Decision(False, request.reason, rule.format(limit), hint.format(limit), capability, request.subject)
