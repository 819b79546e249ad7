"""The [serve] section of the configuration file, and the command that uses it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme

from tests.interop.mcp_server.authority import HOST, RESOURCE, Authority
from tests.interop.mcp_server.processes import served, wasmrt
from tests.interop.mcp_server.world import META, URLS
from wasmrt.agent.config import read_config_file
from wasmrt.core.errors import ConfigFileError

WHOLE = """
[serve]
resource = "https://tools.example.com/mcp"
issuer = "https://login.example.com"
jwks_url = "https://login.example.com/keys"
users = { "auth0|1" = "alice" }
"""


def test_a_minimal_section_uses_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(WHOLE)
    found = read_config_file(tmp_path / "config.toml").resource
    assert found is not None
    assert (found.user_claim, found.scopes, found.clock_skew_seconds) == ("sub", (), 60)
    assert found.algorithms == ("RS256", "PS256", "ES256", "EdDSA")
    (tmp_path / "config.toml").write_text("")
    assert read_config_file(tmp_path / "config.toml").resource is None


WRONG = {
    'resource = "http://tools.example.com/mcp"': "serve.resource",
    'resource = "https://tools.example.com/"': "serve.resource",
    'resource = "https://tools.example.com/other/mcp"': "serve.resource",
    'resource = "https://Tools.example.com/mcp"': "serve.resource",
    'resource = "https://tools.example.com/mcp?x=1"': "serve.resource",
    "resource = 7": "serve.resource",
    'issuer = "http://login.example.com"': "serve.issuer",
    'issuer = "login.example.com"': "serve.issuer",
    'jwks_url = "http://login.example.com/keys"': "serve.jwks_url",
    'jwks_url = "file:///etc/keys"': "serve.jwks_url",
    "users = {}": "serve.users",
    'users = "alice"': "serve.users",
    'users = { "" = "alice" }': "serve.users",
    'users = { "x" = "" }': "serve.users",
    "users = { x = 7 }": "serve.users",
    'algorithms = ["none"]': "serve.algorithms",
    'algorithms = ["HS256"]': "serve.algorithms",
    "algorithms = []": "serve.algorithms",
    'scopes = ["a b"]': "serve.scopes",
    "scopes = ['a\"b']": "serve.scopes",
    "clock_skew_seconds = 3600": "serve.clock_skew_seconds",
    "clock_skew_seconds = -1": "serve.clock_skew_seconds",
    'user_claim = ""': "serve.user_claim",
    'audience = "x"': "serve.audience",
}


@pytest.mark.parametrize("line", WRONG)
def test_a_mistake_in_the_section_is_reported_with_its_key(tmp_path: Path, line: str) -> None:
    key = line.partition(" =")[0]
    kept = [each for each in WHOLE.splitlines() if not each.startswith(f"{key} =")]
    (tmp_path / "config.toml").write_text("\n".join([*kept, line]))
    with pytest.raises(ConfigFileError) as failure:
        read_config_file(tmp_path / "config.toml")
    assert [problem[0] for problem in failure.value.problems] == [WRONG[line]]


@pytest.mark.parametrize("key", ["resource", "issuer", "jwks_url", "users"])
def test_a_missing_key_is_reported_by_name(tmp_path: Path, key: str) -> None:
    (tmp_path / "config.toml").write_text("\n".join(e for e in WHOLE.splitlines() if not e.startswith(f"{key} =")))
    with pytest.raises(ConfigFileError, match=f"requires {key}"):
        read_config_file(tmp_path / "config.toml")


@pytest.fixture
def authority(tmp_path: Path) -> Iterator[Authority]:
    found = Authority(trustme.CA(), tmp_path)
    yield found
    found.close()


@pytest.mark.ci("slow")
def test_the_command_accepts_access_tokens_and_records_refusals(
    home: Path, authority: Authority, tmp_path: Path
) -> None:
    (home / "data").mkdir(exist_ok=True)
    section = WHOLE.replace("https://login.example.com", authority.issuer).replace("auth0|1", "alice@login")
    network = f'[network]\nca_file = "{tmp_path / "ca.pem"}"\nunsafe_allowed_networks = ["127.0.0.0/8", "::1/128"]\n'
    (home / "data" / "config.toml").write_text(network + section)
    with served() as (url, said):
        assert any(RESOURCE in line and authority.issuer in line for line in said)
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "echo", "arguments": {"message": "hi"}, "_meta": META}}  # fmt: skip
        headers = {"host": HOST, "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "echo"}
        with httpx.Client(trust_env=False, timeout=60) as client:
            refused = client.post(url, json=message, headers=headers)
            where = f"https://{HOST}/.well-known/oauth-protected-resource/mcp"
            assert refused.status_code == 401 and where in refused.headers["www-authenticate"]
            token = {"authorization": f"Bearer {authority.token()}"}
            assert client.post(url, json=message, headers=headers | token).status_code == 200
            forged = {"authorization": f"Bearer {authority.token(aud='https://other.example')}"}
            assert client.post(url, json=message, headers=headers | forged).status_code == 401
    listed = json.loads(wasmrt("audit", "tail", "--json").stdout)
    outcomes = {(each["outcome"], each["user"]) for each in listed}
    assert outcomes >= {("no-token", ""), ("invalid-token", ""), ("ok", "alice")}
    wasmrt("audit", "verify")


@pytest.mark.ci("slow")
def test_a_missing_library_is_reported_with_the_command_to_install_it(home: Path) -> None:
    (home / "data").mkdir(exist_ok=True)
    (home / "data" / "config.toml").write_text(WHOLE)
    started = ["import sys", "sys.modules['jwt'] = None", "sys.argv = ['wasmrt', 'serve', '--http', '0']"]
    code = "; ".join([*started, "from wasmrt.cli import main", "main()"])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "wasmrt[serve]" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.ci("slow")
def test_the_operator_is_directed_to_the_local_pages(home: Path, tmp_path: Path) -> None:
    def called(url: str, token: str) -> dict[str, Any]:
        headers = {"authorization": f"Bearer {token}", "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call"}
        params = {"name": "write_file", "arguments": {"path": "a.txt", "content": "x"}, "_meta": URLS}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        found = httpx.post(url, json=message, headers=headers | {"mcp-name": "write_file"}, timeout=60, trust_env=False)
        return dict(found.json()["result"])

    tokens = {user: wasmrt("serve", "--new-token", user).stdout.decode().strip() for user in ("local", "bob")}
    with served("--workspace", str(tmp_path)) as (url, _):
        asked = called(url, tokens["local"])["inputRequests"]["approval"]["params"]
        address = asked["url"]
        assert address.startswith(url.removesuffix("mcp") + "approvals/ask/")
        assert httpx.get(address, trust_env=False).status_code == 200
        assert "approvals approve" in called(url, tokens["bob"])["content"][0]["text"]
