"""Errors for denied workspace paths. Their messages contain no absolute paths of this machine."""

from __future__ import annotations

from wasmrt.capabilities import WorkspaceCapability, WorkspaceWriteCapability
from wasmrt.core.errors import CapabilityDeniedError
from wasmrt.core.limits import MAX_PATH_BYTES
from wasmrt.core.model import Decision, Reason


def make_refusal(reason: Reason, rule: str, path: str, hint: str, *, writing: bool = False) -> CapabilityDeniedError:
    """Return the error for a workspace path that may not be read or, with `writing`, written."""
    shown = path[:MAX_PATH_BYTES].encode("unicode_escape").decode("ascii")
    capability = (WorkspaceWriteCapability if writing else WorkspaceCapability).section
    return convert_denial(Decision(False, reason, rule, hint=hint, capability=capability, subject=shown))


def convert_denial(decision: Decision) -> CapabilityDeniedError:
    """Return the error for a decision that denies access to a workspace path."""
    act = "writing" if decision.capability == WorkspaceWriteCapability.section else "reading"
    return CapabilityDeniedError(f"the workspace denied {act} {decision.subject!r}: {decision.rule}", decision=decision)
