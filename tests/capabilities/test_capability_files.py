"""Reading, writing and describing capability files."""

import json

import jsonschema_rs
import pytest

from wasmrt.capabilities import (
    KINDS,
    Capabilities,
    CredentialLocation,
    EndpointPattern,
    HttpCapability,
    WorkspaceCapability,
)
from wasmrt.capabilities._phrases import join_words
from wasmrt.capabilities.file import capability_schema, format_file, parse
from wasmrt.capabilities.sentences import diff, explain, review
from wasmrt.core.errors import CapabilityFileError

SEED = """{
  "http": {
    "allowed_endpoints": [
      { "host": "api.example.com", "path_prefix": "/v1/", "methods": ["POST"] }
    ]
  },
  "workspace": true,
  "secrets": {
    "allowed": ["API_KEY", "openai_*"]
  }
}"""
NESTED = json.dumps(
    {
        "version": "0.1.0",
        "wit_version": "0.3.0",
        "description": "Searches a place.",
        "capabilities": {
            "http": {
                "allowlist": [{"host": "api.example.com", "path_prefix": "/", "methods": ["get"]}],
                "credentials": {
                    "one": {
                        "secret_name": "EXAMPLE_TOKEN",
                        "location": {"type": "header", "header_name": "Authorization", "prefix": "Bearer "},
                        "host_patterns": ["api.example.com"],
                        "path_patterns": ["/v1/"],
                        "optional": True,
                    },
                    "two": {
                        "secret_name": "example_token",
                        "location": {"type": "url_path", "placeholder": "{TOKEN}"},
                        "host_patterns": ["*.example.com"],
                    },
                },
                "rate_limit": {"requests_per_minute": 30},
                "timeout_secs": 60,
            },
            "secrets": {"allowed_names": ["example_token"]},
            "tool_invoke": {"aliases": {"search": "web"}},
            "workspace": {"allowed_prefixes": ["okta/"]},
        },
        "limits": {"memory": 1048576, "fuel": 5, "timeout": 2.5},
        "auth": {
            "secret_name": "example_token",
            "display_name": "Beispiel 例",
            "oauth": {
                "authorization_url": "https://{okta_domain}/oauth2/authorize",
                "token_url": "https://login.example.com/token",
                "scopes": ["read"],
                "use_pkce": False,
                "extra_params": {"access_type": "offline"},
            },
            "validation_endpoint": {"url": "https://api.example.com/me", "headers": {"Accept": "*/*"}},
            "optional": True,
        },
        "setup": {
            "required_secrets": [{"name": "example_token", "prompt": "Token"}],
            "optional_secrets": [{"name": "second"}],
        },
        "discovery_summary": {"always_required": ["action"], "examples": [{"action": "x", "deep": {"er": []}}]},
        "config": {"default_limit": 30},
    }
)


def test_the_example_file_of_the_specification_has_the_documented_meaning():
    granted = parse(SEED).capabilities
    assert granted == Capabilities.none().with_http(
        [EndpointPattern.host("api.example.com").with_path_prefix("/v1/").with_methods("POST")]
    ).with_workspace_read([""]).with_secrets(["api_key", "openai_*"])
    assert granted.http.rate_limit.requests_per_minute == 60
    assert granted.http.rate_limit.requests_per_hour == 1000
    assert (granted.http.max_request_bytes, granted.http.max_response_bytes) == (1 << 20, 10 << 20)
    assert granted.http.timeout_seconds == 30
    assert granted.explain_http("POST", "https://api.example.com/v1/x").allowed
    assert granted.explain_workspace("any/where.md").allowed
    assert granted.explain_secret("openai_key").allowed


def test_nested_sections_count_as_top_level_sections():
    file = parse(NESTED)
    http = file.capabilities.http
    assert http.allowlist == (EndpointPattern.host("api.example.com").with_methods("GET"),)
    assert [m.name for m in http.credentials] == ["one", "two"]
    assert http.credentials[0].location == CredentialLocation.header("Authorization", "Bearer ")
    assert http.credentials[0].optional and not http.credentials[1].optional
    assert http.credentials[1].location.placeholder == "TOKEN"
    assert http.timeout_seconds == 60
    assert file.capabilities.limits.overrides() == {"memory_bytes": 1048576, "fuel": 5, "timeout_seconds": 2.5}
    assert file.auth.oauth.extra_params == (("access_type", "offline"),)
    assert file.auth.oauth.use_pkce is False
    assert [(s.name, s.optional) for s in file.setup_secrets] == [("example_token", False), ("second", True)]
    assert file.sections["config"] == {"default_limit": 30}


