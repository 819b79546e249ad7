"""What lies within what, and the common part of two: each comparison by itself, beside the laws of all of them."""

from __future__ import annotations

from itertools import product
from typing import Any

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
from wasmrt.capabilities.model import (
    common_endpoints,
    common_login,
    common_paths,
    common_ports,
    credential_within,
    endpoint_within,
    login_within,
)

HOST = EndpointPattern("a.org")


def credential(*ports: int, optional: bool = False, secret: str = "key") -> CredentialMapping:
    return CredentialMapping(
        secret_name=secret, location=CredentialLocation.bearer(), host_patterns=("a.org",), ports=ports,
        optional=optional,
    )  # fmt: skip


def login(*scopes: str, secret: str = "key", client: str = "me", words: str | None = None) -> LoginCapability:
    return LoginCapability(secret, secret, OAuthConfig(
        authorization_url="https://a.org/agree", token_url="https://a.org/token", client_id=client, scopes=scopes,
        pending_instructions=words,
    ))  # fmt: skip


@pytest.mark.parametrize(
    ("inner", "outer", "within"),
    [
        (HOST.with_path("/v1/x"), HOST.with_path("/v1/x"), True),
        (HOST.with_path("/v1/%78"), HOST.with_path("/v1/x"), True),
        (HOST.with_path("/v1/x"), HOST.with_path("/v1/y"), False),
        (HOST.with_path_prefix("/v1/x"), HOST.with_path("/v1/x"), False),
        (HOST, HOST.with_path("/v1/x"), False),
        (HOST.with_path("/v1/x"), HOST.with_path_prefix("/v1"), True),
        (HOST.with_path("/v2"), HOST.with_path_prefix("/v1"), False),
        (HOST.with_path("/v1/x"), HOST, True),
    ],
)
def test_one_path_lies_within_itself_and_within_the_prefixes_above_it(
    inner: EndpointPattern, outer: EndpointPattern, within: bool
) -> None:
    assert endpoint_within(inner, outer) is within


@pytest.mark.parametrize(
    ("inner", "outer", "within"),
    [
        ((443,), (443, 8443), True),
        ((443, 8443), (443,), False),
        ((443, 8443), (443, 8443), True),
        ((), (443,), True),
        ((), (8443,), False),
        ((443,), (), True),
        ((8443,), (), False),
        ((), (), True),
    ],
)
def test_a_credential_lies_within_one_for_more_ports(
    inner: tuple[int, ...], outer: tuple[int, ...], within: bool
) -> None:
    assert credential_within(credential(*inner), credential(*outer)) is within


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
def test_two_credentials_go_together_where_both_go(
    one: tuple[int, ...], other: tuple[int, ...], common: tuple[int, ...] | None
) -> None:
    assert common_ports(credential(*one), credential(*other)) == common


def test_two_entries_that_share_other_ports_for_each_scheme_have_two_in_common() -> None:
    both = EndpointPattern("a.org", ports=(443,), schemes=("https", "http"))
    assert common_endpoints(both, both) == [
        EndpointPattern("a.org", schemes=("https",)),
        EndpointPattern("a.org", ports=(443,), schemes=("http",)),
    ]


def test_paths_in_common_are_the_narrower_ones_and_none_is_no_path_at_all() -> None:
    assert common_paths(("/v1/", "/v2/x/"), ("/v1/y/", "/v2/")) == ("/v1/y/", "/v2/x/")
    assert common_paths(("/v1/",), ("/v2/",)) is None
    assert common_paths((), ("/v2/",)) == common_paths(("/v2/",), ()) == ("/v2/",)
    assert common_paths((), ()) == ()


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
def test_a_login_lies_within_one_that_asks_for_more_scopes_at_the_same_place(
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
def test_two_logins_have_the_scopes_in_common_that_both_ask_for(
    one: LoginCapability, other: LoginCapability, common: LoginCapability | None
) -> None:
    assert common_login(one, other) == common
    merged = merge(Capabilities(logins=(one,)), Capabilities(logins=(other,)))
    assert merged.logins == (() if common is None else (common,))


@pytest.mark.parametrize(("asked", "given"), list(product((True, False), repeat=2)))
def test_a_flag_holds_in_a_merge_where_both_sides_set_it(asked: bool, given: bool) -> None:
    def side(flag: bool, files: int) -> Capabilities:  # they differ, or nothing would have to be merged
        return Capabilities(
            http=HttpCapability((HOST,), (credential(443, optional=flag),)),
            workspace_write=WorkspaceWriteCapability(("out/",), remove=flag, max_files=files),
        )

    merged = merge(side(asked, 3), side(given, 4))
    assert merged.workspace_write is not None and merged.http is not None
    assert merged.workspace_write.remove is (asked and given)
    assert [each.optional for each in merged.http.credentials] == [asked and given]


def test_parts_of_one_credential_that_both_name_twice_have_names_of_their_own() -> None:
    def named(name: str, *hosts: str, **more: Any) -> CredentialMapping:
        return CredentialMapping(
            secret_name="key", location=CredentialLocation.bearer(), host_patterns=hosts, name=name, **more
        )

    asked = HttpCapability(credentials=(named("desk", "a.org", "b.org"),))
    given = HttpCapability(credentials=(named("one", "a.org"), named("two", "b.org")))
    http = merge(Capabilities(http=asked), Capabilities(http=given)).http
    assert http is not None
    assert [(each.name, each.host_patterns) for each in http.credentials] == [
        ("desk", ("a.org",)),
        ("desk-2", ("b.org",)),
    ]
