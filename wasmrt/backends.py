"""Backends of granted capabilities: the network with its credentials, and the workspace.

A runtime whose tools were granted none of them never loads this: TLS, keyrings and ciphers are half of a short
program's start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from wasmrt.call import Backends, ToolInvoker
from wasmrt.call.http import GuestHttp
from wasmrt.capabilities import Capabilities
from wasmrt.config import WasmRuntimeConfig
from wasmrt.egress import EgressGateway, NetworkConfig, SecretsView
from wasmrt.leaks import LeakDetector
from wasmrt.lifetime import Lifetime
from wasmrt.places import find_places
from wasmrt.rates import RateLimiter
from wasmrt.workspace import UndoJournal, WorkspaceReader, WorkspaceWriter

if TYPE_CHECKING:
    from wasmrt.oauth import Renewals


class BackendFactory:
    """Makes the backends of each prepared tool from its grant; all of them share one gateway. `close` it.

    Raises:
        ConfigurationError: the configured CA file cannot be used.
    """

    def __init__(self, config: WasmRuntimeConfig, rates: RateLimiter) -> None:
        self._workspace = config.workspace
        self._undo = UndoJournal(find_places().undo) if config.undo else None
        self._gateway = EgressGateway(config.network or NetworkConfig(), rates=rates)
        self._plain: Callable[[str, Lifetime], SecretsView] | None = None
        self._renewals: Renewals | None = None
        if (store := config.secrets) is not None:
            from wasmrt.oauth import Renewals, token_renewer  # a runtime without secrets needs neither
            from wasmrt.secrets import UserSecrets

            renewals = Renewals(store, token_renewer(lambda: self._gateway))
            self._plain = lambda user, _: UserSecrets(store, user)
            self._renewals = renewals

    def make(self, grant: Capabilities, detector: LeakDetector, tools: ToolInvoker) -> Backends:
        """Return what calls under `grant` may use.

        Raises:
            ConfigurationError: the workspace is no directory.
        """
        workspace = writer = None
        if grant.workspace_read is not None and self._workspace is not None:
            workspace = WorkspaceReader(self._workspace, grant.workspace_read.allowed_prefixes)
        if grant.workspace_write is not None and self._workspace is not None:
            writer = WorkspaceWriter(self._workspace, grant.workspace_write, self._undo)
        return Backends(
            detector,
            http=None if grant.http is None else GuestHttp(self._gateway),
            workspace=workspace,
            writer=writer,
            secrets_of=self._plain if grant.http is None else self._renewed(grant),
            tools=None if grant.tool_invoke is None else tools,
        )

    def _renewed(self, grant: Capabilities) -> Callable[[str, Lifetime], SecretsView] | None:
        renewals = self._renewals
        if renewals is None:
            return None
        # SECURITY: what renews a token goes to the place that the granted login names, and to no other.
        places = {login.secret_name: login.oauth.token_url for login in grant.logins}
        return lambda user, lifetime: renewals.of(user).within(lifetime, places)

    def close(self) -> None:
        """Close the connections."""
        self._gateway.close()
