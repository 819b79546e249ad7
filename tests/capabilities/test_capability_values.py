"""The values of a grant: canonical spelling on creation, and coverage."""

from __future__ import annotations

from dataclasses import replace
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
    WorkspaceCapability,
)
from wasmrt.capabilities.model import host_matches, is_invisible, is_prompt_file, read_host_pattern
from wasmrt.capabilities.model._credential import matching_credentials
from wasmrt.core.url import parse_url

OAUTH = OAuthConfig(authorization_url="https://a.org/agree", token_url="https://a.org/token")
BEARER = CredentialLocation.bearer()


def credential(secret: str = "key", *hosts: str, location: CredentialLocation = BEARER, **more: Any):
    return CredentialMapping(secret_name=secret, location=location, host_patterns=hosts or ("a.org",), **more)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("*.Example.com", "*.example.com"),
        ("API.example.com", "api.example.com"),
        ("2606:4700:0::1111", "2606:4700::1111"),
        ("[2606:4700::1111]", "2606:4700::1111"),
    ],
)
def test_a_host_has_one_canonical_spelling(text: str, read: str) -> None:
    assert read_host_pattern(text) == read


@pytest.mark.parametrize(
    ("pattern", "host", "covered"),
    [
        ("*.example.com", "a.example.com", True),
        ("*.example.com", "a.b.example.com", True),
        ("*.example.com", "example.com", False),
        ("*.example.com", ".example.com", False),
        ("*.example.com", "notexample.com", False),
        ("*.example.com", "a.example.com.evil.org", False),
        ("example.com", "a.example.com", False),
        ("*", "a.example.com", True),
    ],
)
def test_a_pattern_covers_only_names_below_its_domain(pattern: str, host: str, covered: bool) -> None:
    assert host_matches(pattern, host) is covered


def test_lists_of_any_kind_become_canonical_tuples() -> None:
    http = HttpCapability([EndpointPattern("a.org")], [credential()])  # type: ignore[arg-type]
    assert isinstance(http.allowlist, tuple) and isinstance(http.credentials, tuple)
    login = LoginCapability("v", "Key", OAUTH)
    assert login.secret_name == "key"
    whole = Capabilities(logins=[login])  # type: ignore[arg-type]
    assert whole.logins == (login,) and hash(whole)
    assert WorkspaceCapability(["notes/./deep//", "notes/deep/"]).allowed_prefixes == ("notes/deep/",)  # type: ignore[arg-type]
    assert WorkspaceCapability(("notes/", "")).allowed_prefixes == ("",)
    assert credential("Desk_Key", ports=[8443, 443, 443]).secret_name == "desk_key"
    assert credential("Desk_Key", ports=[8443, 443, 443]).ports == (443, 8443)


@pytest.mark.parametrize(
    ("schemes", "said"),
    [(("https",), {}), (("http",), {"scheme": "http"}), (("http", "https"), {"schemes": ["https", "http"]})],
)
def test_an_entry_is_written_with_its_schemes(schemes: tuple[str, ...], said: dict[str, Any]) -> None:
    assert EndpointPattern("a.org", schemes=schemes).as_dict() == {"host": "a.org"} | said


def test_a_credential_location_is_written_without_defaults() -> None:
    usual = CredentialLocation.hmac_sha256("X-Sum")
    assert usual.as_dict() == {"type": "hmac_sha256", "name": "X-Sum"}
    other = CredentialLocation.hmac_sha256("X-Sum", encoding="base64")
    assert other.as_dict() == {"type": "hmac_sha256", "name": "X-Sum", "encoding": "base64"}


def test_defaults_are_restrictive() -> None:
    assert credential().optional is False
    assert OAUTH.use_pkce is True
    assert OAUTH.client_secret is None
    secret = "client" + "-secret"
    assert secret not in repr(replace(OAUTH, client_secret=secret))
    assert EndpointPattern("a.org").schemes == ("https",)
    assert EndpointPattern("a.org", methods=("patch", "Delete")).methods == ("PATCH", "DELETE")


@pytest.mark.parametrize(
    ("location", "names"),
    [
        (CredentialLocation.bearer(), ("authorization",)),
        (CredentialLocation.basic("me"), ("authorization",)),
        (CredentialLocation.header("X-Key"), ("x-key",)),
        (CredentialLocation.hmac_sha256("X-Sum", timestamp_name="X-Time"), ("x-sum", "x-time")),
        (CredentialLocation.query_param("key"), ()),
        (CredentialLocation.url_path("key"), ()),
        (
            CredentialLocation.aws_sigv4("eu-central-1", "s3"),
            ("authorization", "x-amz-content-sha256", "x-amz-date", "x-amz-security-token"),
        ),
    ],
)
def test_a_guest_cannot_set_a_header_that_a_credential_uses(
    location: CredentialLocation, names: tuple[str, ...]
) -> None:
    assert location.header_names == names


@pytest.mark.parametrize(
    ("path", "prompted"),
    [("IDENTITY.md", True), ("SOUL.md", True), ("a/AGENTS.md", True), ("user.md", True), ("MEMORY.md", False),
     ("HEARTBEAT.md", False), ("notes/x.md", False)],
)  # fmt: skip
def test_prompt_files_are_recognised(path: str, prompted: bool) -> None:
    assert is_prompt_file(path) is prompted


@pytest.mark.parametrize(
    ("location", "slot"),
    [
        (CredentialLocation.bearer(), "header authorization"),
        (CredentialLocation.header("X-Key"), "header x-key"),
        (CredentialLocation.query_param("key"), "query key"),
        (CredentialLocation.url_path("key"), "path {key}"),
    ],
)
def test_each_location_in_a_request_has_a_unique_name(location: CredentialLocation, slot: str) -> None:
    assert location.slot == slot


@pytest.mark.parametrize(
    ("general", "specific"),
    [
        (credential("zzz", "*.b.org"), credential("aaa", "a.b.org")),
        (credential("zzz", "a.b.org"), credential("aaa", "*.b.org", path_patterns=("/",))),
        (
            credential("zzz", "a.b.org", path_patterns=("/v1/",)),
            credential("aaa", "*.b.org", path_patterns=("/v1/x/",)),
        ),
    ],
)
def test_the_more_specific_of_two_credentials_for_one_location_is_sent(
    general: CredentialMapping, specific: CredentialMapping
) -> None:
    url = parse_url("https://a.b.org/v1/x/y")
    assert matching_credentials((specific, general), url) == (specific,)
    assert matching_credentials((general, specific), url) == (specific,)


def test_a_credential_without_ports_is_only_sent_to_443() -> None:
    assert matching_credentials((credential(),), parse_url("https://a.org/")) == (credential(),)
    assert matching_credentials((credential(),), parse_url("https://a.org:8443/")) == ()


@pytest.mark.parametrize("char", ["\ufe00", "\ufe0f", "\U000e0100", "\U000e01ef", "\u200b"])
def test_an_invisible_character_is_recognised(char: str) -> None:
    assert is_invisible(char)
    assert not is_invisible("a")
