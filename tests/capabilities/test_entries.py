"""Entries for one path exactly, and for every public host."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from wasmrt.capabilities import (
    Capabilities,
    CredentialLocation,
    CredentialMapping,
    EndpointPattern,
    HttpCapability,
    LoginCapability,
    OAuthConfig,
    merge,
)
from wasmrt.capabilities.file import format_file, parse
from wasmrt.capabilities.sentences import diff, explain, review
from wasmrt.core.errors import CapabilityFileError, ConfigurationError
from wasmrt.core.model import Reason
from wasmrt.core.url import parse_networks

EXACT = EndpointPattern.host("a.org").with_path("/v1/send").with_methods("POST")
ANY = EndpointPattern.any_public_host()


def decide(grant: Capabilities, url: str, *addresses: str, method: str = "POST", exempt: tuple[str, ...] = ()):
    return grant.explain_http(method, url, addresses or None, unsafe_allowed_networks=exempt)


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/v1/send", True),
        ("/v1/send?to=x", True),
        ("/v1/%73end", True),
        ("/v1/send/", False),
        ("/v1/send/all", False),
        ("/v1/sender", False),
        ("/v1", False),
    ],
)
def test_an_exact_path_covers_itself_with_any_query_and_no_subpath(path: str, allowed: bool) -> None:
    decision = decide(Capabilities.none().with_http(EXACT), f"https://a.org{path}")

    assert decision.allowed is allowed
    assert allowed or decision.reason is Reason.PATH_NOT_ALLOWED


def test_an_exact_path_is_within_a_prefix_and_not_the_reverse() -> None:
    prefix = EndpointPattern.host("a.org").with_path_prefix("/v1/")
    one, other = (Capabilities.none().with_http(entry) for entry in (EXACT, prefix))

    assert merge(one, other).http == merge(other, one).http == HttpCapability((EXACT,))
    below = Capabilities.none().with_http(EndpointPattern.host("a.org").with_path_prefix("/v1/send/"))
    assert merge(one, below).http == HttpCapability(())


def test_an_entry_has_either_a_path_or_a_prefix_and_either_a_host_or_any_public_host() -> None:
    for wrong in (
        {"host": "a.org", "path": "/x", "path_prefix": "/x"},
        {"host": "a.org", "any_public_host": True},
        {"any_public_host": False},
        {"host": "*"},
        {"path": "/x"},
    ):
        with pytest.raises(CapabilityFileError):
            parse(json.dumps({"http": {"allowlist": [wrong]}}))
    with pytest.raises(ConfigurationError, match='must not have both "path" and "path_prefix"'):
        EndpointPattern("a.org", "/x", path="/x")
    with pytest.raises(ConfigurationError, match="any_public_host"):
        try:
            EndpointPattern.host("*")
        except ConfigurationError as error:
            raise ConfigurationError(str(error.hint)) from None


@pytest.mark.parametrize(
    "entry", [EXACT, ANY, EndpointPattern("a.org", public_only=True), ANY.with_path("/robots.txt")]
)
def test_a_written_entry_reads_back_unchanged(entry: EndpointPattern) -> None:
    grant = Capabilities.none().with_http(entry)

    assert parse(format_file(grant)).capabilities == grant


def test_any_public_host_covers_exactly_the_public_hosts() -> None:
    grant = Capabilities.none().with_http(ANY)

    assert decide(grant, "https://anywhere.example/x", "8.8.8.8").allowed
    for url, *addresses in (
        ("https://10.0.0.7/",),
        ("https://localhost/",),
        ("https://metadata.google.internal/",),
        ("https://anywhere.example/", "10.0.0.7"),
        ("https://anywhere.example/", "8.8.8.8", "169.254.169.254"),
    ):
        assert decide(grant, url, *addresses).reason is Reason.ADDRESS_NOT_ALLOWED, url


def test_any_public_host_does_not_open_a_network_exempted_for_another_tool() -> None:
    exempt = ("10.0.0.0/8",)
    anywhere = Capabilities.none().with_http(ANY)
    named = Capabilities.none().with_http([ANY, EndpointPattern.host("desk.example")])

    assert not decide(anywhere, "https://desk.example/", "10.0.0.7", exempt=exempt).allowed
    assert not decide(anywhere, "https://10.0.0.7/", exempt=exempt).allowed
    assert decide(named, "https://desk.example/", "10.0.0.7", exempt=exempt).allowed
    assert not decide(named, "https://other.example/", "10.0.0.7", exempt=exempt).allowed
    assert parse_networks(exempt)


def test_a_grant_with_a_host_narrows_any_public_host_and_opens_no_network() -> None:
    asked = Capabilities.none().with_http(ANY)
    named = Capabilities.none().with_http(EndpointPattern.host("docs.example").with_methods("GET"))
    both = merge(asked, named)

    assert decide(both, "https://docs.example/", "8.8.8.8", method="GET").allowed
    assert not decide(both, "https://docs.example/", "10.0.0.7", method="GET", exempt=("10.0.0.0/8",)).allowed
    assert not decide(both, "https://other.example/", "8.8.8.8", method="GET").allowed


def test_any_public_host_excludes_credentials() -> None:
    mapping = CredentialMapping(secret_name="key", location=CredentialLocation.bearer(), host_patterns=("a.org",))

    with pytest.raises(ConfigurationError, match="cannot be combined with credentials"):
        HttpCapability((ANY, EXACT), (mapping,))
    text = {"http": {"allowlist": [{"any_public_host": True}], "credentials": {"key": mapping.as_dict()}}}
    with pytest.raises(CapabilityFileError, match="cannot be combined with credentials"):
        parse(json.dumps(text))


def test_an_exact_path_causes_no_warning_but_an_unused_credential_does() -> None:
    entry = {"host": "a.example.com", "path": "/v1/x", "methods": ["POST"]}
    credential = {
        "secret_name": "key", "location": {"type": "bearer"}, "host_patterns": ["a.example.com"],
        "path_patterns": ["/v2/"],
    }  # fmt: skip
    warnings = review(parse(json.dumps({"http": {"allowlist": [entry], "credentials": {"key": credential}}})))
    said = " ".join(warning.message for warning in warnings)
    assert "every path" not in said
    assert "no entry of http.allowlist covers a request that carries this secret" in said


def test_a_credential_in_the_path_needs_an_exact_path_with_its_placeholder() -> None:
    def told(path: str) -> str:
        location = CredentialLocation.url_path("key")
        mapping = CredentialMapping(secret_name="key", location=location, host_patterns=("a.org",))
        return " ".join(explain(Capabilities.none().with_http(HttpCapability((EXACT.with_path(path),), (mapping,)))))

    assert "but may send no request" not in told("/bot{key}/send")
    assert "lists your secret key for a.org, but may send no request that carries it" in told("/bot/send")


def test_an_invalid_login_or_entry_is_also_refused_in_python() -> None:
    oauth = OAuthConfig(authorization_url="https://a.org/", token_url="https://a.org/")
    login = LoginCapability("desk", "desk_key", oauth)

    with pytest.raises(ConfigurationError, match="two logins set the same secret"):
        Capabilities(logins=(login, replace(login, vendor="other")))
    with pytest.raises(ConfigurationError, match="contain only LoginCapability"):
        Capabilities(logins=("desk",))  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="the vendor of a login must be text"):
        replace(login, vendor="")
    with pytest.raises(ConfigurationError, match='"public_only" must be true or false'):
        replace(ANY, public_only="yes")


def test_a_changed_login_is_described_by_setting_without_the_client_secret() -> None:
    hidden = "not" + "-to-be-told"
    was = OAuthConfig(authorization_url="https://a.org/", token_url="https://a.org/", client_id="me")
    now = replace(was, client_id=None, client_secret=hidden)
    before, after = (
        replace(Capabilities.none(), logins=(LoginCapability("desk", "desk_key", each),)) for each in (was, now)
    )

    told = " ".join(sentence for _, sentence in diff(before, after).widened)

    assert "login desk uses the client ID none instead of me" in told
    assert "uses as client secret a hidden value instead of none" in told
    assert hidden not in told
