"""Laws of merging, comparing and writing capabilities."""

from dataclasses import replace

import pytest
from capability_strategies import FILES, INTERNAL, SECRETS, capabilities, https, urls
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiers import examples
from wasmrt.capabilities import (
    METHODS,
    Capabilities,
    EndpointPattern,
    HttpCapability,
    SecretsCapability,
    ToolInvokeCapability,
    ToolLimits,
    WorkspaceCapability,
    WorkspaceWriteCapability,
    find_missing_entries,
    merge,
)
from wasmrt.capabilities.file import CapabilityFile, format_file, parse
from wasmrt.capabilities.sentences import diff, explain, review
from wasmrt.core.errors import CapabilityFileError, WasmrtError
from wasmrt.core.limits import ResourceLimits
from wasmrt.core.model import Addition, Reason, Step
from wasmrt.core.url import parse_url

EVERY_NETWORK = ("0.0.0.0/0", "::/0")
NO_FILE = "no capability file can allow it; "
methods = st.sampled_from(METHODS)


@settings(max_examples=examples(300), deadline=None)
@given(capabilities, capabilities, st.lists(st.tuples(methods, urls), min_size=1, max_size=20))
def test_a_merge_allows_a_request_exactly_if_both_sides_do(request, grant, asked):
    """A credential that one side would send over plain http is only in the merge if both sides have it."""
    both = merge(request, grant)
    for method, url in asked:
        apart = [c.explain_http(method, url) for c in (request, grant)]
        assert is_listed(both.explain_http(method, url)) == all(map(is_listed, apart)), (method, url)
        assert both.explain_http(method, url).allowed or not all(apart), (method, url)


def is_listed(decision):
    """Return whether a request is allowed, or only refused because it would carry a credential over plain http."""
    return decision.allowed or decision.reason is Reason.CREDENTIAL_INSECURE


@settings(max_examples=examples(200), deadline=None)
@given(capabilities, capabilities)
def test_a_merge_allows_paths_secrets_and_aliases_exactly_if_both_sides_do(request, grant):
    both = merge(request, grant)
    for path in FILES:
        assert both.explain_workspace(path).allowed == all(c.explain_workspace(path).allowed for c in (request, grant))
        written = [c.explain_workspace_write(path).allowed for c in (request, grant)]
        assert both.explain_workspace_write(path).allowed == all(written)
    for name in [*SECRETS, "openai", "x"]:
        assert both.explain_secret(name).allowed == all(c.explain_secret(name).allowed for c in (request, grant))
    for alias in "abc":
        behind = [c.tool_invoke.resolve(alias) if c.tool_invoke else None for c in (request, grant)]
        found = both.tool_invoke.resolve(alias) if both.tool_invoke else None
        assert found == (behind[0] if behind[0] == behind[1] else None)


@settings(max_examples=examples(200), deadline=None)
@given(capabilities, capabilities, urls)
def test_a_merge_sends_a_secret_only_where_both_sides_would(request, grant, url):
    both = merge(request, grant)
    if both.http is None:
        return
    try:
        target = parse_url(url)
    except WasmrtError:
        return
    for mapping in both.http.list_credentials(target):
        for side in (request.http, grant.http):
            matching = [m for m in side.credentials if m.matches(target)]
            assert (mapping.secret_name, mapping.location) in [(m.secret_name, m.location) for m in matching]
            assert target.scheme == "http" or any(target.port in m.ports for m in matching)


@settings(max_examples=examples(200), deadline=None)
@given(https, https, urls)
def test_a_merge_keeps_every_secret_that_both_sides_would_send(request, grant, url):
    both = merge(Capabilities(request), Capabilities(grant)).http
    try:
        target = parse_url(url)
    except WasmrtError:
        return
    kept, *sides = (
        {(m.secret_name, m.location) for m in side.credentials if m.matches(target) and target.port in m.ports}
        for side in (both, request, grant)
    )
    assert kept == sides[0] & sides[1]


@settings(max_examples=examples(200), deadline=None)
@given(https, st.data(), urls)
def test_a_shorter_allowlist_sends_no_secret_elsewhere(http, data, url):
    kept = data.draw(st.lists(st.sampled_from(http.allowlist), unique=True) if http.allowlist else st.just([]))
    try:
        target = parse_url(url)
    except WasmrtError:
        return
    assert replace(http, allowlist=tuple(kept)).list_credentials(target) == http.list_credentials(target)


