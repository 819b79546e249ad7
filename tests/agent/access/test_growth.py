"""Properties of extended grants: the grant after an answer is the earlier grant and exactly the entry."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiers import examples
from wasmrt import Capabilities, ConfigurationError, EndpointPattern
from wasmrt.capabilities import (
    HttpCapability,
    SecretsCapability,
    ToolGrant,
    ToolInvokeCapability,
    WorkspaceCapability,
    WorkspaceWriteCapability,
    covers,
    find_missing_entries,
    for_tool,
    merge,
    read_narrower_entry,
    with_added_entries,
)
from wasmrt.capabilities.file import format_file, parse
from wasmrt.core.model import Addition, Decision, Reason, Withheld

PATHS = ("", "notes/", "notes/deep/", "notes/a.md", "plans/", "other/x/")
HOSTS = ("api.example.com", "*.example.com", "evil.example")
PROBES = ("notes/a.md", "notes/deep/c.md", "plans/p.md", "other/x/y", "top.md")
URLS = tuple(f"https://{host}{path}" for host in ("api.example.com", "evil.example") for path in ("/v1/", "/v1/a", "/"))

paths = st.sampled_from(PATHS)
endpoints = st.builds(
    lambda host, path, methods: EndpointPattern(host, path, tuple(methods)),
    st.sampled_from(HOSTS),
    st.sampled_from(("/", "/v1/", "/v1/a")),
    st.lists(st.sampled_from(("GET", "POST")), unique=True, max_size=2),
)
additions = st.one_of(
    st.builds(
        lambda to, path: Addition(to, json.dumps(path)),
        st.sampled_from((WorkspaceCapability.grant_list, WorkspaceWriteCapability.grant_list)),
        paths,
    ),
    endpoints.map(lambda entry: Addition(HttpCapability.grant_list, entry.as_line())),
    st.sampled_from(("k_one", "k_*")).map(lambda name: Addition(SecretsCapability.grant_list, json.dumps(name))),
    st.just(Addition(ToolInvokeCapability.grant_list, '{"mail": "mailer"}')),
)


@st.composite
def grants(draw: st.DrawFn, *, tools: bool = True) -> Capabilities:
    made = Capabilities.none()
    if draw(st.booleans()):
        made = made.with_http(draw(st.lists(endpoints, min_size=1, max_size=2)))
    if draw(st.booleans()):
        made = made.with_workspace_read(draw(st.lists(paths, min_size=1, max_size=2, unique=True)))
    if draw(st.booleans()):
        made = made.with_workspace_write(draw(st.lists(paths, min_size=1, max_size=2, unique=True)))
    if tools and draw(st.booleans()):
        parts = draw(st.lists(grants(tools=False), min_size=2, max_size=2))
        made = made.with_tools(ToolGrant(name, part) for name, part in zip("ab", parts, strict=True))
    return made


def powers(grant: Capabilities) -> set[str]:
    """Return the probes that a grant allows."""
    found = {f"read {path}" for path in PROBES if grant.explain_workspace(path)}
    found |= {f"write {path}" for path in PROBES if grant.explain_workspace_write(path)}
    found |= {f"{verb} {url}" for verb in ("GET", "POST") for url in URLS if grant.explain_http(verb, url)}
    found |= {f"secret {name}" for name in ("k_one", "k_two", "other") if grant.explain_secret(name)}
    return found | {f"tool {alias}" for alias in ("mail", "other") if grant.explain_tool(alias)}


def alone(addition: Addition) -> set[str]:
    return powers(Capabilities.none().with_addition(addition))


@settings(max_examples=examples(40), deadline=None)
@given(grants(tools=False), additions)
def test_a_grant_is_extended_by_exactly_the_entry(grant: Capabilities, addition: Addition) -> None:
    after = with_added_entries(grant, (addition,))
    assert powers(after) == powers(grant) | alone(addition)
    assert (after.limits, after.logins, after.tools) == (grant.limits, grant.logins, grant.tools)
    if grant.workspace_write is not None and after.workspace_write is not None:
        assert after.workspace_write.remove is grant.workspace_write.remove


@settings(max_examples=examples(40), deadline=None)
@given(grants(), additions)
def test_only_the_requesting_tool_of_a_component_gets_the_entry(grant: Capabilities, addition: Addition) -> None:
    after = with_added_entries(grant, (addition,), "a")
    if grant.tools is None:
        assert powers(after) == powers(grant) | alone(addition)
        return
    assert powers(for_tool(after, "a")) == powers(for_tool(grant, "a")) | alone(addition)
    assert powers(for_tool(after, "b")) == powers(for_tool(grant, "b"))


@settings(max_examples=examples(40), deadline=None)
@given(grants(), grants(), additions)
def test_the_stored_grant_is_extended_by_the_entry(
    request: Capabilities, grant: Capabilities, addition: Addition
) -> None:
    before = merge(request, grant)
    part = "a" if before.tools is not None else None
    after = merge(
        with_added_entries(request, (addition,), part),
        parse(format_file(with_added_entries(before, (addition,), part))).capabilities,
    )
    if part is None:
        assert powers(after) == powers(before) | alone(addition)
        return
    assert powers(for_tool(after, "a")) == powers(for_tool(before, "a")) | alone(addition)
    assert powers(for_tool(after, "b")) == powers(for_tool(before, "b"))


@settings(max_examples=examples(40), deadline=None)
@given(additions, additions)
def test_a_narrower_answer_never_allows_more_than_requested(asked: Addition, other: Addition) -> None:
    try:
        entry = read_narrower_entry(asked, other.entry)
    except ConfigurationError:
        assert asked.to is not other.to or not covers(asked, other)
        return
    assert alone(entry) <= alone(asked)


@settings(max_examples=examples(40), deadline=None)
@given(additions, additions)
def test_an_entry_that_covers_another_allows_all_of_it(outer: Addition, inner: Addition) -> None:
    assert covers(outer, outer)
    if covers(outer, inner):
        assert alone(inner) <= alone(outer)


def test_an_alias_needs_a_tool_named_by_the_approver() -> None:
    asked = Addition(ToolInvokeCapability.grant_list, '{"mail": "NAME-OF-THE-TOOL"}')
    with pytest.raises(ConfigurationError, match="does not say which tool"):
        with_added_entries(Capabilities.none(), (asked,))
    assert (
        read_narrower_entry(asked, "mailer")
        == read_narrower_entry(asked, "mail=mailer")
        == asked._replace(entry='{"mail": "mailer"}')
    )
    with pytest.raises(ConfigurationError):
        read_narrower_entry(asked, "other=mailer")
    with pytest.raises(ConfigurationError):
        read_narrower_entry(asked, '{"mail": "mailer", "more": "x"}')
    with pytest.raises(ConfigurationError):
        read_narrower_entry(read_narrower_entry(asked, "mailer"), "elsewhere")


def test_narrower_entries_are_accepted_in_plain_spelling() -> None:
    asked = Addition(HttpCapability.grant_list, EndpointPattern("api.example.com", "/v1/", ("GET", "POST")).as_line())
    entry = read_narrower_entry(asked, "GET https://api.example.com/v1/items")
    assert alone(entry) == set()
    assert Capabilities.none().with_addition(entry).explain_http("GET", "https://api.example.com/v1/items")
    for wider in ("https://api.example.com/", "api.example.com", "DELETE https://api.example.com/v1/", "*.example.com"):
        with pytest.raises(ConfigurationError):
            read_narrower_entry(asked, wider)


def test_denials_become_unique_entries_if_an_entry_helps() -> None:
    def denied(suggestion: object) -> Decision:
        return Decision(False, Reason.NOT_GRANTED, "no", suggestion)  # type: ignore[arg-type]

    one, other = (
        Addition(WorkspaceCapability.grant_list, '"notes/"'),
        Addition(WorkspaceCapability.grant_list, '"plans/"'),
    )
    withheld = Withheld(Addition(SecretsCapability.grant_list, '"k"'), "wasmrt grant x --add secrets=k")
    found = find_missing_entries(
        [denied(one), denied(other), denied(one), denied("a step"), denied(None), denied(withheld)]
    )
    assert list(found) == [one, other, withheld.addition]
    assert find_missing_entries([Decision(True, Reason.ALLOWED, "yes", one)]) == {}


def test_only_the_requesting_tool_of_a_separated_grant_is_extended() -> None:
    section = Capabilities.none().with_workspace_read(["notes/", "plans/"])
    grant = Capabilities.none().with_workspace_read(["notes/"]).with_tools([ToolGrant("b", section)])
    entry = Addition(WorkspaceCapability.grant_list, '"plans/"')
    after = with_added_entries(grant, (entry,), "a")  # it had no section, and therefore allowed nothing
    assert powers(for_tool(after, "a")) == {"read plans/p.md"}
    assert powers(for_tool(after, "b")) == powers(for_tool(grant, "b")) == {"read notes/a.md", "read notes/deep/c.md"}
    of_none = with_added_entries(grant, (entry,))
    assert of_none.tools is not None and powers(for_tool(of_none, "b")) == powers(for_tool(grant, "b"))


@pytest.mark.parametrize("entry", ["notes", '{"host": 1}', '["a"]', ""])
def test_an_invalid_entry_is_not_added(entry: str) -> None:
    with pytest.raises(ConfigurationError):
        with_added_entries(Capabilities.none(), (Addition(WorkspaceCapability.grant_list, entry),))
    asked = Addition(WorkspaceCapability.grant_list, '"notes/"')
    for other in ('{"host": "a.example"}', "notes/../x", "\x00"):
        with pytest.raises(ConfigurationError):
            read_narrower_entry(asked, other)


def test_entries_of_different_lists_do_not_cover_each_other() -> None:
    read, write = (
        Addition(WorkspaceCapability.grant_list, '"a/"'),
        Addition(WorkspaceWriteCapability.grant_list, '"a/"'),
    )
    assert covers(read, read) and not covers(read, write)
    mail, other = (
        Addition(ToolInvokeCapability.grant_list, entry) for entry in ('{"mail": "mailer"}', '{"mail": "other-mailer"}')
    )
    assert covers(mail, mail) and not covers(mail, other)
    any_tool = mail._replace(entry='{"mail": "NAME-OF-THE-TOOL"}')
    assert covers(mail, any_tool) and not covers(any_tool, mail)
    assert read_narrower_entry(Addition(SecretsCapability.grant_list, '"k_*"'), "k_one").entry == '"k_one"'
    assert read_narrower_entry(write, '"a/b/"').entry == '"a/b/"'


@pytest.mark.parametrize(
    ("had", "entry", "now"),
    [
        (
            Capabilities.none().with_secrets(["k_one"]),
            Addition(SecretsCapability.grant_list, '"k_two"'),
            "secret k_two",
        ),
        (
            Capabilities.none().with_tool_invoke({"on": "x"}),
            Addition(ToolInvokeCapability.grant_list, '{"mail": "y"}'),
            "tool mail",
        ),
        (
            Capabilities.none().with_workspace_read(["notes/"]),
            Addition(WorkspaceCapability.grant_list, '"plans/"'),
            "read plans/p.md",
        ),
    ],
)
def test_an_entry_is_added_to_existing_ones(had: Capabilities, entry: Addition, now: str) -> None:
    assert powers(had.with_addition(entry)) == powers(had) | {now}
    more = had.with_addition(entry)
    assert more.tool_invoke is None or more.tool_invoke.resolve("on") == "x"


@pytest.mark.parametrize(
    ("text", "entry"),
    [('"nötes/ä/"', '"nötes/ä/"'), ("nötes/ä/", '"nötes/ä/"'), (" nötes/ä/\n", '"nötes/ä/"')],
)
def test_a_narrower_entry_keeps_its_spelling(text: str, entry: str) -> None:
    assert read_narrower_entry(Addition(WorkspaceCapability.grant_list, '"nötes/"'), text).entry == entry


def test_a_text_that_only_begins_like_json_is_a_name() -> None:
    with pytest.raises(ConfigurationError, match="is wider than the requested entry") as caught:
        read_narrower_entry(Addition(WorkspaceCapability.grant_list, '"notes/"'), '{"x')
    assert caught.value.code == "wider"


def test_an_invalid_tool_name_is_rejected_for_an_alias() -> None:
    with pytest.raises(ConfigurationError, match="invalid entry for"):
        read_narrower_entry(Addition(ToolInvokeCapability.grant_list, '{"mail": "NAME-OF-THE-TOOL"}'), "no\ntool")
