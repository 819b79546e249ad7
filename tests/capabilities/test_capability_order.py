"""What lies within what: the order that merges, diffs and updates go by, on both sides of each edge."""

from __future__ import annotations

import pytest

from wasmrt.capabilities import (
    Capabilities,
    CredentialLocation,
    CredentialMapping,
    EndpointPattern,
    HttpCapability,
)
from wasmrt.capabilities.lattice import merge, widest
from wasmrt.capabilities.model import (
    common_hosts,
    common_paths,
    credential_within,
    endpoint_within,
    name_within,
    prefix_within,
)
from wasmrt.errors import ConfigurationError
from wasmrt.limits import MAX_CAPABILITY_ENTRIES


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
def test_a_host_lies_within_itself_and_what_is_above_it(inner: str, outer: str, within: bool) -> None:
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
def test_a_path_lies_within_its_prefixes_and_every_path_within_none(
    inner: str | None, outer: str | None, within: bool
) -> None:
    host = "a.example.com"
    assert endpoint_within(EndpointPattern(host, inner), EndpointPattern(host, outer)) is within


def test_fewer_methods_ports_and_schemes_lie_within_more() -> None:
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
    ],
)
def test_a_credential_lies_within_one_that_sends_the_same_at_least_as_far(
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
def test_a_folder_lies_within_those_above_it(inner: str, outer: str, within: bool) -> None:
    assert prefix_within(inner, outer) is within


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
def test_a_secrets_name_lies_within_its_patterns(inner: str, outer: str, within: bool) -> None:
    assert name_within(inner, outer) is within


def test_what_two_lists_of_hosts_share_is_the_narrower_of_each_pair() -> None:
    assert common_hosts(("a.example.com",), ("*.example.com",)) == ("a.example.com",)
    assert common_hosts(("*.example.com",), ("*.a.example.com", "b.example.com", "c.example.net")) == (
        "*.a.example.com",
        "b.example.com",
    )
    assert common_hosts(("example.com",), ("*.example.com",)) == ()
    assert common_hosts((HOST,), (HOST,)) == (HOST,)


def test_what_two_lists_of_paths_share_is_nothing_or_the_narrower() -> None:
    assert common_paths((), ()) == ()
    assert common_paths(("/v1/",), ()) == common_paths((), ("/v1/",)) == ("/v1/",)
    assert common_paths(("/v1/", "/v2/"), ("/v1/a", "/v3/")) == ("/v1/a",)
    assert common_paths(("/v1/",), ("/v2/",)) is None


def test_what_lies_within_another_is_dropped_up_to_as_many_as_may_be_left() -> None:
    assert widest(["a/b/", "a/", "c/", "c/d/"], prefix_within) == ["a/", "c/"]
    most = [f"n{number}/" for number in range(MAX_CAPABILITY_ENTRIES)]
    assert widest(most, prefix_within) == most
    with pytest.raises(ConfigurationError, match=f"more than {MAX_CAPABILITY_ENTRIES} entries in common"):
        widest([*most, "one-more/"], prefix_within)
    assert widest([*most, "one-more/", ""], prefix_within) == [""]  # the last of them covers all


def test_a_merge_has_the_entries_that_both_sides_have_in_common() -> None:
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
def test_a_merged_credential_goes_to_the_ports_that_both_sides_name(
    one: tuple[int, ...], other: tuple[int, ...], common: list[tuple[int, ...]]
) -> None:
    sides = [
        Capabilities.none().with_http(HttpCapability((EndpointPattern(HOST, path),), (credential(HOST, ports=ports),)))
        for path, ports in (("/v1/", one), ("/v1/me/", other))
    ]
    for merged in (merge(*sides), merge(*reversed(sides))):
        assert merged.http is not None
        assert [mapping.ports for mapping in merged.http.credentials] == common
