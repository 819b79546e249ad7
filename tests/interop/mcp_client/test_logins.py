"""Logins at an authorization server: limited to an allowlist, with the checks that the SDK lacks, renewed once."""

from __future__ import annotations

import asyncio
import ssl
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from wasmrt.testing import MemorySecrets

from tests.interop.mcp_client.login_site import REFRESH, LoginSite
from tests.interop.mcp_client.world import World
from wasmrt.core.errors import GrantRequiredError, ToolError, WasmrtError
from wasmrt.egress.gateway import NetworkConfig
from wasmrt.egress.secrets import Secret
from wasmrt.interop.mcp.client import KeptLogin, McpServerConfig, Trust, authorize, discover


@pytest.fixture(scope="module")
def certificates() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def network(certificates: trustme.CA, tmp_path: Path) -> NetworkConfig:
    certificates.cert_pem.write_to_path(tmp_path / "ca.pem")
    return NetworkConfig(ca_file=tmp_path / "ca.pem")


@pytest.fixture
def site(certificates: trustme.CA, network: NetworkConfig) -> Iterator[LoginSite]:
    server = LoginSite(certificates)
    server.network = network
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield server
    server.ending.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def secrets() -> MemorySecrets:
    return MemorySecrets()


def server_at(site: LoginSite) -> McpServerConfig:
    return McpServerConfig(name="bad", url=f"{site.origin}/mcp", trust=Trust.LOCAL)


def log_in(site: LoginSite, secrets: MemorySecrets, agree: Any = lambda _: None, scope: str = "") -> KeptLogin:
    trusted = ssl.create_default_context(cafile=str(site.network.ca_file))

    def browse(url: str) -> None:
        """Follow the address as a browser would, while the login waits."""
        opened = lambda: urllib.request.urlopen(url, timeout=10, context=trusted).read()  # noqa: E731
        threading.Thread(target=opened, daemon=True).start()

    server = server_at(site)
    login = KeptLogin(secrets, "local", server)
    issuer = asyncio.run(discover(server, site.network, agree))
    asyncio.run(authorize(server, site.network, login, issuer, scope=scope, present=browse))
    return login


def test_a_login_stores_the_tokens_and_enables_calls(site: LoginSite, secrets: MemorySecrets) -> None:
    agreed: list[str] = []
    log_in(site, secrets, agreed.append)
    assert agreed == [site.origin]
    assert secrets.get("local", "mcp_bad_access_token").reveal() in site.tokens
    assert secrets.get("local", "mcp_bad_refresh_token").reveal() == REFRESH
    assert secrets.get("local", "mcp_bad_client_id").reveal() == "made-for-you"
    assert site.scopes == ["read"]
    with World(server_at(site), secrets=secrets, network=site.network) as world:
        assert world.call() == "fine"


def test_a_login_requests_the_users_and_the_servers_scopes(site: LoginSite, secrets: MemorySecrets) -> None:
    log_in(site, secrets, scope="write admin")
    assert site.scopes == ["write admin read"]


def test_a_refused_token_is_renewed_once_and_the_call_retried(site: LoginSite, secrets: MemorySecrets) -> None:
    log_in(site, secrets)
    site.tokens = {"another"}
    with World(server_at(site), secrets=secrets, network=site.network) as world:
        assert world.call() == "fine"
    assert site.refreshed == 1


def test_login_secrets_are_redacted_also_after_a_renewal(site: LoginSite, secrets: MemorySecrets) -> None:
    log_in(site, secrets)
    (first,) = site.tokens
    secrets.set("local", "mcp_bad_client_secret", Secret("a-secret-of-the-client"))
    with World(server_at(site), secrets=secrets, network=site.network) as world:
        site.says = "a-secret-of-the-client"
        assert world.call() == ("Bearer [REDACTED:secret:mcp_bad_access_token] [REDACTED:secret:mcp_bad_client_secret]")
        site.tokens = {"another"}
        site.says = first
        said = world.call()
        assert site.refreshed == 1 and site.tokens != {first}
        assert not [token for token in (first, *site.tokens) if token in said], said
        secrets.set("local", "mcp_bad_refresh_token", Secret("plain-words-to-renew"))
        secrets.set("local", "mcp_bad_access_token", Secret("of-another-process"))
        site.tokens, site.says = {"of-another-process"}, "plain-words-to-renew"
        said = world.call()
        assert "another-process" not in said and "plain-words" not in said


def test_a_failed_renewal_names_the_login_command(site: LoginSite, secrets: MemorySecrets) -> None:
    log_in(site, secrets)
    site.tokens, site.refuse_refresh = {"another"}, True
    with World(server_at(site), secrets=secrets, network=site.network) as world, pytest.raises(ToolError) as failure:
        world.call()
    assert failure.value.code == "mcp-login"
    assert failure.value.hint == "log in: wasmrt mcp auth bad"
    assert site.refreshed <= 2  # one for each protocol version that the client tries


def test_login_is_not_sent_to_a_server_of_the_same_name_at_another_address(
    site: LoginSite, secrets: MemorySecrets
) -> None:
    log_in(site, secrets)
    site.authorized.clear()
    moved = McpServerConfig(name="bad", url=f"{site.origin}/other", trust=Trust.LOCAL)
    with World(moved, secrets=secrets, network=site.network) as world, pytest.raises(ToolError, match="wants a login"):
        world.call()
    assert set(site.authorized) == {""}
    renamed = KeptLogin(secrets, "local", moved)
    assert [renamed.get(part) for part in ("access_token", "refresh_token", "client_id")] == ["", "", ""]
    renamed.set("access_token", "of-the-other")
    assert "mcp_bad_refresh_token" not in {info.name for info in secrets.list("local")}


def test_logins_are_separate_for_each_user(site: LoginSite, secrets: MemorySecrets) -> None:
    log_in(site, secrets)
    with (
        World(server_at(site), secrets=secrets, network=site.network) as world,
        pytest.raises(ToolError, match="wants a login"),
    ):
        world.registry.execute("bad_get_thing", {}, user="somebody-else")


def test_an_authorization_server_needs_consent_before_it_is_contacted(site: LoginSite, secrets: MemorySecrets) -> None:
    def refuse(origin: str) -> None:
        raise GrantRequiredError(f"not {origin}")

    with pytest.raises(GrantRequiredError):
        log_in(site, secrets, refuse)
    assert not any("authorization-server" in path for _, path in site.seen)


@pytest.mark.parametrize("methods", [None, [], ["plain"]])
def test_a_login_without_pkce_is_refused(site: LoginSite, secrets: MemorySecrets, methods: list[str] | None) -> None:
    site.methods = methods
    with pytest.raises(WasmrtError, match="PKCE"):
        log_in(site, secrets)


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("issuer", "http://auth.example", "not an https"),
        ("issuer", "https://169.254.169.254", "address|reached|metadata"),
        ("resource", "https://other.example/mcp", "different resource"),
        ("authorize_at", "http://auth.example/authorize", "not an https"),
        ("authorize_at", "javascript:alert(1)", "not an https|cannot be used|metadata"),
    ],
)
def test_login_metadata_is_validated(
    site: LoginSite, secrets: MemorySecrets, setting: str, value: str, said: str
) -> None:
    setattr(site, setting, value)
    with pytest.raises(WasmrtError, match=said):
        log_in(site, secrets)
    assert secrets.list("local") == ()


def test_a_code_from_another_issuer_is_refused(site: LoginSite, secrets: MemorySecrets) -> None:
    site.iss = "https://evil.example"
    with pytest.raises(WasmrtError, match="login failed"):
        log_in(site, secrets)
    assert ("POST", "/token") not in site.seen
