"""Secrets for guests: whether a granted one is set. The name is all that a guest ever learns."""

from __future__ import annotations

from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.requests import SecretExists


def exists(ctx: GuestCall, name: str) -> bool:
    """`secret-exists` of both worlds."""
    return ctx.services.handle(SecretExists(name))
