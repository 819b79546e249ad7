"""Sections of single tools in a capability file: a part of the component's, and never more."""

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


def test_a_tool_has_what_its_section_lists_and_nothing_else() -> None:
    grant = for_tool(file(read={"http": {"allowlist": [GET]}, "credentials": ["token"]}), "read")

    assert grant.http is not None
    assert [entry.methods for entry in grant.http.allowlist] == [("GET",)]
    assert [mapping.secret_name for mapping in grant.http.credentials] == ["token"]
    assert grant.http.max_request_bytes == 1000
    assert (grant.workspace_read, grant.secrets, grant.tool_invoke) == (None, None, None)


def test_a_tool_without_a_section_has_nothing_where_others_have_one() -> None:
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
def test_what_a_section_asks_for_beyond_its_component_is_a_mistake(section: dict[str, Any], place: str) -> None:
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
def test_of_a_component_without_a_section_no_tool_has_one(section: dict[str, Any], places: set[str]) -> None:
    with pytest.raises(CapabilityFileError) as refused:
        Capabilities.parse(json.dumps({"tools": {"t": section}}))
    assert {path for path, _ in refused.value.problems} == places


def test_a_tool_may_call_by_an_alias_of_its_component() -> None:
    section = {"tool_invoke": {"aliases": {"other": "other-tool"}}}
    invoke = for_tool(file(t=section), "t").tool_invoke

    assert invoke is not None and invoke.aliases == (("other", "other-tool"),)


def test_a_section_that_was_built_wider_gives_no_more_than_the_component() -> None:
    wide = Capabilities.none().with_http([EndpointPattern("evil.example"), EndpointPattern("api.example.com")])
    grant = for_tool(Capabilities.parse(json.dumps(COMPONENT)).with_tools([ToolGrant("t", wide)]), "t")

    assert grant.http is not None
    assert [(entry.host_pattern, entry.path_prefix) for entry in grant.http.allowlist] == [("api.example.com", "/v1/")]


def test_a_grant_decides_by_the_secret_and_not_by_the_name_of_a_credential() -> None:
    swapped = COMPONENT["http"] | {"credentials": {"token": KEY, "key": TOKEN}}
    given = Capabilities.parse(
        json.dumps(
            COMPONENT | {"http": swapped, "tools": {"t": {"http": {"allowlist": [GET]}, "credentials": ["token"]}}}
        )
    )
    asked = file(t={"http": {"allowlist": [GET]}, "credentials": ["token"]})

    grant = for_tool(merge(asked, given), "t")
    assert grant.http is not None and grant.http.credentials == ()


def test_a_merge_holds_for_each_tool_what_both_sides_give_it() -> None:
    asked = file(a={"http": {"allowlist": [GET]}}, b={"workspace": {"allowed_prefixes": ["notes/"]}})
    narrow = Capabilities.parse('{"http": {"allowlist": [{"host": "api.example.com", "path_prefix": "/v1/me/"}]}}')
    merged = merge(asked, narrow)

    assert for_tool(merged, "b") == Capabilities.none()
    http = for_tool(merged, "a").http
    assert http is not None
    assert [(entry.path_prefix, entry.methods) for entry in http.allowlist] == [("/v1/me/", ("GET",))]
    assert merge(asked, file(a={})).tools == (ToolGrant("a"),)


def test_a_file_with_sections_is_written_and_read_back_as_the_same() -> None:
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


def test_a_section_is_written_with_what_it_narrows_of_credentials_and_rates() -> None:
    narrow = KEY | {"path_patterns": ["/v1/me/"]}
    rate = {"requests_per_minute": 5, "requests_per_hour": 50}
    http = {"allowlist": [GET], "credentials": {"mine": narrow}, "rate_limit": rate, "max_request_bytes": 10}
    read = file(t={"http": http, "credentials": ["token"]})

    written = json.loads(format_file(read))["tools"]["t"]
    assert written == {"http": http, "credentials": ["token"]}
    assert Capabilities.parse(format_file(read)) == read