@settings(max_examples=examples(200), deadline=None)
@given(capabilities, capabilities)
def test_a_merge_never_raises_a_number_above_either_side(request, grant):
    defaults = ResourceLimits()
    both = merge(request, grant, defaults=defaults)
    for name in ToolLimits.__dataclass_fields__:
        merged, *sides = (getattr(c.limits.over(defaults), name) for c in (both, request, grant))
        assert merged == min(sides)
    if both.workspace_write:
        for name in ("max_file_bytes", "max_bytes", "max_files", "remove"):
            sides = [getattr(c.workspace_write, name) for c in (request, grant)]
            assert getattr(both.workspace_write, name) == min(sides)
    if both.http:
        for name in ("max_request_bytes", "max_response_bytes", "timeout_seconds"):
            assert getattr(both.http, name) == min(getattr(c.http, name) for c in (request, grant))
        rates = [c.http.rate_limit.requests_per_hour for c in (request, grant)]
        assert both.http.rate_limit.requests_per_hour == min(rates)


@settings(max_examples=examples(200), deadline=None)
@given(capabilities, capabilities)
def test_diff_finds_no_widened_permission_in_a_merge(request, grant):
    both = merge(request, grant)
    assert diff(request, both).widened == ()
    assert diff(grant, both).widened == ()


@settings(max_examples=examples(100), deadline=None)
@given(capabilities)
def test_merging_with_itself_or_nothing_has_the_expected_result(given_capabilities):
    assert merge(given_capabilities, given_capabilities) == given_capabilities
    assert merge(given_capabilities, Capabilities.none()) == Capabilities(
        limits=merge(given_capabilities, Capabilities.none()).limits
    )


@settings(max_examples=examples(300), deadline=None)
@given(capabilities)
def test_written_capabilities_read_back_unchanged(given_capabilities):
    file = CapabilityFile(capabilities=given_capabilities)
    text = format_file(file)
    assert parse(text) == file
    assert format_file(parse(text)) == text
    hash(given_capabilities)


@settings(max_examples=examples(300), deadline=None)
@given(capabilities, methods, urls, st.sampled_from([(), EVERY_NETWORK]))
def test_the_entry_in_a_hint_allows_the_request_and_little_else(given_capabilities, method, url, exempt):
    """If no entry can allow the request because of its address, the hint says so, and this is true."""
    decision = given_capabilities.explain_http(method, url, unsafe_allowed_networks=exempt)
    if decision.allowed or not decision.hint:
        return
    if decision.hint.startswith(NO_FILE):
        host = parse_url(url).host
        widest = EndpointPattern(host, ports=(22, 80, 443, 8443), schemes=("https", "http"))
        granted = Capabilities.none().with_http(widest)
        assert granted.explain_http(method, url).reason == Reason.ADDRESS_NOT_ALLOWED
        assert granted.explain_http(method, url, unsafe_allowed_networks=EVERY_NETWORK).allowed
        return
    kind, _, line = decision.hint.partition(": ")
    if kind == "add to http.allowlist":
        text = f'{{"http": {{"allowlist": [{line}]}}}}'
    elif kind == 'add "http"':
        text = f'{{"http": {line}}}'
    else:
        assert not kind.startswith("add") and isinstance(decision.suggestion, Step)
        return
    added = parse(text).capabilities
    assert added == Capabilities.none().with_addition(decision.suggestion)
    assert added.explain_http(method, url, unsafe_allowed_networks=exempt).allowed
    other = "DELETE" if method != "DELETE" else "GET"
    assert not added.explain_http(other, url, unsafe_allowed_networks=exempt).allowed


def additions(*decisions):
    """Return the entries that these decisions suggest, each with its decision."""
    return [(d, d.suggestion) for d in decisions if isinstance(d.suggestion, Addition)]


def decide(granted, asked):
    return granted.explain_http(*asked, unsafe_allowed_networks=EVERY_NETWORK).allowed


