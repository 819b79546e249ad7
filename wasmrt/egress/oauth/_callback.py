"""The loopback address that a browser returns to with an authorization code. RFC 8252 7.3."""

from __future__ import annotations

import hmac
import threading
from types import TracebackType
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from wasmrt.egress.oauth._tokens import OAuthError

if TYPE_CHECKING:
    from http.server import BaseHTTPRequestHandler

_PATH = "/callback"
_PAGE = b"<!doctype html><title>wasmrt</title><p>%s You can close this page.</p>"


class LoopbackCallback:
    """Listens on 127.0.0.1, on a port the system chooses or a given one, for one response with the right `state`.

    Raises:
        OAuthError: the port cannot be had.
    """

    def __init__(self, state: str, port: int | None = None) -> None:
        from http.server import ThreadingHTTPServer  # 10 ms, and a run that renews a token needs none

        self._state = state
        self._done = threading.Event()
        self._code: str | None = None
        self.issuer: str | None = None
        """The issuer that came with the code (RFC 9207), for whoever checks it."""
        try:
            self._server = ThreadingHTTPServer(("127.0.0.1", port or 0), self._handler())
        except OSError as error:
            raise OAuthError(
                f"port {port} cannot be used ({error.strerror})", code="login-port", hint="choose another with --port"
            ) from None
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def redirect_uri(self) -> str:
        """The address to come back to."""
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
        """The state that the response has to have."""
        return self._state

    def expect(self, state: str) -> None:
        """Wait for another state: that of a request that somebody else makes."""
        self._state = state

    def wait(self, seconds: float) -> str:
        """Return the authorization code.

        Raises:
            OAuthError: nobody came in time, or the person said no.
        """
        if not self._done.wait(seconds):
            raise OAuthError("nobody logged in in time", code="login-timeout", hint="run the command again")
        if self._code is None:
            raise OAuthError("the login was refused", code="login-refused")
        return self._code

    def _answer(self, target: str) -> tuple[int, bytes]:
        parts = urlsplit(target)
        query = parse_qs(parts.query)
        states, codes = query.get("state", []), query.get("code", [])
        # SECURITY: without our state this is somebody else's code, brought here to log us in as them. It does not end
        # the wait, so that a stray request cannot stop a login either.
        if parts.path != _PATH or len(states) != 1 or not hmac.compare_digest(states[0].encode(), self._state.encode()):
            return 400, _PAGE % b"This is not the login that was asked for."
        if self._done.is_set():
            return 400, _PAGE % b"This login is over."
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
                """Say nothing: the request line holds the code."""

        return Handler