def test_a_tool_more_is_wider_and_so_is_a_tool_that_may_do_more() -> None:
    before = file(a={"http": {"allowlist": [GET]}})

    assert diff(before, file(a={"http": {"allowlist": [GET]}}, b={"http": {"allowlist": [GET]}})).widened
    assert diff(before, file(a={"http": {"allowlist": [GET | {"methods": ["GET", "PUT"]}]}})).widened
    assert diff(before, Capabilities.parse(json.dumps(COMPONENT))).widened
    assert not diff(before, file(a={})).widened
    assert diff(before, file(a={})).narrowed


WRITES: dict[str, Any] = {"workspace": True, "workspace_write": True}


def held(*effects: str, grant: dict[str, Any] = WRITES, declared: bool = True) -> Capabilities:
    """One tool with all of a grant, which declares these effects."""
    own = grant | ({"effects": list(effects)} if declared else {})
    return Capabilities.parse(json.dumps(grant | {"tools": {"write_file": own}}))


def test_an_effect_that_is_no_longer_declared_away_is_wider() -> None:
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


def test_an_effect_that_comes_with_an_entry_is_told_once() -> None:
    before = held("read-filesystem", grant={"workspace": True})
    after = held("read-filesystem", "write-filesystem")

    assert {change.section.rpartition("tools.write_file.")[2] for change in diff(before, after).widened} == {
        "workspace_write.allowed_prefixes"
    }


def test_effects_of_tools_that_it_may_call_are_wider_when_they_are_no_longer_declared_away() -> None:
    calls = {"tool_invoke": {"aliases": {"other": "other-tool"}}}

    widened = diff(held("invoke-tool", grant=calls), held("invoke-tool", "network", grant=calls)).widened
    assert [change.sentence.partition(",")[0] for change in widened] == ["write_file: may use the network"]


def test_a_change_of_many_tools_names_the_first_few_of_them() -> None:
    def sentences(names: str) -> list[str]:
        before, after = ({name: {"http": {"allowlist": entries}} for name in names} for entries in ([], [GET]))
        return [change.sentence.partition(": ")[0] for change in diff(file(**before), file(**after)).widened]

    assert sentences("abcdef") == ["a, b, c, d, e and f"]
    assert sentences("abcdefg") == ["a, b, c, d, e and 2 more"]


def test_the_sentences_end_with_the_limits_of_each_call() -> None:
    limited = Capabilities.parse(json.dumps(COMPONENT | {"limits": {"fuel": 1000}, "tools": {"a": {}}}))

    assert explain(limited)[-2:] == ("each call may use 1,000 units of fuel", "no tool may do anything else")
    assert explain(file(a={})) == ("a may not do anything outside the sandbox", "no tool may do anything else")


def test_the_sentences_say_what_every_tool_may_and_who_may_more() -> None:
    write = GET | {"methods": ["POST"]}
    said = explain(
        file(
            a={"http": {"allowlist": [GET]}}, b={"http": {"allowlist": [GET, write]}}, c={"http": {"allowlist": [GET]}}
        )
    )

    assert said[0].startswith("every tool may GET https://api.example.com/v1/ and below")
    assert said[1].startswith("b also may POST https://api.example.com/v1/")
    assert said[-1] == "no tool may do anything else"


def test_a_section_holds_neither_sections_nor_limits_and_stands_once() -> None:
    with pytest.raises(ConfigurationError, match="neither tools, limits nor logins"):
        ToolGrant("a", file(a={}))
    with pytest.raises(ConfigurationError, match="two sections"):
        Capabilities.none().with_tools([ToolGrant("a"), ToolGrant("a")])
    with pytest.raises(ConfigurationError, match="tools may hold ToolGrant only"):
        Capabilities.none().with_tools(["a"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="telepathy"):
        ToolGrant("a", effects=("telepathy",))  # type: ignore[arg-type]
    assert ToolGrant("a", effects=(Effect.NETWORK, Effect.NETWORK)).effects == (Effect.NETWORK,)
