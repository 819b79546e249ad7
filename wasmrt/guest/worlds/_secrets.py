"""Whether a granted credential is set: the name is all a guest ever learns."""

from __future__ import annotations

from wasmrt.context import CallContext
from wasmrt.errors import SecretError


def exists(context: CallContext, name: str) -> bool:
    """`secret-exists`: truthful for granted names, no for every other."""
    decision = context.grant.explain_secret(name)
    if not decision.allowed:
        context.decide(decision)
        return False
    secrets = context.secrets
    if secrets is None:
        return False
    try:
        secrets.get(name)
    except SecretError:
        return False
    return True
