"""An MCP server over HTTP that requires a login, and its authorization server, both on one loopback address."""

from __future__ import annotations

import base64
import hashlib
import json
import ssl
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import trustme

from tests.interop.mcp_client import hostile
from tests.interop.mcp_client.hostile_http import Server, _Handler
from wasmrt.egress.gateway import NetworkConfig

REFRESH = "gh" + "r_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
"""In a known token format: the gateway would treat it as a leak in any other request."""


class LoginSite(Server):
    """The faults of the site, and the tokens that it issued."""

    def __init__(self, certificates: trustme.CA) -> None:
        super().__init__()
        self.RequestHandlerClass = LoginHandler
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificates.issue_cert("localhost").configure_cert(context)
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.origin = f"https://localhost:{self.server_address[1]}"
        self.network = NetworkConfig()
        self.methods: list[str] | None = ["S256"]
        self.issuer = self.origin
        self.resource = f"{self.origin}/mcp"
        self.authorize_at = f"{self.origin}/authorize"
        self.iss = self.origin
        self.tokens: set[str] = set()
        self.codes: dict[str, str] = {}
        self.refreshed = 0
        self.refuse_refresh = False
        self.scopes: list[str] = []
        self.authorized: list[str] = []
        """The Authorization headers that its MCP endpoints received."""
        self.says = ""
        """The response of its tool, with the Authorization header that it received."""

    def issue(self) -> dict[str, Any]:
        token = f"token-{len(self.scopes)}-{self.refreshed}"
        self.tokens = {token}
        return {"access_token": token, "token_type": "Bearer", "expires_in": 3600, "refresh_token": REFRESH}


class LoginHandler(_Handler):
    server: LoginSite

    def do_GET(self) -> None:
        site, parts = self.server, urlsplit(self.path)
        site.seen.append(("GET", parts.path))
        if parts.path.startswith("/.well-known/oauth-protected-resource"):
            return self.json({"resource": site.resource, "authorization_servers": [site.issuer]})
        if parts.path.startswith(("/.well-known/oauth-authorization-server", "/.well-known/openid")):
            data = {"issuer": site.origin, "authorization_endpoint": site.authorize_at,
                    "token_endpoint": f"{site.origin}/token", "registration_endpoint": f"{site.origin}/register",
                    "response_types_supported": ["code"]}  # fmt: skip
            return self.json(
                data if site.methods is None else data | {"code_challenge_methods_supported": site.methods}
            )
        if parts.path == "/authorize":
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            site.scopes.append(query.get("scope", ""))
            site.codes["a-code"] = query["code_challenge"]
            back = urlencode({"code": "a-code", "state": query["state"], "iss": site.iss})
            return self.answer(302, b"", {"Location": f"{query['redirect_uri']}?{back}"})
        return self.answer(404, b"")

    def do_POST(self) -> None:
        site = self.server
        site.seen.append(("POST", self.path))
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/register":
            return self.json(json.loads(body) | {"client_id": "made-for-you"}, 201)
        if self.path == "/token":
            return self.token({name: values[0] for name, values in parse_qs(body.decode()).items()})
        site.authorized.append(self.headers.get("Authorization", ""))
        if self.headers.get("Authorization", "").removeprefix("Bearer ") not in site.tokens:
            where = f'Bearer resource_metadata="{site.origin}/.well-known/oauth-protected-resource/mcp", scope="read"'
            return self.answer(401, b"", {"WWW-Authenticate": where})
        message = json.loads(body)
        if message["method"] == "initialize":
            return self.reply(message, {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                                        "serverInfo": {"name": "login", "version": "1"}})  # fmt: skip
        if message["method"] == "tools/list":
            return self.reply(message, {"tools": [hostile.TOOL]})
        if message["method"] == "tools/call":
            said = f"{self.headers['Authorization']} {site.says}" if site.says else "fine"
            return self.reply(message, {"content": [{"type": "text", "text": said}]})
        return (
            self.reply(message, error={"code": -32601, "message": "no"}) if "id" in message else self.answer(202, b"")
        )

    def token(self, form: dict[str, str]) -> None:
        site = self.server
        if form["grant_type"] == "refresh_token":
            site.refreshed += 1
            if site.refuse_refresh or form["refresh_token"] != REFRESH or form["client_id"] != "made-for-you":
                return self.json({"error": "invalid_grant"}, 400)
            return self.json(site.issue())
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).rstrip(b"=")
        if site.codes.pop(form["code"], None) != challenge.decode():
            return self.json({"error": "invalid_grant"}, 400)
        return self.json(site.issue())

    def json(self, value: Any, status: int = 200) -> None:
        self.answer(status, json.dumps(value).encode(), kind="application/json")
