"""Log a user in, either with a redirect to a loopback port or with a code that the user enters on another device."""

from __future__ import annotations

import hmac
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qs, urlencode, urlsplit

from wasmrt.capabilities.file import OAuthConfig
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import OAUTH_LOGIN_SECONDS, OAUTH_TIMEOUT_SECONDS
from wasmrt.egress.gateway import EgressGateway, HttpFailure
from wasmrt.egress.oauth._renewal import OAuthState, load_state
from wasmrt.egress.oauth._tokens import AuthorizationRequest, OAuthError, Tokens, json_object
from wasmrt.egress.secrets import SecretsStore

if TYPE_CHECKING:
    from http.server import BaseHTTPRequestHandler

_PATH = "/callback"
_PAGE = b"<!doctype html><title>wasmrt</title><p>%s You can close this page.</p>"


class LoopbackCallback:
    """A server on 127.0.0.1 that waits for one redirect with the expected `state`. By default, the system picks a port.

    Raises:
        OAuthError: the port cannot be used.
    """

    def __init__(self, state: str, port: int | None = None) -> None:
        from http.server import ThreadingHTTPServer  # the import takes 10 ms, and a token renewal does not need it

        self._state = state
        self._done = threading.Event()
        self._code: str | None = None
        self.issuer: str | None = None
        """The issuer that the redirect contained (RFC 9207), if any. The caller must check it."""
        try:
            self._server = ThreadingHTTPServer(("127.0.0.1", port or 0), self._handler())
        except OSError as error:
            raise OAuthError(
                f"{f'port {port}' if port else 'a free port of 127.0.0.1'} cannot be used ({error.strerror})",
                code="login-port",
                hint="choose another port with --port",
            ) from None
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def redirect_uri(self) -> str:
        """The URL of this server, to which the browser is redirected."""
        return f"http://127.0.0.1:{self._server.server_address[1]}{_PATH}"

    def __enter__(self) -> LoopbackCallback:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def state(self) -> str:
        """The expected state."""
        return self._state

    def expect(self, state: str) -> None:
        """Expect `state` from now on. Call this if the authorization request contains this state."""
        self._state = state

    def wait(self, seconds: float) -> str:
        """Wait for the authorization code.

        Raises:
            OAuthError: the login was not completed in time, or the user refused it.
        """
        if not self._done.wait(seconds):
            raise OAuthError("the login was not completed in time", code="login-timeout", hint="run the command again")
        if self._code is None:
            raise OAuthError("the login was refused", code="login-refused")
        return self._code

    def _answer(self, target: str) -> tuple[int, bytes]:
        parts = urlsplit(target)
        query = parse_qs(parts.query)
        states, codes = query.get("state", []), query.get("code", [])
        # SECURITY: a code without the expected state may be another user's, and would log this user in as that user.
        # Such a request does not end the wait, so that it cannot stop a login.
        if parts.path != _PATH or len(states) != 1 or not hmac.compare_digest(states[0].encode(), self._state.encode()):
            return 400, _PAGE % b"This login was not requested."
        if self._done.is_set():
            return 400, _PAGE % b"This login has already ended."
        if len(codes) == 1 and "error" not in query:
            self._code = codes[0]
            self.issuer = next(iter(query.get("iss", [])), None)
        self._done.set()
        return 200, _PAGE % (b"You are logged in." if self._code else b"You are not logged in.")

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        from http.server import BaseHTTPRequestHandler

        answer = self._answer

        class Handler(BaseHTTPRequestHandler):
            timeout = 5

            def do_GET(self) -> None:
                status, page = answer(self.path)
                self.send_response(status)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(page)))
                self.send_header("Cache-Control", "no-store")
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(page)

            def log_message(self, format: str, *args: object) -> None:
                """Log nothing: the request line contains the code."""

        return Handler


def login_state(oauth: OAuthConfig, environ: Mapping[str, str]) -> OAuthState:
    """Return the initial state of a login. Its client ID and secret come from the capability file or from `environ`.

    Raises:
        ConfigurationError: there is no client id, or the capability file requests a variable that it must not read.
    """
    client_id = oauth.client_id or _read_variable(environ, oauth.client_id_env, "CLIENT_ID")
    if client_id is None:
        raise ConfigurationError(
            "the login needs a client id",
            hint=f"set the variable {oauth.client_id_env}"
            if oauth.client_id_env
            else "ask the tool's author to set client_id or client_id_env in the capability file",
        )
    return OAuthState(
        token_url=oauth.token_url,
        client_id=client_id,
        client_secret=oauth.client_secret or _read_variable(environ, oauth.client_secret_env, "CLIENT_SECRET"),
        refresh_token=None,
        access_token_field=oauth.access_token_field,
        expires_at=None,
    )


