"""Logins of a person at their own machine: OAuth 2.1 with PKCE and a loopback callback, and the renewal of tokens.

On the gateway's own request and the standard library: the protocol's part is small, and the checks in between (foreign
text is never repeated, PKCE is not optional, a token goes back only to where it came from) are the larger one.
"""

from __future__ import annotations

from wasmrt.egress.oauth._device import DeviceCode, log_in_by_device
from wasmrt.egress.oauth._login import LoopbackCallback, check_replaceable, log_in, login_state
from wasmrt.egress.oauth._renewal import OAuthState, Renewals, RenewingSecrets, load_state, store_tokens, token_renewer
from wasmrt.egress.oauth._tokens import AuthorizationRequest, OAuthError, TokenEndpoint, Tokens

__all__ = [
    "AuthorizationRequest",
    "DeviceCode",
    "LoopbackCallback",
    "OAuthError",
    "OAuthState",
    "Renewals",
    "RenewingSecrets",
    "TokenEndpoint",
    "Tokens",
    "check_replaceable",
    "load_state",
    "log_in",
    "log_in_by_device",
    "login_state",
    "store_tokens",
    "token_renewer",
]
