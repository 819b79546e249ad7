"""Tests of `wasmrt secret` and `wasmrt auth` with servers on loopback."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trustme
from click.testing import CliRunner, Result
from wasmrt.testing import ReceivedRequest, ScriptedServer, ServerConnection, http_response

from tests.egress.oauth.oauth_server import OAuthServer
from wasmrt.cli import cli
from wasmrt.egress.secrets import OAUTH_SUFFIX, Secret, open_store

VALUE = "k3y-" + "for-the-example-api"
HOST = "api.example.com"

Cli = Callable[..., Result]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WASMRT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("WASMRT_SECRETS_BACKEND", "file")
    (tmp_path / "home" / "data").mkdir(parents=True)
    return tmp_path / "home"


@pytest.fixture
def wasmrt(home: Path) -> Cli:
    def run(*args: object, stdin: str | bytes | None = None, code: int = 0) -> Result:
        result = CliRunner().invoke(cli, [str(arg) for arg in args], input=stdin)
        assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
        assert VALUE not in result.stdout + result.stderr
        return result

    return run


def test_a_secret_is_piped_in_and_listed_by_name_and_age_only(wasmrt: Cli, home: Path) -> None:
    wasmrt("secret", "set", "API_Token", stdin=VALUE + "\n")
    assert "api_token  0 s  never" in wasmrt("secret", "list").stdout
    listed = json.loads(wasmrt("secret", "list", "--json").stdout)
    assert [entry["name"] for entry in listed] == ["api_token"]
    assert set(listed[0]) == {"name", "created_at", "expires_at", "backend"}
    for file in (home / "data").iterdir():
        assert VALUE.encode() not in file.read_bytes()


def test_a_value_is_never_an_argument(wasmrt: Cli) -> None:
    result = CliRunner().invoke(cli, ["secret", "set", "api_token", "the-value"])
    assert result.exit_code == 2


def test_secrets_of_users_are_separate(wasmrt: Cli) -> None:
    wasmrt("secret", "set", "api_token", "--user", "ann", stdin=VALUE)
    assert "local has no secrets" in wasmrt("secret", "list").stderr
    assert "api_token" in wasmrt("secret", "list", "--user", "ann").stdout


@pytest.mark.parametrize(
    ("backend", "said"),
    [
        ("file", "local has no secrets; to set one: wasmrt secret set NAME"),
        ("environment", "local has no secrets; to set one: set the variable WASMRT_SECRET_NAME before wasmrt starts"),
        ("command", "cannot list secrets; to set one: store NAME where the command in secrets.command reads it"),
        ("vault", "cannot list secrets; to set one: vault kv put -mount=secret wasmrt/NAME value=-"),
    ],
)
def test_an_empty_list_names_the_step_that_sets_a_secret(
    wasmrt: Cli, home: Path, monkeypatch: pytest.MonkeyPatch, backend: str, said: str
) -> None:
    monkeypatch.delenv("WASMRT_SECRETS_BACKEND")
    settings = {"command": 'command = ["op", "{name}"]', "vault": 'vault_address = "https://vault.example.com"'}
    (home / "data/config.toml").write_text(f'[secrets]\nbackend = "{backend}"\n{settings.get(backend, "")}\n')
    assert said in wasmrt("secret", "list").stderr


def test_a_secret_can_expire(wasmrt: Cli) -> None:
    wasmrt("secret", "set", "api_token", "--expires-in-days", "2", stdin=VALUE)
    assert "in 2 d" in wasmrt("secret", "list").stdout


def test_removed_secret_is_deleted(wasmrt: Cli) -> None:
    wasmrt("secret", "set", "api_token", stdin=VALUE)
    wasmrt("secret", "remove", "API_TOKEN")
    assert wasmrt("secret", "list").stdout == ""
    assert "is not set" in wasmrt("secret", "remove", "api_token", code=1).stderr


@pytest.mark.parametrize("value", [b"", b"\n", b"\xff\xfe-not-text", b"x" * 70_000])
def test_invalid_secret_value_is_refused(wasmrt: Cli, value: bytes) -> None:
    wasmrt("secret", "set", "api_token", stdin=value, code=2)


def test_a_dotenv_file_is_imported(wasmrt: Cli, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"API_TOKEN='{VALUE}'\nOTHER=another-value\n")
    assert "api_token, other" in wasmrt("secret", "import", tmp_path / ".env").stderr
    wasmrt("secret", "import", "-", "--only", "API_TOKEN", "--user", "ann", stdin=f"API_TOKEN={VALUE}\nB=c-value\n")
    assert wasmrt("secret", "list", "--user", "ann").stdout.count("\n") == 2
    assert "does not set absent" in wasmrt("secret", "import", tmp_path / ".env", "--only", "absent", code=2).stderr


@pytest.mark.parametrize("value", ["x", "12345"])
def test_value_that_no_request_can_carry_is_refused(wasmrt: Cli, home: Path, value: str) -> None:
    told = wasmrt("secret", "set", "api_token", stdin=value, code=2).stderr
    assert "fewer than 6 characters" in told
    assert not (home / "data" / "secrets").exists()


def test_partly_usable_value_is_set_with_a_warning(wasmrt: Cli) -> None:
    many = f"{VALUE}\n{VALUE}\n"
    told = wasmrt("secret", "set", "api_token", stdin=many).stderr
    assert (
        f"warning: api_token can only be used as a query parameter or a place in a URL's path: character "
        f"{len(VALUE) + 1} is a line break" in told
    )
    assert "api_token is set" in told
    (warning,) = json.loads(wasmrt("secret", "set", "api_token", "--json", stdin=many).stdout)["warnings"]
    assert "line break" in warning
    assert json.loads(wasmrt("secret", "set", "api_token", "--json", stdin=VALUE).stdout)["warnings"] == []


@pytest.mark.parametrize("command", ["set", "import"])
def test_setting_a_secret_ends_its_login(wasmrt: Cli, home: Path, command: str) -> None:
    kept = open_store(home / "data")
    kept.set("local", "api_token", Secret("from the login"))
    kept.set("local", "api_token" + OAUTH_SUFFIX, Secret("{}"))
    stdin = "of my own, long" if command == "set" else "API_TOKEN=of-my-own-long"
    wasmrt("secret", command, "api_token" if command == "set" else "-", stdin=stdin)
    assert kept.get("local", "api_token").reveal().startswith("of")
    assert not kept.exists("local", "api_token" + OAUTH_SUFFIX)


def test_import_lists_replaced_secrets(wasmrt: Cli) -> None:
    wasmrt("secret", "set", "api_token", stdin=VALUE)
    both = f"API_TOKEN={VALUE}-2\nOTHER=another-value\n"
    told = wasmrt("secret", "import", "-", "--user", "ann", stdin=both).stderr
    assert "replaced" not in told  # secrets of another user are unchanged
    assert "replaced: api_token\n" in wasmrt("secret", "import", "-", stdin=both).stderr
    told = json.loads(wasmrt("secret", "import", "-", "--json", stdin=both).stdout)
    assert told["replaced"] == told["set"] == ["api_token", "other"]


def test_import_with_an_unusable_value_sets_nothing(wasmrt: Cli) -> None:
    mixed = f"API_TOKEN={VALUE}\nDEBUG=1\nPORT=8080\n"
    told = wasmrt("secret", "import", "-", stdin=mixed, code=2).stderr
    assert "the value of debug has fewer than 6 characters" in told and "port" in told and "8080" not in told
    assert "--only api_token" in told
    assert wasmrt("secret", "list").stdout == ""
    wasmrt("secret", "import", "-", "--only", "api_token", stdin=mixed)
    assert "api_token" in wasmrt("secret", "list").stdout


def test_dotenv_file_that_is_not_utf8_is_refused(wasmrt: Cli) -> None:
    told = wasmrt("secret", "import", "-", stdin=f"API_TOKEN={VALUE}".encode() + b"\xe9", code=2).stderr
    assert "UTF-8" in told


def test_first_secret_of_a_new_file_warns_about_its_key(wasmrt: Cli, home: Path) -> None:
    told = wasmrt("secret", "set", "api_token", stdin=VALUE).stderr
    assert str(home / "data" / "secrets.key") in told and "WASMRT_SECRETS_PASSPHRASE" in told
    assert "secrets.key" not in wasmrt("secret", "set", "other", stdin=VALUE).stderr


@pytest.mark.ci("slow")
def test_file_with_a_passphrase_has_no_key_warning(wasmrt: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WASMRT_SECRETS_PASSPHRASE", "correct horse")
    assert "warning" not in wasmrt("secret", "set", "api_token", stdin=VALUE).stderr
    assert "encrypted with a passphrase" in wasmrt("secret", "list").stderr


def test_secret_list_shows_the_backend(wasmrt: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wasmrt("secret", "set", "api_token", stdin=VALUE)
    assert f"backend: file, {home / 'data' / 'secrets'}" in wasmrt("secret", "list").stderr
    assert [entry["backend"] for entry in json.loads(wasmrt("secret", "list", "--json").stdout)] == ["file"]
    monkeypatch.setenv("WASMRT_SECRETS_BACKEND", "environment")
    assert "backend: environment" in wasmrt("secret", "list").stderr


def test_an_error_about_the_key_file_names_it(wasmrt: Cli, home: Path) -> None:
    wasmrt("secret", "set", "api_token", stdin=VALUE)
    key = home / "data" / "secrets.key"
    key.chmod(0o644)
    told = wasmrt("secret", "list", code=1).stderr
    assert f"file: {key}" in told and "0600" in told
    assert json.loads(wasmrt("secret", "list", "--json", code=1).stderr)["path"] == str(key)


# -- with servers --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def serve(authority: trustme.CA, home: Path) -> Iterator[Callable[..., ScriptedServer]]:
    import ssl

    servers: list[ScriptedServer] = []

    def start(script: Callable[[ReceivedRequest, ServerConnection], bytes | None]) -> ScriptedServer:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(HOST).configure_cert(context)
        ca_file = home / "ca.pem"
        authority.cert_pem.write_to_path(str(ca_file))
        (home / "data" / "config.toml").write_text(
            f'[network]\nunsafe_allowed_networks = ["127.0.0.0/8"]\nca_file = "{ca_file}"\n'
            f'hosts = {{ "{HOST}" = ["127.0.0.1"] }}\n'
        )
        server = ScriptedServer(script, tls=context)
        servers.append(server)
        return server.__enter__()

    yield start
    for server in servers:
        server.__exit__(None, None, None)


def tool_with(folder: Path, port: int, **auth: object) -> tuple[Path, Path]:
    """Write a component, which these commands never run, and its sidecar."""
    sidecar = {
        "http": {
            "allowlist": [{"host": HOST, "port": port, "path_prefix": "/v1/"}],
            "credentials": {
                "api": {"secret_name": "api_token", "location": {"type": "bearer"}, "host_patterns": [HOST]}
            },
        },
        "auth": {"secret_name": "api_token"} | auth,
    }
    component, file = folder / "demo.wasm", folder / "demo.capabilities.json"
    component.write_bytes(b"\0asm\x0d\0\x01\0")
    file.write_text(json.dumps(sidecar))
    return component, file


def test_secret_test_sends_the_tools_validation_request(
    wasmrt: Cli, serve: Callable[..., ScriptedServer], tmp_path: Path
) -> None:
    def script(request: ReceivedRequest, connection: ServerConnection) -> bytes:
        good = request.header("Authorization") == f"Bearer {VALUE}"
        return http_response(request.head, status=200 if good else 401)

    server = serve(script)
    url = f"https://{HOST}:{server.port}/v1/me"
    component, file = tool_with(tmp_path, server.port, validation_endpoint={"url": url}, token_hint="Begins with k3y.")
    ask = ("secret", "test", "api_token", "--tool", component, "--capabilities", file)
    assert "wasmrt secret set api_token" in wasmrt(*ask, code=1).stderr
    wasmrt("secret", "set", "api_token", stdin="a-wrong-value")
    assert "api_token does not work: GET" in (told := wasmrt(*ask, code=1).stderr)
    assert "returned 401, expected 200" in told
    assert "token_hint: Begins with k3y." in told
    assert json.loads(wasmrt(*ask, "--json", code=1).stdout)["tool_says"] == {"token_hint": "Begins with k3y."}
    wasmrt("secret", "set", "api_token", stdin=VALUE)
    assert "api_token works" in wasmrt(*ask).stderr
    assert json.loads(wasmrt(*ask, "--json").stdout)["works"] is True


def test_a_test_request_outside_the_grant_is_refused(
    wasmrt: Cli, serve: Callable[..., ScriptedServer], tmp_path: Path
) -> None:
    server = serve(lambda r, c: http_response(b""))
    url = f"https://{HOST}:{server.port}/elsewhere"
    component, file = tool_with(tmp_path, server.port, validation_endpoint={"url": url})
    wasmrt("secret", "set", "api_token", stdin=VALUE)
    told = wasmrt("secret", "test", "api_token", "--tool", component, "--capabilities", file, code=1).stderr
    assert "could not be tested" in told  # no request was sent, so the secret is not reported as invalid
    assert "other paths" in told
    assert server.requests == []


def test_secret_test_without_a_request_is_an_error(wasmrt: Cli, tmp_path: Path) -> None:
    component, file = tool_with(tmp_path, 443)
    for name in ("api_token", "other"):
        wasmrt("secret", "test", name, "--tool", component, "--capabilities", file, code=2)


@pytest.mark.parametrize("beside", [True, False])
def test_capabilities_option_replaces_the_sidecar(wasmrt: Cli, tmp_path: Path, beside: bool) -> None:
    component, file = tool_with(tmp_path, 443, instructions="From the file that was given.")
    given = file.rename(tmp_path / "given.json")
    if beside:
        tool_with(tmp_path, 443, secret_name="another", instructions="From the one beside.")
    for command in (("auth", component), ("secret", "test", "api_token", "--tool", component)):
        told = wasmrt(*command, "--capabilities", given, code=2).stderr
        assert "no capability file" not in told and "another" not in told and "beside" not in told
    assert "From the file that was given." in wasmrt("auth", component, "--capabilities", given, code=2).stderr


def test_missing_capability_file_error_names_the_option(wasmrt: Cli, tmp_path: Path) -> None:
    component, file = tool_with(tmp_path, 443)
    file.unlink()
    for command in (("auth", component), ("secret", "test", "api_token", "--tool", component)):
        assert "--capabilities FILE" in wasmrt(*command, code=2).stderr


def test_author_instructions_are_marked_escaped_and_truncated(wasmrt: Cli, tmp_path: Path) -> None:
    words = {
        "setup_url": "https://example.com/tokens",
        "instructions": "Make one\x1b[2J\u202e\nerror: gone " + "y " * 5000,
    }
    check = {"validation_endpoint": {"url": f"https://{HOST}/v1/me"}}
    component, file = tool_with(tmp_path, 443, **words, **check)
    ask = ("secret", "test", "api_token", "--tool", component, "--capabilities", file)
    told = wasmrt(*ask, code=1).stderr
    assert (
        "instructions by the author of demo:\n  setup_url: https://example.com/tokens\n  instructions: Make one" in told
    )
    assert "\x1b" not in told and "\u202e" not in told and "\nerror: gone" not in told
    assert len(told) < 1500
    assert json.loads(wasmrt(*ask, "--json", code=1).stderr)["code"] == "secret-not-found"


class Browser:
    """Act like a user's browser: open the URL, consent, and follow the redirect."""

    def __init__(self, authority: trustme.CA, port: int) -> None:
        self._authority, self._port = authority, port
        self.opened: list[str] = []

    def open(self, url: str) -> bool:
        import http.client
        import ssl

        self.opened.append(url)
        context = ssl.create_default_context()
        self._authority.configure_trust(context)
        context.check_hostname = False  # the test's browser connects to loopback directly
        login = http.client.HTTPSConnection("127.0.0.1", self._port, context=context, timeout=10)
        login.request("GET", url.partition(str(self._port))[2])
        location = str(login.getresponse().getheader("Location"))
        login.close()
        address, _, rest = location.removeprefix("http://").partition("/")
        back = http.client.HTTPConnection(address, timeout=10)
        back.request("GET", "/" + rest)
        assert back.getresponse().status == 200
        back.close()
        return True