def check_replaceable(store: SecretsStore, user: str, name: str, state: OAuthState) -> None:
    """Refuse a login that would replace a secret from another source.

    SECURITY: a tool chooses the name of the secret. Without this check, it could replace another tool's secret with its
    own.

    Raises:
        ConfigurationError: the secret `name` is set, but was not set by a login at the same token endpoint.
    """
    if not any(info.name == name for info in store.list(user)):
        return
    earlier = load_state(store, user, name)
    if earlier is None or earlier.token_url != state.token_url:
        raise ConfigurationError(
            f"the secret {name} is already set, and was not issued by {urlsplit(state.token_url).hostname}",
            hint="pass --replace to overwrite it",
        )


def log_in(
    gateway: EgressGateway,
    oauth: OAuthConfig,
    state: OAuthState,
    *,
    present: Callable[[str], None],
    port: int | None = None,
) -> Tokens:
    """Log the user in and return the tokens; `present` receives the address to open in a browser.

    The browser is redirected to `port`, by default to the port in `oauth`, else to a port that the system picks.

    Raises:
        ConfigurationError: the authorization URL is not https.
        OAuthError: the login took longer than `OAUTH_LOGIN_SECONDS`, or the user or the token endpoint refused it.
    """
    if urlsplit(oauth.authorization_url).scheme != "https":
        raise ConfigurationError("the authorization URL must start with https://")
    attempt = AuthorizationRequest.new()
    with LoopbackCallback(attempt.state, port or oauth.redirect_port) as callback:
        url = attempt.url(
            oauth.authorization_url, client_id=state.client_id, redirect_uri=callback.redirect_uri,
            scopes=oauth.scopes, extra_params=oauth.extra_params,
        )  # fmt: skip
        present(url)
        code = callback.wait(OAUTH_LOGIN_SECONDS)
        return state.endpoint(gateway).exchange(code, verifier=attempt.verifier, redirect_uri=callback.redirect_uri)


def _read_variable(environ: Mapping[str, str], name: str | None, ending: str) -> str | None:
    """Return the value of an environment variable that a capability file requests, or None if it is not set.

    SECURITY: a tool chooses both the name of the variable and the server that receives the value. Only variables whose
    name ends in `ending` are read; otherwise a tool could request AWS_SECRET_ACCESS_KEY.
    """
    if name is None:
        return None
    if not name.upper().endswith(ending):
        raise ConfigurationError(
            f"the capability file requests a variable whose name does not end in {ending}",
            hint=f"rename the variable in the capability file, for example to EXAMPLE_{ending}",
        )
    return environ.get(name) or None


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
            "this login does not support device codes, which a machine without a browser needs",
            hint="forward a port instead: on the machine with the browser run ssh -L 8765:127.0.0.1:8765 HOST, then on "
            "HOST run wasmrt auth TOOL --port 8765",
        )
    shown, device_code, lifetime, interval = _request_code(gateway, oauth, state)
    present(shown)
    endpoint = state.endpoint(gateway)
    ends = now() + min(lifetime, OAUTH_LOGIN_SECONDS)
    while now() + interval < ends:
        wait(interval)
        try:
            return endpoint.exchange_device_code(device_code)
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
    """Request a code (RFC 8628 3.1 and 3.2).

    Return the address and code for the user, the device code, and its lifetime and polling interval in seconds.
    """
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
    place = place or data.get("verification_url")  # Google's name for this field
    if response.status != 200 or not all(isinstance(text, str) and text for text in (place, code, device)):
        raise OAuthError(
            f"no device code was issued: the device authorization endpoint returned status {response.status}"
        )
    # SECURITY: the endpoint chose both strings, so they must be short, plain ASCII. They are shown, but never opened.
    plain = all(text.isascii() and text.isprintable() and len(text) <= _MAX_SHOWN for text in (str(place), str(code)))
    if not plain or urlsplit(str(place)).scheme != "https":
        raise OAuthError("the device authorization response has an invalid verification_uri or user_code")
    return (
        DeviceCode(str(place), str(code)),
        str(device),
        _read_seconds(data.get("expires_in"), OAUTH_LOGIN_SECONDS),
        min(_read_seconds(data.get("interval"), _INTERVAL_SECONDS), _MAX_INTERVAL_SECONDS),
    )


def _read_seconds(value: object, default: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 2**31:
        return default
    return float(value)