@settings(max_examples=examples(300), deadline=None)
@given(capabilities, st.tuples(methods, urls), st.lists(st.tuples(methods, urls), min_size=5, max_size=30))
def test_a_suggested_entry_allows_the_request_and_only_requests_that_it_covers(before, asked, others):
    for _, addition in additions(before.explain_http(*asked, unsafe_allowed_networks=EVERY_NETWORK)):
        after, alone = before.with_addition(addition), Capabilities.none().with_addition(addition)
        (entry,), url = alone.http.allowlist, parse_url(asked[1])
        if before.http:
            alone = alone.with_http(replace(before.http, allowlist=(entry,)))
        assert decide(after, asked)
        path = url.path.replace("*", "%2A")  # the character, not any segment
        assert (entry.host_pattern, entry.methods, entry.path_prefix or "/") == (url.host, (asked[0],), path)
        assert (entry.schemes, entry.get_ports(url.scheme)) == ((url.scheme,), (url.port,))
        for other in others:
            assert decide(after, other) == (decide(before, other) or decide(alone, other))


@settings(max_examples=examples(300), deadline=None)
@given(https, methods, urls)
def test_no_entry_is_suggested_that_would_send_a_credential_over_plain_http(http, method, url):
    try:
        target = parse_url(url)
    except WasmrtError:
        return
    granted = Capabilities(http)
    decision = granted.explain_http(method, url, unsafe_allowed_networks=EVERY_NETWORK)
    if target.scheme == "https" or not any(m.has_place(target) for m in http.list_credentials(target)):
        assert decision.reason is not Reason.CREDENTIAL_INSECURE
        return
    assert not decision.allowed and isinstance(decision.suggestion, Step)
    widened = replace(http, allowlist=(*http.allowlist, EndpointPattern(target.host, schemes=("http",))))
    assert not Capabilities(widened).explain_http(method, url, unsafe_allowed_networks=EVERY_NETWORK).allowed


@settings(max_examples=examples(300), deadline=None)
@given(capabilities, methods, urls, st.sampled_from(FILES), st.sampled_from(SECRETS), st.sampled_from("abcd"))
def test_a_suggested_entry_widens_one_list_by_one_entry(before, method, url, path, name, alias):
    ask = {
        HttpCapability.grant_list: lambda c: c.explain_http(method, url),
        WorkspaceCapability.grant_list: lambda c: c.explain_workspace(path),
        WorkspaceWriteCapability.grant_list: lambda c: c.explain_workspace_write(path),
        SecretsCapability.grant_list: lambda c: c.explain_secret(name),
        ToolInvokeCapability.grant_list: lambda c: c.explain_tool(alias),
    }
    for denied, addition in additions(*(decide_one(before) for decide_one in ask.values())):
        after = before.with_addition(addition)
        changes = diff(before, after)
        assert [change.section for change in changes.widened] == [addition.to]
        assert changes.narrowed == ()
        assert not denied.allowed and ask[addition.to](after).allowed
        assert parse(format_file(after)).capabilities == after


@settings(max_examples=examples(100), deadline=None)
@given(capabilities, st.sampled_from(FILES), st.sampled_from(SECRETS))
def test_a_suggested_prefix_or_name_covers_no_other_folder_or_secret(before, path, name):
    for _, addition in additions(before.explain_workspace(path), before.explain_secret(name)):
        alone = Capabilities.none().with_addition(addition)
        folder = path.rpartition("/")[0] or path
        outside = [other for other in FILES if other not in (path, folder) and not other.startswith(f"{folder}/")]
        assert not any(alone.explain_workspace(other).allowed for other in outside)
        assert not any(alone.explain_secret(other).allowed for other in SECRETS if other != name)


@pytest.mark.parametrize("granted", [Capabilities.none(), Capabilities.none().with_http([])])
@pytest.mark.parametrize(
    ("path", "prefix"),
    [
        ("/v1/" + "a" * 400 + "/" + "b" * 400, "/v1/" + "a" * 400 + "/"),
        ("/v1/a/" + "b" * 600, "/v1/a/"),
        ("/" + "b" * 600, None),
    ],
)
def test_an_entry_for_a_long_path_covers_as_many_whole_segments_as_fit(granted, path, prefix):
    decision = granted.explain_http("GET", f"https://a.example{path}")
    assert not decision.allowed
    if prefix is None:
        assert isinstance(decision.suggestion, Step)
        assert decision.hint.startswith("no entry can cover this request")
    else:
        assert granted.with_addition(decision.suggestion).http.allowlist[0].path_prefix == prefix