@pytest.fixture
def oauth(
    serve: Callable[..., ScriptedServer], authority: trustme.CA, monkeypatch: pytest.MonkeyPatch
) -> tuple[OAuthServer, ScriptedServer, Browser]:
    server = OAuthServer()
    running = serve(server.script)
    browser = Browser(authority, running.port)
    monkeypatch.setattr("webbrowser.open", browser.open)
    return server, running, browser


def oauth_section(port: int, **more: object) -> dict[str, object]:
    base = f"https://{HOST}:{port}"
    section = {"authorization_url": f"{base}/authorize", "token_url": f"{base}/token", "client_id": "a-client"}
    return {"oauth": section | {"scopes": ["read"]} | more}


def test_login_stores_a_token_that_the_tool_can_use(
    wasmrt: Cli, oauth: tuple[OAuthServer, ScriptedServer, Browser], tmp_path: Path
) -> None:
    server, running, browser = oauth
    check = {"validation_endpoint": {"url": f"https://{HOST}:{running.port}/v1/me"}}
    component, file = tool_with(tmp_path, running.port, **oauth_section(running.port), **check)
    told = wasmrt("auth", component, "--capabilities", file).stderr
    assert f"log in at {HOST}" in told and "api_token is set for local" in told
    assert "code_challenge=" in browser.opened[0] and "state=" in browser.opened[0]
    assert server.issued[0]["access_token"] not in told
    assert "in 60 min" in wasmrt("secret", "list").stdout
    assert "works" in wasmrt("secret", "test", "api_token", "--tool", component, "--capabilities", file).stderr
    wasmrt("auth", component, "--capabilities", file)  # a repeated login at the same server does not ask


