"""The error of the approvals' databases."""

from __future__ import annotations

from wasmrt.errors import ApprovalError


def unusable(reason: str) -> ApprovalError:
    """Return the error of a database that cannot be used."""
    return ApprovalError(
        f"the approvals cannot be kept ({reason})",
        code="approval-store",
        hint="check that the data folder that wasmrt doctor names is yours alone and its disk not full",
    )