@pytest.mark.parametrize("text", [SEED, NESTED, "{}", '{"workspace": false}', '{"http": {}}'])
def test_a_file_is_written_in_canonical_form_and_reads_back_unchanged(text):
    written = format_file(parse(text))
    assert parse(written) == parse(text)
    assert format_file(parse(written)) == written
    for old in ("allowed_endpoints", '"allowed"', "header_name", "timeout_secs", '"capabilities"'):
        assert old not in written


MISTAKES = """{
  "http": {
    "allowlst": [],
    "allowlist": [
      {"host": "https://example.com"},
      {"hots": "example.com"},
      {"host": "example.com", "methods": ["GET", "FETCH"], "port": 0},
      {"host": "example.com", "port": 1, "ports": [2]}
    ],
    "timeout": 5,
    "timeout_secs": 3,
    "credentials": {
      "x y": {"secret_name": "a b", "location": {"type": "beerer"}, "host_patterns": []},
      "h": {"secret_name": "h", "location": {"type": "header", "name": "Host"}, "host_patterns": ["a.org"]}
    }
  },
  "workspace": {"allowed_prefixes": ["../x", ""]},
  "secret": {},
  "secrets": {"allowed_names": ["*a"]},
  "limits": {"fuel": -1, "memory_bytes": 1.5},
  "auth": {"setup_url": "http://example.com/"},
  "tool_invoke": {"aliases": {"a b": "x", "c": ""}},
  "setup": null
}"""


def test_all_errors_are_reported_together_with_path_and_nearest_key():
    with pytest.raises(CapabilityFileError) as caught:
        parse(MISTAKES)
    told = dict(caught.value.problems)
    assert set(told) == {
        "http.allowlst",
        "http.allowlist[0].host",
        "http.allowlist[1].hots",
        "http.allowlist[1].host",
        "http.allowlist[2].methods[1]",
        "http.allowlist[2].port",
        "http.allowlist[3].ports",
        "http.timeout_secs",
        'http.credentials["x y"].secret_name',
        'http.credentials["x y"].location.type',
        'http.credentials["x y"].host_patterns',
        "http.credentials.h.location",
        "workspace.allowed_prefixes[0]",
        "workspace.allowed_prefixes[1]",
        "secret",
        "secrets.allowed_names[0]",
        "limits.fuel",
        "limits.memory_bytes",
        "auth.setup_url",
        "auth.secret_name",
        'tool_invoke.aliases["a b"]',
        "tool_invoke.aliases.c",
        "setup",
    }
    assert told["http.allowlst"] == "unknown key; did you mean 'allowlist'?"
    assert told["secret"] == "unknown key; did you mean 'secrets'?"
    assert "did you mean 'bearer'?" in told['http.credentials["x y"].location.type']


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[]", "must be an object, not a list"),
        ("null", "must be an object, not null"),
        ("{} {}", "not JSON"),
        ("// no\n{}", "not JSON"),
        ('{"http": {},}', "not JSON"),
        ('{"limits": {"fuel": NaN}}', "NaN"),
        ('{"limits": {"fuel": 1e999}}', "too large"),
        ('{"limits": {"fuel": ' + "9" * 5000 + "}}", "digits"),
        ("[" * 100_000, "nests deeper"),
        ('{"http":' * 17 + "1" + "}" * 17, "nests deeper"),
        (b"\xff\xfe{\x00}\x00", "not UTF-8"),
        ("\ufeff{}", "byte order mark"),
        ('{"description": "\\ud800"}', "surrogate"),
        ('{"' + "x" * 300_000 + '": 1}', "larger than"),
        ('{"workspace": true, "workspace": false}', "duplicate key"),
        ('{"http": {"allowlist": [], "allowlist": [{"host": "evil.example"}]}}', "duplicate key"),
        ('{"http": {"allowlist": [], "allowed_endpoints": [{"host": "evil.example"}]}}', "is a second spelling"),
        ('{"http": {}, "capabilities": {"http": {}}}', "is also at the top level"),
        ('{"capabilities": {"capabilities": {}}}', "unknown key"),
        ('{"workspace": 1}', "must be an object"),
        ('{"http": {"allowlist": {"host": "a.example"}}}', "must be a list"),
        ('{"http": {"allowlist": ["a.example"]}}', "must be an object, not text"),
        ('{"http": {"allowlist": [' + ",".join(['{"host":"a.example"}'] * 257) + "]}}", "0 to 256 entries"),
        ('{"http": {"max_request_bytes": true}}', "must be a positive whole number"),
    ],
)
def test_a_malformed_file_is_refused(text, told):
    with pytest.raises(CapabilityFileError) as caught:
        parse(text)
    assert any(told in sentence for _, sentence in caught.value.problems), caught.value.problems


