"""Logins: the authorization flow with its loopback callback, and the renewal of tokens."""

from __future__ import annotations

from wasmrt.oauth._callback import (
    LoopbackCallback,
)
from wasmrt.oauth._flow import (
    Login,
    OAuthError,
    RefreshableToken,
    TokenEndpoint,
    Tokens,
    token_renewer,
)

__all__ = [
    "Login",
    "LoopbackCallback",
    "OAuthError",
    "RefreshableToken",
    "TokenEndpoint",
    "Tokens",
    "token_renewer",
]
