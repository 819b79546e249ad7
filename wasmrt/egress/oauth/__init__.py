"""OAuth 2.1 logins on the user's own machine, with PKCE and a loopback callback, and token renewal.

The code uses only the gateway and the standard library, because the protocol is small. Most of the code performs
checks: text from the server is never repeated, PKCE is mandatory, and a token is only sent to the endpoint that issued
it.
"""

from __future__ import annotations

from wasmrt.egress.oauth._login import (
    DeviceCode,
    LoopbackCallback,
    check_replaceable,
    log_in,
    log_in_by_device,
    login_state,
)
from wasmrt.egress.oauth._renewal import OAuthState, Renewals, RenewingSecrets, load_state, store_tokens, token_renewer
from wasmrt.egress.oauth._tokens import AuthorizationRequest, OAuthError, TokenEndpoint, Tokens

__all__ = [
    "AuthorizationRequest", "DeviceCode", "LoopbackCallback", "OAuthError", "OAuthState", "Renewals",
    "RenewingSecrets", "TokenEndpoint", "Tokens", "check_replaceable", "load_state", "log_in", "log_in_by_device",
    "login_state", "store_tokens", "token_renewer",
]  # fmt: skip
