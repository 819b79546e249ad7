"""A running guest gets the decisions that `explain` describes: every import under every kind of grant."""

import json
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
import wasmtime
from capability_strategies import FILES, PUBLIC_LITERAL, SECRETS, capabilities, urls
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wasmrt.testing import MemorySecrets
from wasmrt.testing.attacks._build import TEXT_AT, Body, tool

from tests.tiers import examples
from wasmrt.capabilities import (
    Capabilities,
    EndpointPattern,
    HttpCapability,
    RateLimitConfig,
    ToolLimits,
    find_missing_entries,
    with_fewest_entries,
)
from wasmrt.capabilities.file import parse
from wasmrt.cli import cli
from wasmrt.core.errors import ToolError
from wasmrt.core.model import Decision, Reason
from wasmrt.egress.gateway import NetworkConfig
from wasmrt.egress.secrets import DEFAULT_USER, Secret
from wasmrt.runtime.config import WasmRuntimeConfig
from wasmrt.runtime.runtime import WasmToolRuntime

_YES = '"it exists"'
# The params are a JSON string: its first letter selects an import, the rest is the argument of the import.
_ASK = f"""
  (local.set $i (i32.load8_u (i32.add (local.get $params) (i32.const 1))))
  (local.set $params (i32.add (local.get $params) (i32.const 2)))
  (local.set $length (i32.sub (local.get $length) (i32.const 3)))
  (if (i32.eq (local.get $i) (i32.const {ord("h")})) (then (call $http-request
    (i32.const {TEXT_AT}) (i32.const 3) (local.get $params) (local.get $length)
    (i32.const {TEXT_AT + 3}) (i32.const 2)
    (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 256))))
  (if (i32.eq (local.get $i) (i32.const {ord("w")}))
    (then (call $workspace-read (local.get $params) (local.get $length) (i32.const 256))))
  (if (i32.eq (local.get $i) (i32.const {ord("s")}))
    (then (if (call $secret-exists (local.get $params) (local.get $length))
      (then (return (call $say (i32.const {TEXT_AT + 5}) (i32.const {len(_YES)})))))))
  (if (i32.eq (local.get $i) (i32.const {ord("t")})) (then (call $tool-invoke
    (local.get $params) (local.get $length) (i32.const {TEXT_AT + 3}) (i32.const 2) (i32.const 256))))
  (call $ok)"""
_IMPORTS = ("http-request", "workspace-read", "secret-exists", "tool-invoke")
_LOOPBACK = "127.0.0.1"


class _Loopback:
    """A resolver that maps every name to this machine, which is never allowed, so that nothing is sent."""

    def resolve(self, host: str, port: int, *, timeout_seconds: float) -> tuple[str, ...]:
        return (_LOOPBACK,)


@pytest.fixture(scope="module")
def component() -> bytes:
    return bytes(wasmtime.wat2wasm(tool(Body(execute=_ASK, imports=_IMPORTS, text=b"GET{}" + _YES.encode()))))


class Met(NamedTuple):
    """The result of one call of the guest."""

    decisions: tuple[Decision, ...]
    answer: object


Ask = Callable[[Capabilities, str], Met]