def test_a_suggestion_has_a_json_form():
    none = Capabilities.none()
    refused = [
        none.explain_http("GET", "https://a.example/x"),
        none.with_http([]).explain_http("GET", "https://10.0.0.1/"),
        none.with_workspace_read([]).explain_workspace("a/b.md"),
        none.explain_tool("search"),
    ]
    found = [decision.as_dict()["suggestion"] for decision in refused]
    entry = {"host": "a.example", "path_prefix": "/x", "methods": ["GET"]}
    assert found[0] == {"kind": "addition", "to": "http.allowlist", "entry": entry}
    assert found[1]["kind"] == "step" and found[1]["step"].startswith(NO_FILE)
    assert found[2] == {"kind": "addition", "to": "workspace.allowed_prefixes", "entry": "a/"}
    assert found[3]["entry"] == {"search": "NAME-OF-THE-TOOL"}
    assert none.with_workspace_read([""]).explain_workspace("a/b.md").as_dict()["suggestion"] is None
    assert len({hash(decision) for decision in refused}) == len(refused)


@pytest.mark.parametrize(
    ("to", "entry"),
    [
        (HttpCapability.grant_list, '{"host": "*"}'),
        (HttpCapability.grant_list, '{"host": "a.example", "also": 1}'),
        (HttpCapability.grant_list, '{"host": "a.example"}, {"host": "b.example"}'),
        (HttpCapability.grant_list, '{"host": "a.example"}]}, "secrets": {"allowed_names": ["*"'),
        (WorkspaceCapability.grant_list, '"../x"'),
        (WorkspaceWriteCapability.grant_list, '"a"], "remove": true, "allowed_prefixes": [""'),
        (SecretsCapability.grant_list, '"a", "*"'),
        (SecretsCapability.grant_list, "[" * 100_000),
        (ToolInvokeCapability.grant_list, '{"a b": "c"}'),
        ("limits.fuel", "1"),
    ],
)
def test_an_addition_that_is_not_one_entry_of_its_list_is_refused(to, entry):
    with pytest.raises(CapabilityFileError):
        Capabilities.none().with_addition(Addition(to, entry))


def test_a_redacted_entry_is_only_text():
    denied = Capabilities.none().explain_http("GET", "https://a.example/open-sesame/x")
    shown = denied.redacted(lambda text: text.replace("open-sesame", "[hidden]"))
    assert "sesame" not in f"{shown.as_dict()} {shown}"
    assert isinstance(shown.suggestion, Step) and "[hidden]" in shown.hint
    assert find_missing_entries([shown]) == {}
    assert denied.redacted(str) == denied


@given(capabilities, methods, st.sampled_from(INTERNAL))
def test_a_host_that_no_file_can_allow_is_reported_as_such(given_capabilities, method, host):
    decision = given_capabilities.explain_http(method, f"https://{host}/")
    assert find_missing_entries([decision]) == {}
    if "only allows public addresses" in decision.hint:  # an exemption would not help here
        unsafe = ["0.0.0.0/0", "::/0"]
        assert not given_capabilities.explain_http(method, f"https://{host}/", unsafe_allowed_networks=unsafe).allowed
        return
    assert decision.hint.startswith(NO_FILE)
    assert "wasmrt config set --append network.unsafe_allowed_networks" in decision.hint


@settings(max_examples=examples(100), deadline=None)
@given(capabilities, st.text(max_size=20), st.sampled_from([None, [], ["10.0.0.1"], ["x"]]), methods | st.text(), urls)
def test_every_denial_has_a_rule_and_a_suggested_fix(given_capabilities, text, answers, method, url):
    for decision in (
        given_capabilities.explain_http(method, url, answers),
        given_capabilities.explain_http(method, text),
        given_capabilities.explain_workspace(text),
        given_capabilities.explain_workspace_write(text),
        given_capabilities.explain_secret(text),
        given_capabilities.explain_tool(text),
    ):
        assert decision.rule and (decision.allowed or decision.hint), decision


@settings(max_examples=examples(100), deadline=None)
@given(capabilities)
def test_every_capability_can_be_explained_and_reviewed(given_capabilities):
    said = explain(given_capabilities)
    assert said[-1].startswith("may not do anything")
    assert all(warning.message for warning in review(CapabilityFile(capabilities=given_capabilities)))


def test_overlapping_entries_merge_to_their_common_part():
    request = Capabilities.none().with_http([EndpointPattern.host("*.example.com").with_methods("GET", "POST")])
    grant = Capabilities.none().with_http(
        [EndpointPattern.host("api.example.com").with_path_prefix("/v1/").with_methods("GET", "PUT")]
    )
    assert merge(request, grant).http == HttpCapability(
        (EndpointPattern.host("api.example.com").with_path_prefix("/v1/").with_methods("GET"),)
    )
