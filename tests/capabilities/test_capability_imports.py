"""Import of other hosts' permission files as capability files."""

from __future__ import annotations

import json

import pytest

from wasmrt.capabilities import Capabilities, EndpointPattern
from wasmrt.capabilities.file import parse
from wasmrt.capabilities.foreign import import_policy, import_sidecar
from wasmrt.core.errors import CapabilityFileError

POLICY = """
version: "1.0"
description: "Reads the weather"   # a comment
permissions:
  network:
    allow:
      - host: "api.example.com"
      - host: "*.example.org"
      - host: 'https://files.example.net:8443/data'
      - cidr: "10.0.0.0/8"
      - host: "*"
  storage:
    allow:
    - uri: "fs://notes/agent/**"
      access: ["read", "write"]
    - uri: "fs:///etc/**"
      access: ["read"]
    - uri: "fs://notes/one/*"
      access: [read]
    - uri: "fs://out/**"
      access: ["write"]
  environment:
    allow:
      - key: "API_KEY"
  resources:
    limits:
      memory: "64Mi"
      cpu: "500m"
  runtime:
    docker:
      security:
        privileged: false
"""


def test_a_policy_is_converted_to_a_capability_file() -> None:
    asked = import_policy(POLICY).file.capabilities

    assert asked == Capabilities.parse(
        json.dumps(
            {
                "http": {
                    "allowlist": [
                        {"host": "api.example.com"},
                        {"host": "*.example.org"},
                        {"host": "files.example.net", "port": 8443, "path_prefix": "/data"},
                    ]
                },
                "workspace": {"allowed_prefixes": ["notes/agent/"]},
                "limits": {"memory_bytes": 64 * 1024 * 1024},
            }
        )
    )


def test_unconverted_parts_of_a_policy_are_reported_with_their_paths() -> None:
    left = import_policy(POLICY).left

    assert [line.partition(": ")[0] for line in left] == [
        "permissions.network.allow[3]",
        "permissions.network.allow[4]",
        "permissions.storage.allow[0]",
        "permissions.storage.allow[1]",
        "permissions.storage.allow[2]",
        "permissions.storage.allow[3]",
        "permissions.environment.allow[0]",
        "permissions.resources.cpu",
        "permissions.runtime",
    ]


def test_a_section_with_denied_entries_is_omitted_completely() -> None:
    policy = (
        "permissions:\n  network:\n    allow:\n      - host: a.example.com\n    deny:\n      - host: b.example.com\n"
    )
    imported = import_policy(policy)

    assert imported.file.capabilities == Capabilities.none()
    assert 'cannot express "deny"' in imported.left[0]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a: 1",
        "- permissions",
        "permissions: 5",
        "permissions:\n  network: &x\n",
        "permissions:\n  network: *x\n",
        "permissions: {network: {}}",
        "permissions:\n\tnetwork:\n",
        "permissions:\n  network:\n   - a: b\n  - c\n",
        "permissions:\n  a: 1\n  a: 2\n",
        "a:\n" + "".join(f"{' ' * depth}a:\n" for depth in range(1, 60)),
        "permissions:\n  just a text\n",
        "permissions:\n  network:\n    allow: [a\n",
        "x" * 300_000,
    ],
)
def test_an_invalid_policy_raises_a_typed_error(text: str) -> None:
    with pytest.raises(CapabilityFileError):
        import_policy(text)


def test_an_unreadable_policy_is_reported_with_line_numbers() -> None:
    with pytest.raises(CapabilityFileError, match="line 2: an anchor is not allowed; line 3: a tag") as caught:
        import_policy("permissions:\n  network: &x\n  storage: !y z\n")
    assert [place for place, _ in caught.value.problems] == ["line 2", "line 3"]


@pytest.mark.parametrize(
    ("section", "path"),
    [
        ("a: |\n    text", "permissions.a"),
        ("a: 'it''s'", "permissions.a"),
        ("network:\n    allow:\n      -", "permissions.network.allow[0]"),
        ("network:\n    allow: [[b]]", "permissions.network.allow[0]"),
        ("storage:\n    allow:\n      - uri: fs://a/**\n        access: readonly", "permissions.storage.allow[0]"),
        ("storage:\n    allow:\n      - uri: fs://a/**\n        access: true", "permissions.storage.allow[0]"),
    ],
)
def test_valid_yaml_that_grants_nothing_is_reported_with_its_path(section: str, path: str) -> None:
    imported = import_policy(f"permissions:\n  {section}\n")

    assert imported.file.capabilities == Capabilities.none()
    assert [line.partition(":")[0] for line in imported.left] == [path]


@pytest.mark.parametrize("nothing", ["", " null", " ~", " []"])
def test_an_empty_deny_list_denies_nothing(nothing: str) -> None:
    policy = f"permissions:\n  network:\n    deny:{nothing}\n    allow:\n      - host: a.example.com\n"

    assert import_policy(policy).left == ()
    assert import_policy(policy).file.capabilities == Capabilities.none().with_http(EndpointPattern("a.example.com"))