@pytest.fixture(scope="module")
def ask(component: bytes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    workspace = tmp_path_factory.mktemp("workspace")
    for path in FILES:
        if "." in path:
            (workspace / path).parent.mkdir(parents=True, exist_ok=True)
            (workspace / path).write_text("text")
    secrets = MemorySecrets()
    for name in SECRETS:
        secrets.set(DEFAULT_USER, name, Secret("a value that no tool can read"))
    config = WasmRuntimeConfig(
        network=NetworkConfig(resolver=_Loopback()),
        workspace=workspace,
        secrets=secrets,
        cache_dir=tmp_path_factory.mktemp("cache"),
    )
    with WasmToolRuntime(config) as runtime:

        def run(grant: Capabilities, asked: str) -> Met:
            prepared = runtime.prepare("asker", component, _unhurried(grant))
            try:
                output = prepared.execute(json.dumps(asked), user=DEFAULT_USER)
            except ToolError as error:
                return Met(error.decisions, None)
            return Met(output.decisions, output.result)

        yield run


def _unhurried(grant: Capabilities) -> Capabilities:
    """Return the same grant without numbers that could end a call before its decision."""
    if grant.http is not None:
        often = RateLimitConfig(1_000_000, 1_000_000)
        grant = grant.with_http(HttpCapability(grant.http.allowlist, grant.http.credentials, often))
    return grant.with_limits(ToolLimits())


GRANTS = {
    "none": Capabilities.none(),
    "all": Capabilities.none()
    .with_http([EndpointPattern.host("api.example.com")])
    .with_workspace_read([""])
    .with_secrets(["*"])
    .with_tool_invoke({"search": "web", "other": "web"}),
    "specific": Capabilities.none()
    .with_http([EndpointPattern.host("api.example.com").with_path_prefix("/v1/").with_methods("GET")])
    .with_workspace_read(["context/"])
    .with_secrets(["openai_*"])
    .with_tool_invoke({"search": "web"}),
}
# import, argument: the reason under no grant, under every grant, under a specific grant; None means allowed.
MATRIX = [
    ("hhttps://api.example.com/v1/x", Reason.NOT_GRANTED, Reason.ADDRESS_NOT_ALLOWED, Reason.ADDRESS_NOT_ALLOWED),
    ("hhttps://api.example.com/v2", Reason.NOT_GRANTED, Reason.ADDRESS_NOT_ALLOWED, Reason.PATH_NOT_ALLOWED),
    ("hhttps://other.example.com/", Reason.NOT_GRANTED, Reason.HOST_NOT_ALLOWED, Reason.HOST_NOT_ALLOWED),
    ("hhttps://a@api.example.com/", Reason.INVALID_URL, Reason.INVALID_URL, Reason.INVALID_URL),
    ("wcontext/a.md", Reason.NOT_GRANTED, None, None),
    ("wnotes/c.md", Reason.NOT_GRANTED, None, Reason.PREFIX_NOT_ALLOWED),
    ("wcontext/../notes/c.md", Reason.INVALID_PATH, Reason.INVALID_PATH, Reason.INVALID_PATH),
    ("sopenai_key", Reason.NOT_GRANTED, None, None),
    ("sgithub_token", Reason.NOT_GRANTED, None, Reason.SECRET_NOT_ALLOWED),
    ("tother", Reason.NOT_GRANTED, None, Reason.ALIAS_NOT_ALLOWED),
]


@pytest.mark.parametrize(
    ("grant", "asked", "reason"),
    [(name, row[0], row[1 + at]) for row in MATRIX for at, name in enumerate(GRANTS)],
)
def test_every_import_behaves_as_its_grant_says(ask, grant, asked, reason):
    refused = [decision.reason for decision in ask(GRANTS[grant], asked).decisions if not decision.allowed]
    if reason is None:
        # The alias is granted, but its tool does not exist.
        assert refused == [] or (asked.startswith("t") and Reason.ALIAS_NOT_ALLOWED not in refused)
    else:
        assert refused == [reason]


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(grant=capabilities, url=urls.filter(lambda url: PUBLIC_LITERAL not in url))
def test_explain_agrees_with_the_decisions_for_a_running_guest(ask, grant, url):
    said = grant.explain_http("GET", url, [_LOOPBACK])
    met = [decision for decision in ask(grant, f"h{url}").decisions if not decision.allowed]
    assert [(d.reason, d.rule) for d in met] == [(said.reason, said.rule)]


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(grant=capabilities, path=st.sampled_from(FILES), name=st.sampled_from(SECRETS))
def test_explain_agrees_on_files_and_secrets(ask, grant, path, name):
    for asked, said in ((f"w{path}", grant.explain_workspace(path)), (f"s{name}", grant.explain_secret(name))):
        met = ask(grant, asked)
        denials = [d.reason for d in met.decisions if not d.allowed]
        refused = [reason for reason in denials if reason not in (Reason.NOT_FOUND, Reason.NOT_A_FILE)]
        assert refused == ([] if said.allowed else [said.reason])
        if asked == f"s{name}":
            assert met.answer == (json.loads(_YES) if said.allowed else {"ok": True})


def test_a_denied_use_is_proposed_as_the_narrowest_grant():
    asked = [
        GRANTS["none"].explain_http("GET", "https://api.example.com/v1/x?key=1"),
        GRANTS["none"].explain_http("POST", "https://api.example.com/v1/x"),
        GRANTS["specific"].explain_http("GET", "https://api.example.com/v1/x/y"),
        GRANTS["specific"].explain_http("PUT", "https://b.example:8443/"),
        GRANTS["none"].explain_workspace("context/a.md"),
        GRANTS["specific"].explain_workspace("notes/c.md"),
        GRANTS["none"].explain_secret("Openai_Key"),
        GRANTS["specific"].explain_tool("mail"),
        GRANTS["all"].explain_http("GET", "https://api.example.com/", ["10.0.0.1"]),
        GRANTS["all"].explain_http("GET", "https://x@y/"),
        GRANTS["all"].explain_workspace("../x"),
    ]
    assert (
        with_fewest_entries(Capabilities.none(), find_missing_entries(asked))
        == parse(
            """{"http": {"allowlist": [{"host": "api.example.com", "path_prefix": "/v1/x", "methods": ["GET", "POST"]},
        {"host": "b.example", "port": 8443, "methods": ["PUT"]}]},
        "workspace": {"allowed_prefixes": ["context/", "notes/"]},
        "secrets": {"allowed_names": ["openai_key"]},
        "tool_invoke": {"aliases": {"mail": "NAME-OF-THE-TOOL"}}}"""
        ).capabilities
    )


@pytest.fixture
def caps(tmp_path, monkeypatch, component):
    """Run `wasmrt caps ...` in a folder with a component `asker.wasm` and a file `a.json`."""
    monkeypatch.setenv("WASMRT_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "asker.wasm").write_bytes(component)
    (tmp_path / "a.json").write_text('{"http": {"allowed_endpoints": [{"host": "a.example"}]}, "workspace": true}')

    def run(*arguments: str, code: int = 0):
        result = CliRunner().invoke(cli, ["caps", *arguments], prog_name="wasmrt")
        assert result.exit_code == code, result.output
        return result

    return run


def test_init_drafts_a_file_that_lists_every_need_and_allows_nothing(caps):
    drafted = caps("init", "./asker.wasm")
    assert parse(drafted.stdout).capabilities == (
        Capabilities.none().with_http([]).with_workspace_read([]).with_secrets([]).with_tool_invoke({})
    )
    assert "near:agent/host@0.3.0#http-request" in drafted.stderr
    assert json.loads(caps("init", "./asker.wasm", "--json").stdout)["draft"] == json.loads(drafted.stdout)


def test_check_compares_a_file_with_a_component(caps):
    warnings = json.loads(caps("check", "a.json", "./asker.wasm", "--json").stdout)["warnings"]
    assert {"secrets", "tool_invoke"} <= {warning["path"] for warning in warnings}
    assert "every file of the workspace" in caps("check", "a.json").stdout


def test_check_reports_all_errors_together(caps, tmp_path):
    (tmp_path / "bad.json").write_text('{"htp": 1, "http": {"allowlist": [{}]}}')
    told = caps("check", "bad.json", code=2)
    assert "htp: unknown key; did you mean 'http'?" in told.stderr
    assert "http.allowlist[0].host: is missing" in told.stderr
    problems = json.loads(caps("check", "bad.json", "--json", code=2).stderr)["problems"]
    assert len(problems) == 2


def test_explain_prints_sentences_or_decides_one_use(caps):
    assert "may send any request to https://a.example, every path" in caps("explain", "a.json").stdout
    assert "allowed: GET https://a.example/x" in caps("explain", "a.json", "--url", "https://a.example/x").stdout
    denied = caps("explain", "a.json", "--url", "https://b.example/", "--method", "POST", code=3)
    assert 'add to http.allowlist: {"host": "b.example", "methods": ["POST"]}' in denied.stderr
    answer = caps(
        *("explain", "a.json", "--url", "https://a.example/", "--resolves-to", "8.8.8.8"),
        *("--resolves-to", "10.0.0.1", "--json"),
        code=3,
    )
    assert json.loads(answer.stdout)["reason"] == "address-not-allowed"
    caps("explain", "a.json", "--path", "x/y.md")
    denied = caps("explain", "a.json", "--write", "x/y.md", code=3)
    assert 'add "workspace_write": {"allowed_prefixes": ["x/"]}' in denied.stderr
    caps("explain", "a.json", "--secret", "token", code=3)
    caps("explain", "a.json", "--alias", "search", code=3)
    caps("explain", "a.json", "--alias", "search", "--secret", "token", code=2)


def test_fmt_writes_canonical_form_and_diff_finds_no_difference(caps, tmp_path):
    printed = caps("fmt", "a.json").stdout
    assert '"allowlist"' in printed and "allowed_endpoints" not in printed
    (tmp_path / "b.json").write_text((tmp_path / "a.json").read_text())
    caps("fmt", "--write", "b.json")
    assert (tmp_path / "b.json").read_text() == printed
    assert "both files allow the same" in caps("diff", "a.json", "b.json").stderr


def test_diff_exits_with_one_if_a_permission_was_widened(caps, tmp_path):
    (tmp_path / "b.json").write_text('{"http": {"allowlist": [{"host": "*.a.example"}]}}')
    changes = json.loads(caps("diff", "a.json", "b.json", "--json", code=1).stdout)
    assert [c["section"] for c in changes["widened"]] == ["http.allowlist"]
    assert {c["section"] for c in changes["narrowed"]} == {"http.allowlist", "workspace.allowed_prefixes"}


def test_learn_proposes_the_requested_access_and_allows_none_of_it(caps):
    learned = caps(
        *("learn", "./asker.wasm", "--"),
        *('"hhttps://api.example.com/v1/x"', '"wcontext/a.md"', '"sopenai_key"', '"tsearch"'),
    )
    assert (
        parse(learned.stdout).capabilities
        == parse(
            """{"http": {"allowlist": [{"host": "api.example.com", "path_prefix": "/v1/x", "methods": ["GET"]}]},
        "workspace": {"allowed_prefixes": ["context/"]}, "secrets": {"allowed": ["openai_key"]},
        "tool_invoke": {"aliases": {"search": "NAME-OF-THE-TOOL"}}}"""
        ).capabilities
    )
    assert "requested: GET https://api.example.com/v1/x" in learned.stderr
    told = json.loads(caps("learn", "./asker.wasm", "--json", "--", '"sopenai_key"').stdout)
    assert told["proposal"] == {"secrets": {"allowed_names": ["openai_key"]}}
    assert [decision["reason"] for decision in told["asked"]] == ["not-granted"]


def test_the_schema_is_valid_json(caps):
    assert json.loads(caps("schema").stdout)["type"] == "object"


@pytest.mark.parametrize("command", ["schema", "check", "explain", "diff", "fmt", "init", "learn"])
def test_every_command_shows_an_example(caps, command):
    assert "--json" in caps(command, "--help").stdout
    examples = caps(command, "--help").stdout.partition("Example")[2]
    assert f"wasmrt caps {command} " in examples or f"wasmrt advanced caps-{command} " in examples
