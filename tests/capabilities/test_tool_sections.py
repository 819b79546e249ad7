"""Sections for single tools in a capability file: always a part of the component's capabilities."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wasmrt.capabilities import Capabilities, EndpointPattern, ToolGrant, for_tool, merge
from wasmrt.capabilities.file import format_file, parse
from wasmrt.capabilities.sentences import diff, explain
from wasmrt.core.effects import Effect
from wasmrt.core.errors import CapabilityFileError, ConfigurationError

TOKEN = {"secret_name": "token", "location": {"type": "bearer"}, "host_patterns": ["api.example.com"]}
KEY = {"secret_name": "key", "location": {"type": "header", "name": "x-key"}, "host_patterns": ["api.example.com"]}
COMPONENT: dict[str, Any] = {
    "http": {
        "allowlist": [{"host": "api.example.com", "path_prefix": "/v1/"}],
        "credentials": {"token": TOKEN, "key": KEY},
        "max_request_bytes": 1000,
    },
    "workspace": {"allowed_prefixes": ["notes/"]},
    "secrets": {"allowed_names": ["token*"]},
    "tool_invoke": {"aliases": {"other": "other-tool"}},
}
GET = {"host": "api.example.com", "path_prefix": "/v1/", "methods": ["GET"]}


def file(**tools: Any) -> Capabilities:
    return Capabilities.parse(json.dumps(COMPONENT | {"tools": tools}))


def mistakes(**tools: Any) -> list[str]:
    with pytest.raises(CapabilityFileError) as refused:
        file(**tools)
    return [path for path, _ in refused.value.problems]


def test_a_tool_has_exactly_the_permissions_of_its_section() -> None:
    grant = for_tool(file(read={"http": {"allowlist": [GET]}, "credentials": ["token"]}), "read")

    assert grant.http is not None
    assert [entry.methods for entry in grant.http.allowlist] == [("GET",)]
    assert [mapping.secret_name for mapping in grant.http.credentials] == ["token"]
    assert grant.http.max_request_bytes == 1000
    assert (grant.workspace_read, grant.secrets, grant.tool_invoke) == (None, None, None)


def test_a_tool_without_a_section_has_nothing_if_other_tools_have_one() -> None:
    assert for_tool(file(read={}), "write") == Capabilities.none()
    assert for_tool(Capabilities.parse(json.dumps(COMPONENT)), "write").http is not None


@pytest.mark.parametrize(
    ("section", "place"),
    [
        ({"http": {"allowlist": [{"host": "api.example.com"}]}}, "tools.t.http.allowlist[0]"),
        ({"http": {"allowlist": [GET, {"host": "evil.example"}]}}, "tools.t.http.allowlist[1]"),
        ({"http": {"allowlist": [GET | {"port": 8443}]}}, "tools.t.http.allowlist[0]"),
        ({"http": {"allowlist": [GET], "max_request_bytes": 1001}}, "tools.t.http.max_request_bytes"),
        ({"http": {"rate_limit": {"requests_per_minute": 61}}}, "tools.t.http.rate_limit.requests_per_minute"),
        ({"http": {"credentials": {"k": KEY | {"secret_name": "mine"}}}}, "tools.t.http.credentials.k"),
        ({"http": {"credentials": {"k": KEY | {"host_patterns": ["*.example.com"]}}}}, "tools.t.http.credentials.k"),
        ({"http": {"allowlist": []}, "credentials": ["tokn"]}, "tools.t.credentials"),
        ({"credentials": ["token"]}, "tools.t.credentials"),
        ({"workspace": True}, "tools.t.workspace.allowed_prefixes[0]"),
        ({"workspace": {"allowed_prefixes": ["other/"]}}, "tools.t.workspace.allowed_prefixes[0]"),
        ({"secrets": {"allowed_names": ["*"]}}, "tools.t.secrets.allowed_names[0]"),
        ({"tool_invoke": {"aliases": {"other": "another"}}}, "tools.t.tool_invoke.aliases.other"),
        ({"http": {"credentials": {"c\x07": KEY}}, "credentials": ["token"]}, 'tools.t.http.credentials["c\\u0007"]'),
        ({"effects": ["everything"]}, "tools.t.effects[0]"),
        ({"limits": {"fuel": 1}}, "tools.t.limits"),
    ],
)
def test_a_section_beyond_its_component_is_an_error(section: dict[str, Any], place: str) -> None:
    assert place in mistakes(t=section)


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("http.max_request_bytes", 1000),
        ("http.max_response_bytes", 2000),
        ("http.timeout_seconds", 7),
        ("http.rate_limit.requests_per_minute", 8),
        ("http.rate_limit.requests_per_hour", 90),
        ("workspace_write.max_file_bytes", 300),
        ("workspace_write.max_bytes", 400),
        ("workspace_write.max_files", 5),
    ],
)
def test_a_number_of_a_section_is_at_most_the_components(name: str, most: int) -> None:
    def nested(value: int) -> dict[str, Any]:
        section, *keys = name.split(".")
        tree: Any = value
        for key in reversed(keys):
            tree = {key: tree}
        needed = {"allowed_prefixes": []} if section == "workspace_write" else {}
        return {section: needed | tree}

    def read(value: int) -> Capabilities:
        return Capabilities.parse(json.dumps(nested(most) | {"tools": {"t": nested(value)}}))

    assert read(most).tools is not None
    with pytest.raises(CapabilityFileError) as refused:
        read(most + 1)
    assert f"tools.t.{name}" in [path for path, _ in refused.value.problems]


@pytest.mark.parametrize(
    ("section", "places"),
    [
        (
            {"http": {"allowlist": [GET], "credentials": {"k": KEY}, "timeout_seconds": 60}},
            {"tools.t.http.allowlist[0]", "tools.t.http.credentials.k", "tools.t.http.timeout_seconds"},
        ),
        ({"workspace": {"allowed_prefixes": ["notes/"]}}, {"tools.t.workspace.allowed_prefixes[0]"}),
        (
            {"workspace_write": {"allowed_prefixes": ["out/"], "remove": True}},
            {"tools.t.workspace_write.allowed_prefixes[0]", "tools.t.workspace_write.remove"},
        ),
        ({"secrets": {"allowed_names": ["key"]}}, {"tools.t.secrets.allowed_names[0]"}),
        ({"tool_invoke": {"aliases": {"say": "speaker"}}}, {"tools.t.tool_invoke.aliases.say"}),
    ],
)
def test_a_tool_cannot_have_a_section_that_its_component_lacks(section: dict[str, Any], places: set[str]) -> None:
    with pytest.raises(CapabilityFileError) as refused:
        Capabilities.parse(json.dumps({"tools": {"t": section}}))
    assert {path for path, _ in refused.value.problems} == places


def test_a_tool_can_use_an_alias_of_its_component() -> None:
    section = {"tool_invoke": {"aliases": {"other": "other-tool"}}}
    invoke = for_tool(file(t=section), "t").tool_invoke

    assert invoke is not None and invoke.aliases == (("other", "other-tool"),)


def test_a_section_built_wider_grants_no_more_than_the_component() -> None:
    wide = Capabilities.none().with_http([EndpointPattern("evil.example"), EndpointPattern("api.example.com")])
    grant = for_tool(Capabilities.parse(json.dumps(COMPONENT)).with_tools([ToolGrant("t", wide)]), "t")

    assert grant.http is not None
    assert [(entry.host_pattern, entry.path_prefix) for entry in grant.http.allowlist] == [("api.example.com", "/v1/")]


def test_a_grant_compares_secrets_and_not_credential_names() -> None:
    swapped = COMPONENT["http"] | {"credentials": {"token": KEY, "key": TOKEN}}
    given = Capabilities.parse(
        json.dumps(
            COMPONENT | {"http": swapped, "tools": {"t": {"http": {"allowlist": [GET]}, "credentials": ["token"]}}}
        )
    )
    asked = file(t={"http": {"allowlist": [GET]}, "credentials": ["token"]})

    grant = for_tool(merge(asked, given), "t")
    assert grant.http is not None and grant.http.credentials == ()


def test_a_merge_grants_each_tool_what_both_sides_grant() -> None:
    asked = file(a={"http": {"allowlist": [GET]}}, b={"workspace": {"allowed_prefixes": ["notes/"]}})
    narrow = Capabilities.parse('{"http": {"allowlist": [{"host": "api.example.com", "path_prefix": "/v1/me/"}]}}')
    merged = merge(asked, narrow)

    assert for_tool(merged, "b") == Capabilities.none()
    http = for_tool(merged, "a").http
    assert http is not None
    assert [(entry.path_prefix, entry.methods) for entry in http.allowlist] == [("/v1/me/", ("GET",))]
    assert merge(asked, file(a={})).tools == (ToolGrant("a"),)


def test_a_file_with_sections_is_written_and_read_back_unchanged() -> None:
    text = json.dumps(
        COMPONENT
        | {
            "tools": {
                "a": {"http": {"allowlist": [GET]}, "credentials": ["token"], "effects": ["network"]},
                "b": {"workspace": {"allowed_prefixes": ["notes/x/"]}, "secrets": {"allowed_names": ["token_a"]}},
                "c": {},
            }
        }
    )
    read = parse(text)

    assert parse(format_file(read)) == read
    assert '"credentials": ["token"]' in format_file(read)


def test_a_section_is_written_with_its_narrowed_credentials_and_rates() -> None:
    narrow = KEY | {"path_patterns": ["/v1/me/"]}
    rate = {"requests_per_minute": 5, "requests_per_hour": 50}
    http = {"allowlist": [GET], "credentials": {"mine": narrow}, "rate_limit": rate, "max_request_bytes": 10}
    read = file(t={"http": http, "credentials": ["token"]})

    written = json.loads(format_file(read))["tools"]["t"]
    assert written == {"http": http, "credentials": ["token"]}
    assert Capabilities.parse(format_file(read)) == read


def test_an_additional_or_wider_tool_is_a_widened_permission() -> None:
    before = file(a={"http": {"allowlist": [GET]}})

    assert diff(before, file(a={"http": {"allowlist": [GET]}}, b={"http": {"allowlist": [GET]}})).widened
    assert diff(before, file(a={"http": {"allowlist": [GET | {"methods": ["GET", "PUT"]}]}})).widened
    assert diff(before, Capabilities.parse(json.dumps(COMPONENT))).widened
    assert not diff(before, file(a={})).widened
    assert diff(before, file(a={})).narrowed


WRITES: dict[str, Any] = {"workspace": True, "workspace_write": True}


def held(*effects: str, grant: dict[str, Any] = WRITES, declared: bool = True) -> Capabilities:
    """Return one tool with a whole grant, which declares these effects."""
    own = grant | ({"effects": list(effects)} if declared else {})
    return Capabilities.parse(json.dumps(grant | {"tools": {"write_file": own}}))


def test_an_effect_that_is_no_longer_excluded_is_a_widened_permission() -> None:
    less, more, all_of_it = held("read-filesystem"), held("read-filesystem", "write-filesystem"), held(declared=False)

    for wider in (more, all_of_it):
        changes = diff(less, wider)
        assert [change.section for change in changes.widened] == ["tools.write_file.effects"]
        assert changes.widened[0].sentence.startswith("write_file: may write files")
        assert changes.narrowed == ()
        assert diff(wider, less).narrowed == changes.widened and diff(wider, less).widened == ()
        assert diff(less, merge(wider, less)).widened == diff(less, merge(less, wider)).widened == ()
    assert not diff(more, all_of_it), "nothing else is in its grant"
    assert diff(less, Capabilities.parse(json.dumps(WRITES))).widened


def test_an_effect_of_a_new_entry_is_reported_once() -> None:
    before = held("read-filesystem", grant={"workspace": True})
    after = held("read-filesystem", "write-filesystem")

    assert {change.section.rpartition("tools.write_file.")[2] for change in diff(before, after).widened} == {
        "workspace_write.allowed_prefixes"
    }


def test_effects_of_callable_tools_are_widened_if_no_longer_excluded() -> None:
    calls = {"tool_invoke": {"aliases": {"other": "other-tool"}}}

    widened = diff(held("invoke-tool", grant=calls), held("invoke-tool", "network", grant=calls)).widened
    assert [change.sentence.partition(",")[0] for change in widened] == ["write_file: may use the network"]


def test_a_change_of_many_tools_names_only_the_first_few() -> None:
    def sentences(names: str) -> list[str]:
        before, after = ({name: {"http": {"allowlist": entries}} for name in names} for entries in ([], [GET]))
        return [change.sentence.partition(": ")[0] for change in diff(file(**before), file(**after)).widened]

    assert sentences("abcdef") == ["a, b, c, d, e and f"]
    assert sentences("abcdefg") == ["a, b, c, d, e and 2 more"]


def test_the_sentences_end_with_the_limits_of_each_call() -> None:
    limited = Capabilities.parse(json.dumps(COMPONENT | {"limits": {"fuel": 1000}, "tools": {"a": {}}}))

    assert explain(limited)[-2:] == ("each call may use 1,000 units of fuel", "no tool may do anything else")
    assert explain(file(a={})) == ("a may not do anything outside the sandbox", "no tool may do anything else")


def test_the_sentences_list_common_permissions_and_those_of_single_tools() -> None:
    write = GET | {"methods": ["POST"]}
    said = explain(
        file(
            a={"http": {"allowlist": [GET]}}, b={"http": {"allowlist": [GET, write]}}, c={"http": {"allowlist": [GET]}}
        )
    )

    assert said[0].startswith("every tool may GET https://api.example.com/v1/ and below")
    assert said[1].startswith("b also may POST https://api.example.com/v1/")
    assert said[-1] == "no tool may do anything else"


def test_a_section_contains_no_sections_or_limits_and_is_unique() -> None:
    with pytest.raises(ConfigurationError, match="must not contain tools, limits or logins"):
        ToolGrant("a", file(a={}))
    with pytest.raises(ConfigurationError, match="two sections"):
        Capabilities.none().with_tools([ToolGrant("a"), ToolGrant("a")])
    with pytest.raises(ConfigurationError, match="tools must contain only ToolGrant values"):
        Capabilities.none().with_tools(["a"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="telepathy"):
        ToolGrant("a", effects=("telepathy",))  # type: ignore[arg-type]
    assert ToolGrant("a", effects=(Effect.NETWORK, Effect.NETWORK)).effects == (Effect.NETWORK,)
