"""Tests of the configuration file, its errors, and the commands that use it."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme
from click.testing import Result
from wasmrt.testing.attacks import Body, tool

from tests.postgres_server import PASSWORD
from wasmrt.agent.config import OperatorConfig, read_config_file
from wasmrt.core.errors import ConfigFileError
from wasmrt.core.postgres import Postgres
from wasmrt.egress.gateway import NetworkConfig
from wasmrt.egress.leaks import Action, Direction
from wasmrt.runtime.config import WasmRuntimeConfig
from wasmrt.sandbox.guest.settings import Isolation

Run = Callable[..., Result]
Write = Callable[..., Path]
Configure = Callable[[str], Path]

HOST = "api.example.com"
GET = f"https://{HOST}/v1/items".encode()
# The host table maps to an address without a server, so no connection succeeds.
CLOSED = f'[network]\nhosts = {{ "{HOST}" = ["10.0.0.7"] }}\n'


@pytest.fixture(autouse=True)
def secrets_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WASMRT_SECRETS_BACKEND", "file")


@pytest.fixture
def configure(home: Path) -> Configure:
    """Writes the configuration file."""

    def write(text: str) -> Path:
        path = home / "data" / "config.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write


@pytest.fixture
def grant(tmp_path: Path) -> Path:
    """A capability file that allows two requests per minute."""
    path = tmp_path / "grant.json"
    path.write_text(json.dumps({"http": {"allowlist": [{"host": HOST}], "rate_limit": {"requests_per_minute": 2}}}))
    return path


@pytest.fixture
def getter(tool_file: Write, encode: Callable[[str], bytes]) -> Path:
    """A tool that sends one request and ignores its outcome."""
    request = f"""(call $http-request (i32.const 1024) (i32.const 3) (i32.const 1027) (i32.const {len(GET)})
      (i32.const {1027 + len(GET)}) (i32.const 2) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
      (i32.const 0) (i32.const 256)) (call $ok)"""
    return tool_file(
        "getter", data=encode(tool(Body(imports=("http-request",), text=b"GET" + GET + b"{}", execute=request)))
    )


# -- reading it ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[network\n", "line 1, column 9 is not valid TOML"),
        ("[network]\n\nca_file = \n", "line 3, column 11 is not valid TOML"),
        ("[network]\nhosts = {", "the last line (2) is not valid TOML"),
        ("\n\xff".encode("latin-1"), "line 2 is not UTF-8"),
        ("a = " + "[" * 50_000, "a value is nested too deeply or too long"),
        ("a = " + "1" * 50_000, "a value is nested too deeply or too long"),
        ("#" * 300_000, "more than 262,144 bytes"),
        ("network = 1", "network must be a section"),
        ("[audit]\nenabled = 1", "audit.enabled must be true or false"),
        ("[audit]\nrecord = 'yes'", "audit.record must be true or false"),
        ("[audit]\npath = 1", "audit.path must be a folder"),
        ("[audit]\nmax_segment_bytes = 10", "audit.max_segment_bytes must be a whole number, at least 65,536"),
        ("[audit]\nfolder = 'x'", "audit.folder is not known"),
        ("[workspace]\nundo = 'no'", "workspace.undo must be true or false"),
        ("[nets]\nx = 1", "[nets] is not known"),
        ("[network]\nproxy = 'x'", "network.proxy is not known"),
        ("[network]\nca_files = 'x'", "network.ca_files is not known"),
        ("[network]\nca_file = 1", "network.ca_file must be a path"),
        ("[network]\nca_file = 'absent.pem'", "absent.pem cannot be read (No such file or directory)"),
        ("[network]\nca_file = '.'", "cannot be read (Is a directory)"),
        ("[network]\nca_file = 'config.toml'", "config.toml contains no PEM certificate"),
        ("[network]\nunsafe_allowed_networks = '10.0.0.0/8'", "must be a list of networks"),
        ("[network]\nunsafe_allowed_networks = 10", "must be a list of networks"),
        ("[network]\nunsafe_allowed_networks = [1]", "is not a string"),
        ("[network]\nunsafe_allowed_networks = ['10.0.0.1/8']", "10.0.0.1/8 has host bits set"),
        ("[network]\nhosts = 'x'", "network.hosts must be a table"),
        ("[network]\nhosts = { a = '10.0.0.1' }", "must set 'a' to a list of IP addresses"),
        ("[network]\nhosts = { a = ['nonsense'] }", "must set 'a' to a list of IP addresses"),
        ("[network]\nhosts = { 'a b' = ['10.0.0.1'] }", "must contain only host names as keys, got 'a b'"),
        ("[network]\nhosts = { 'a:443' = ['10.0.0.1'] }", "must contain only host names as keys, got 'a:443'"),
        ("[network]\nmax_connections = true", "network.max_connections must be a positive whole number"),
        ("[network]\nconnect_timeout_seconds = 0", "network.connect_timeout_seconds must be a positive number"),
        ("[network]\nconnect_timeout_seconds = inf", "network.connect_timeout_seconds must be a positive number"),
    ],
)
def test_config_error_names_file_key_and_fix(tmp_path: Path, text: str | bytes, told: str) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigFileError) as caught:
        read_config_file(path)
    assert caught.value.message.startswith(f"{path}: ")
    assert told in caught.value.message and "\n" not in caught.value.message
    assert caught.value.hint


def test_misspelt_and_misplaced_keys_get_a_suggestion(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    for text, hint in (
        ("[network]\nca_files = 'x'", "did you mean ca_file?"),
        ("[nets]\n", "the known sections are [network]"),
        ("ca_file = 'x'", "move it below the line [network]"),
        ("[network]\nproxy = 'x'", "known are unsafe_allowed_networks, ca_file"),
    ):
        path.write_text(text)
        with pytest.raises(ConfigFileError) as caught:
            read_config_file(path)
        assert hint in str(caught.value.hint)


def test_all_config_errors_are_reported_together(wasmrt: Run, configure: Configure, getter: Path, grant: Path) -> None:
    path = configure("[nets]\n[network]\nca_fil = 'x'\nmax_connections = 0\nunsafe_allowed_networks = 'x'\n")
    said = wasmrt("run", getter, "--capabilities", grant, code=2).stderr.splitlines()
    assert said[0] == f"error: {path} cannot be used"
    assert [line.split(":")[0] for line in said[1:]] == [
        "  [nets]",
        "  network.ca_fil",
        "  network.max_connections",
        "  network.unsafe_allowed_networks",
    ]
    assert said[2].endswith("did you mean ca_file?")
    told = json.loads(wasmrt("run", getter, "--capabilities", grant, "--json", code=2).stderr)
    assert told["code"] == "config-file" and len(told["problems"]) == 4


def test_unreadable_config_error_names_its_path(tmp_path: Path) -> None:
    folder, loop = tmp_path / "folder.toml", tmp_path / "loop.toml"
    folder.mkdir()
    loop.symlink_to(loop)
    for path, reason in ((folder, "the file is not a regular file"), (loop, "cannot read the file (")):
        with pytest.raises(ConfigFileError) as caught:
            read_config_file(path)
        assert caught.value.message.startswith(f"{path}: {reason}") and caught.value.hint


def test_single_config_error_is_one_line_and_a_hint(
    wasmrt: Run, configure: Configure, getter: Path, grant: Path
) -> None:
    path = configure("[network]\nca_fil = 'x'")
    said = wasmrt("run", getter, "--capabilities", grant, code=2).stderr.splitlines()
    assert said == [f"error: {path}: network.ca_fil is not known (line 2)", "hint: did you mean ca_file?"]


def test_invalid_redis_url_is_not_in_its_error(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("[network]\nrate_limit_storage = 'http://:pass-word@127.0.0.1/'")
    with pytest.raises(ConfigFileError, match="rate_limit_storage must be a Redis URL") as caught:
        read_config_file(path)
    assert "pass-word" not in str(caught.value.as_dict())


def test_config_file_equals_the_settings_of_a_program(tmp_path: Path) -> None:
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    path = tmp_path / "config.toml"
    path.write_text(
        "[network]\nunsafe_allowed_networks = ['10.1.0.0/16']\nca_file = 'ca.pem'\nmax_connections = 3\n"
        "connect_timeout_seconds = 2\nrate_limit_storage = 'redis://127.0.0.1/0'\n"
    )
    read = read_config_file(path)
    assert read.network == NetworkConfig(
        unsafe_allowed_networks=("10.1.0.0/16",),
        ca_file=tmp_path / "ca.pem",  # relative to the file, not to the working directory
        max_connections=3,
        connect_timeout_seconds=2,
    )
    assert read.rate_limit_storage == "redis://127.0.0.1/0"
    path.unlink()
    assert read_config_file(path) == OperatorConfig(NetworkConfig())


# -- doctor --------------------------------------------------------------------------------------------------------


def checks_of(wasmrt: Run, *, code: int = 0) -> dict[str, tuple[str, str]]:
    told = json.loads(wasmrt("doctor", "--json", code=code).stdout)
    return {check["name"]: (check["state"], check["found"]) for check in told}


def test_doctor_shows_the_config_path_even_if_missing(wasmrt: Run, home: Path, configure: Configure) -> None:
    checks = checks_of(wasmrt)
    path = home / "data" / "config.toml"
    assert checks["configuration"] == ("ok", f"{path} does not exist; all settings have their defaults")
    assert checks["network"][0] == "ok" and "trusted by this system" in checks["network"][1]
    assert checks["folders"] == ("ok", f"data: {home / 'data'}; cache: {home / 'cache'}")
    configure("")
    assert checks_of(wasmrt)["configuration"] == ("ok", str(path))


def test_doctor_fails_if_the_config_is_unusable(wasmrt: Run, configure: Configure) -> None:
    path = configure("[network]\nca_fil = 'x'")
    checks = checks_of(wasmrt, code=1)
    assert checks["configuration"] == ("failed", f"{path}: network.ca_fil is not known (line 2); did you mean ca_file?")
    assert [name for name, (state, _) in checks.items() if state == "failed"] == ["configuration"]
    for name in ("engine", "network", "secrets", "needed secrets", "memory", "shell", "desktop"):
        assert checks[name] == ("warning", "unknown, because the configuration file cannot be used")


@pytest.mark.ci("slow")
def test_doctor_reads_the_ca_file(wasmrt: Run, configure: Configure, tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    configure(f'[network]\nca_file = "{ca}"\n')
    ca.write_text("no certificate")
    state, found = checks_of(wasmrt, code=1)["configuration"]
    assert state == "failed" and f"ca_file {ca} contains no PEM certificate" in found
    ca.write_text("-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n")
    state, found = checks_of(wasmrt, code=1)["network"]
    assert state == "failed" and f"ca_file {ca} contains an unreadable certificate" in found
    trustme.CA().cert_pem.write_to_path(str(ca))
    state, found = checks_of(wasmrt)["network"]
    assert state == "ok" and f"certificates: only {ca}" in found


def test_doctor_warns_about_allowed_networks(wasmrt: Run, configure: Configure) -> None:
    configure('[network]\nunsafe_allowed_networks = ["10.1.0.0/16", "fd00::/8"]\n')
    state, found = checks_of(wasmrt)["network"]
    assert state == "warning" and "unsafe_allowed_networks lets tools reach 10.1.0.0/16, fd00::/8" in found


def test_doctor_warns_about_a_config_others_can_write(wasmrt: Run, configure: Configure) -> None:
    configure("").chmod(0o666)
    assert checks_of(wasmrt)["configuration"][0] == "warning"


def test_doctor_connects_to_the_configured_redis(wasmrt: Run, configure: Configure, redis_url: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening, so connections are refused
        configure(f'[network]\nrate_limit_storage = "redis://:pass-word@127.0.0.1:{taken.getsockname()[1]}/0"\n')
        state, found = checks_of(wasmrt, code=1)["network"]
    assert state == "failed" and "Redis does not respond" in found and "pass-word" not in found
    configure(f'[network]\nrate_limit_storage = "{redis_url}"\n')
    state, found = checks_of(wasmrt)["network"]
    assert state == "ok" and "counted in Redis" in found


def test_doctor_opens_the_configured_database(wasmrt: Run, configure: Configure, postgres: Postgres) -> None:
    assert checks_of(wasmrt)["database"] == ("ok", "SQLite files in the data folder, for this host alone")
    url = postgres.url.replace(f":{PASSWORD}@", "@")
    text = f'[database]\nurl = "{url}"\npassword_secret = "db_password"\n'
    configure(text)
    state, found = checks_of(wasmrt, code=1)["database"]
    assert state == "failed" and "db_password" in found
    wasmrt("secret", "set", "db_password", stdin=PASSWORD + "2")
    state, found = checks_of(wasmrt, code=1)["database"]
    assert state == "failed" and "password authentication failed" in found and PASSWORD not in found
    wasmrt("secret", "set", "db_password", stdin=PASSWORD)
    state, found = checks_of(wasmrt)["database"]
    assert state == "warning" and "set database.key_secret" in found
    configure(text + 'key_secret = "token_key"\n')
    wasmrt("secret", "set", "token_key", stdin="too-short")
    state, found = checks_of(wasmrt, code=1)["database"]
    assert state == "failed" and "at least 32 characters" in found
    wasmrt("secret", "set", "token_key", stdin="0123456789abcdef" * 4)
    state, found = checks_of(wasmrt)["database"]
    assert state == "ok" and found.startswith("PostgreSQL ") and found.endswith("secret token_key")
    configure('[database]\nurl = "postgresql://u:pass-word@db.example.com/x?sslmode=prefer"\n')
    state, found = checks_of(wasmrt, code=1)["database"]
    assert state == "failed" and "sslmode=verify-full" in found and "pass-word" not in found


def test_an_invalid_database_url_is_not_in_its_error(configure: Configure) -> None:
    path = configure('[database]\nurl = "mysql://u:pass-word@h/x"\nkey_secret = "A b"\n')
    with pytest.raises(ConfigFileError, match="must be a PostgreSQL URL") as caught:
        read_config_file(path)
    assert "pass-word" not in str(caught.value) and "must be the name of a secret" in str(caught.value)


# -- explain -------------------------------------------------------------------------------------------------------


def test_explain_decides_like_run_and_notes_config_effects(wasmrt: Run, configure: Configure, grant: Path) -> None:
    asked = ("caps", "explain", grant, "--url", GET.decode(), "--resolves-to", "10.0.0.7")
    assert wasmrt(*asked, code=3).stdout.startswith("denied")
    path = configure('[network]\nunsafe_allowed_networks = ["10.0.0.0/24"]\n')
    told = wasmrt(*asked)
    assert told.stdout.startswith("allowed")
    assert told.stderr == f"without unsafe_allowed_networks in {path} it would be denied\n"
    assert str(path) in json.loads(wasmrt(*asked, "--json").stdout)["note"]
    public = wasmrt(*asked[:-1], "93.184.216.34", "--json")
    assert json.loads(public.stdout)["note"] is None
    assert "unsafe" not in wasmrt(*asked[:-1], "10.9.9.9", code=3).stderr.partition("hint: ")[0]


def test_explain_uses_the_configured_host_table(wasmrt: Run, configure: Configure, grant: Path) -> None:
    asked = ("caps", "explain", grant, "--url", GET.decode())
    assert wasmrt(*asked).stderr == ""
    path = configure(CLOSED)
    told = wasmrt(*asked, code=3)
    assert "10.0.0.7" in told.stdout
    assert f"without its addresses under hosts in {path} it would be allowed" in told.stderr
    configure(f'{CLOSED}unsafe_allowed_networks = ["10.0.0.0/24"]\n')
    assert f"without unsafe_allowed_networks in {path} it would be denied" in wasmrt(*asked).stderr
    assert wasmrt(*asked, "--resolves-to", "93.184.216.34").stderr == ""


# -- rate limits ---------------------------------------------------------------------------------------------------


def test_rate_limits_are_per_command_without_redis(
    wasmrt: Run, configure: Configure, getter: Path, grant: Path, redis_url: str
) -> None:
    def ended() -> list[str]:
        runs = [json.loads(wasmrt("run", getter, "--capabilities", grant, "--json").stdout) for _ in range(4)]
        return [decision["reason"] for run in runs for decision in run["decisions"] if not decision["allowed"]]

    configure(CLOSED)
    assert ended() == ["address-not-allowed"] * 4
    configure(f'{CLOSED}rate_limit_storage = "{redis_url}"\n')
    assert ended() == ["address-not-allowed"] * 2 + ["rate-limited"] * 2


def test_secret_test_counts_in_the_same_redis(wasmrt: Run, configure: Configure, getter: Path, redis_url: str) -> None:
    asks = {
        "http": {"allowlist": [{"host": HOST}], "rate_limit": {"requests_per_minute": 1}},
        "auth": {"secret_name": "api_token", "validation_endpoint": {"url": GET.decode()}},
    }
    file = getter.with_suffix(".capabilities.json")
    file.write_text(json.dumps(asks))
    configure(f'{CLOSED}rate_limit_storage = "{redis_url}"\n')
    wasmrt("secret", "set", "api_token", stdin="a-value")
    test = ("secret", "test", "api_token", "--tool", getter, "--capabilities", file)
    assert "10.0.0.7" in wasmrt(*test, code=1).stderr
    assert "1 requests per minute" in wasmrt(*test, code=1).stderr


def test_run_help_explains_rate_limits(wasmrt: Run) -> None:
    assert "rate_limit_storage" in wasmrt("run", "--help").stdout


RULE = """
[[rules]]
id = "acme-key"
source = "Acme handbook, page 4"
token = 'acme_[0-9a-f]{24}'
matching = ["acme_MATCHING"]
not_matching = ["acme_123"]
""".replace("MATCHING", "0a1b2c3d" * 3)


def test_custom_leak_rules_and_actions_are_read(configure: Configure) -> None:
    path = configure('[leaks]\nrules = "acme.toml"\nactions = { acme-key = "block", jwt = { inward = "warn" } }\n')
    (path.parent / "acme.toml").write_text(RULE)
    config = read_config_file(path)
    assert [rule.id for rule in config.leak_rules] == ["acme-key"]
    assert config.leak_overrides == {"acme-key": Action.BLOCK, "jwt": {Direction.INWARD: Action.WARN}}
    settings = WasmRuntimeConfig(**config.as_runtime_settings())
    assert (settings.leak_rules, settings.leak_overrides) == (config.leak_rules, config.leak_overrides)


def test_receipts_folder_is_configurable(configure: Configure, home: Path) -> None:
    path = configure("[audit]\nrecord = true\nmax_segment_bytes = 100_000\n")
    settings = WasmRuntimeConfig(**read_config_file(path).as_runtime_settings())
    assert (settings.audit, settings.audit_record, settings.audit_segment_bytes) == (
        home / "data/receipts",
        True,
        100_000,
    )
    settings = WasmRuntimeConfig(**read_config_file(configure('[audit]\npath = "x"\n')).as_runtime_settings())
    assert (settings.audit, settings.audit_record) == (path.parent / "x", False)
    off = read_config_file(configure("[audit]\nenabled = false\nrecord = true\n")).as_runtime_settings()
    assert WasmRuntimeConfig(**off).audit is None


@pytest.mark.parametrize(
    ("line", "about"),
    [
        ('rules = "absent.toml"', "leaks.rules"),
        ("rules = 7", "leaks.rules must be a path"),
        ('actions = "warn"', "leaks.actions"),
        ('actions = { jwt = "hide" }', "leaks.actions"),
        ('actions = { decode-limit-exceeded = "warn" }', 'cannot change the rule "decode-limit-exceeded"'),
        ('actions = { decode-limit-exceeded = { inward = "warn" } }', 'cannot change the rule "decode-limit-exceeded"'),
        ("rule = 1", "leaks.rule is not known"),
    ],
)
def test_leak_config_error_is_reported(configure: Configure, line: str, about: str) -> None:
    with pytest.raises(ConfigFileError, match=about):
        read_config_file(configure(f"[leaks]\n{line}\n"))


def test_unsafe_settings_have_unsafe_names(configure: Configure) -> None:
    text = '[network]\nunsafe_unscanned_hosts = ["files.example.com"]\nunsafe_rate_limits_without_redis = true\n'
    config = read_config_file(configure(text))
    assert config.network.unsafe_unscanned_hosts == ("files.example.com",)
    assert config.unsafe_rate_limits_without_redis
    with pytest.raises(ConfigFileError, match="true or false"):
        read_config_file(configure("[network]\nunsafe_rate_limits_without_redis = 1\n"))


def test_the_isolation_of_guests_is_read(configure: Configure) -> None:
    config = read_config_file(configure('[guests]\nisolation = "required"\n'))
    assert config.isolation is Isolation.REQUIRED
    assert WasmRuntimeConfig(**config.as_runtime_settings()).isolation is Isolation.REQUIRED
    with pytest.raises(ConfigFileError, match=r"guests\.isolation must be one of"):
        read_config_file(configure('[guests]\nisolation = "none"\n'))


def test_undo_journal_is_on_unless_disabled(configure: Configure) -> None:
    for text, kept in (("", True), ("[workspace]\nundo = true\n", True), ("[workspace]\nundo = false\n", False)):
        assert WasmRuntimeConfig(**read_config_file(configure(text)).as_runtime_settings()).undo is kept
