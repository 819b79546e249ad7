"""Decisions at their bounds: the last character that fits, the nearest entry, names of private networks."""

from __future__ import annotations

import pytest

from wasmrt.capabilities import (
    AllowlistValidator,
    Capabilities,
    EndpointPattern,
    check_addresses,
    check_host,
)
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.model import Addition, Exemption, Reason, Step
from wasmrt.core.url import parse_networks, parse_url

HOST = EndpointPattern("api.example.com", path_prefix="/v1/", methods=("GET",), ports=(8443,))


def decided(url: str, method: str = "GET", *entries: EndpointPattern) -> Reason:
    return Reason(AllowlistValidator(entries or (HOST,)).validate(url, method).reason)


@pytest.mark.parametrize(
    ("url", "method", "reason"),
    [
        ("https://api.example.com:8443/v1/a", "GET", Reason.ALLOWED),
        ("https://api.example.com:8443/v1/a", "POST", Reason.METHOD_NOT_ALLOWED),
        ("https://api.example.com:8443/v2/a", "POST", Reason.PATH_NOT_ALLOWED),
        ("https://api.example.com:8443/v1/%zz", "GET", Reason.INVALID_URL),
        ("https://api.example.com:444/v2/a", "POST", Reason.PORT_NOT_ALLOWED),
        ("http://api.example.com:444/v2/a", "POST", Reason.INSECURE_SCHEME),
        ("http://other.example.com/", "GET", Reason.INSECURE_SCHEME),
        ("https://other.example.com/", "GET", Reason.HOST_NOT_ALLOWED),
    ],
)
def test_the_nearest_entry_determines_the_reason_in_any_order(url: str, method: str, reason: Reason) -> None:
    far = EndpointPattern("far.example.net")
    assert decided(url, method, HOST, far) == decided(url, method, far, HOST) == reason


def test_http_is_not_the_reason_if_an_entry_allows_it() -> None:
    plain = EndpointPattern("plain.example.com", schemes=("http",))
    assert decided("http://other.example.com/", "GET", HOST, plain) is Reason.HOST_NOT_ALLOWED
    assert decided("https://plain.example.com/", "GET", plain) is Reason.PORT_NOT_ALLOWED
    assert decided("http://plain.example.com/", "GET", plain) is Reason.ALLOWED


def test_the_entry_that_allows_a_request_is_reported_by_its_index() -> None:
    decision = AllowlistValidator([EndpointPattern("far.example.net"), HOST]).validate(
        "https://api.example.com:8443/v1/", "get"
    )
    assert (decision.allowed, decision.rule) == (True, "http.allowlist[1]")
    assert (decision.capability, decision.subject) == ("http", "GET https://api.example.com:8443/v1/")


def test_an_unknown_method_is_refused_first() -> None:
    for method in ("TRACE", "", None, 7):
        decision = AllowlistValidator([HOST]).check(parse_url("https://api.example.com/"), method)  # type: ignore[arg-type]
        assert decision.reason is Reason.METHOD_NOT_ALLOWED
        assert decision.subject == "(unknown method) https://api.example.com/"


def entry(url: str) -> object:
    return Capabilities.none().explain_http("GET", url).suggestion


@pytest.mark.parametrize(
    ("path", "prefix"),
    [
        ("/" + "a" * 511, "/" + "a" * 511),
        ("/" + "a" * 500 + "/" + "b" * 10, "/" + "a" * 500 + "/" + "b" * 10),
        ("/" + "a" * 500 + "/" + "b" * 11, "/" + "a" * 500 + "/"),
        ("/" + "a" * 510 + "/" + "b", "/" + "a" * 510 + "/"),
        ("/a/" + "b" * 600, "/a/"),
    ],
)
def test_a_long_path_is_suggested_with_as_many_whole_segments_as_fit(path: str, prefix: str) -> None:
    suggestion = entry(f"https://api.example.com{path}")
    assert isinstance(suggestion, Addition)
    assert f'"path_prefix": "{prefix}"' in suggestion.entry
    assert '"methods": ["GET"]' in suggestion.entry


def test_an_overlong_first_segment_has_no_suggested_entry() -> None:
    suggestion = entry("https://api.example.com/" + "a" * 512)
    assert isinstance(suggestion, Step)
    assert "has more than 512 characters" in str(suggestion)


@pytest.mark.parametrize(
    "host", ["localhost", "a.localhost", "x.localdomain", "printer.local", "db.internal", "home.arpa", "a.b.home.arpa"]
)
def test_a_private_network_name_is_refused_without_dns(host: str) -> None:
    refused = check_host(parse_url(f"https://{host}/"))
    assert refused is not None
    assert (refused.allowed, refused.reason) == (False, Reason.ADDRESS_NOT_ALLOWED)
    assert check_host(parse_url(f"https://{host}/"), parse_networks(["10.0.0.0/8"])) is None


