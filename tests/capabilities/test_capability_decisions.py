"""Decisions, their reasons, and the entries that would allow a denied use."""

import pytest

from wasmrt.capabilities import (
    AllowlistValidator,
    Capabilities,
    CredentialLocation,
    CredentialMapping,
    EndpointPattern,
    HttpCapability,
)
from wasmrt.capabilities.model import is_host_header
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.model import Addition, Reason, Step
from wasmrt.core.url import parse_url

VALIDATOR = AllowlistValidator(
    [
        EndpointPattern.host("api.openai.com").with_path_prefix("/v1/"),
        EndpointPattern.host("api.anthropic.com").with_path_prefix("/v1/messages").with_methods("POST"),
        EndpointPattern.host("*.example.com"),
    ]
)


@pytest.mark.parametrize(
    ("method", "url", "reason"),
    [
        # IronClaw's test vectors. IronClaw allowed any port; here an entry covers the default port or the listed ports.
        ("POST", "https://api.openai.com/v1/chat/completions", Reason.ALLOWED),
        ("GET", "https://evil.com/steal/data", Reason.HOST_NOT_ALLOWED),
        ("GET", "https://api.openai.com/v2/different", Reason.PATH_NOT_ALLOWED),
        ("GET", "https://api.anthropic.com/v1/messages", Reason.METHOD_NOT_ALLOWED),
        ("GET", "https://api.example.com/anything", Reason.ALLOWED),
        ("GET", "https://sub.api.example.com/anything", Reason.ALLOWED),
        ("GET", "http://api.openai.com/v1/chat", Reason.INSECURE_SCHEME),
        ("GET", "https://api.openai.com@evil.com/v1/chat", Reason.INVALID_URL),
        ("GET", "https://user:password@api.openai.com/v1/chat", Reason.INVALID_URL),
        ("GET", "not-a-url", Reason.INVALID_URL),
        ("GET", "https://api.openai.com/v1/../admin", Reason.INVALID_URL),
        ("GET", "https://api.openai.com/v1/../../etc/passwd", Reason.INVALID_URL),
        ("GET", "https://api.openai.com/v1/%2E%2E/admin", Reason.INVALID_URL),
        ("GET", "https://api.openai.com/v1/%2e%2e/%2e%2e/root", Reason.INVALID_URL),
        ("GET", "https://api.openai.com/v1/%ZZ/chat", Reason.INVALID_URL),
        ("GET", "https://api.openai.com/v1/", Reason.ALLOWED),
        ("GET", "https://api.openai.com/", Reason.PATH_NOT_ALLOWED),
        # IronClaw refused every %2F, which breaks existing APIs; here %2F stays inside its segment.
        ("GET", "https://api.openai.com/v1/labels/a%2Fb", Reason.ALLOWED),
        ("GET", "https://api.openai.com/v1%2Fadmin", Reason.PATH_NOT_ALLOWED),
        ("GET", "https://api.openai.com/v1/..%2fadmin", Reason.INVALID_URL),
        # wasmrt's own cases.
        ("GET", "https://api.openai.com/v1", Reason.PATH_NOT_ALLOWED),
        ("GET", "https://api.openai.com//v1/", Reason.PATH_NOT_ALLOWED),
        ("GET", "https://api.openai.com/%76%31/x", Reason.ALLOWED),
        ("POST", "https://api.anthropic.com/v1/messagesX", Reason.PATH_NOT_ALLOWED),
        ("POST", "https://api.anthropic.com/v1/messages-malicious", Reason.PATH_NOT_ALLOWED),
        ("POST", "https://api.anthropic.com/v1/messages/batches", Reason.ALLOWED),
        ("post", "https://api.anthropic.com/v1/messages?x=1", Reason.ALLOWED),
        ("GET", "https://api.openai.com:8443/v1/x", Reason.PORT_NOT_ALLOWED),
        ("GET", "https://example.com/", Reason.HOST_NOT_ALLOWED),
        ("GET", "https://notexample.com/", Reason.HOST_NOT_ALLOWED),
        ("GET", "https://api.openai.com.evil.com/v1/", Reason.HOST_NOT_ALLOWED),
        ("TRACE", "https://api.example.com/", Reason.METHOD_NOT_ALLOWED),
        ("CONNECT", "https://api.example.com/", Reason.METHOD_NOT_ALLOWED),
        ("GET / HTTP/1.1\r\nX: y", "https://api.example.com/", Reason.METHOD_NOT_ALLOWED),
        ("", "https://api.example.com/", Reason.METHOD_NOT_ALLOWED),
    ],
)
def test_a_url_is_decided_with_the_reason_closest_to_a_match(method, url, reason):
    decision = VALIDATOR.validate(url, method)
    assert (decision.allowed, decision.reason) == (reason is Reason.ALLOWED, reason)
    assert decision.rule


