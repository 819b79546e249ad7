"""The partial order of capabilities that merges, diffs and updates use, tested on both sides of each bound."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from wasmrt.capabilities import (
    Capabilities,
    CredentialLocation,
    CredentialMapping,
    EndpointPattern,
    HttpCapability,
    LoginCapability,
    OAuthConfig,
    WorkspaceWriteCapability,
    merge,
)
from wasmrt.capabilities.kinds import SecretsCapability, WorkspaceCapability
from wasmrt.capabilities.kinds._login import intersect_login, login_within
from wasmrt.capabilities.model import (
    credential_within,
    endpoint_within,
    intersect_endpoints,
    intersect_hosts,
    intersect_paths,
    remove_covered,
)
from wasmrt.capabilities.model._cover import intersect_ports
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import MAX_CAPABILITY_ENTRIES

EXACT = EndpointPattern("a.example.com").with_path("/v1/x")


@pytest.mark.parametrize(
    ("inner", "outer", "within"),
    [
        ("a.example.com", "a.example.com", True),
        ("a.example.com", "*.example.com", True),
        ("*.a.example.com", "*.example.com", True),
        ("*.example.com", "*.example.com", True),
        ("example.com", "*.example.com", False),
        ("aexample.com", "*.example.com", False),
        ("*.example.com", "a.example.com", False),
        ("*.example.com", "*.a.example.com", False),
        ("b.example.com", "a.example.com", False),
    ],
)
def test_a_host_is_within_itself_and_wider_patterns(inner: str, outer: str, within: bool) -> None:
    assert endpoint_within(EndpointPattern(inner), EndpointPattern(outer)) is within


@pytest.mark.parametrize(
    ("inner", "outer", "within"),
    [
        ("/v1/a", "/v1/", True),
        ("/v1/", "/v1/", True),
        ("/v1/", None, True),
        (None, None, True),
        (None, "/v1/", False),
        ("/v2/", "/v1/", False),
        ("/v1", "/v1/", False),
    ],
)
def test_a_path_is_within_its_prefixes_and_every_path_within_none(
    inner: str | None, outer: str | None, within: bool
) -> None:
    host = "a.example.com"
    assert endpoint_within(EndpointPattern(host, inner), EndpointPattern(host, outer)) is within


@pytest.mark.parametrize(
    ("inner", "outer", "within"),
    [
        (EXACT, EXACT, True),
        (EXACT.with_path("/v1/%78"), EXACT, True),
        (EXACT.with_path("/v1/y"), EXACT, False),
        (EXACT.with_path_prefix("/v1/x"), EXACT, False),
        (EndpointPattern("a.example.com"), EXACT, False),
        (EXACT, EXACT.with_path_prefix("/v1"), True),
        (EXACT, EXACT.with_path_prefix("/v2"), False),
        (EXACT, EndpointPattern("a.example.com"), True),
    ],
)
def test_an_exact_path_is_within_itself_and_prefixes_above_it(
    inner: EndpointPattern, outer: EndpointPattern, within: bool
) -> None:
    assert endpoint_within(inner, outer) is within


def test_fewer_methods_ports_and_schemes_are_within_more() -> None:
    every = EndpointPattern("a.example.com", schemes=("https", "http"))
    some = EndpointPattern("a.example.com", methods=("GET",), ports=(443,))
    assert endpoint_within(some, every)
    assert not endpoint_within(every, some)
    assert not endpoint_within(EndpointPattern("a.example.com", methods=("GET", "PUT")), some)
    assert not endpoint_within(EndpointPattern("a.example.com", methods=("GET",), ports=(8443,)), some)
    assert not endpoint_within(EndpointPattern("a.example.com", methods=("GET",), schemes=("http",)), some)


def credential(
    *hosts: str, paths: tuple[str, ...] = (), optional: bool = False, ports: tuple[int, ...] = (), **more: str
) -> CredentialMapping:
    location = CredentialLocation.header(more["header"]) if "header" in more else CredentialLocation.bearer()
    return CredentialMapping(
        secret_name=more.get("name", "token"),
        location=location,
        host_patterns=hosts,
        path_patterns=paths,
        optional=optional,
        ports=ports,
    )


HOST = "a.example.com"


@pytest.mark.parametrize(
    ("inner", "outer", "within"),
    [
        (credential(HOST), credential(HOST), True),
        (credential(HOST), credential("*.example.com"), True),
        (credential(HOST), credential("b.example.com", HOST), True),
        (credential(HOST, "b.example.com"), credential(HOST), False),
        (credential("*.example.com"), credential(HOST), False),
        (credential(HOST, paths=("/v1/",)), credential(HOST), True),
        (credential(HOST, paths=("/v1/a",)), credential(HOST, paths=("/v2/", "/v1/")), True),
        (credential(HOST, paths=("/v1/", "/v3/")), credential(HOST, paths=("/v1/",)), False),
        (credential(HOST), credential(HOST, paths=("/v1/",)), False),
        (credential(HOST), credential(HOST, name="other"), False),
        (credential(HOST), credential(HOST, header="X-Key"), False),
        (credential(HOST), credential(HOST, optional=True), True),
        (credential(HOST, optional=True), credential(HOST), False),
        (credential(HOST, ports=(443,)), credential(HOST, ports=(443, 8443)), True),
        (credential(HOST, ports=(443, 8443)), credential(HOST, ports=(443,)), False),
        (credential(HOST, ports=(443, 8443)), credential(HOST, ports=(443, 8443)), True),
        (credential(HOST), credential(HOST, ports=(443,)), True),
        (credential(HOST), credential(HOST, ports=(8443,)), False),
        (credential(HOST, ports=(443,)), credential(HOST), True),
        (credential(HOST, ports=(8443,)), credential(HOST), False),
    ],
)
def test_a_credential_is_within_one_that_sends_the_secret_at_least_as_far(
    inner: CredentialMapping, outer: CredentialMapping, within: bool
) -> None:
    assert credential_within(inner, outer) is within


@pytest.mark.parametrize(
    ("inner", "outer", "within"),
    [
        ("a/", "a/", True),
        ("a/b/", "a/", True),
        ("a/b.md", "a/", True),
        ("a/", "", True),
        ("", "", True),
        ("", "a/", False),
        ("ab/", "a/", False),
        ("a/", "a/b/", False),
    ],
)
def test_a_folder_is_within_its_parents(inner: str, outer: str, within: bool) -> None:
    assert WorkspaceCapability.within(inner, outer) is within


@pytest.mark.parametrize(
    ("inner", "outer", "within"),
    [
        ("token", "token", True),
        ("token", "tok*", True),
        ("tok*", "tok*", True),
        ("toke*", "tok*", True),
        ("token", "*", True),
        ("*", "*", True),
        ("tok*", "token", False),
        ("tok*", "toke*", False),
        ("tok*", "tok", False),
        ("other", "tok*", False),
    ],
)
def test_a_secret_name_is_within_its_patterns(inner: str, outer: str, within: bool) -> None:
    assert SecretsCapability.within(inner, outer) is within


def test_the_common_hosts_of_two_lists_are_the_narrower_of_each_pair() -> None:
    assert intersect_hosts(("a.example.com",), ("*.example.com",)) == ("a.example.com",)
    assert intersect_hosts(("*.example.com",), ("*.a.example.com", "b.example.com", "c.example.net")) == (
        "*.a.example.com",
        "b.example.com",
    )
    assert intersect_hosts(("example.com",), ("*.example.com",)) == ()
    assert intersect_hosts((HOST,), (HOST,)) == (HOST,)


def test_the_common_paths_of_two_lists_are_none_or_the_narrower() -> None:
    assert intersect_paths((), ()) == ()
    assert intersect_paths(("/v1/",), ()) == intersect_paths((), ("/v1/",)) == ("/v1/",)
    assert intersect_paths(("/v1/", "/v2/"), ("/v1/a", "/v3/")) == ("/v1/a",)
    assert intersect_paths(("/v1/", "/v2/x/"), ("/v1/y/", "/v2/")) == ("/v1/y/", "/v2/x/")
    assert intersect_paths(("/v1/",), ("/v2/",)) is None


def test_covered_entries_are_dropped_and_the_rest_is_bounded() -> None:
    assert remove_covered(["a/b/", "a/", "c/", "c/d/"], WorkspaceCapability.within) == ["a/", "c/"]
    most = [f"n{number}/" for number in range(MAX_CAPABILITY_ENTRIES)]
    assert remove_covered(most, WorkspaceCapability.within) == most
    with pytest.raises(ConfigurationError, match=f"would have more than {MAX_CAPABILITY_ENTRIES} entries"):
        remove_covered([*most, "one-more/"], WorkspaceCapability.within)
    assert remove_covered([*most, "one-more/", ""], WorkspaceCapability.within) == [
        ""
    ]  # the last one covers all others


def test_a_merge_contains_the_common_entries_of_both_sides() -> None:
    wide = EndpointPattern("*.example.com", schemes=("https", "http"))
    narrow = EndpointPattern(HOST, "/v1/", methods=("GET",), ports=(80, 443), schemes=("https", "http"))
    other_port = EndpointPattern("b.example.com", ports=(8443,))
    asked, granted = Capabilities.none().with_http([wide]), Capabilities.none().with_http([narrow, other_port])
    common = (EndpointPattern(HOST, "/v1/", methods=("GET",), schemes=("https", "http")),)
    for merged in (merge(asked, granted), merge(granted, asked)):
        assert merged.http is not None
        assert merged.http.allowlist == common
    ports = Capabilities.none().with_http([EndpointPattern(HOST, ports=(443, 8443), schemes=("https", "http"))])
    secure = Capabilities.none().with_http([EndpointPattern(HOST, ports=(8443, 9443))])
    for merged in (merge(ports, secure), merge(secure, ports)):
        assert merged.http is not None
        assert merged.http.allowlist == (EndpointPattern(HOST, ports=(8443,)),)


@pytest.mark.parametrize(
    ("one", "other", "common"),
    [
        ((8443,), (8443,), [(8443,)]),
        ((443, 8443), (8443, 9443), [(8443,)]),
        ((9443, 443, 8443), (8443, 443), [(443, 8443)]),
        ((), (443, 8443), [(443,)]),
        ((), (8443,), []),
        ((8443,), (9443,), []),
        ((), (), [(443,)]),
    ],
)
def test_a_merged_credential_applies_to_the_ports_that_both_sides_list(
    one: tuple[int, ...], other: tuple[int, ...], common: list[tuple[int, ...]]
) -> None:
    sides = [
        Capabilities.none().with_http(HttpCapability((EndpointPattern(HOST, path),), (credential(HOST, ports=ports),)))
        for path, ports in (("/v1/", one), ("/v1/me/", other))
    ]
    for merged in (merge(*sides), merge(*reversed(sides))):
        assert merged.http is not None
        assert [mapping.ports for mapping in merged.http.credentials] == common


@pytest.mark.parametrize(
    ("one", "other", "common"),
    [
        ((), (), ()),
        ((443, 8443), (), (443,)),
        ((), (443, 8443), (443,)),
        ((8443,), (), None),
        ((), (8443,), None),
        ((80, 8443), (8443, 9000), (8443,)),
    ],
)
def test_two_credentials_merge_where_both_apply(
    one: tuple[int, ...], other: tuple[int, ...], common: tuple[int, ...] | None
) -> None:
    assert intersect_ports(credential(HOST, ports=one), credential(HOST, ports=other)) == common


def test_entries_with_different_ports_for_each_scheme_merge_into_two() -> None:
    both = EndpointPattern("a.org", ports=(443,), schemes=("https", "http"))
    assert intersect_endpoints(both, both) == [
        EndpointPattern("a.org", schemes=("https",)),
        EndpointPattern("a.org", ports=(443,), schemes=("http",)),
    ]


def login(*scopes: str, secret: str = "key", client: str = "me", words: str | None = None) -> LoginCapability:
    return LoginCapability(secret, secret, OAuthConfig(
        authorization_url="https://a.org/agree", token_url="https://a.org/token", client_id=client, scopes=scopes,
        pending_instructions=words,
    ))  # fmt: skip


@pytest.mark.parametrize(
    ("inner", "outer", "within"),
    [
        (login("read"), login("read"), True),
        (login("read"), login("read", "write"), True),
        (login("read", words="wait"), login("read", words="come"), True),
        (login("read", "write"), login("read"), False),
        (login("admin"), login("read", "write"), False),
        (login(), login("read"), False),
        (login("read"), login(), False),
        (login(), login(), True),
        (login("read"), login("read", client="you"), False),
        (login("read"), login("read", secret="other"), False),
    ],
)
def test_a_login_is_within_one_with_more_scopes_at_the_same_service(
    inner: LoginCapability, outer: LoginCapability, within: bool
) -> None:
    assert login_within(inner, outer) is within


@pytest.mark.parametrize(
    ("one", "other", "common"),
    [
        (login("read", "write"), login("write", "admin"), login("write")),
        (login("read"), login("write"), None),
        (login("read"), login(), None),
        (login(), login("read"), None),
        (login(), login(), login()),
        (login("read"), login("read", client="you"), None),
        (login("read"), login("read", secret="other"), None),
    ],
)
def test_two_logins_merge_to_the_scopes_that_both_request(
    one: LoginCapability, other: LoginCapability, common: LoginCapability | None
) -> None:
    assert intersect_login(one, other) == common
    merged = merge(Capabilities(logins=(one,)), Capabilities(logins=(other,)))
    assert merged.logins == (() if common is None else (common,))


@pytest.mark.parametrize(("asked", "given"), list(product((True, False), repeat=2)))
def test_a_flag_is_set_in_a_merge_only_if_both_sides_set_it(asked: bool, given: bool) -> None:
    def side(flag: bool, files: int) -> Capabilities:  # the sides differ, because equal sides need no merge
        return Capabilities(
            http=HttpCapability((EndpointPattern(HOST),), (credential(HOST, ports=(443,), optional=flag),)),
            workspace_write=WorkspaceWriteCapability(("out/",), remove=flag, max_files=files),
        )

    merged = merge(side(asked, 3), side(given, 4))
    assert merged.workspace_write is not None and merged.http is not None
    assert merged.workspace_write.remove is (asked and given)
    assert [each.optional for each in merged.http.credentials] == [asked and given]


def test_parts_of_one_credential_that_both_sides_list_twice_have_unique_names() -> None:
    asked = HttpCapability(credentials=(replace(credential("a.org", "b.org"), name="desk"),))
    given = HttpCapability(
        credentials=(replace(credential("a.org"), name="one"), replace(credential("b.org"), name="two"))
    )
    http = merge(Capabilities(http=asked), Capabilities(http=given)).http
    assert http is not None
    assert [(each.name, each.host_patterns) for each in http.credentials] == [
        ("desk", ("a.org",)),
        ("desk-2", ("b.org",)),
    ]
