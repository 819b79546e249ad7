"""The bounds of capabilities, tested on both sides, and their error messages."""

import json
from ipaddress import IPv4Address, IPv6Address

import pytest

from wasmrt.capabilities import (
    AllowlistValidator,
    Capabilities,
    CredentialLocation,
    CredentialMapping,
    EndpointPattern,
    HttpCapability,
    LoginCapability,
    OAuthConfig,
    RateLimitConfig,
    SecretsCapability,
    ToolInvokeCapability,
    ToolLimits,
    WorkspaceCapability,
    WorkspaceWriteCapability,
    merge,
    path_problem,
)
from wasmrt.capabilities.file import format_file, parse
from wasmrt.capabilities.model import read_prefix
from wasmrt.capabilities.sentences import review
from wasmrt.core.errors import CapabilityFileError, ConfigurationError
from wasmrt.core.limits import MAX_CAPABILITY_ENTRIES, MAX_PATH_BYTES
from wasmrt.core.model import Addition, Reason
from wasmrt.core.url import AddressClass, InvalidUrlError, UnreadableError, classify_address, parse_url, read_host

BEARER = CredentialLocation.bearer()
OAUTH = OAuthConfig(authorization_url="https://a.example/agree", token_url="https://a.example/token")


def hosts(count, suffix="example"):
    return [f"h{number}.{suffix}" for number in range(count)]


def credential(name="token", places=("a.example",), **more):
    return CredentialMapping(secret_name="token", location=BEARER, host_patterns=tuple(places), name=name, **more)