@pytest.mark.parametrize(
    ("prefix", "path", "covered"),
    [
        ("/api/v1", "/api/v1", True),
        ("/api/v1", "/api/v1-malicious", False),
        ("/api/v1", "/public/../api/v1/x", False),
        ("/api", "/api/..config", True),
        ("/api/v1", "/api/v1/%2e%2e/admin", False),
        ("/api/v1", "/api/v1/.%2e/admin", False),
        ("/api/v1", "/api/v1/%2e./admin", False),
        ("/files", "/files/foo%2ebar", True),
        ("/files/a%2Fb", "/files/a%2fb/c", True),
        ("/files/a%2Fb", "/files/a/b/c", False),
    ],
)
def test_a_path_prefix_covers_whole_segments(prefix, path, covered):
    granted = Capabilities.none().with_http([EndpointPattern.host("a.example").with_path_prefix(prefix)])
    assert granted.explain_http("GET", f"https://a.example{path}").allowed is covered


def test_the_builder_accepts_one_entry_or_a_list():
    one = EndpointPattern.host("a.example").with_methods("GET", "POST")
    assert one == EndpointPattern.host("A.example.").with_methods(["post", "get"])
    assert Capabilities.none().with_http(one) == Capabilities.none().with_http(HttpCapability([one]))


def test_an_empty_allowlist_and_a_missing_section_differ():
    url = "https://anything.com/"
    assert Capabilities.none().with_http([]).explain_http("GET", url).reason == Reason.EMPTY_ALLOWLIST
    assert Capabilities.none().explain_http("GET", url).reason == Reason.NOT_GRANTED
    assert AllowlistValidator([]).validate(url, "GET").reason == Reason.EMPTY_ALLOWLIST


def test_http_and_other_ports_are_allowed_if_an_entry_lists_them():
    granted = Capabilities.none().with_http(
        [EndpointPattern.host("a.example").with_schemes("http").with_ports(8080), EndpointPattern.host("b.example")]
    )
    assert granted.explain_http("GET", "http://a.example:8080/api").allowed
    assert granted.explain_http("GET", "http://a.example/").reason == Reason.PORT_NOT_ALLOWED
    assert granted.explain_http("GET", "https://a.example:8080/").reason == Reason.PORT_NOT_ALLOWED
    assert granted.explain_http("GET", "http://b.example/").reason == Reason.INSECURE_SCHEME


def test_a_denied_request_suggests_the_entry_that_would_allow_it():
    decision = VALIDATOR.validate("https://api.example.org:8443/v1/x?key=1", "PUT")
    assert decision.hint == (
        'add to http.allowlist: {"host": "api.example.org", "port": 8443, "path_prefix": "/v1/x", "methods": ["PUT"]}'
    )
    assert decision.subject == "PUT https://api.example.org:8443/v1/x"


GRANTED = (
    Capabilities.none()
    .with_http([EndpointPattern.host("a.example")])
    .with_workspace_read(["context/", "MEMORY.md"])
    .with_secrets(["OpenAI_*", "exact_name"])
    .with_tool_invoke({"search": "web_search_v2"})
)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("context/test.md", Reason.ALLOWED),
        ("context", Reason.ALLOWED),
        ("MEMORY.md", Reason.ALLOWED),
        ("context/a..b.md", Reason.ALLOWED),
        ("context/%2e%2e/x", Reason.ALLOWED),
        ("MEMORY.md.bak", Reason.PREFIX_NOT_ALLOWED),
        ("contextual/x", Reason.PREFIX_NOT_ALLOWED),
        ("secrets/api_key.txt", Reason.PREFIX_NOT_ALLOWED),
        ("Context/x", Reason.PREFIX_NOT_ALLOWED),
        *((path, Reason.INVALID_PATH) for path in ("", "..", "/etc/passwd", "../etc/passwd", "context/../secrets")),
        *((path, Reason.ALLOWED) for path in ("context//x", "context/./x", "./context/x", "./context/")),
        *((path, Reason.PREFIX_NOT_ALLOWED) for path in (".", "./", "./contextual", "x/./context/a")),
        *((path, Reason.INVALID_PATH) for path in ("context\\x", "C:\\x", "./../x", "//context/x")),
        *((path, Reason.INVALID_PATH) for path in ("D:secrets", "context/\x00.md", "context/\x1b", "context/\ud800")),
        *((path, Reason.INVALID_PATH) for path in ("\\\\server\\x", "context/" + "a" * 300, "a/" * 3000)),
    ],
)
def test_a_workspace_path_is_decided_by_whole_segments(path, reason):
    assert GRANTED.explain_workspace(path).reason == reason


