"""The logins of a package's vendors: each has its own client, scopes and URLs, and sets only its own secret."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from wasmrt.testing import MemorySecrets

from tests.catalog.packages.desk_package import write_package
from wasmrt.capabilities.file import CapabilityFile, format_file, parse
from wasmrt.catalog.package import Package, open_files, read_package
from wasmrt.cli import cli
from wasmrt.cli.shared.logins import settings
from wasmrt.core.errors import CapabilityFileError, ManifestError
from wasmrt.egress.oauth import Tokens
from wasmrt.egress.secrets import Secret

WASM = b"\0asm\x0d\0\x01\0"
VAULT_LOGIN = """[auth.vault]
method = "oauth2_code"
display_name = "The vault"
authorization_endpoint = "https://vault.example/agree"
token_endpoint = "https://tokens.vault.example/token"
client_credentials = { client_id_handle = "vault_client_id" }
"""
TWO = {
    '[auth.vault]\nmethod = "api_key"\ndisplay_name = "The vault"\n': VAULT_LOGIN,
    'vendor = "vault"': 'vendor = "vault"\nscopes = ["vault:purge"]',
    'label = "Client ID", secret': 'label = "Client ID", secret = false },\n  { handle = "vault_client_id", secret',
}
Run = Callable[..., Result]


def read(tmp_path: Path, edits: dict[str, str]) -> Package:
    return read_package(open_files(write_package(tmp_path / "desk", WASM, edits=edits)))


@pytest.fixture
def wasmrt(monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("WASMRT_SECRETS_BACKEND", "file")

    def run(*arguments: str | Path, code: int = 0) -> Result:
        result = CliRunner().invoke(cli, [str(a) for a in arguments], prog_name="wasmrt")
        assert result.exit_code == code, f"exit code {result.exit_code}: {result.stderr or result.exception!r}"
        return result

    return run


@pytest.fixture
def two(tmp_path: Path, desk_wasm: bytes) -> Path:
    """Return the package with a browser login for both vendors."""
    return write_package(tmp_path / "two", desk_wasm, edits=TWO)


def test_every_vendor_has_a_login_with_its_own_client_scopes_and_urls(tmp_path: Path) -> None:
    request = read(tmp_path, TWO).request
    desk, vault = request.every_login

    assert (desk.vendor, desk.secret_name, vault.vendor, vault.secret_name) == (
        "desk", "desk_token", "vault", "vault_key",
    )  # fmt: skip
    assert desk.oauth is not None and vault.oauth is not None
    assert (desk.oauth.scopes, vault.oauth.scopes) == (("tickets:read", "chat:write"), ("vault:purge",))
    assert (desk.oauth.client_id_env, vault.oauth.client_id_env) == ("DESK_OAUTH_CLIENT_ID", "VAULT_CLIENT_ID")
    assert vault.oauth.token_url == "https://tokens.vault.example/token"
    assert parse(format_file(request)) == parse(format_file(parse(format_file(request))))
    assert parse(format_file(request)).every_login == request.every_login


def test_a_login_uses_the_vendor_that_was_named(wasmrt: Run, two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wasmrt("install", two, "--yes")
    asked: list[Any] = []

    def log_in(_gateway: object, config: object, state: Any, **_more: object) -> Tokens:
        asked.append((config, state))
        return Tokens("token-of-" + "a-login", "renews-" + "it", None)

    monkeypatch.setattr("wasmrt.cli.operate.auth.log_in", log_in)
    monkeypatch.setenv("VAULT_CLIENT_ID", "the-vaults-client")
    nobody = wasmrt("auth", "desk", "--vendor", "desk", code=2)
    assert "wasmrt secret set desk_oauth_client_id (or set the variable DESK_OAUTH_CLIENT_ID)" in nobody.stderr
    several = wasmrt("auth", "desk", code=2)
    assert "--vendor desk; --vendor vault" in several.stderr
    assert "did you mean vault" in wasmrt("auth", "desk", "--vendor", "vualt", code=2).stderr

    done = json.loads(wasmrt("auth", "desk", "--vendor", "vault", "--no-browser", "--json").stdout)
    assert done["set"] == ["vault_key"]
    [(config, state)] = asked
    assert config.authorization_url == "https://vault.example/agree"
    assert (state.client_id, state.token_url) == ("the-vaults-client", "https://tokens.vault.example/token")
    missing = json.loads(wasmrt("inspect", "desk", "--json").stdout)["missing_secrets"]
    assert [secret["name"] for secret in missing if "client" not in secret["name"]] == ["desk_token"]


def test_a_missing_secret_suggests_the_login_of_its_vendor(wasmrt: Run, two: Path) -> None:
    installed = json.loads(wasmrt("install", two, "--yes", "--json").stdout)
    hints = {secret["name"]: secret["hint"] for secret in installed["missing_secrets"]}

    assert hints["vault_key"] == "run: wasmrt auth desk --vendor vault"
    assert hints["desk_token"] == "run: wasmrt auth desk --vendor desk"


def test_install_explain_and_inspect_show_every_login(wasmrt: Run, two: Path, tmp_path: Path) -> None:
    desk = "login desk: at login.desk.example, as the client DESK_OAUTH_CLIENT_ID, for tickets:read and chat:write"
    vault = "login vault: at vault.example, with the token of tokens.vault.example, as the client VAULT_CLIENT_ID"
    file = tmp_path / "desk.capabilities.json"
    file.write_text(format_file(read_package(open_files(two)).request))

    for shown in (
        wasmrt("install", two, code=3).stderr,
        wasmrt("inspect", two).stdout,
        wasmrt("caps", "explain", file).stdout,
    ):
        words = " ".join(shown.split())
        assert f"{desk}; it sets your secret desk_token" in words
        assert f"{vault}, for vault:purge; it sets your secret vault_key" in words


def test_an_update_with_a_different_login_url_needs_a_decision(
    wasmrt: Run, two: Path, tmp_path: Path, desk_wasm: bytes
) -> None:
    wasmrt("install", two, "--yes")
    moved = write_package(tmp_path / "moved", desk_wasm, edits={**TWO, "vault.example/agree": "vault.example/agree"})
    text = (moved / "manifest.toml").read_text()
    (moved / "manifest.toml").write_text(text.replace("https://tokens.vault.example", "https://evil.example"))

    refused = wasmrt("install", moved, code=3)
    moved_to = (
        "login vault gets its token from https://evil.example/token instead of https://tokens.vault.example/token"
    )
    assert f"asks for more: {moved_to}" in " ".join(refused.stderr.split())
    assert "awaits a grant" in refused.stderr
    kept = json.loads(wasmrt("inspect", "desk", "--json").stdout)["logins"]
    assert not any("evil.example" in login for login in kept)


def test_a_secret_of_two_vendors_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ManifestError) as refused:
        read(tmp_path, {'handle = "vault_key"': 'handle = "desk_token"'})

    assert [place for place, _ in refused.value.problems] == ["tools[1].credentials[0].handle"]


def test_several_secrets_of_one_login_are_merged(tmp_path: Path) -> None:
    package = read(tmp_path, {'handle = "desk_token"\nvendor = "desk"\nscopes = ["chat:write"]': (
        'handle = "desk_writer"\nvendor = "desk"\nscopes = ["chat:write"]'
    )})  # fmt: skip
    sections = package.request.capabilities.tools or ()
    names = [m.secret_name for tool in sections if tool.capabilities.http for m in tool.capabilities.http.credentials]

    assert names == ["desk_token", "vault_key", "desk_token"]
    assert "[auth.desk] sets desk_token, which also replaces desk_writer" in package.left


def test_a_client_named_like_a_vendor_is_stored_for_its_package_only(tmp_path: Path) -> None:
    request = read(tmp_path, TWO).request
    asked = [item["name"] for items in request.sections["setup"].values() for item in items]
    vault = request.every_login[1].oauth
    kept = MemorySecrets()
    kept.set("local", "desk_vault_client_id", Secret("the-vaults-client"))

    assert "desk_vault_client_id" in asked
    assert vault is not None
    assert settings(kept, "local", "desk", vault) == {"VAULT_CLIENT_ID": "the-vaults-client"}
    assert settings(kept, "local", "other", vault) == {}


LOGIN = {"secret_name": "a_key"}


@pytest.mark.parametrize(
    ("tree", "place"),
    [
        ({"auth": LOGIN, "logins": {"x": LOGIN}}, "logins.x.secret_name"),
        ({"auth": LOGIN | {"provider": "x"}, "logins": {"x": {"secret_name": "b_key"}}}, "logins.x"),
        ({"logins": {"x": LOGIN, "y": LOGIN}}, "logins.y.secret_name"),
        ({"logins": {"x": LOGIN | {"provider": "y"}}}, "logins.x.provider"),
        ({"capabilities": {"logins": {"x": LOGIN, "y": LOGIN}}}, "capabilities.logins.y.secret_name"),
    ],
)
def test_logins_that_could_be_confused_are_errors(tree: dict[str, Any], place: str) -> None:
    with pytest.raises(CapabilityFileError) as refused:
        parse(json.dumps(tree))

    assert [where for where, _ in refused.value.problems] == [place]


def test_a_file_with_logins_reads_back_unchanged() -> None:
    file = parse(
        json.dumps({"logins": {"x": LOGIN, "y-z": {"secret_name": "b_key", "setup_url": "https://a.example"}}})
    )

    assert isinstance(file, CapabilityFile)
    assert parse(format_file(file)) == file
    assert [login.vendor for login in file.every_login] == ["x", "y-z"]