WIDER = {"x": {"http": {"allowlist": [{"host": "b.example"}]}}}


@pytest.mark.parametrize(
    ("tree", "place"),
    [
        ({"capabilities": {"http": {}, "tools": WIDER}}, "capabilities.tools.x.http.allowlist[0]"),
        ({"capabilities": {"http": {}}, "tools": WIDER}, "tools.x.http.allowlist[0]"),
        ({"capabilities": {"htp": {}}}, "capabilities.htp"),
        ({"capabilities": {"http": {"allowlist": [{"host": "a", "methods": ["GTE"]}]}}},
         "capabilities.http.allowlist[0].methods[0]"),
    ],
)  # fmt: skip
def test_an_error_in_a_nested_section_has_its_nested_path(tree, place):
    with pytest.raises(CapabilityFileError) as caught:
        parse(json.dumps(tree))
    assert [path for path, _ in caught.value.problems] == [place]


def test_at_most_a_hundred_errors_are_reported():
    with pytest.raises(CapabilityFileError) as caught:
        parse(json.dumps({f"k{n}": 1 for n in range(5000)}))
    assert len(caught.value.problems) == 100


def test_the_json_schema_accepts_valid_files_and_refuses_invalid_ones():
    schema = jsonschema_rs.validator_for(capability_schema())
    for text in (SEED, NESTED, "{}"):
        assert schema.is_valid(json.loads(text))
    for wrong in (
        {"htp": {}},
        {"http": {"allowlist": [{}]}},
        {"http": {"allowlist": [{"host": "https://a"}]}},
        {"limits": {"fuel": 0}},
        {"workspace": {"allowed_prefixes": "x"}},
        {"secrets": {}},
        {"http": {"credentials": {"x": {"secret_name": "x", "location": {"type": "basic"}, "host_patterns": ["a.b"]}}}},
    ):
        assert not schema.is_valid(wrong), wrong
        with pytest.raises(CapabilityFileError):
            parse(json.dumps(wrong))


def test_a_file_is_explained_in_plain_sentences():
    granted = parse(
        """{"http": {"allowlist": [{"host": "api.example.com", "path_prefix": "/v1/", "methods": ["GET", "POST"]}],
        "credentials": {"t": {"secret_name": "example_token", "location": {"type": "bearer"},
        "host_patterns": ["api.example.com"]}}}, "workspace": {"allowed_prefixes": ["context/"]}}"""
    ).capabilities
    *allowed, lacking, rest = explain(granted)
    assert allowed == [
        "can change what your secret example_token opens at api.example.com, in your name",
        "may GET and POST https://api.example.com/v1/ and below, with your secret example_token in the "
        "Authorization header",
        "may send those requests 60 times a minute and 1,000 times an hour, each with at most 1 MiB out, 10 MiB back "
        "and 30 seconds",
        "may not send path segments . or .., also encoded, follow redirects, or reach non-public addresses "
        "unless exempt",
        "may read files under context/",
        "its parameters and data that it reads under context/ can go to api.example.com",
    ]
    others = [" ".join(kind.act) for kind in KINDS if kind not in (HttpCapability, WorkspaceCapability)]
    assert (lacking, rest) == (f"may not {join_words(others, 'or')}", "may not do anything else")
    assert "write files, ask which secrets are set" in lacking
    (nothing,) = explain(Capabilities.none())
    assert nothing == "may not do anything outside its sandbox: no network, no files, no secrets, no other tools"


def test_a_credential_narrower_than_its_entry_is_explained_as_such():
    granted = parse(
        """{"http": {"allowlist": [{"host": "*.example.com", "path_prefix": "/v1"}], "credentials": {
        "t": {"secret_name": "t", "location": {"type": "query_param", "name": "key"}, "optional": true,
        "host_patterns": ["api.example.com"], "path_patterns": ["/v1/admin/"]},
        "u": {"secret_name": "u", "location": {"type": "basic", "username": "me"}, "host_patterns": ["b.org"]}}}}"""
    ).capabilities
    said = explain(granted)
    assert said[0] == "can change what your secret t opens at api.example.com, in your name"
    assert said[1].endswith(
        "with your secret t in the query parameter key if it is set at api.example.com under /v1/admin/"
    )
    assert "lists your secret u for b.org, but may send no request that carries it" in said