@pytest.mark.parametrize(
    ("name", "allowed"),
    [("openai_key", True), ("OPENAI_ORG", True), ("exact_name", True), ("exact_name2", False), ("openai", False)],
)
def test_only_granted_secret_names_can_be_checked(name, allowed):
    assert GRANTED.explain_secret(name).allowed is allowed


def test_a_tool_is_only_called_by_its_alias_and_its_name_is_hidden():
    assert GRANTED.explain_tool("search").allowed
    assert "web_search_v2" not in str(GRANTED.explain_tool("search"))
    assert GRANTED.explain_tool("web_search_v2").reason == Reason.ALIAS_NOT_ALLOWED
    assert GRANTED.tool_invoke.resolve("search") == "web_search_v2"


@pytest.mark.parametrize(
    "ask", ["explain_workspace", "explain_secret", "explain_tool"], ids=["workspace", "secrets", "tool_invoke"]
)
def test_nothing_is_granted_by_default_and_the_hint_names_the_section(ask):
    decision = getattr(Capabilities.none(), ask)("context")
    assert decision.reason == Reason.NOT_GRANTED
    assert decision.hint.startswith(f'add "{decision.capability}": ')


@pytest.mark.parametrize(
    "build",
    [
        lambda: Capabilities.none().with_workspace_read(["../x"]),
        lambda: Capabilities.none().with_workspace_read("context/"),
        lambda: Capabilities.none().with_workspace_read(["./"]),
        lambda: Capabilities.none().with_secrets(["a*b"]),
        lambda: Capabilities.none().with_secrets(["a b"]),
        lambda: Capabilities.none().with_tool_invoke({"a b": "x"}),
        lambda: Capabilities.none().with_tool_invoke({"a": ""}),
        lambda: Capabilities.none().with_http(5),
        lambda: Capabilities.none().with_http({"a": 1}),
        lambda: Capabilities.none().with_workspace_read(5),
        lambda: Capabilities.none().with_tool_invoke(["a"]),
        lambda: HttpCapability(credentials={"a": 1}),
        lambda: EndpointPattern("a.example", methods=5),
        lambda: EndpointPattern("a.example", methods=("GET", 5)),
        lambda: EndpointPattern("a.example", ports=("80",)),
        lambda: EndpointPattern.host("a.example").with_methods("BREW"),
        lambda: EndpointPattern.host("a.example").with_ports(0),
        lambda: EndpointPattern.host("a.example").with_schemes("ftp"),
        lambda: EndpointPattern.host("a.example").with_schemes(),
        lambda: HttpCapability(max_request_bytes=0),
        lambda: HttpCapability(timeout_seconds=float("nan")),
        lambda: HttpCapability(["a.example"]),
        lambda: CredentialLocation.header("Host"),
        lambda: CredentialLocation.header("X\r\nY"),
        lambda: CredentialLocation.header("X-Key", "a\r\n"),
        lambda: CredentialLocation.basic("a:b"),
        lambda: CredentialLocation.query_param(""),
        lambda: CredentialLocation("bearer-ish"),
        lambda: CredentialLocation.header(7),
        lambda: CredentialMapping(secret_name="t", location="bearer", host_patterns=("a.example",)),
        lambda: CredentialMapping(secret_name="t", location=CredentialLocation.bearer(), host_patterns=5),
        lambda: CredentialLocation.url_path("a/b"),
        lambda: CredentialMapping(secret_name="t", location=CredentialLocation.bearer(), host_patterns=()),
        lambda: CredentialMapping(
            secret_name="t", location=CredentialLocation.bearer(), host_patterns=("a.example",), path_patterns=("",)
        ),
    ],
)
def test_an_ambiguous_capability_is_refused_on_creation(build):
    with pytest.raises(ConfigurationError):
        build()


def _credential(secret, location, hosts=("api.example.com",), paths=()):
    return CredentialMapping(secret_name=secret, location=location, host_patterns=hosts, path_patterns=paths)


