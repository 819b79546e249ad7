"""The values of a grant: read into one spelling when they are made, and refused where they have none."""

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
    RateLimitConfig,
    ToolLimits,
    WorkspaceCapability,
    WorkspaceWriteCapability,
)
from wasmrt.capabilities.model import (
    host_matches,
    is_host_header,
    is_prompt_file,
    is_unseen,
    path_problem,
    protected_problem,
    read_host_pattern,
)
from wasmrt.capabilities.model._credential import matching_credentials
from wasmrt.errors import ConfigurationError
from wasmrt.limits import MAX_CAPABILITY_ENTRIES, MAX_PATH_BYTES
from wasmrt.url import parse_url

OAUTH = OAuthConfig(authorization_url="https://a.org/agree", token_url="https://a.org/token")
BEARER = CredentialLocation.bearer()


def credential(secret: str = "key", *hosts: str, location: CredentialLocation = BEARER, **more: Any):
    return CredentialMapping(secret_name=secret, location=location, host_patterns=hosts or ("a.org",), **more)


def many(places: int) -> list[CredentialMapping]:
    """Credentials that together name so many hosts and paths, each as many of both."""
    hosts = tuple(f"h{n}.example.com" for n in range(MAX_CAPABILITY_ENTRIES // 2))
    paths = tuple(f"/p{n}/" for n in range(MAX_CAPABILITY_ENTRIES // 2))
    each = len(hosts) + len(paths)
    whole = [credential("key", *hosts, path_patterns=paths, name=str(n)) for n in range(places // each)]
    return whole + [credential("key", f"one{n}.org", name=f"one{n}") for n in range(places % each)]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("*.Example.com", "*.example.com"),
        ("API.example.com", "api.example.com"),
        ("2606:4700:0::1111", "2606:4700::1111"),
        ("[2606:4700::1111]", "2606:4700::1111"),
    ],
)
def test_a_host_has_one_spelling(text: str, read: str) -> None:
    assert read_host_pattern(text) == read


@pytest.mark.parametrize(
    ("text", "has_port", "hint"),
    [
        ("a.org:8443", True, '"port": 8443'),
        ("a.org:", True, '"port": 443'),
        ("https://a.org", False, "no scheme, path or user"),
        ("1:2:3", False, "write an IPv6 address alone"),
        ("[8.8.8.8]", False, "write an IPv6 address alone"),
    ],
)
def test_a_host_that_cannot_be_used_is_refused_with_the_way_to_write_it(text: str, has_port: bool, hint: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_host_pattern(text)
    assert hint in str(caught.value.hint)
    assert ("it holds a port" in caught.value.message) is has_port


def test_a_host_with_a_space_is_refused_without_a_guess_at_what_was_meant() -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_host_pattern("exam ple.org")
    assert caught.value.hint is None


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
def test_a_pattern_covers_names_below_its_domain_and_no_other(pattern: str, host: str, covered: bool) -> None:
    assert host_matches(pattern, host) is covered


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: EndpointPattern("a.org", methods="GET"), "methods must be a list of texts"),
        (lambda: EndpointPattern("a.org", methods=(1,)), "methods must be a list of texts"),
        (lambda: EndpointPattern("a.org", methods=("BREW", "GET", "ASK")), "method 'ASK' is not one of GET"),
        (lambda: EndpointPattern("a.org", ports="443"), "ports must be a list of numbers"),
        (lambda: EndpointPattern("a.org", ports=("443",)), "ports must be a list of numbers"),
        (lambda: EndpointPattern("a.org", ports=(True,)), "port True must be a whole number"),
        (lambda: EndpointPattern("a.org", ports=(65536,)), "port 65536 must be a whole number"),
        (lambda: EndpointPattern("a.org", schemes="https"), "schemes must be a list of texts"),
        (lambda: EndpointPattern("a.org", schemes=(1,)), "schemes must be a list of texts"),
        (lambda: EndpointPattern("a.org", path="v1"), "path prefix 'v1' must begin with '/'"),
        (lambda: EndpointPattern("a.org", "/" + "p" * 2048), "a path prefix may be 2048 characters long"),
        (lambda: RateLimitConfig(1, 1_000_001), "requests_per_hour must be a positive whole number of at most 1000000"),
        (lambda: HttpCapability(timeout_seconds=3601), "timeout_seconds must be a positive number of at most 3600"),
        (lambda: HttpCapability(max_response_bytes=2**53), "whole number of at most 9007199254740991"),
        (lambda: credential(name="n" * 129), "a credential's name must be short and of visible characters"),
        (lambda: RateLimitConfig(0, 1), "requests_per_minute must be a positive whole number"),
        (lambda: HttpCapability(max_request_bytes=0), "max_request_bytes must be a positive whole number"),
        (lambda: HttpCapability(("a.org",)), "allowlist may hold EndpointPattern only"),
        (lambda: HttpCapability(credentials=("key",)), "credentials may hold CredentialMapping only"),
        (lambda: WorkspaceCapability("notes/"), "allowed_prefixes must be a list"),
        (lambda: WorkspaceWriteCapability(("out/",), max_files=0), "max_files must be a positive whole number"),
        (lambda: ToolLimits(fuel=0), "fuel must be a positive whole number"),
        (lambda: ToolLimits(timeout_seconds=86_401), "timeout_seconds must be a positive number of at most 86400"),
        (lambda: CredentialLocation.basic("a:b"), "user name may not hold ':'"),
        (lambda: CredentialLocation.basic("a\nb"), "user name may not hold ':' or control"),
        (lambda: LoginCapability("", "key", OAUTH), "'' is not the name of a login"),
        (lambda: LoginCapability("v" * 257, "key", OAUTH), "is not the name of a login"),
        (lambda: LoginCapability("v", "no key", OAUTH), "secret name 'no key' may hold"),
        (lambda: HttpCapability(credentials=many(4 * MAX_CAPABILITY_ENTRIES + 1)), "1024 hosts and paths together"),
    ],
)
def test_what_has_no_meaning_is_refused_when_it_is_made(make: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make()


def test_what_is_just_within_its_bound_is_taken() -> None:
    assert RateLimitConfig(1, 1).requests_per_hour == 1
    assert RateLimitConfig(1_000_000, 1).requests_per_minute == 1_000_000
    assert HttpCapability(timeout_seconds=3600, max_response_bytes=2**53 - 1).timeout_seconds == 3600
    assert EndpointPattern("a.org", "/" + "p" * 2047).path_prefix == "/" + "p" * 2047
    assert credential(name="n" * 128).name == "n" * 128
    assert len(LoginCapability("v" * 256, "key", OAUTH).vendor) == 256
    assert LoginCapability("v", "key", OAUTH).vendor == "v"
    assert ToolLimits(timeout_seconds=86_400).timeout_seconds == 86_400
    assert len(HttpCapability(credentials=many(4 * MAX_CAPABILITY_ENTRIES)).credentials) == 4  # type: ignore[arg-type]
    assert CredentialLocation.basic("me").username == "me"
    name, folder = "n" * 255, "f" * 255 + "/"
    assert path_problem(name) is None
    assert "longer than 255" in str(path_problem(name + "n"))
    longest = (folder * (MAX_PATH_BYTES // 256))[: MAX_PATH_BYTES - 2] + "/x"
    assert len(longest) == MAX_PATH_BYTES and path_problem(longest) is None
    assert f"longer than {MAX_PATH_BYTES}" in str(path_problem(longest + "x"))


def test_lists_of_any_kind_become_tuples_in_one_spelling() -> None:
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


def test_a_credentials_place_is_written_without_what_is_usual() -> None:
    usual = CredentialLocation.hmac_sha256("X-Sum")
    assert usual.as_dict() == {"type": "hmac_sha256", "name": "X-Sum"}
    other = CredentialLocation.hmac_sha256("X-Sum", encoding="base64")
    assert other.as_dict() == {"type": "hmac_sha256", "name": "X-Sum", "encoding": "base64"}


def test_what_nothing_is_said_of_is_the_careful_choice() -> None:
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
def test_a_guest_sets_no_header_that_a_credential_goes_into(
    location: CredentialLocation, names: tuple[str, ...]
) -> None:
    assert location.header_names == names


@pytest.mark.parametrize(
    "name",
    [
        "host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade", "expect",
        "http2-settings", "proxy-authorization", "proxy-connection", "forwarded", "x-forwarded", "x-forwarded-for",
        "x-host", "x-http-host-override", "x-real-ip", "x-client-ip", "x-cluster-client-ip", "true-client-ip",
        "client-ip", "x-http-method", "x-http-method-override", "x-method-override", "x-original-url", "x-rewrite-url",
    ],
)  # fmt: skip
def test_a_header_of_the_hosts_is_no_place_for_a_credential_however_it_is_spelt(name: str) -> None:
    for spelt in (name, name.upper(), name.replace("-", "_"), name.title().replace("-", ".")):
        assert is_host_header(spelt), spelt
        with pytest.raises(ConfigurationError, match="belongs to the host"):
            CredentialLocation.header(spelt)
    assert not is_host_header(f"x-my-{name}")


@pytest.mark.parametrize(
    "path",
    [
        "HEARTBEAT.md", "MEMORY.md", "IDENTITY.md", "SOUL.md", "AGENTS.md", "USER.md", "deep/down/soul.MD",
        "daily/2026.md", "context/x", "Daily/x", "./context", "search.capabilities.json", "SOUL.md/below",
    ],
)  # fmt: skip
def test_what_an_agent_is_and_may_do_is_never_written(path: str) -> None:
    assert protected_problem(path) is not None
    assert protected_problem(f"my-{path.removeprefix('./')}x") is None


@pytest.mark.parametrize(
    ("path", "prompted"),
    [("IDENTITY.md", True), ("SOUL.md", True), ("a/AGENTS.md", True), ("user.md", True), ("MEMORY.md", False),
     ("HEARTBEAT.md", False), ("notes/x.md", False)],
)  # fmt: skip
def test_files_that_go_into_a_prompt_are_known(path: str, prompted: bool) -> None:
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
def test_each_place_of_a_request_has_a_name_of_its_own(location: CredentialLocation, slot: str) -> None:
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
def test_of_two_credentials_for_one_place_the_more_specific_is_sent(
    general: CredentialMapping, specific: CredentialMapping
) -> None:
    url = parse_url("https://a.b.org/v1/x/y")
    assert matching_credentials((specific, general), url) == (specific,)
    assert matching_credentials((general, specific), url) == (specific,)


def test_a_credential_that_names_no_port_is_sent_to_443_alone() -> None:
    assert matching_credentials((credential(),), parse_url("https://a.org/")) == (credential(),)
    assert matching_credentials((credential(),), parse_url("https://a.org:8443/")) == ()


@pytest.mark.parametrize(("entry", "host"), [("*.a.org", "x.a.org"), ("x.a.org", "*.a.org"), ("a.org", "a.org")])
def test_a_credential_has_the_only_port_of_its_hosts_in_the_allowlist(entry: str, host: str) -> None:
    http = HttpCapability((EndpointPattern(entry, ports=(8443,)),), (credential("key", host),))
    assert http.credentials[0].ports == (8443,)
    other = HttpCapability((EndpointPattern("b.org", ports=(8443,)),), (credential("key", host),))
    assert other.credentials[0].ports == (443,)


@pytest.mark.parametrize("char", ["\ufe00", "\ufe0f", "\U000e0100", "\U000e01ef", "\u200b"])
def test_a_character_that_shows_nothing_is_known(char: str) -> None:
    assert is_unseen(char)
    assert not is_unseen("a")
