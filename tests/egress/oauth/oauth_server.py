"""A real authorization server (Authlib) with PKCE required, and an API that accepts its tokens."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from authlib.oauth2.rfc6749 import AuthorizationServer, ClientMixin, OAuth2Request
from authlib.oauth2.rfc6749.grants import AuthorizationCodeGrant, RefreshTokenGrant
from authlib.oauth2.rfc6749.requests import BasicOAuth2Payload
from authlib.oauth2.rfc6750 import BearerTokenGenerator
from authlib.oauth2.rfc7636 import CodeChallenge
from wasmrt.testing import ReceivedRequest, ServerConnection, http_response


class Asked(OAuth2Request):  # type: ignore[misc]
    """A request in the form that Authlib reads."""

    def __init__(self, request: ReceivedRequest) -> None:
        super().__init__(request.method, f"https://api.example.com{request.target}", headers=dict(request.headers))
        self._args = dict(parse_qsl(urlsplit(request.target).query))
        self._form = dict(parse_qsl(request.body.decode()))
        self.payload = BasicOAuth2Payload(self._form if request.method == "POST" else self._args)

    @property
    def args(self) -> dict[str, str]:
        return self._args

    @property
    def form(self) -> dict[str, str]:
        return self._form


class Client(ClientMixin):  # type: ignore[misc]
    def get_client_id(self) -> str:
        return "a-client"

    def get_default_redirect_uri(self) -> str:
        return ""

    def get_allowed_scope(self, scope: str) -> str:
        return scope or ""

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        return redirect_uri.startswith("http://127.0.0.1:")  # RFC 8252 7.3: any port

    def check_client_secret(self, client_secret: str) -> bool:
        return False

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method == "none"

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type in ("authorization_code", "refresh_token")


@dataclass
class Code:
    code: str
    redirect_uri: str
    scope: str
    code_challenge: str | None
    code_challenge_method: str | None

    def get_redirect_uri(self) -> str:
        return self.redirect_uri

    def get_scope(self) -> str:
        return self.scope


class RefreshToken:
    """An issued refresh token."""

    def __init__(self, scope: str) -> None:
        self.scope = scope

    def check_client(self, client: Client) -> bool:
        return True

    def get_scope(self) -> str:
        return self.scope


class CodeGrant(AuthorizationCodeGrant):  # type: ignore[misc]
    TOKEN_ENDPOINT_AUTH_METHODS = ("none",)

    def save_authorization_code(self, code: str, request: Any) -> None:
        data = request.payload.data
        self.server.codes[code] = Code(
            code,
            data["redirect_uri"],
            data.get("scope", ""),
            data.get("code_challenge"),
            data.get("code_challenge_method"),
        )

    def query_authorization_code(self, code: str, client: Client) -> Code | None:
        return self.server.codes.get(code)  # type: ignore[no-any-return]

    def delete_authorization_code(self, authorization_code: Code) -> None:
        del self.server.codes[authorization_code.code]

    def authenticate_user(self, authorization_code: Code) -> str:
        return "somebody"


class RefreshGrant(RefreshTokenGrant):  # type: ignore[misc]
    TOKEN_ENDPOINT_AUTH_METHODS = ("none",)
    INCLUDE_NEW_REFRESH_TOKEN = True

    def authenticate_refresh_token(self, refresh_token: str) -> RefreshToken | None:
        self.used = refresh_token
        return self.server.refresh_tokens.get(refresh_token)  # type: ignore[no-any-return]

    def authenticate_user(self, refresh_token: RefreshToken) -> str:
        return "somebody"

    def revoke_old_credential(self, refresh_token: RefreshToken) -> None:
        del self.server.refresh_tokens[self.used]


@dataclass
class OAuthServer(AuthorizationServer):  # type: ignore[misc]
    """`/authorize`, `/token`, and `/api`, which requires a valid token."""

    lifetime: int = 3600
    codes: dict[str, Code] = field(default_factory=dict)
    refresh_tokens: dict[str, RefreshToken] = field(default_factory=dict)
    good: set[str] = field(default_factory=set)
    issued: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.register_grant(CodeGrant, [CodeChallenge(required=True)])
        self.register_grant(RefreshGrant)
        generator = BearerTokenGenerator(
            lambda **_: "at-" + secrets.token_urlsafe(24),
            lambda **_: "rt-" + secrets.token_urlsafe(24),
            lambda *_: self.lifetime,
        )
        self.register_token_generator("default", generator)

    def query_client(self, client_id: str) -> Client | None:
        return Client() if client_id == "a-client" else None

    def save_token(self, token: dict[str, Any], request: Any) -> None:
        self.issued.append(token)
        self.good.add(token["access_token"])
        self.refresh_tokens[token["refresh_token"]] = RefreshToken(token.get("scope", ""))

    def send_signal(self, name: str, *args: Any, **kwargs: Any) -> None:
        """Authlib calls this; there are no listeners."""

    def create_oauth2_request(self, request: ReceivedRequest | Asked) -> Asked:
        return request if isinstance(request, Asked) else Asked(request)

    def handle_response(self, status: int, body: Any, headers: Any) -> bytes:
        text = json.dumps(body) if isinstance(body, dict) else (body or "")
        return http_response(text.encode(), status=status, headers=tuple(headers))

    def script(self, request: ReceivedRequest, connection: ServerConnection) -> bytes:
        path = urlsplit(request.target).path
        if path == "/authorize":
            asked = self.create_oauth2_request(request)
            grant = self.get_authorization_grant(asked)
            grant.validate_authorization_request()
            answer: bytes = self.create_authorization_response(asked, grant_user="somebody", grant=grant)
            return answer
        if path == "/token":
            return bytes(self.create_token_response(request))
        token = (request.header("Authorization") or "").removeprefix("Bearer ")
        return http_response(b"welcome" if token in self.good else b"", status=200 if token in self.good else 401)
