"""Device authorization: log in without a browser, with a code that the user enters on another device. RFC 8628."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

from wasmrt.capabilities.file import OAuthConfig
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import OAUTH_LOGIN_SECONDS, OAUTH_TIMEOUT_SECONDS
from wasmrt.egress.gateway import EgressGateway, HttpFailure
from wasmrt.egress.oauth._renewal import OAuthState
from wasmrt.egress.oauth._tokens import OAuthError, Tokens, json_object

_MAX_SHOWN = 200
_INTERVAL_SECONDS = 5.0  # RFC 8628 3.2 and 3.5
_MAX_INTERVAL_SECONDS = 60.0


class DeviceCode(NamedTuple):
    """The address that the user opens, and the code to enter there."""

    place: str
    code: str


def log_in_by_device(
    gateway: EgressGateway,
    oauth: OAuthConfig,
    state: OAuthState,
    *,
    present: Callable[[DeviceCode], None],
    wait: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> Tokens:
    """Let the user log in on another device with a code, and return the tokens.

    Raises:
        ConfigurationError: the login has no device_authorization_url.
        OAuthError: the code was not entered in time, the user refused, or an endpoint sent an invalid response.
    """
    if oauth.device_authorization_url is None:
        raise ConfigurationError(
            "this login has no device codes for machines without a browser",
            hint="forward a port instead: ssh -L 8765:127.0.0.1:8765 HOST, then there: wasmrt auth TOOL --port 8765",
        )
    shown, device_code, lifetime, interval = _request_code(gateway, oauth, state)
    present(shown)
    endpoint = state.endpoint(gateway)
    ends = now() + min(lifetime, OAUTH_LOGIN_SECONDS)
    while now() + interval < ends:
        wait(interval)
        try:
            return endpoint.by_device(device_code)
        except OAuthError as error:
            if error.code == "slow_down":
                interval = min(interval + _INTERVAL_SECONDS, _MAX_INTERVAL_SECONDS)
            elif error.code == "access_denied":
                raise OAuthError("the login was refused", code="login-refused") from None
            elif error.code != "authorization_pending":
                raise
    raise OAuthError("the login was not completed in time", code="login-timeout", hint="run the command again")


def _request_code(
    gateway: EgressGateway, oauth: OAuthConfig, state: OAuthState
) -> tuple[DeviceCode, str, float, float]:
    """Request a code. RFC 8628 3.1 and 3.2."""
    fields = {"client_id": state.client_id} | ({"scope": " ".join(oauth.scopes)} if oauth.scopes else {})
    headers = (("Content-Type", "application/x-www-form-urlencoded"), ("Accept", "application/json"))
    try:
        response = gateway.send_own(
            "POST", oauth.device_authorization_url or "", headers, urlencode(fields).encode(),
            timeout_seconds=OAUTH_TIMEOUT_SECONDS,
        )  # fmt: skip
    except HttpFailure as failure:
        raise OAuthError(
            f"no device code was issued: {failure.message}", code=failure.code, hint=failure.hint
        ) from None
    data = json_object(response.body)
    place, code, device = (data.get(key) for key in ("verification_uri", "user_code", "device_code"))
    place = place or data.get("verification_url")  # Google's name for it
    if response.status != 200 or not all(isinstance(text, str) and text for text in (place, code, device)):
        raise OAuthError(f"no device code was issued: the device authorization endpoint returned {response.status}")
    # SECURITY: the endpoint chose both strings. They are limited to short, plain ASCII, shown, and never opened.
    plain = all(text.isascii() and text.isprintable() and len(text) <= _MAX_SHOWN for text in (str(place), str(code)))
    if not plain or urlsplit(str(place)).scheme != "https":
        raise OAuthError("device authorization response has an invalid verification_uri or user_code")
    return (
        DeviceCode(str(place), str(code)),
        str(device),
        _seconds(data.get("expires_in"), OAUTH_LOGIN_SECONDS),
        min(_seconds(data.get("interval"), _INTERVAL_SECONDS), _MAX_INTERVAL_SECONDS),
    )


def _seconds(value: object, default: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 2**31:
        return default
    return float(value)
