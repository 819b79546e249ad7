"""Access to registries and URLs, for the commands that find, install and publish tools."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from wasmrt.catalog.policy import InstallPolicy
from wasmrt.catalog.registry import Access, Download, Reference, Send
from wasmrt.cli.shared.progress import status
from wasmrt.cli.shared.runtime import open_runtime
from wasmrt.core.limits import KIB
from wasmrt.core.places import find_places
from wasmrt.egress.secrets import DEFAULT_USER, find_registry_login


def configured_policy() -> InstallPolicy:
    """Return the operator's policy for installations."""
    path = find_places().config
    if not path.exists():
        return InstallPolicy()
    from wasmrt.agent.config import read_config_file  # loads the network modules

    return read_config_file(path).install


def download_with(policy: InstallPolicy) -> Download:
    """Return a function that downloads a URL. Every host, also after a redirect, must be allowed by `policy`."""
    return partial(_download, policy=policy)


def registry_access(policy: InstallPolicy | None = None) -> Access:
    """Return the access to a registry: through the gateway, with the logins in Docker's configuration.

    Every request, also after a redirect, must be to a host that `policy` allows. If `policy` is None, all hosts are
    allowed.
    """
    return Access(partial(_connect, policy=policy or InstallPolicy()), _find_login)


def _find_login(host: str) -> str | None:
    login = find_registry_login(host)
    return None if login is None else login.reveal()


@contextmanager
def _connect(reference: Reference, *, policy: InstallPolicy) -> Iterator[Send]:
    from wasmrt.egress.gateway import HttpRequest, HttpResponse, send_for_user  # loads the network modules

    with open_runtime() as runtime, runtime.open_gateway() as gateway, status(f"waiting for {reference.host}") as line:

        def send(
            method: str, url: str, headers: tuple[tuple[str, str], ...], body: bytes | None, max_bytes: int
        ) -> HttpResponse:
            def show(done: int) -> None:
                line.update(f"KiB from {reference.host}", done // KIB, max(1, max_bytes // KIB))

            policy.check_source(url)
            request = HttpRequest(method, url, headers, body)
            return send_for_user(
                gateway, reference.origin, request,
                name="install", user=DEFAULT_USER, max_bytes=max_bytes, on_read=show,
            )  # fmt: skip

        yield send


def _download(url: str, max_bytes: int, *, policy: InstallPolicy) -> bytes:
    from wasmrt.egress.gateway import download_for_user  # loads the network modules

    shown = url.partition("?")[0]  # a query may contain a signature
    with open_runtime() as runtime, runtime.open_gateway() as gateway, status(f"downloading {shown}"):
        # SECURITY: `check` also checks redirects.
        check = policy.check_source
        return download_for_user(gateway, url, name="install", user=DEFAULT_USER, max_bytes=max_bytes, check=check)
