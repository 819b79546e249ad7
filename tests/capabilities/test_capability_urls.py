"""The URL parser."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiers import examples
from wasmrt.capabilities import EndpointPattern
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.url import InvalidUrlError, parse_url


@pytest.mark.parametrize(
    "text",
    [
        "https://api.example.com/v1/chat?q=a(b),c|d{e}[f]",
        "https://api.example.com/labels/a%2Fb",
        "https://api.example.com/a'b!c*d;e=f:g@h&i",
        "https://api.example.com/?filter[name]=x",
        "https://api.example.com/files/foo%2ebar/..config/...",
        "https://api.example.com//double//slash/",
        "https://api.example.com:8443/x",
        "http://8.8.8.8/",
        "https://[2606:4700::1111]/",
        "https://xn--mnchen-3ya.de/",
        "https://xn--fa-hia.example/",
        "https://xn--ll-0ea.cat/",
        "https://xn--4dbc.example/",
        "https://a_b.example.com/",
        "https://r3---sn-x.example.com/",
        "https://example.com/?%",
        "https://example.com/@user?u=http://x@y/",
        "https://example.com/%e2%80%a6/%c3%a9",
    ],
)
def test_a_valid_url_is_sent_as_written(text):
    assert str(parse_url(text)) == text


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("HTTPS://API.Example.COM", "https://api.example.com/"),
        ("https://example.com.:443/a#part", "https://example.com/a"),
        ("https://example.com?mail=a@b.org", "https://example.com/?mail=a@b.org"),
        ("https://example.com?x", "https://example.com/?x"),
        ("https://example.com/?", "https://example.com/?"),
        ("https://[2606:4700:0:0::1111]/", "https://[2606:4700::1111]/"),
        ("https://XN--MNCHEN-3YA.de/", "https://xn--mnchen-3ya.de/"),
    ],
)
def test_host_case_default_port_and_fragment_are_canonicalised(text, sent):
    assert str(parse_url(text)) == sent


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not-a-url",
        "//example.com/",
        "https:example.com",
        "https:/example.com",
        "https:///example.com",
        "https://",
        "https:///",
        "https://?x",
        "ftp://example.com/",
        "file:///etc/passwd",
        "unix:///run/docker.sock",
        "gopher://example.com/",
        "https+unix://x/",
        " https://example.com/",
        "https://example.com/ ",
        "https://exa\tmple.com/",
        "https://example.com/a\nb",
        "https://example.com/a\r\nHost: x",
        "https://example.com/%zz",
        "https://example.com/a%",
        "https://example.com/a%2",
        "https://example.com/a%2x/%41",
        "https://example.com/\x00",
        "https://example.com/\x7f",
        "https://example.com/é",
        "https://éxample.com/",
        "https://example。com/",
        "https://ｅxample.com/",
        "https://example.com\\@evil.com/",
        "https://example.com/a\\b",
        "https:\\\\example.com/",
        "https://user@example.com/",
        "https://user:pw@example.com/",
        "https://@example.com/",
        "https://example.com%40evil.com/",
        "https://example.com%00.evil.com/",
        "https://exa%6dple.com/",
        "https://example.com:/",
        "https://example.com:0/",
        "https://example.com:080/",
        "https://example.com:65536/",
        "https://example.com:+80/",
        "https://example.com:80:80/",
        "https://example.com:80x/",
        "https://example..com/",
        "https://.example.com/",
        "https://example.com../",
        "https://exa mple.com/",
        "https://a|b/",
        "https://[::1/",
        "https://::1/",
        "https://[::1%25eth0]/",
        "https://[fe80::1%eth0]/",
        "https://[1.2.3.4]/",
        "https://[v1.x]/",
        "https://[]/",
        "https://[::1]x/",
        "https://[::1]:/",
        "https://0x7f.1/",
        "https://0x7f000001/",
        "https://2130706433/",
        "https://0177.0.0.1/",
        "https://127.1/",
        "https://127.0.1/",
        "https://1.2.3.4.5/",
        "https://256.1.1.1/",
        "https://01.2.3.4/",
        "https://1.2.3.4./",
        "https://0/",
        "https://0x/",
        "https://example.0x4/",
        "https://example.09/",
        "https://xn--/",
        "https://xn--a/",
        "https://xn---75p.com/",
        "https://xn--pokxncvks/",
        "https://xn--abc-.com/",
        "https://xn--google-.com/",
        "https://xn---bbk.com/",  # an alternative spelling of xn--bbk
        "https://xn--ab-0ea.com/",  # a middle dot that is not between two l
        "https://xn--ab-vld.com/",  # mixed writing directions
        "https://xn--ab-hvd.com/",  # a letter that only elongates another
        "https://xn--ab-m1t.com/",  # an invisible joiner without its context
        "https://xn--b-yq0i.com/",  # a full-width letter, which some clients fold
        "https://xn--a-wbb.com/",  # a leading combining mark
        "https://xn--a-qib.com/",  # an unassigned code point
        "https://" + "a" * 64 + ".com/",
        "https://" + "a." * 127 + "com/",
        "https://example.com/" + "a" * 9000,
        "https://example.com/../a",
        "https://example.com/a/..",
        "https://example.com/a/./b",
        "https://example.com/a/%2e%2E/b",
        "https://example.com/a/.%2e/b",
        "https://example.com/a/%252e%252e/b",
        "https://example.com/a/%25252525252e./b",
        "https://example.com/a/..%2fb",
        "https://example.com/a%2f..%2fb",
        "https://example.com/a/..%5cb",
        "https://example.com/a/..;/b",
        "https://example.com/a/..;x=1/b",
        "https://example.com/a/..%00/b",
        "https://example.com/a/..%20/b",
        "https://example.com/%c0%ae%c0%ae/b",
        "https://example.com/a/..%c0%afb",
        "https://example.com/a/..%C1%9cb",
        "https://example.com/%e0%80%ae%e0%80%ae/b",
        "https://example.com/a/..%e0%80%afb",
        "https://example.com/a/%f0%80%80%ae%f0%80%80%ae/b",
        "https://example.com/a/%fc%80%80%80%80%ae./b",
        "https://example.com/a/%25c0%25ae%25c0%25ae/b",
        "https://example.com/a/%c0%2e%c0%2e/b",
        "https://example.com/a/%ae%ae/b",
        "https://example.com/a/%ff/b",
        "https://example.com/a/%ed%a0%80/b",
        "https://example.com/a/%uff0e%uff0e/b",
        "https://example.com/a/%ef%b9%92%ef%b9%92/b",
        "https://example.com/a/..%ef%b9%a8b",
        "https://example.com/a/..%e2%88%95b",
        "https://example.com/%ef%bc%8e%ef%bc%8e/b",
        "https://example.com/%u002E%u002e/b",
        "https://example.com/%e2%80%a5/b",
        "https://example.com#@evil.com/",
        "https://example.com?@evil.com/",
    ],
)
def test_a_url_that_parsers_could_read_differently_is_refused(text):
    with pytest.raises(InvalidUrlError) as caught:
        parse_url(text)
    assert caught.value.code == "invalid-url"


@pytest.mark.parametrize("value", [None, 1, b"https://example.com/", ["https://example.com/"]])
def test_a_value_that_is_not_text_is_not_a_url(value):
    with pytest.raises(InvalidUrlError):
        parse_url(value)


def test_a_denial_never_quotes_the_url():
    with pytest.raises(InvalidUrlError) as caught:
        parse_url("https://user:hunter2@example.com/")
    assert str(caught.value) == "the URL contains a user name or password"


@pytest.mark.ci("slow")
@settings(max_examples=examples(500), deadline=None)
@given(st.text(max_size=60) | st.from_regex(r"https?://[\w.:@\[\]%\\-]{1,30}(/[ -~]{0,20})?", fullmatch=True))
def test_a_parsed_url_parses_again_to_the_same_value(text):
    try:
        url = parse_url(text)
    except InvalidUrlError:
        return
    assert parse_url(str(url)) == url
    assert str(url).isascii() and "\\" not in str(url) and "@" not in url.authority
    assert url.host == url.host.lower()


def test_a_credential_is_inserted_into_the_url_only_as_text():
    url = parse_url("https://api.example.com/bot{TOKEN}/send?x=1")
    assert str(url.with_placeholder("TOKEN", "a/b?c#d")) == "https://api.example.com/bota%2Fb%3Fc%23d/send?x=1"
    assert url.with_query_param("key", "a&b=c").target == "/bot{TOKEN}/send?x=1&key=a%26b%3Dc"
    assert parse_url("https://a.example/").with_query_param("k", "v").target == "/?k=v"
    with pytest.raises(InvalidUrlError):
        parse_url("https://api.example.com/{TOKEN}/x").with_placeholder("TOKEN", "..")


@pytest.mark.parametrize(
    "host",
    [
        *("", "*", "*.", "*.com", "*.*.example.com", "a.*.com", "exa*mple.com", "*example.com", "*.1.2.3.4", "*.[::1]"),
        *(
            "https://example.com",
            "example.com/",
            "example.com:443",
            "user@example.com",
            "münchen.de",
            "0x7f.1",
            " a",
            7,
        ),
    ],
)
def test_a_host_pattern_that_covers_nothing_or_too_much_is_refused(host):
    with pytest.raises(ConfigurationError):
        EndpointPattern.host(host)


@pytest.mark.parametrize(
    "prefix", ["v1", "", "/v1?x", "/v1#x", "/v1/**", "/v1/a*", "/v1/../x", "/%2e%2e/", "/%zz", "/a b", "/é"]
)
def test_an_ambiguous_path_prefix_is_refused(prefix):
    with pytest.raises(ConfigurationError):
        EndpointPattern.host("example.com").with_path_prefix(prefix)


@pytest.mark.parametrize(
    "path",
    ["/v1/..%00x/", "/v1/..%23", "/v1/..%3f", "/v1/%2e%2e%00", "/v1/..%2500x", "/v1/.%23/", "/v1/..%3Fa=b", "/v1/..;x"],
)
def test_dots_before_a_segment_end_for_some_parser_are_a_dot_segment(path: str) -> None:
    with pytest.raises(InvalidUrlError, match="dot segment"):
        parse_url(f"https://api.example.com{path}")


@pytest.mark.parametrize("path", ["/v1/a..%23", "/v1/x%00y", "/v1/...%3f", "/v1/.well-known%23"])
def test_names_with_dots_are_allowed(path: str) -> None:
    assert parse_url(f"https://api.example.com{path}").path == path
