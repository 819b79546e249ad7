"""Backends of granted capabilities: the network with its credentials, and the workspace.

A runtime without such grants never imports this module, because loading TLS, keyrings and ciphers takes half of the
start-up time of a short program.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from wasmrt.capabilities import Capabilities, WorkspaceCapability, WorkspaceWriteCapability
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.model import Reason
from wasmrt.core.places import find_places
from wasmrt.egress.gateway import EgressGateway, HttpFailure, HttpRequest, NetworkConfig, Response, SecretsView
from wasmrt.egress.leaks import LeakDetector
from wasmrt.egress.rates import RateLimiter
from wasmrt.runtime.call import Backends, Call, Files, ToolRunner
from wasmrt.runtime.config import WasmRuntimeConfig
from wasmrt.runtime.workspace import UndoJournal, WorkspaceReader, WorkspaceWriter
from wasmrt.sandbox.guest.replies import HostFailure
from wasmrt.sandbox.guest.requests import HttpOpen

if TYPE_CHECKING:
    from wasmrt.egress.oauth import Renewals


class BackendFactory:
    """Creates the backends of each prepared tool from the tool's grant. `close` the factory after use.

    All backends share one gateway.

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
            from wasmrt.egress.oauth import Renewals, token_renewer  # a runtime without secrets needs neither module
            from wasmrt.egress.secrets import UserSecrets

            renewals = Renewals(store, token_renewer(lambda: self._gateway))
            self._plain = lambda user, _: UserSecrets(store, user)
            self._renewals = renewals

    def make(self, grant: Capabilities, detector: LeakDetector, tools: ToolRunner) -> Backends:
        """Return the backends for calls under `grant`.

        Raises:
            ConfigurationError: the workspace is not a directory.
        """
        shared = self._workspace if isinstance(self._workspace, (str, Path)) else None
        files = self._make_files(grant, shared)
        uses_files = any(grant.get(kind) for kind in (WorkspaceCapability, WorkspaceWriteCapability))
        return Backends(
            detector,
            http=None if grant.http is None else GuestHttp(self._gateway),
            workspace=files.reader,
            writer=files.writer,
            files_of=partial(self._choose_files, grant, files) if uses_files else None,
            secrets_of=self._plain if grant.http is None else self._make_secrets_of(grant),
            tools=None if grant.tool_invoke is None else tools,
            networks=self._gateway.networks,
        )

    def _choose_files(self, grant: Capabilities, shared: Files, user: str, own: Path | None) -> Files:
        """Return the files of a call: in `own` if given, else in the user's folder, else in the shared one."""
        if own is not None:
            return self._make_files(grant, own)
        return self._make_files(grant, self._workspace(user)) if callable(self._workspace) else shared

    def _make_files(self, grant: Capabilities, root: Path | str | None) -> Files:
        """Return the reader and writer that a grant allows for a folder.

        Raises:
            ConfigurationError: `root` is not a directory.
        """
        read, write = grant.get(WorkspaceCapability), grant.get(WorkspaceWriteCapability)
        return Files(
            None if read is None or root is None else WorkspaceReader(root, read.allowed_prefixes),
            None if write is None or root is None else WorkspaceWriter(root, write, self._undo),
        )

    def _make_secrets_of(self, grant: Capabilities) -> Callable[[str, Lifetime], SecretsView] | None:
        renewals = self._renewals
        if renewals is None:
            return None
        # SECURITY: a token is renewed only at the token URL of the granted login.
        places = {login.secret_name: login.oauth.token_url for login in grant.logins}
        return lambda user, lifetime: renewals.of(user).within(lifetime, places)

    def close(self) -> None:
        """Close the gateway's connections."""
        self._gateway.close()


class GuestHttp:
    """Sends HTTP requests of guests through the gateway."""

    def __init__(self, gateway: EgressGateway) -> None:
        self._gateway = gateway
        self.networks = gateway.networks

    def open(self, call: Call, request: HttpOpen) -> GatewayResponse:
        """Check and send a request, and wait for the status and the headers of the response.

        Raises:
            HostFailure: the request was denied or failed.
        """
        try:
            return GatewayResponse(call, self._gateway.open(call, HttpRequest(*request)))
        except HttpFailure as failure:
            raise _host_failure(call, failure) from failure


class GatewayResponse:
    """A response from the gateway, for a guest. Failures are raised as `HostFailure`."""

    def __init__(self, call: Call, response: Response) -> None:
        self._call = call
        self._response = response
        self.status = response.status
        self.headers = response.headers

    def read(self) -> bytes:
        """Wait for the next piece of the body and return it; return empty bytes at the end."""
        try:
            return self._response.read()
        except HttpFailure as failure:
            raise _host_failure(self._call, failure) from failure

    def read_all(self) -> bytes:
        """Wait for the rest of the body and return it."""
        try:
            return self._response.read_all()
        except HttpFailure as failure:
            raise _host_failure(self._call, failure) from failure

    def close(self) -> None:
        """Release the connection. May be called more than once."""
        self._response.close()


def _host_failure(call: Call, failure: HttpFailure) -> HostFailure:
    call.lifetime.check()  # an expired deadline ends the call, so that the guest cannot continue
    message = f"{failure.message}; {failure.hint}" if failure.hint else failure.message
    limit_bytes = None
    if call.grant.http is not None:
        limit_bytes = {
            str(Reason.REQUEST_TOO_LARGE): call.grant.http.max_request_bytes,
            str(Reason.RESPONSE_TOO_LARGE): call.grant.http.max_response_bytes,
        }.get(failure.code)
    return HostFailure(
        failure.kind,
        failure.code,
        message,
        request_sent=failure.request_sent,
        denied=failure.decision is not None,
        limit_bytes=limit_bytes,
    )