def test_a_review_warns_about_risky_entries():
    file = parse(
        """{"http": {"allowlist": [{"host": "*.example.com"}, {"host": "a.org", "scheme": "http", "path_prefix": "/x"}],
        "credentials": {"t": {"secret_name": "t", "location": {"type": "bearer"}, "host_patterns": ["a.org"]},
        "u": {"secret_name": "u", "location": {"type": "bearer"},
        "host_patterns": ["*.b.org"], "path_patterns": ["/"]}}},
        "workspace": {"allowed_prefixes": []}, "secrets": {"allowed": ["*"]}, "config": {}}"""
    )
    assert {warning.path for warning in review(file)} == {
        "http.allowlist[0].host",
        "http.allowlist[0]",
        "http.allowlist[1].scheme",
        "http.credentials.t",
        "http.credentials.u",
        "http.credentials.u.host_patterns",
        "workspace.allowed_prefixes",
        "secrets.allowed_names",
        "config",
    }


@pytest.mark.parametrize(
    "host",
    ["10.0.0.7", "169.254.169.254", "127.0.0.1", "::1", "localhost", "metadata.google.internal", "*.google.internal"],
)
def test_a_review_warns_about_a_host_that_no_request_can_reach(host):
    text = f'{{"http": {{"allowlist": [{{"host": "{host}", "path_prefix": "/v1/", "methods": ["GET"]}}]}}}}'
    told = [warning.path for warning in review(parse(text)) if "unless the operator exempts" in warning.message]
    assert told == ["http.allowlist[0].host"]


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ('"path_prefix": "/v1/", "methods": ["GET", "POST"]', None),
        ('"path_prefix": "/v1/"', None),
        ('"methods": ["GET", "HEAD"]', None),
        ('"methods": ["GET", "POST"]', "POST requests to every path of the host are allowed"),
        (
            '"path_prefix": "/", "methods": ["PUT", "DELETE"]',
            "PUT and DELETE requests to every path of the host are allowed",
        ),
        ('"path_prefix": "/"', "every path and method of the host is allowed"),
        ('"port": 8443', "every path and method of the host is allowed"),
    ],
)
def test_a_review_warns_about_writing_methods_on_every_path(entry, told):
    warnings = review(parse(f'{{"http": {{"allowlist": [{{"host": "8.8.8.8", {entry}}}]}}}}'))
    assert [warning.path for warning in warnings] == ([] if told is None else ["http.allowlist[0]"])
    assert told is None or warnings[0].message.startswith(told)


@pytest.mark.parametrize(
    ("text", "imports", "path", "told"),
    [
        ('{"workspace": true}', ["near:agent/host@0.3.0#http-request"], "http", "near:agent/host@0.3.0#http-request"),
        ('{"workspace": true}', [], "workspace", "the component lacks an import for it"),
        (
            '{"secrets": {"allowed": ["a"]}}',
            ["wasi:cli/stdout@0.2.0"],
            "secrets",
            "the component lacks an import for it",
        ),
        ("{}", ["wasi:sockets/tcp-create-socket@0.2.3"], "$", "sockets are always refused"),
        ("{}", ["wasmrt:tool/tools@0.1.0"], "tool_invoke", "will be denied, because the file has no section"),
    ],
)
def test_a_review_compares_imports_and_sections_in_both_directions(text, imports, path, told):
    warnings = {warning.path: warning.message for warning in review(parse(text), imports)}
    assert told in warnings[path]


def test_a_diff_lists_widened_and_narrowed_permissions():
    old = parse('{"http": {"allowlist": [{"host": "a.example", "path_prefix": "/v1/"}], "timeout": 10}}').capabilities
    new = parse(
        '{"http": {"allowlist": [{"host": "a.example", "path_prefix": "/v1/x/", "methods": ["GET"]}, '
        '{"host": "b.example"}]}, "limits": {"fuel": 1000000}, "secrets": {"allowed": ["t"]}}'
    ).capabilities
    changes = diff(old, new)
    assert [c.sentence for c in changes.widened] == [
        "may send any request to https://b.example, every path",
        "time: 30 seconds instead of 10 seconds",
        "may ask whether secret t is set",
    ]
    assert [c.section for c in changes.narrowed] == ["http.allowlist", "limits.fuel"]
    assert not diff(old, old)
