"""`wasmrt serve --http`: serve MCP over HTTP, with a token for each user."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from wasmrt.agent.config import OperatorConfig, read_config_file
from wasmrt.cli.serve.options import JSON_LOG, ServeOptions, check_user
from wasmrt.cli.serve.pages import operator_pages
from wasmrt.cli.serve.session import serve_tools
from wasmrt.cli.shared.output import print_message, show, show_json
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.places import find_places
from wasmrt.core.telemetry import PrometheusMetrics
from wasmrt.core.version import VERSION
from wasmrt.egress.gateway import EgressGateway
from wasmrt.interop.mcp.server.http import (
    PATH,
    Access,
    Entrance,
    MountedHandler,
    UserTokens,
    metrics_server,
    serve_http,
)
from wasmrt.interop.mcp.server.protocol import Server

_HOST = "127.0.0.1"
_PAGES = "/approvals/"


def serve_over_http(options: ServeOptions, address: str) -> int:
    """Serve until SIGINT or SIGTERM; the first start creates a token and shows it once.

    Raises:
        ConfigurationError: the address is not a loopback address or is in use, or the token file cannot be used.
    """
    host, port = read_address(address)
    users = UserTokens(find_places().mcp_tokens)
    return asyncio.run(_serve(options, users, host, port))


def new_token(user: str, *, as_json: bool) -> int:
    """Create a token for a user and show it; it cannot be retrieved later.

    Raises:
        ConfigurationError: the user name is not valid, or the token file cannot be used.
    """
    check_user(user, "--new-token")
    token = UserTokens(find_places().mcp_tokens).renew(user)
    if as_json:
        show_json({"user": user, "token": token})
        return 0
    print_message(f"token of {user}, shown only once; an earlier token of {user} is no longer valid")
    show(token)
    return 0


async def _serve(options: ServeOptions, users: UserTokens, host: str, port: int) -> int:
    server, ended = Server(version=VERSION), asyncio.Event()
    pages, config = operator_pages(_PAGES), read_config_file(find_places().config)
    at: list[str] = []

    def started(url: str) -> None:
        at.append(f"{url}{_PAGES}")
        print_message(f"serving at {url}{PATH}; press Ctrl-C to stop")
        if config.resource is not None:
            print_message(f"clients use {config.resource.resource}, with access tokens of {config.resource.issuer}")
        # SECURITY: logs are stored, so they contain neither the link that opens the approvals nor a token.
        if options.log_format != JSON_LOG:
            print_message(f"approvals, receipts and grants: {pages.link(url)} (opens once, within 15 minutes)")
            if not users.has(options.user):
                token = users.renew(options.user)
                print_message(f"token of {options.user}, shown only once: {token}")
        print_message("clients send Authorization: Bearer TOKEN; for another token: wasmrt serve --new-token USER")

    metrics = None if options.metrics is None else PrometheusMetrics()
    mounted = MountedHandler(_PAGES, pages.gate, pages)
    async with AsyncExitStack() as stack:
        access, origin = _open_access(config, stack)
        transport = serve_http(
            server, Entrance(users, access), host=host, port=port, ended=ended, started=started, mounted=mounted,
            origin=origin,
        )  # fmt: skip
        if options.metrics is not None and metrics is not None:
            stack.callback(metrics.close)
            host, port = read_address(options.metrics)
            await stack.enter_async_context(metrics_server(metrics.write, host=host, port=port))
        return await serve_tools(
            options, server, transport, ended, own_pages=lambda: at[0] if at else None, metrics=metrics
        )


def _open_access(config: OperatorConfig, stack: AsyncExitStack) -> tuple[Access | None, str | None]:
    """Return the check of OAuth access tokens, and the origin for which tokens must be issued.

    Both are None if the section [serve] is not set.
    `stack` closes the gateway that fetches the issuer's keys.

    Raises:
        ConfigurationError: the library that reads access tokens is not installed.
    """
    if config.resource is None:
        return None, None
    try:
        from wasmrt.interop.mcp.server.oauth import AccessTokens, KeySet
    except ImportError:
        raise ConfigurationError(
            "the section [serve] needs a library that reads access tokens", hint="pip install 'wasmrt[serve]'"
        ) from None
    keys = KeySet(stack.enter_context(EgressGateway(config.network)), config.resource.jwks_url)
    return AccessTokens(config.resource, keys), config.resource.origin


def read_address(text: str) -> tuple[str, int]:
    """Return the host and the port of an option `--http`.

    Raises:
        ConfigurationError: the text is not an address.
    """
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or _HOST
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ConfigurationError(f"invalid address: {text!r:.80}", hint="write it like --http 127.0.0.1:8931")
    return (_HOST if host == "localhost" else host), int(port)