def test_the_most_specific_credential_wins_a_location_in_any_order():
    bearer = CredentialLocation.bearer()
    wide = _credential("wide", bearer, ("*.example.com",))
    host = _credential("host", bearer)
    path = _credential("path", bearer, ("*.example.com",), ("/v1/admin/",))
    extra = _credential("extra", CredentialLocation.query_param("k"))
    for mappings in ([wide, host, path, extra], [extra, path, host, wide]):
        http = HttpCapability((), mappings)

        def names(url, http=http):
            return {m.secret_name for m in http.list_credentials(parse_url(url))}

        assert names("https://api.example.com/v1/admin/x") == {"path", "extra"}
        assert names("https://API.example.com/v1/adminX") == {"host", "extra"}
        assert names("https://other.example.com/") == {"wide"}
        assert names("https://example.com/") == set()
        assert names("https://api.example.com/v1/admin%2Fx") == {"host", "extra"}


def test_two_credentials_for_the_same_secret_both_apply():
    http = HttpCapability(
        (),
        {
            "a": _credential("token", CredentialLocation.bearer(), ("a.example",)),
            "b": _credential("token", CredentialLocation.header("X-Key"), ("b.example",)),
        },
    )
    assert [m.name for m in http.credentials] == ["a", "b"]
    assert http.list_credentials(parse_url("https://b.example/"))[0].location.header_name == "x-key"


@pytest.mark.parametrize(
    "name",
    [
        "host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade", "expect",
        "http2-settings", "proxy-authorization", "proxy-connection", "forwarded", "x-forwarded", "x-forwarded-for",
        "x-host", "x-http-host-override", "x-real-ip", "x-client-ip", "x-cluster-client-ip", "true-client-ip",
        "client-ip", "x-http-method", "x-http-method-override", "x-method-override", "x-original-url", "x-rewrite-url",
    ],
)  # fmt: skip
def test_a_host_header_cannot_carry_a_credential_in_any_spelling(name: str) -> None:
    for spelt in (name, name.upper(), name.replace("-", "_"), name.title().replace("-", ".")):
        assert is_host_header(spelt), spelt
        with pytest.raises(ConfigurationError, match="is reserved for the host"):
            CredentialLocation.header(spelt)
    assert not is_host_header(f"x-my-{name}")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://api.example.com:0/v1/x?key=abc#def", "GET https://api.example.com:0/v1/x"),
        ("ftp://api.example.com/x", "GET ftp://api.example.com/x"),
        ("https://me:pa/ss@api.example.com/x", "GET https://...@api.example.com/x"),
        ("https://me:pa?s@s#@api.example.com/x", "GET https://..."),
        ("me:pass@x://y@api.example.com", "GET ...@api.example.com"),
        ("https://api\n.exa\x00mple\u202e.com/\u0430", "GET https://api.example.com/\\u0430"),
        ("https://a.example/../" + "x" * 500, "GET https://a.example/../" + "x" * 500),
        ("", "GET"),
    ],
)
def test_an_invalid_url_is_shown_without_possible_secrets(url, shown):
    decision = Capabilities.none().explain_http("GET", url)
    assert (decision.reason, decision.subject) == (Reason.INVALID_URL, shown)


def _with_credential(*schemes: str, allowlist: tuple[EndpointPattern, ...] | None = None) -> Capabilities:
    entry = EndpointPattern("api.example.com").with_schemes(*schemes)
    credential = _credential("api", CredentialLocation.url_path("token"), ("api.example.com",))
    return Capabilities.none().with_http(HttpCapability((entry,) if allowlist is None else allowlist, (credential,)))


def test_a_request_that_would_carry_a_credential_over_plain_http_is_refused() -> None:
    granted = _with_credential("https", "http")
    assert granted.explain_http("GET", "https://api.example.com/{token}").allowed
    assert granted.explain_http("GET", "http://api.example.com/no-place-for-it").allowed
    decision = granted.explain_http("GET", "http://api.example.com/{token}")
    assert (decision.allowed, decision.reason) == (False, Reason.CREDENTIAL_INSECURE)
    assert "http.credentials.api" in decision.rule and "over https" in (decision.hint or "")
    refused = granted.explain_http("GET", "http://api.example.com/{token}", ["10.0.0.1"])
    assert refused.reason is Reason.ADDRESS_NOT_ALLOWED  # as for a guest: addresses are checked before credentials


@pytest.mark.parametrize("allowlist", [None, ()])
def test_an_entry_that_its_credential_would_disable_is_not_suggested(allowlist) -> None:
    granted = _with_credential("https", allowlist=allowlist)
    decision = granted.explain_http("GET", "http://api.example.com/{token}")
    assert decision.reason in (Reason.INSECURE_SCHEME, Reason.EMPTY_ALLOWLIST)
    assert isinstance(decision.suggestion, Step) and "over https" in (decision.hint or "")
    other = granted.explain_http("GET", "http://api.example.com/no-place-for-it")
    assert isinstance(other.suggestion, Addition)