def test_an_entry_can_start_on_the_line_below_its_dash() -> None:
    policy = "permissions:\n  network:\n    allow:\n      -\n        host: a.example.com\n      - host: b.example.com\n"

    entries = [EndpointPattern("a.example.com"), EndpointPattern("b.example.com")]
    assert import_policy(policy).file.capabilities == Capabilities.none().with_http(entries)


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("network: everything", 'permissions.network: must be a mapping with "allow" and "deny"'),
        ("network:", 'permissions.network: must be a mapping with "allow" and "deny"'),
        ("network:\n    allow: everything", "permissions.network.allow: must be a list"),
        ("network:\n    allow:\n      - a.example.com", "permissions.network.allow[0]: must be a single host"),
        ("storage:\n    allow: [work]", "permissions.storage.allow[0]: must be an fs:// folder with read access"),
    ],
)
def test_a_malformed_section_grants_nothing_and_is_reported(section: str, message: str) -> None:
    imported = import_policy(f"permissions:\n  {section}\n")

    assert imported.file.capabilities == Capabilities.none()
    assert imported.left == (message,)


def test_an_invalid_limit_is_reported_and_the_default_applies() -> None:
    imported = import_policy("permissions:\n  memory:\n    limit: 0\n")

    assert imported.file.capabilities.limits.overrides() == {}
    assert [line.partition(":")[0] for line in imported.left] == ["permissions.memory"]
    assert "memory_bytes must be a positive whole number" in imported.left[0]


def test_sidecar_entries_with_unknown_keys_are_omitted() -> None:
    sidecar = {
        "capabilities": {
            "http": {
                "allowlist": [{"host": "a.example.com"}, {"host": "b.example.com", "only_on": "mondays"}],
                "credentials": {
                    "k": {
                        "secret_name": "k",
                        "location": {"type": "bearer"},
                        "host_patterns": ["a.example.com"],
                        "when": "never",
                    }
                },
            }
        },
        "cache_dir": "/tmp",
    }
    imported = import_sidecar(json.dumps(sidecar))

    assert imported.file.capabilities == Capabilities.parse('{"http": {"allowlist": [{"host": "a.example.com"}]}}')
    assert {line.partition(":")[0] for line in imported.left} == {
        "cache_dir",
        "capabilities.http.allowlist[1].only_on",
        "capabilities.http.credentials.k.when",
    }


def test_a_section_with_an_invalid_bound_is_omitted_completely() -> None:
    imported = import_sidecar('{"http": {"allowlist": [{"host": "a.example.com"}], "timeout": -1}}')

    assert imported.file.capabilities == Capabilities.none()
    assert imported.left[0].startswith("http.timeout")


@pytest.mark.parametrize("text", ['{"type": "channel"}', '{"capabilities": {"channel": {}}}'])
def test_a_channel_file_is_rejected_as_one(text: str) -> None:
    with pytest.raises(CapabilityFileError, match="describes a channel"):
        import_sidecar(text)
    with pytest.raises(CapabilityFileError, match="describes a channel"):
        Capabilities.parse(text)


@pytest.mark.parametrize("text", ["", "[]", "5", "{"])
def test_an_invalid_sidecar_raises_a_typed_error(text: str) -> None:
    with pytest.raises(CapabilityFileError):
        import_sidecar(text)


@pytest.mark.ci("slow")
def test_importing_a_sidecar_stops_after_too_many_errors() -> None:
    with pytest.raises(CapabilityFileError, match="cannot import a file with 200 errors or more"):
        import_sidecar(json.dumps({f"key_{number}": 1 for number in range(200)}))
    assert len(import_sidecar(json.dumps({f"key_{number}": 1 for number in range(199)})).left) == 199


CREDENTIAL = {"secret_name": "k", "location": {"type": "bearer"}, "host_patterns": ["a.example.com"]}


def test_a_sidecar_is_refused_if_the_path_of_an_error_was_truncated() -> None:
    with pytest.raises(CapabilityFileError) as refused:
        import_sidecar(json.dumps({"not known " * 7: 1}))
    assert [path for path, _ in refused.value.problems] == ['["' + ("not known " * 7)[:64] + '"]']


def test_an_error_in_a_nested_section_omits_only_its_entry() -> None:
    http = {"allowlist": [{"host": "a.example.com"}], "credentials": {"c\x07": CREDENTIAL, "d": CREDENTIAL}}
    imported = import_sidecar(json.dumps({"capabilities": {"http": http}}))

    assert [line.partition(": ")[0] for line in imported.left] == ['capabilities.http.credentials["c\\u0007"]']
    assert imported.file.capabilities.http is not None
    assert [mapping.name for mapping in imported.file.capabilities.http.credentials] == ["d"]


def test_a_sidecar_is_refused_if_the_path_of_an_error_does_not_exist() -> None:
    entries = [{"host": "a.example.com", "any_public_host": True}, {"host": "b.example.com"}]

    assert import_sidecar(json.dumps({"http": {"allowlist": entries}})).file.capabilities == (
        Capabilities.none().with_http([EndpointPattern("b.example.com")])
    )
    with pytest.raises(CapabilityFileError, match="an entry must have either"):
        import_sidecar(json.dumps({"http": {"allowed_endpoints": entries}}))


@pytest.mark.parametrize(
    "text", ['{"type": "hook"}', '{"kind": "hook", "x": 1}', '{"hooks": []}', '{"capabilities": {"hook": {}}}']
)
def test_a_hook_file_is_rejected_as_one(text: str) -> None:
    with pytest.raises(CapabilityFileError, match="describes a hook"):
        parse(text)


def test_a_kind_that_is_not_a_string_is_an_unknown_key() -> None:
    with pytest.raises(CapabilityFileError, match="unknown key"):
        parse('{"type": ["channel"]}')
