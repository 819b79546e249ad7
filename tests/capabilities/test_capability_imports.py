"""Capability files of other hosts, taken over as far as ours can say the same."""

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


def test_a_policy_gives_what_a_capability_file_can_say() -> None:
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


def test_what_a_policy_allows_and_no_file_can_is_told_with_its_place() -> None:
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


def test_a_section_that_denies_a_part_is_taken_over_not_at_all() -> None:
    policy = (
        "permissions:\n  network:\n    allow:\n      - host: a.example.com\n    deny:\n      - host: b.example.com\n"
    )
    imported = import_policy(policy)

    assert imported.file.capabilities == Capabilities.none()
    assert "it denies a part" in imported.left[0]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a: 1",
        "permissions: 5",
        "permissions:\n  network: &x\n",
        "permissions:\n  network: *x\n",
        "permissions: {network: {}}",
        "permissions:\n\tnetwork:\n",
        "permissions:\n  network:\n   - a: b\n  - c\n",
        "permissions:\n  a: 1\n  a: 2\n",
        "permissions:\n  a: |\n    text\n",
        "a:\n" + "".join(f"{' ' * depth}a:\n" for depth in range(1, 60)),
        "permissions:\n  a: 'it''s'\n",
        "permissions:\n  just a text\n",
        "permissions:\n  network:\n    allow:\n      -\n",
        "permissions:\n  network:\n    allow:\n      -\n      - host: a.example.com\n",
        "permissions:\n  network:\n    allow: [a, [b]]\n",
        "permissions:\n  network:\n    allow: [a\n",
        "x" * 300_000,
    ],
)
def test_what_is_no_policy_is_a_typed_error(text: str) -> None:
    with pytest.raises(CapabilityFileError):
        import_policy(text)


@pytest.mark.parametrize("nothing", ["", " null", " ~", " []"])
def test_a_denial_of_nothing_denies_nothing(nothing: str) -> None:
    policy = f"permissions:\n  network:\n    deny:{nothing}\n    allow:\n      - host: a.example.com\n"

    assert import_policy(policy).left == ()
    assert import_policy(policy).file.capabilities == Capabilities.none().with_http(EndpointPattern("a.example.com"))


def test_an_entry_may_begin_on_the_line_below_its_dash() -> None:
    policy = "permissions:\n  network:\n    allow:\n      -\n        host: a.example.com\n      - host: b.example.com\n"

    entries = [EndpointPattern("a.example.com"), EndpointPattern("b.example.com")]
    assert import_policy(policy).file.capabilities == Capabilities.none().with_http(entries)


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ("network: everything", "permissions.network: is no map of allow and deny"),
        ("network:", "permissions.network: is no map of allow and deny"),
        ("network:\n    allow: everything", "permissions.network.allow: is no list"),
        ("network:\n    allow:\n      - a.example.com", "permissions.network.allow[0]: is not a single host"),
        ("storage:\n    allow: [work]", "permissions.storage.allow[0]: is no folder that may be read"),
    ],
)
def test_a_section_of_another_form_grants_nothing_and_is_told(section: str, told: str) -> None:
    imported = import_policy(f"permissions:\n  {section}\n")

    assert imported.file.capabilities == Capabilities.none()
    assert imported.left == (told,)


def test_a_limit_that_no_tool_can_have_leaves_the_runtimes() -> None:
    imported = import_policy("permissions:\n  memory:\n    limit: 0\n")

    assert imported.file.capabilities.limits.overrides() == {}
    assert [line.partition(":")[0] for line in imported.left] == ["permissions.memory"]
    assert "memory_bytes must be a positive whole number" in imported.left[0]


def test_a_sidecar_loses_the_entries_that_hold_an_unknown_key_and_keeps_the_others() -> None:
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


def test_a_section_with_a_wrong_bound_goes_as_a_whole() -> None:
    imported = import_sidecar('{"http": {"allowlist": [{"host": "a.example.com"}], "timeout": -1}}')

    assert imported.file.capabilities == Capabilities.none()
    assert imported.left[0].startswith("http.timeout")


@pytest.mark.parametrize("text", ['{"type": "channel"}', '{"capabilities": {"channel": {}}}'])
def test_the_file_of_a_channel_says_that_it_is_one(text: str) -> None:
    with pytest.raises(CapabilityFileError, match="file of a channel"):
        import_sidecar(text)
    with pytest.raises(CapabilityFileError, match="file of a channel"):
        Capabilities.parse(text)


@pytest.mark.parametrize("text", ["", "[]", "5", "{"])
def test_what_is_no_sidecar_is_a_typed_error(text: str) -> None:
    with pytest.raises(CapabilityFileError):
        import_sidecar(text)


def test_a_sidecar_of_nothing_but_mistakes_is_given_up_on() -> None:
    with pytest.raises(CapabilityFileError, match="too many mistakes to be imported"):
        import_sidecar(json.dumps({f"key_{number}": 1 for number in range(200)}))
    assert len(import_sidecar(json.dumps({f"key_{number}": 1 for number in range(199)})).left) == 199


CREDENTIAL = {"secret_name": "k", "location": {"type": "bearer"}, "host_patterns": ["a.example.com"]}


def test_a_mistake_that_is_not_found_again_refuses_the_whole_sidecar() -> None:
    with pytest.raises(CapabilityFileError) as refused:
        import_sidecar(json.dumps({"not known " * 7: 1}))
    assert [path for path, _ in refused.value.problems] == ['["' + ("not known " * 7)[:64] + '"]']


def test_a_mistake_in_a_nested_section_leaves_out_its_entry_alone() -> None:
    http = {"allowlist": [{"host": "a.example.com"}], "credentials": {"c\x07": CREDENTIAL, "d": CREDENTIAL}}
    imported = import_sidecar(json.dumps({"capabilities": {"http": http}}))

    assert [line.partition(": ")[0] for line in imported.left] == ['capabilities.http.credentials["c\\u0007"]']
    assert imported.file.capabilities.http is not None
    assert [mapping.name for mapping in imported.file.capabilities.http.credentials] == ["d"]


def test_an_entry_that_cannot_be_found_by_the_place_of_its_mistake_refuses_the_whole_sidecar() -> None:
    entries = [{"host": "a.example.com", "any_public_host": True}, {"host": "b.example.com"}]

    assert import_sidecar(json.dumps({"http": {"allowlist": entries}})).file.capabilities == (
        Capabilities.none().with_http([EndpointPattern("b.example.com")])
    )
    with pytest.raises(CapabilityFileError, match="an entry has either a host"):
        import_sidecar(json.dumps({"http": {"allowed_endpoints": entries}}))


@pytest.mark.parametrize(
    "text", ['{"type": "hook"}', '{"kind": "hook", "x": 1}', '{"hooks": []}', '{"capabilities": {"hook": {}}}']
)
def test_the_file_of_a_hook_says_that_it_is_one(text: str) -> None:
    with pytest.raises(CapabilityFileError, match="file of a hook"):
        parse(text)


def test_a_file_with_a_kind_that_is_no_text_is_told_its_mistakes() -> None:
    with pytest.raises(CapabilityFileError, match="unknown key"):
        parse('{"type": ["channel"]}')