def test_a_login_replaces_a_secret_that_a_user_set_only_with_replace(
    wasmrt: Cli, oauth: tuple[OAuthServer, ScriptedServer, Browser], tmp_path: Path
) -> None:
    _, running, browser = oauth
    component, file = tool_with(tmp_path, running.port, **oauth_section(running.port))
    wasmrt("secret", "set", "api_token", stdin=VALUE)
    assert "--replace" in wasmrt("auth", component, "--capabilities", file, code=2).stderr
    assert browser.opened == []
    wasmrt("auth", component, "--capabilities", file, "--replace")


def test_sidecar_cannot_send_arbitrary_variables(
    wasmrt: Cli, oauth: tuple[OAuthServer, ScriptedServer, Browser], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, running, browser = oauth
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", VALUE)
    for wrong in ({"client_secret_env": "AWS_SECRET_ACCESS_KEY"}, {"client_id": None, "client_id_env": "HOME"}):
        given = {key: value for key, value in wrong.items() if value is not None}
        section = oauth_section(running.port, **given)
        if "client_id" in wrong:
            section["oauth"].pop("client_id")  # type: ignore[attr-defined]
        component, file = tool_with(tmp_path, running.port, **section)
        wasmrt("auth", component, "--capabilities", file, code=2)
    assert browser.opened == [] and running.requests == []


def test_tool_without_a_login_suggests_secret_set(wasmrt: Cli, tmp_path: Path) -> None:
    component, file = tool_with(tmp_path, 443, instructions="Make a token on the settings page.")
    told = wasmrt("auth", component, "--capabilities", file, code=2).stderr
    assert "Make a token" in told and "wasmrt secret set api_token" in told


@pytest.mark.parametrize(
    ("settings", "step"),
    [
        ('backend = "environment"', "set the variable WASMRT_SECRET_API_TOKEN before wasmrt starts"),
        ('backend = "command"\ncommand = ["op", "{name}"]', "store api_token where the command in"),
        (
            'backend = "vault"\nvault_address = "https://vault.example.com"',
            "vault kv put -mount=secret wasmrt/api_token value=-",
        ),
    ],
)
def test_read_only_backend_refuses_a_login_before_the_browser_opens(
    wasmrt: Cli, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: str, step: str
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.delenv("WASMRT_SECRETS_BACKEND")
    (home / "data/config.toml").write_text(f"[secrets]\n{settings}\n")
    component, file = tool_with(tmp_path, 443, **oauth_section(443))
    told = wasmrt("auth", component, "--capabilities", file, "--replace", code=1).stderr
    assert "are read-only, so a login cannot be stored" in told and step in " ".join(told.split())
    assert opened == []
    plain = tool_with(tmp_path, 443, instructions="Make a token.")
    assert step in " ".join(wasmrt("auth", plain[0], "--capabilities", plain[1], code=2).stderr.split())
