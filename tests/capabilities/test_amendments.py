"""Amendments change a grant in place: never beyond the request, and never wider by revoking."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.capabilities.capability_strategies import FOLDERS, HOSTS, SECRETS, capabilities, endpoints, urls
from tests.tiers import examples
from wasmrt.capabilities import (
    METHODS,
    Amendment,
    Capabilities,
    EndpointPattern,
    HttpCapability,
    SecretsCapability,
    ToolInvokeCapability,
    WorkspaceCapability,
    WorkspaceWriteCapability,
    add_to_grant,
    asks_for,
    asks_for_all,
    make_amendment,
    merge,
    revoke_from_grant,
)
from wasmrt.capabilities.file import format_file, parse
from wasmrt.capabilities.kinds.http import read_endpoint
from wasmrt.capabilities.sentences import diff
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.model import Addition

REQUEST = parse(
    """{"http": {"allowlist": [{"host": "a.org", "path_prefix": "/v1/"}, {"host": "b.org", "methods": ["GET"]}],
    "credentials": {"desk": {"secret_name": "desk_key", "location": {"type": "bearer"}, "host_patterns": ["a.org"]}}},
    "workspace": {"allowed_prefixes": ["notes/"]}, "workspace_write": {"allowed_prefixes": ["out/"]},
    "secrets": {"allowed_names": ["desk_*"]}, "tool_invoke": {"aliases": {"say": "speaker"}},
    "logins": {"desk": {"secret_name": "desk_key", "oauth": {"authorization_url": "https://a.org/agree",
    "token_url": "https://a.org/token", "client_id": "me", "scopes": ["read", "write"]}}}}"""
).capabilities
NOTHING = Capabilities.none()
amendments = st.one_of(
    st.sampled_from(["http", "credentials", "workspace", "workspace_write", "secrets", "tool_invoke", "logins"]),
    st.sampled_from([host for host in HOSTS if "." in host]).map("http={}".format),
    st.sampled_from([folder for folder in FOLDERS if folder]).map("workspace={}".format),
    st.sampled_from([folder for folder in FOLDERS if folder]).map("workspace_write={}".format),
    st.sampled_from(SECRETS).map("secrets={}".format),
    st.sampled_from(SECRETS).map("logins={}".format),
    st.sampled_from(["one", "two"]).map("credentials={}".format),
    st.sampled_from("ab").map("tool_invoke={}".format),
)


def added(what: str, to: Capabilities = NOTHING, request: Capabilities = REQUEST) -> Capabilities:
    return add_to_grant(to, request, Amendment.read(what))


def revoked(what: str, from_: Capabilities = REQUEST) -> Capabilities:
    return revoke_from_grant(from_, Amendment.read(what))


@settings(max_examples=examples(200), deadline=None)
@given(capabilities, capabilities, amendments)
def test_an_added_entry_lies_within_the_request_and_removes_nothing(request_, other, what) -> None:
    grant = merge(request_, other)
    try:
        more = add_to_grant(grant, request_, Amendment.read(what))
    except ConfigurationError:
        return
    assert diff(request_, more).widened == ()
    assert diff(grant, more).narrowed == ()
    assert merge(request_, more) == more or diff(more, merge(request_, more)).narrowed == ()
    assert parse(format_file(more)).capabilities == more


@settings(max_examples=examples(200), deadline=None)
@given(capabilities, amendments)
def test_a_revoked_entry_makes_the_grant_strictly_narrower(grant, what) -> None:
    try:
        less = revoke_from_grant(grant, Amendment.read(what))
    except ConfigurationError:
        return
    changes = diff(grant, less)
    assert changes.widened == ()
    assert less != grant
    assert parse(format_file(less)).capabilities == less


@pytest.mark.parametrize(
    ("what", "allowed"),
    [
        ("http=a.org", "https://a.org/v1/x"),
        ("http=GET https://a.org/v1/x", "https://a.org/v1/x"),
        ('http={"host": "a.org", "path": "/v1/x", "methods": ["GET"]}', "https://a.org/v1/x"),
        ("http", "https://b.org/"),
    ],
)
def test_an_entry_is_named_by_host_url_or_json(what: str, allowed: str) -> None:
    grant = added(what)

    assert grant.explain_http("GET", allowed).allowed
    assert grant.http is not None and grant.http.credentials == ()


@pytest.mark.parametrize(
    ("what", "section", "granted"),
    [
        ("workspace=notes/deep/", "workspace_read", ("notes/deep/",)),
        ("workspace=notes/", "workspace_read", ("notes/",)),
        ("workspace_write=out/deep/", "workspace_write", ("out/deep/",)),
        ("secrets=desk_key", "secrets", ("desk_key",)),
        ("secrets=*", "secrets", ("desk_*",)),
        ("tool_invoke=say", "tool_invoke", (("say", "speaker"),)),
        ("tool_invoke=speaker", "tool_invoke", (("say", "speaker"),)),
    ],
)
def test_only_the_requested_part_of_a_named_entry_is_added(
    what: str, section: str, granted: tuple[object, ...]
) -> None:
    grant = added(what)
    part = getattr(grant, section)

    assert (getattr(part, "allowed_prefixes", None) or getattr(part, "allowed_names", None) or part.aliases) == granted
    assert grant == replace(NOTHING, **{section: part})


@pytest.mark.parametrize(
    ("what", "section"),
    [
        ("workspace=notes/", "workspace_read"),
        ("workspace_write=out/", "workspace_write"),
        ("secrets=desk_*", "secrets"),
        ("tool_invoke=say", "tool_invoke"),
    ],
)
def test_a_section_is_removed_with_its_last_entry(what: str, section: str) -> None:
    assert getattr(revoked(what), section) is None
    more = (
        REQUEST.with_workspace_read(["notes/", "else/"])
        .with_workspace_write(WorkspaceWriteCapability(("out/", "else/")))
        .with_secrets(["desk_*", "else"])
        .with_tool_invoke({"say": "speaker", "else": "else"})
    )
    left = getattr(revoked(what, from_=more), section)
    assert "else" in str(left) and what.partition("=")[2] not in str(left)


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("https://a.org/v1/", EndpointPattern("a.org", "/v1/")),
        ("https://a.org:443/v1/", EndpointPattern("a.org", "/v1/")),
        ("https://a.org:8443/v1/", EndpointPattern("a.org", "/v1/", ports=(8443,))),
        ("http://a.org/", EndpointPattern("a.org", schemes=("http",))),
        ("http://a.org:443/", EndpointPattern("a.org", schemes=("http",), ports=(443,))),
        ("a.org/v1/", EndpointPattern("a.org", "/v1/")),
        ("GET,HEAD a.org", EndpointPattern("a.org", methods=("GET", "HEAD"))),
    ],
)
def test_a_url_is_read_with_its_port_and_scheme(text: str, entry: EndpointPattern) -> None:
    assert read_endpoint(text) == entry


def test_an_added_url_adds_only_itself() -> None:
    grant = added("http=GET,POST https://a.org/v1/x/")

    assert grant.http is not None
    assert grant.http.allowlist == (
        EndpointPattern.host("a.org").with_path_prefix("/v1/x/").with_methods("GET", "POST"),
    )


@pytest.mark.parametrize(
    "what",
    [
        "http=c.org", "http=POST b.org", "http=https://a.org:8443/v1/", "credentials=other", "workspace=other/",
        "workspace_write=other/", "secrets=else", "tool_invoke=other", "tools=x", "logins=x",
    ],
)  # fmt: skip
def test_an_entry_that_the_tool_does_not_request_cannot_be_granted(what: str) -> None:
    with pytest.raises(ConfigurationError, match="does not request"):
        added(what)


@pytest.mark.parametrize(
    ("what", "section"),
    [
        ("credentials=desk", "http.credentials"),
        ("credentials=desk_key", "http.credentials"),
        ("credentials", "http.credentials"),
        ("http=b.org", "http.allowlist"),
        ("workspace", "workspace.allowed_prefixes"),
        ("workspace_write=out", "workspace_write.allowed_prefixes"),
        ("secrets=desk_*", "secrets.allowed_names"),
        ("tool_invoke=say", "tool_invoke.aliases"),
        ("logins=desk", "logins.desk"),
    ],
)
def test_a_revoked_entry_can_be_added_again(what: str, section: str) -> None:
    less = revoked(what)
    changes = diff(REQUEST, less)

    assert [change.section for change in changes.narrowed] == [section] and changes.widened == ()
    assert diff(added(what, to=less), REQUEST).widened == ()


def test_revoking_a_part_of_a_wider_entry_fails_with_a_hint() -> None:
    with pytest.raises(ConfigurationError, match="only a part of a wider entry") as caught:
        revoked("http=https://a.org/v1/admin/")
    assert "--edit" in str(caught.value.hint)
    with pytest.raises(ConfigurationError, match="is not granted"):
        revoked("http=c.org")


def entry(**parts: object) -> EndpointPattern:
    return EndpointPattern("a.org", **parts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "what", "after"),
    [
        (entry(methods=("GET", "PATCH")), "PATCH https://a.org/", [entry(methods=("GET",))]),
        (entry(path_prefix="/v1/"), "DELETE a.org", [entry(path_prefix="/v1/", methods=set(METHODS) - {"DELETE"})]),
        (entry(methods=("GET",)), "PATCH https://b.org/", None),
        (entry(path_prefix="/v1"), "https://a.org/v1/", [entry(path="/v1")]),
        (entry(path_prefix="/v1"), '{"host": "a.org", "path": "/v1"}', [entry(path_prefix="/v1/")]),
        (entry(path_prefix="/users/*"), "https://a.org/users/*/", [entry(path="/users/*")]),
        (entry(path="/users/*", methods=("GET", "PUT")), "PUT a.org", [entry(path="/users/*", methods=("GET",))]),
        (entry(path_prefix="/repos/a/b/"), "https://a.org/repos/*/*/", []),
        (entry(ports=(443, 8443)), "https://a.org:8443/", [entry()]),
        (entry(schemes=("https", "http")), "http://a.org/", [entry()]),
        (entry(path_prefix="/v1/"), "DELETE https://a.org/v1/x", "revoke 'http=DELETE https://a.org/v1/'"),
        (entry(path_prefix="/repos/*/*/"), "https://a.org/repos/a/b/", "revoke 'http=https://a.org/repos/*/*/'"),
        (EndpointPattern("*.a.org", "/v1/"), "b.a.org", """revoke 'http={"host": "*.a.org", "path_prefix": "/v1/"}'"""),
    ],
)
def test_a_wider_entry_is_split_if_entries_can_express_the_rest(
    before: EndpointPattern, what: str, after: list[EndpointPattern] | str | None
) -> None:
    grant = NOTHING.with_http([before])
    if isinstance(after, list):
        left = revoked(f"http={what}", from_=grant)
        assert left == (NOTHING.with_http(after) if after else NOTHING)
        return
    with pytest.raises(ConfigurationError) as caught:
        revoked(f"http={what}", from_=grant)
    assert (after or "is not granted") in f"{caught.value.message} {caught.value.hint}"
    if after and after.startswith("revoke"):  # the suggested amendment can be revoked
        suggested = after.removeprefix("revoke '").removesuffix("'")
        assert revoked(suggested, from_=grant) != grant


@settings(max_examples=examples(300), deadline=None)
@given(
    st.lists(endpoints, min_size=1, max_size=4),
    endpoints,
    st.lists(st.tuples(st.sampled_from(METHODS[:4]), urls), min_size=5, max_size=30),
)
def test_a_revoked_request_is_never_allowed_and_every_other_one_stays(
    granted: list[EndpointPattern], gone: EndpointPattern, tried: list[tuple[str, str]]
) -> None:
    before = NOTHING.with_http(granted)
    try:
        after = revoked(f"http={gone.as_line()}", from_=before)
    except ConfigurationError:
        return
    for method, url in tried:
        asked = NOTHING.with_http(replace(gone, ports=gone.ports or (80, 443, 8443, 22), schemes=("https", "http")))
        was, now, is_named = (
            each.explain_http(method, url, unsafe_allowed_networks=["0.0.0.0/0", "::/0"]).allowed
            for each in (before, after, asked)
        )
        only_http = gone.schemes == ("http",) and url.startswith("https")
        if is_named and not only_http and gone.host_pattern != "*":
            assert not now
        else:
            assert now == was or gone.host_pattern == "*"
        assert was or not now


@pytest.mark.parametrize(
    ("what", "wider"),
    [("workspace=notes/", "workspace"), ("workspace_write=notes/a/", "workspace_write"), ("secrets=desk_a", "desk_*")],
)
def test_revoking_what_a_wider_entry_still_allows_fails(what: str, wider: str) -> None:
    grant = NOTHING.with_workspace_read(["", "notes/"]).with_workspace_write(["", "notes/a/"])
    grant = grant.with_secrets(["desk_*", "desk_a"])
    with pytest.raises(ConfigurationError, match="is only a part of the wider entry") as caught:
        revoked(what, from_=grant)
    assert wider in str(caught.value.hint)


@pytest.mark.parametrize("what", ["http=a.org", "credentials", "workspace=notes/", "workspace_write", "secrets=desk_*"])
def test_revoking_from_a_missing_section_fails(what: str) -> None:
    with pytest.raises(ConfigurationError, match="is not granted"):
        revoked(what, from_=NOTHING)


def test_revoking_all_tools_keeps_only_the_limits() -> None:
    limits = '"limits": {"fuel": 1000}'
    whole = parse(f'{{"http": {{"allowlist": [{{"host": "a.org"}}]}}, {limits}}}').capabilities
    told_apart = parse(f'{{"secrets": {{"allowed_names": ["k"]}}, "tools": {{"one": {{}}}}, {limits}}}').capabilities

    assert revoked("tools", from_=whole) == parse(f"{{{limits}}}").capabilities
    left = revoked("tools", from_=told_apart)
    assert left.tools == () and left.limits == told_apart.limits


@pytest.mark.parametrize(
    ("what", "all_of_it"),
    [
        ("secrets=desk_key", True),
        ("secrets=desk_*", True),
        ("secrets=*", False),
        ("http=https://a.org/v1/x", True),
        ("http=a.org", False),
        ("workspace=notes/deep/", True),
        ("workspace_write", True),
        ("tool_invoke=say", True),
    ],
)
def test_a_partially_requested_amendment_is_detected(what: str, all_of_it: bool) -> None:
    assert asks_for_all(REQUEST, Amendment.read(what)) is all_of_it
    assert added(what) != NOTHING


def test_an_entry_is_revoked_from_a_grant_with_every_public_host() -> None:
    every, one = EndpointPattern.any_public_host(), EndpointPattern("a.org")
    grant = NOTHING.with_http([every, one])

    assert revoked('http={"any_public_host": true}', from_=grant) == NOTHING.with_http([one])
    public = EndpointPattern("a.org", public_only=True)
    assert revoked("http=a.org", from_=NOTHING.with_http([one, public])) == NOTHING
    for host in ("a.org", "c.org"):  # the entry for every public host would still allow it
        with pytest.raises(ConfigurationError, match="only a part of a wider entry") as caught:
            revoked(f"http={host}", from_=grant)
        assert """revoke 'http={"any_public_host": true}'""" in str(caught.value.hint)


def test_an_unknown_section_is_reported_with_the_nearest_name() -> None:
    with pytest.raises(ConfigurationError) as caught:
        Amendment.read("workspaces=x")
    assert "did you mean workspace?" in str(caught.value.hint)
    with pytest.raises(ConfigurationError, match="has no value after"):
        Amendment.read("http=")


def test_revoking_also_narrows_the_sections_of_tools() -> None:
    grant = parse(
        """{"http": {"allowlist": [{"host": "a.org"}, {"host": "b.org"}]}, "tools": {
        "one": {"http": {"allowlist": [{"host": "a.org"}, {"host": "b.org"}]}}, "two": {}}}"""
    ).capabilities
    less = revoked("http=b.org", from_=grant)

    assert parse(format_file(less)).capabilities == less
    assert [tool.name for tool in revoked("tools=t*", from_=grant).tools or ()] == ["one"]
    back = added("tools=two", to=revoked("tools=t*", from_=grant), request=grant)
    assert [tool.name for tool in back.tools or ()] == ["one", "two"]


@settings(max_examples=examples(200), deadline=None)
@given(
    capabilities,
    st.sampled_from(["GET", "POST"]),
    st.sampled_from(["https://api.example.com/v1/x", "https://other.org/"]),
)
def test_the_amendment_of_a_suggestion_within_the_request_allows_it(request_, method, url) -> None:
    suggestion = NOTHING.explain_http(method, url).suggestion
    assert isinstance(suggestion, Addition)
    if asks_for(request_, suggestion):
        more = add_to_grant(NOTHING, request_, Amendment.read(str(make_amendment(suggestion))))
        assert more.http is not None
        assert more.explain_http(method, url).reason not in ("host-not-allowed", "not-granted", "path-not-allowed")


def test_a_grant_beyond_the_request_is_narrowed_to_it() -> None:
    stale = NOTHING.with_workspace_read(["notes/", "elsewhere/"]).with_http(EndpointPattern.host("c.org"))
    more = added("secrets", to=stale)

    assert diff(REQUEST, more).widened == ()
    assert more.secrets == REQUEST.secrets and more.workspace_read == REQUEST.workspace_read


@pytest.mark.parametrize(
    ("addition", "amendment"),
    [
        (
            Addition(HttpCapability.grant_list, '{"host": "b.org", "methods": ["GET"]}'),
            'http={"host": "b.org", "methods": ["GET"]}',
        ),
        (Addition(WorkspaceCapability.grant_list, '"notes/deep/"'), "workspace=notes/deep/"),
        (Addition(WorkspaceWriteCapability.grant_list, '"out/"'), "workspace_write=out/"),
        (Addition(SecretsCapability.grant_list, '"desk_key"'), "secrets=desk_key"),
        (Addition(ToolInvokeCapability.grant_list, '{"say": "speaker"}'), "tool_invoke=say"),
    ],
)
def test_a_covered_suggestion_of_any_section_becomes_an_amendment(addition: Addition, amendment: str) -> None:
    assert asks_for(REQUEST, addition)
    assert not asks_for(NOTHING, addition)
    assert str(make_amendment(addition)) == amendment
    assert added(amendment) != NOTHING


@pytest.mark.parametrize(
    "addition",
    [
        Addition(HttpCapability.grant_list, '{"host": "b.org"}'),
        Addition(WorkspaceCapability.grant_list, '"other/"'),
        Addition(WorkspaceWriteCapability.grant_list, '"notes/"'),
        Addition(SecretsCapability.grant_list, '"else"'),
        Addition(ToolInvokeCapability.grant_list, '{"shout": "speaker"}'),
    ],
)
def test_a_suggestion_beyond_the_request_is_detected(addition: Addition) -> None:
    assert not asks_for(REQUEST, addition)


def test_adding_another_section_keeps_the_sections_of_tools() -> None:
    request = parse(
        """{"workspace": {"allowed_prefixes": ["a/"]}, "secrets": {"allowed_names": ["key"]}, "tools": {
        "one": {"workspace": {"allowed_prefixes": ["a/"]}}, "two": {"secrets": {"allowed_names": ["key"]}}}}"""
    ).capabilities
    grant = added("tools=one", request=request)

    more = added("secrets=key", to=grant, request=request)

    assert [tool.name for tool in more.tools or ()] == ["one"]
    assert revoked("logins").logins == ()
    with pytest.raises(ConfigurationError, match="has no sections for single tools"):
        revoked("tools=one")
    with pytest.raises(ConfigurationError, match="is not a URL"):
        added("http=GET https://a.org:port/")
