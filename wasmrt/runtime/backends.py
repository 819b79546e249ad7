"""Backends of granted capabilities: the network with its credentials, and the workspace.

A runtime whose tools were granted none of them never loads this: TLS, keyrings and ciphers are half of a short
program's start.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from wasmrt.capabilities import Capabilities, WorkspaceCapability, WorkspaceWriteCapability
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.places import find_places
from wasmrt.egress.gateway import EgressGateway, NetworkConfig, SecretsView
from wasmrt.egress.leaks import LeakDetector
from wasmrt.egress.rates import RateLimiter
from wasmrt.runtime.call import Backends, Files, ToolInvoker
from wasmrt.runtime.call.http import GuestHttp
from wasmrt.runtime.config import WasmRuntimeConfig
from wasmrt.runtime.workspace import UndoJournal, WorkspaceReader, WorkspaceWriter

if TYPE_CHECKING:
    from wasmrt.egress.oauth import Renewals


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
            from wasmrt.egress.oauth import Renewals, token_renewer  # a runtime without secrets needs neither
            from wasmrt.egress.secrets import UserSecrets

            renewals = Renewals(store, token_renewer(lambda: self._gateway))
            self._plain = lambda user, _: UserSecrets(store, user)
            self._renewals = renewals

    def make(self, grant: Capabilities, detector: LeakDetector, tools: ToolInvoker) -> Backends:
        """Return what calls under `grant` may use.

        Raises:
            ConfigurationError: the workspace is no directory.
        """
        shared = self._workspace if isinstance(self._workspace, (str, Path)) else None
        files = self._files(grant, shared)
        uses_files = any(grant.get(kind) for kind in (WorkspaceCapability, WorkspaceWriteCapability))
        return Backends(
            detector,
            http=None if grant.http is None else GuestHttp(self._gateway),
            workspace=files.reader,
            writer=files.writer,
            files_of=partial(self._files_of, grant, files) if uses_files else None,
            secrets_of=self._plain if grant.http is None else self._renewed(grant),
            tools=None if grant.tool_invoke is None else tools,
            networks=self._gateway.networks,
        )

    def _files_of(self, grant: Capabilities, shared: Files, user: str, own: Path | None) -> Files:
        """Return the workspace of one call: the folder that it brings, else its user's, else the one for all."""
        if own is not None:
            return self._files(grant, own)
        return self._files(grant, self._workspace(user)) if callable(self._workspace) else shared

    def _files(self, grant: Capabilities, root: Path | str | None) -> Files:
        """Return the part of a folder that a grant covers.

        Raises:
            ConfigurationError: it is no folder.
        """
        read, write = grant.get(WorkspaceCapability), grant.get(WorkspaceWriteCapability)
        return Files(
            None if read is None or root is None else WorkspaceReader(root, read.allowed_prefixes),
            None if write is None or root is None else WorkspaceWriter(root, write, self._undo),
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