@pytest.mark.parametrize("host", ["local.example.com", "arpa", "home.example.arpa", "example.com", "internal.dev"])
def test_a_name_that_resembles_a_private_one_is_not_refused(host: str) -> None:
    assert check_host(parse_url(f"https://{host}/")) is None


def test_all_addresses_must_be_public_or_exempt_and_at_least_one_must_exist() -> None:
    networks = ("10.0.0.0/8",)
    assert check_addresses(["93.184.216.34"]).allowed
    assert check_addresses(["10.1.2.3", "93.184.216.34"], networks).allowed
    for addresses in (["10.1.2.3"], ["93.184.216.34", "10.1.2.3"], ["192.168.0.1"], ["no address"]):
        decision = check_addresses(addresses, networks if "10.1.2.3" not in addresses else ())
        assert (decision.allowed, decision.reason) == (False, Reason.ADDRESS_NOT_ALLOWED)
    assert check_addresses([]).reason is Reason.NO_ADDRESS
    refused = check_addresses(["no address"], ["0.0.0.0/0", "::/0"])
    assert (refused.allowed, refused.suggestion) == (False, Exemption(None))


@pytest.mark.parametrize("name", ["token", "TOKEN"])
def test_each_capability_is_denied_with_the_missing_section_or_entry(name: str) -> None:
    none = Capabilities.none()
    asked = [none.explain_secret(name), none.explain_tool("search"), none.explain_workspace("notes/a.md")]
    assert [decision.reason for decision in asked] == [Reason.NOT_GRANTED] * 3
    some = none.with_secrets(["other"]).with_tool_invoke({"on": "other"}).with_workspace_read(["other/"])
    lines = [some.explain_secret(name), some.explain_tool("search"), some.explain_workspace("notes/a.md")]
    for without, beside in zip(asked, lines, strict=True):
        assert isinstance(without.suggestion, Addition)
        assert isinstance(beside.suggestion, Addition)
        assert (without.suggestion.new_section, beside.suggestion.new_section) == (True, False)
        assert without.suggestion.entry == beside.suggestion.entry
    assert lines[2].suggestion is not None
    assert lines[2].suggestion.entry == '"notes/"'  # type: ignore[union-attr]
    top = some.explain_workspace("a.md").suggestion
    assert isinstance(top, Addition)
    assert top.entry == '"a.md"'


def test_ports_and_hosts_are_read_up_to_their_bounds() -> None:
    assert EndpointPattern("a.example", ports=(1, 65535)).ports == (1, 65535)
    for port in (0, 65536, True):
        with pytest.raises(ConfigurationError):
            EndpointPattern("a.example", ports=(port,))
    assert EndpointPattern("a.example", path_prefix="/" + "a" * 2047).path_prefix
    with pytest.raises(ConfigurationError, match="2048 characters"):
        EndpointPattern("a.example", path_prefix="/" + "a" * 2048)


@pytest.mark.parametrize("name", ["", "no name", "a/b", "tok*", "x" * 129, "ä", "a\n"])
def test_an_invalid_name_is_refused_under_any_grant(name: str) -> None:
    everything = Capabilities.none().with_secrets(["*"]).with_tool_invoke({"on": "other"})
    for granted in (Capabilities.none(), everything):
        secret, tool = granted.explain_secret(name), granted.explain_tool(name)
        assert (secret.allowed, secret.reason, secret.capability) == (False, Reason.SECRET_NOT_ALLOWED, "secrets")
        assert (tool.allowed, tool.reason, tool.capability) == (False, Reason.ALIAS_NOT_ALLOWED, "tool_invoke")


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../a", "a/../b", "a\0b", "a\\b"])
def test_a_path_outside_the_workspace_is_refused_under_any_grant(path: str) -> None:
    for granted in (Capabilities.none(), Capabilities.none().with_workspace_read([""])):
        decision = granted.explain_workspace(path)
        assert (decision.allowed, decision.reason) == (False, Reason.INVALID_PATH), path


def test_no_exemption_is_suggested_if_only_public_addresses_are_allowed() -> None:
    advice = []
    for public_only in (False, True):
        grant = Capabilities.none().with_http([EndpointPattern("a.org", public_only=public_only)])
        refused = grant.explain_http("GET", "https://a.org/", ["10.0.0.1"])
        assert refused.reason is Reason.ADDRESS_NOT_ALLOWED
        advice.append(refused.suggestion)
    assert advice[0] == Exemption("10.0.0.1/32")
    assert isinstance(advice[1], Step)