@pytest.mark.parametrize(
    ("make", "most"),
    [
        (lambda count: HttpCapability(tuple(map(EndpointPattern.host, hosts(count)))), MAX_CAPABILITY_ENTRIES),
        (lambda count: EndpointPattern("a.example", ports=tuple(range(1, count + 1))), MAX_CAPABILITY_ENTRIES),
        (lambda count: credential(places=hosts(count)), MAX_CAPABILITY_ENTRIES),
        (lambda count: credential(path_patterns=[f"/{n}/" for n in range(count)]), MAX_CAPABILITY_ENTRIES),
        (lambda count: SecretsCapability([f"n{number}" for number in range(count)]), MAX_CAPABILITY_ENTRIES),
        (lambda count: ToolInvokeCapability([(f"a{n}", "tool") for n in range(count)]), MAX_CAPABILITY_ENTRIES),
        (lambda count: EndpointPattern("a.example", "/" + "x" * (count - 1)), 2048),
        (lambda count: credential(name="n" * count), 128),
        # One credential has up to 256 hosts; all credentials together have up to four times as many.
        (
            lambda count: HttpCapability(
                (),
                tuple(credential(f"c{n}", hosts(min(256, count - 256 * n), f"s{n}")) for n in range(-(-count // 256))),
            ),
            4 * MAX_CAPABILITY_ENTRIES,
        ),
        # A path counts like a host: nine credentials with one host each, and all their paths.
        (
            lambda count: HttpCapability(
                (),
                tuple(
                    credential(f"c{n}", path_patterns=[f"/{path}/" for path in range((count - 9 + n) // 9)])
                    for n in range(9)
                ),
            ),
            4 * MAX_CAPABILITY_ENTRIES,
        ),
        (lambda count: RateLimitConfig(count, 1), 1_000_000),
        (lambda count: RateLimitConfig(1, count), 1_000_000),
        (lambda count: HttpCapability(timeout_seconds=count), 3600),
        (lambda count: HttpCapability(max_request_bytes=count), 2**53 - 1),
        (lambda count: HttpCapability(max_response_bytes=count), 2**53 - 1),
        (lambda count: ToolLimits(timeout_seconds=count), 86_400),
        (lambda count: LoginCapability("v" * count, "key", OAUTH), 256),
        (lambda count: read_prefix("n" * count), 255),
        (lambda count: read_prefix("/".join(["f" * 255] * 15 + ["f" * (count - 3842), "x"])), MAX_PATH_BYTES),
    ],
)
def test_lists_names_and_numbers_are_bounded_on_both_sides(make, most):
    make(most)
    with pytest.raises(ConfigurationError):
        make(most + 1)


def test_the_smallest_number_is_one():
    assert RateLimitConfig(1, 1).requests_per_hour == 1
    assert len(LoginCapability("v", "key", OAUTH).vendor) == 1
    assert CredentialLocation.basic("me").username == "me"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: HttpCapability("a.example"), "allowlist must be a list"),
        (lambda: HttpCapability({"a": "b"}), "allowlist must be a list"),
        (lambda: HttpCapability(3), "allowlist must be a list"),
        (lambda: HttpCapability(["a.example"]), "must contain only EndpointPattern"),
        (lambda: HttpCapability((), (credential(), credential())), "two credentials have the same name"),
        (lambda: credential(name="a\x07b"), "all visible ASCII"),
        (lambda: ToolInvokeCapability([("a", "x"), ("a", "y")]), "an alias is listed with two tools"),
        (lambda: ToolInvokeCapability(3), "must map each alias"),
        (lambda: SecretsCapability(["a*b*"]), "only at the end"),
        (lambda: SecretsCapability(["**"]), "only at the end"),
        (lambda: EndpointPattern("a.org", methods="GET"), "methods must be a list of strings"),
        (lambda: EndpointPattern("a.org", methods=(1,)), "methods must be a list of strings"),
        (lambda: EndpointPattern("a.org", methods=("BREW", "GET", "ASK")), "method 'ASK' is not one of GET"),
        (lambda: EndpointPattern("a.org", ports="443"), "ports must be a list of numbers"),
        (lambda: EndpointPattern("a.org", ports=("443",)), "ports must be a list of numbers"),
        (lambda: EndpointPattern("a.org", ports=(True,)), "port True must be a whole number"),
        (lambda: EndpointPattern("a.org", ports=(65536,)), "port 65536 must be a whole number"),
        (lambda: EndpointPattern("a.org", schemes="https"), "schemes must be a list of strings"),
        (lambda: EndpointPattern("a.org", schemes=(1,)), "schemes must be a list of strings"),
        (lambda: EndpointPattern("a.org", path="v1"), "path 'v1' must begin with '/'"),
        (lambda: RateLimitConfig(0, 1), "requests_per_minute must be a positive whole number"),
        (lambda: HttpCapability(max_request_bytes=0), "max_request_bytes must be a positive whole number"),
        (lambda: HttpCapability(credentials=("key",)), "credentials must contain only CredentialMapping"),
        (lambda: WorkspaceCapability("notes/"), "allowed_prefixes must be a list"),
        (lambda: WorkspaceWriteCapability(("out/",), max_files=0), "max_files must be a positive whole number"),
        (lambda: ToolLimits(fuel=0), "fuel must be a positive whole number"),
        (lambda: CredentialLocation.basic("a:b"), "user name must not contain ':'"),
        (lambda: CredentialLocation.basic("a\nb"), "user name must not contain ':' or control"),
        (lambda: LoginCapability("", "key", OAUTH), "the vendor of a login must be text"),
        (lambda: LoginCapability("v", "no key", OAUTH), "secret name 'no key' must contain only"),
    ],
)
def test_invalid_values_are_refused(make, message):
    with pytest.raises(ConfigurationError, match=message):
        make()


def test_an_entry_covers_no_port_of_a_scheme_that_it_does_not_list():
    entry = EndpointPattern("a.example", ports=(8443,))
    assert (entry.get_ports("https"), entry.get_ports("http")) == ((8443,), ())
    both = EndpointPattern("a.example", schemes=("http", "https"))
    assert (both.get_ports("https"), both.get_ports("http")) == ((443,), (80,))


@pytest.mark.parametrize(
    ("host", "hint"),
    [
        ("https://a.example", 'without scheme, path or user: "host": "a.example"'),
        ("https://u:p@a.example:8443/v1/?q#f", '"host": "a.example", "port": 8443, "path_prefix": "/v1/"'),
        ("a.example/v1", '"host": "a.example", "path_prefix": "/v1"'),
        ("https://", "without scheme, path or user"),
        ("a.example:8443", '"port": 8443'),
        ("a.example:", '"port": 443'),
        ("[::1", "IPv6"),
        ("1:2", "port"),
        ("[10.0.0.1]", "without brackets"),
        ("1:2:3", "write an IPv6 address like"),
        ("exam ple.org", ""),
    ],
)
def test_a_host_with_a_scheme_port_or_path_is_refused_with_a_hint(host, hint):
    with pytest.raises(ConfigurationError) as caught:
        EndpointPattern.host(host)
    assert hint in (caught.value.hint or "")
    assert (caught.value.hint is None) is (not hint)
    assert ("expected only a host, got " in caught.value.message) is ("/" in host)
    assert ("it contains a port" in caught.value.message) is ("port" in hint and "/" not in host)


@pytest.mark.ci("slow")
def test_two_grants_with_too_many_common_entries_cannot_be_merged():
    many = Capabilities.none().with_http(list(map(EndpointPattern.host, hosts(MAX_CAPABILITY_ENTRIES))))
    some = many.with_http([EndpointPattern.host(host).with_ports(443, 8443) for host in hosts(MAX_CAPABILITY_ENTRIES)])
    assert merge(many, many) == many
    assert len(merge(some, many).http.allowlist) == MAX_CAPABILITY_ENTRIES
    paths = [EndpointPattern("a.example", f"/{n}/") for n in range(MAX_CAPABILITY_ENTRIES)]
    ways = [EndpointPattern("a.example", methods=(way,)) for way in ("GET", "POST", "PUT", "DELETE", "PATCH")]
    with pytest.raises(ConfigurationError, match="would have more than 256 entries"):
        merge(Capabilities.none().with_http(paths), Capabilities.none().with_http(ways))
    with pytest.raises(ConfigurationError, match="would have more than 256 entries"):
        merge(Capabilities.none().with_http(paths), Capabilities.none().with_http(ways[:2]))
    assert (
        len(merge(Capabilities.none().with_http(paths), Capabilities.none().with_http(ways[:1])).http.allowlist) == 256
    )


def test_an_empty_allowlist_reports_the_error_of_an_invalid_url():
    decision = AllowlistValidator([]).validate("https://a b/")
    assert (decision.allowed, decision.reason) == (False, Reason.EMPTY_ALLOWLIST)
    with pytest.raises(InvalidUrlError) as caught:
        parse_url("https://a b/")
    assert decision.hint == caught.value.hint
    assert AllowlistValidator([]).validate("https://a.example/").hint != decision.hint


@pytest.mark.parametrize("path", [None, 3, b"notes/a.md"])
def test_a_path_that_is_not_text_is_invalid(path):
    assert path_problem(path) == "the path is not text"
    grant = Capabilities.none().with_workspace_read([""])
    assert grant.explain_workspace(path).reason is Reason.INVALID_PATH


@pytest.mark.parametrize(
    ("address", "found"),
    [
        (IPv4Address("8.8.8.8"), AddressClass.PUBLIC),
        (IPv4Address("10.0.0.1"), AddressClass.PRIVATE),
        (IPv6Address("2606:4700::1111"), AddressClass.PUBLIC),
        (IPv6Address("2606:4700::1111%eth0"), AddressClass.UNREADABLE),
        ("2606:4700::1111%eth0", AddressClass.UNREADABLE),
        ("８.8.8.8", AddressClass.UNREADABLE),
        ("8.8.8", AddressClass.UNREADABLE),
        (None, AddressClass.UNREADABLE),
        (134744072, AddressClass.UNREADABLE),
    ],
)
def test_an_address_can_be_given_as_text_or_object(address, found):
    assert classify_address(address) is found


@pytest.mark.parametrize("host", ["[::１]", "[fe80::1%eth0]", "[::1", "::1]", "[]", "[::12345]"])
def test_a_host_in_brackets_is_an_ascii_ipv6_address(host):
    with pytest.raises(UnreadableError):
        read_host(host)
    assert read_host("[2606:4700:0:0:0:0:0:1111]") == "2606:4700::1111"


@pytest.mark.parametrize("url", ["https://[2606:4700::1١11]/", "https://[::1%25eth0]/", "https://[::１]/"])
def test_a_non_ascii_ipv6_host_is_refused(url):
    with pytest.raises(InvalidUrlError):
        parse_url(url)


# -- the file ----------------------------------------------------------------------------------------------------------


def problems_of(data):
    with pytest.raises(CapabilityFileError) as caught:
        parse(json.dumps(data))
    return dict(caught.value.problems)


MANY = MAX_CAPABILITY_ENTRIES + 1


def with_credentials(**credentials):
    """Return a file with these credentials; missing parts have valid defaults."""
    sound = {"secret_name": "token", "location": {"type": "bearer"}, "host_patterns": ["a.example"]}
    return {"http": {"credentials": {name: sound | given for name, given in credentials.items()}}}


@pytest.mark.parametrize(
    ("data", "path", "message"),
    [
        ({"description": 3}, "description", "must be text"),
        ({"description": "x" * 16_385}, "description", "characters long"),
        ({"tool_invoke": {"aliases": []}}, "tool_invoke.aliases", "must be an object"),
        (
            {"tool_invoke": {"aliases": {f"a{n}": "t" for n in range(MANY)}}},
            "tool_invoke.aliases",
            f"must have at most {MAX_CAPABILITY_ENTRIES} entries, not {MANY}",
        ),
        (with_credentials(c={"location": 3}), "http.credentials.c.location", 'must be an object with a "type"'),
        (with_credentials(c={"location": {"type": 3}}), "http.credentials.c.location", 'an object with a "type"'),
        (with_credentials(**{"c\x07": {}}), 'http.credentials["c\\u0007"]', "all visible ASCII"),
        (
            with_credentials(**{f"c{n}": {"host_patterns": hosts(256, f"s{n}")} for n in range(5)}),
            "http",
            "more than 1024 hosts and paths",
        ),
        ({"http": {"allowlist": [{"host": "a b"}]}}, "http.allowlist[0].host", "a b"),
        ({"http": {"allowlist": [{"host": "a.example:1"}]}}, "http.allowlist[0].host", '"port": 1'),
        ({"auth": 3}, "auth", "must be an object"),
        (
            {
                "logins": {
                    "": {
                        "secret_name": "token",
                        "oauth": {"authorization_url": "https://a.example/", "token_url": "https://a.example/t"},
                    }
                }
            },
            'logins[""]',
            "the vendor of a login must be text",
        ),
        ({"config": []}, "config", "must be an object"),
        ({"parameters": "none"}, "parameters", "must be an object"),
        ({"setup": 3}, "setup", "must be an object"),
    ],
)
def test_an_error_is_reported_with_its_path(data, path, message):
    found = problems_of(data)
    assert list(found) == [path]
    assert message in found[path]


def test_every_invalid_entry_is_reported():
    found = problems_of({"http": {"allowlist": [{"host": "a b"}, {"host": "a.example"}, {"host": "10.0.0.1:1"}]}})
    assert list(found) == ["http.allowlist[0].host", "http.allowlist[2].host"]


@pytest.mark.parametrize(
    ("section", "warned"), [("setup", False), ("discovery_summary", False), ("$schema", False), ("websocket", True)]
)
def test_a_section_without_effect_causes_a_warning(section, warned):
    data = {"$schema": "https://example.com/schema.json", "setup": {}, "discovery_summary": {}, "websocket": {}}
    file = parse(json.dumps({section: data[section]}))
    assert (section in {warning.path for warning in review(file)}) is warned


def test_the_whole_workspace_can_be_added_to_a_grant():
    suggested = Addition(WorkspaceCapability.grant_list, json.dumps(""))
    assert Capabilities.none().with_addition(suggested).workspace_read.allowed_prefixes == ("",)
    some = Capabilities.none().with_workspace_read(["notes/"])
    assert "" in some.with_addition(suggested).workspace_read.allowed_prefixes
    for entry, to in (
        ("{", HttpCapability.grant_list),
        ("[" * 5000, HttpCapability.grant_list),
        ('""', "http.credentials"),
    ):
        with pytest.raises(CapabilityFileError, match="not valid JSON, or its list is unknown"):
            some.with_addition(Addition(to, entry))


def test_a_client_secret_in_a_file_causes_a_warning():
    login = {
        "authorization_url": "https://a.example/authorize",
        "token_url": "https://a.example/token",
        "client_id": "x",
    }
    auth = {"secret_name": "token", "oauth": login | {"client_secret": "not secret any more"}}
    warned = {warning.path: warning.message for warning in review(parse(json.dumps({"auth": auth})))}
    assert "a client secret in a file is public" in warned["auth.oauth.client_secret"]
    quiet = review(parse(json.dumps({"auth": auth | {"oauth": login}})))
    assert "auth.oauth.client_secret" not in {warning.path for warning in quiet}


@pytest.mark.parametrize(
    "data",
    [
        {"$schema": "https://example.com/schema.json", "description": "a tool"},
        {"auth": {"secret_name": "token"}},
        {"auth": {"secret_name": "token", "validation_endpoint": {"url": "https://a.example/me"}}},
        {"http": {"allowlist": [{"host": "a.example"}]} | with_credentials(c={"ports": [443, 8443]})["http"]},
    ],
)
def test_a_written_file_reads_back_as_the_same_value(data):
    written = json.loads(format_file(parse(json.dumps(data))))
    for key, value in data.items():
        assert written[key] == value
