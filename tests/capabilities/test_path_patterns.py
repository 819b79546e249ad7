"""The segment `*` of a path matches exactly one segment, however a server reads the path."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiers import examples
from wasmrt.capabilities import Capabilities, CredentialLocation, CredentialMapping, EndpointPattern, HttpCapability
from wasmrt.capabilities.file import capability_schema, format_file, parse
from wasmrt.capabilities.kinds.http import read_endpoint
from wasmrt.capabilities.model import PathPattern, endpoint_within, intersect_endpoints, path_pattern, read_path_pattern
from wasmrt.capabilities.sentences import explain
from wasmrt.core.errors import CapabilityFileError, ConfigurationError
from wasmrt.core.url import parse_url, split_path

HOST = "api.example.com"
SEGMENTS = ["*", "a", "b", "%61", "%2A", "a%2Fb"]
patterns = st.builds(
    lambda parts, end, is_exact: path_pattern(f"/{'/'.join(parts)}{end}", is_exact=is_exact),
    st.lists(st.sampled_from(SEGMENTS), max_size=4),
    st.sampled_from(["", "/"]),
    st.booleans(),
)
URL_SEGMENTS = [
    "a",
    "b",
    "*",
    "",
    "...",
    "a%2Fb",
    "a%252Fb",
    "a%5Cb",
    "a%00",
    "%20",
    "a%3Fb",
    "a%23b",
    ";a",
    "a;b",
    "%c3%a9",
]
paths = st.lists(st.sampled_from(URL_SEGMENTS), min_size=1, max_size=5).map(lambda parts: "/" + "/".join(parts))
# Written out by hand, independently of the rule in the code.
PLAIN = {"a", "b", "*", "a;b", "\xe9"}


def naive_match(pattern: PathPattern, path: str) -> bool:
    """Match segment by segment, from the text of the pattern and of the path."""
    wanted, found = pattern.text[1:].split("/"), split_path(path)
    is_prefix = pattern.most is None
    if is_prefix and wanted[-1] == "":
        wanted = wanted[:-1]
        if len(found) <= len(wanted):
            return False
    if len(found) < len(wanted) or (len(found) > len(wanted) and not is_prefix):
        return False
    for want, name in zip(wanted, found, strict=False):
        if want == "*":
            if name not in PLAIN:
                return False
        elif split_path(f"/{want}") != (name,):
            return False
    return True


@settings(max_examples=examples(500), deadline=None)
@given(patterns, paths)
def test_a_path_is_matched_segment_by_segment(pattern: PathPattern, path: str) -> None:
    assert pattern.matches(split_path(path)) == naive_match(pattern, path)


@settings(max_examples=examples(500), deadline=None)
@given(patterns, patterns, st.lists(paths, min_size=1, max_size=20))
def test_a_wider_pattern_matches_every_path_of_a_narrower_one(
    one: PathPattern, other: PathPattern, tried: list[str]
) -> None:
    for path in tried:
        segments = split_path(path)
        if one.within(other) and one.matches(segments):
            assert other.matches(segments)
        both = one.intersect(other)
        is_matched = both is not None and both.matches(segments)
        assert is_matched == (one.matches(segments) and other.matches(segments))


@settings(max_examples=examples(300), deadline=None)
@given(patterns, patterns)
def test_a_pattern_that_is_not_within_another_matches_a_path_that_the_other_does_not(
    one: PathPattern, other: PathPattern
) -> None:
    values = [[name] if name is not None else ["b", "zz"] for name in one.names]
    end = [] if one.most is not None else [[], [""], ["x"], ["x", "y"], ["x", "y", "z", "q", "r"]]
    witnesses = [[choice[0] for choice in values], [choice[-1] for choice in values]]
    witnesses += [[*start, *tail] for start in list(witnesses) for tail in end]
    matched = [tuple(each) for each in witnesses if one.matches(tuple(each))]
    assert matched
    assert one.within(other) == all(other.matches(each) for each in matched)


@settings(max_examples=examples(300), deadline=None)
@given(patterns, patterns, st.lists(paths, min_size=1, max_size=20))
def test_a_subtracted_pattern_is_matched_by_no_path_that_is_left(
    whole: PathPattern, gone: PathPattern, tried: list[str]
) -> None:
    try:
        left = whole.subtract(gone)
    except ConfigurationError:
        return
    for path in tried:
        segments = split_path(path)
        is_left = left is not None and left.matches(segments)
        assert is_left == (whole.matches(segments) and not gone.matches(segments))


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/repos/a/b/issues/1", True),
        ("/repos/*/b/issues/1", True),
        ("/repos/%2A/b/issues/1", True),
        ("/repos/caf%c3%a9/b;v=1/issues/a%20b", True),
        ("/repos/a.b/..c/issues/1", True),
        ("/repos/a/b/issues", False),
        ("/repos/a/b/issues/", False),
        ("/repos/a/b/issues/1/", False),
        ("/repos/a/b/issues/1/lock", False),
        ("/repos/a/b/pulls/1", False),
        ("/repos//b/issues/1", False),
        ("/repos/a//issues/1", False),
        ("//repos/a/b/issues/1", False),
        ("/repos/a/./issues/1", False),
        ("/repos/a/../issues/1", False),
        ("/repos/a/%2e%2e/issues/1", False),
        ("/repos/a/.%2e/issues/1", False),
        ("/repos/a/.../issues/1", False),
        ("/repos/a/%e2%80%a6/issues/1", False),
        ("/repos/a%2Fb/c/issues/1", False),
        ("/repos/a%252Fb/c/issues/1", False),
        ("/repos/a%5Cb/c/issues/1", False),
        ("/repos/a%u002fb/c/issues/1", False),
        ("/repos/a%ef%bc%8fb/c/issues/1", False),
        ("/repos/a%c0%afb/c/issues/1", False),
        ("/repos/a%00/b/issues/1", False),
        ("/repos/%00/b/issues/1", False),
        ("/repos/%2500/b/issues/1", False),
        ("/repos/a%3Fx/b/issues/1", False),
        ("/repos/a%23x/b/issues/1", False),
        ("/repos/a%0d%0ax/b/issues/1", False),
        ("/repos/;x/b/issues/1", False),
        ("/repos/%20/b/issues/1", False),
        ("/repos/%3b/b/issues/1", False),
        ("/repos/%25252525252541/b/issues/1", False),
        ("/repos/a/b/issues/%zz", False),
    ],
)
def test_a_star_matches_one_plain_segment(path: str, allowed: bool) -> None:
    entry = EndpointPattern(HOST, path="/repos/*/*/issues/*", methods=("PATCH",))
    grant = Capabilities.none().with_http(entry)

    assert grant.explain_http("PATCH", f"https://{HOST}{path}").allowed is allowed


@pytest.mark.parametrize(
    ("path", "as_prefix", "as_path"),
    [
        ("/users/7", True, True),
        ("/users/7/", True, False),
        ("/users/7/a%2Fb", True, False),
        ("/users/7//x", True, False),
        ("/users/", False, False),
        ("/users", False, False),
        ("/users//x", False, False),
        ("/users/" + "x" * 3000, True, True),
    ],
)
def test_a_prefix_covers_what_is_below_its_last_star_and_a_path_does_not(
    path: str, as_prefix: bool, as_path: bool
) -> None:
    url = f"https://{HOST}{path}"
    prefix, exact = EndpointPattern(HOST, "/users/*"), EndpointPattern(HOST, path="/users/*")

    assert Capabilities.none().with_http(prefix).explain_http("GET", url).allowed is as_prefix
    assert Capabilities.none().with_http(exact).explain_http("GET", url).allowed is as_path


def test_an_escaped_star_in_an_entry_is_the_character() -> None:
    grant = Capabilities.none().with_http(EndpointPattern(HOST, "/users/%2A/"))

    assert grant.explain_http("GET", f"https://{HOST}/users/*/x").allowed
    assert not grant.explain_http("GET", f"https://{HOST}/users/7/x").allowed


@pytest.mark.parametrize("path", ["/v1/*", "/v1/a*b/x", "/v1/**", "/*"])
def test_the_suggested_entry_for_a_url_with_a_star_allows_only_that_character(path: str) -> None:
    suggestion = Capabilities.none().explain_http("GET", f"https://{HOST}{path}").suggestion
    grant = Capabilities.none().with_addition(suggestion)  # type: ignore[arg-type]

    assert grant.explain_http("GET", f"https://{HOST}{path}").allowed
    assert not grant.explain_http("GET", f"https://{HOST}{path.replace('*', '7')}").allowed


@pytest.mark.parametrize(
    ("path", "message", "hint"),
    [
        ("/v1/a*b", "within the segment 'a*b'", "%2A"),
        ("/v1/*.json", "must be a whole segment", "any one segment"),
        ("/v1/**/x", "contains '**'", "for each segment"),
        ("/v1/***", "within the segment", "%2A"),
        ("/*/../x", "dot segment", ""),
        ("*", "must begin with '/'", "/v1/*/items"),
        ("/" + "*/" * 1024, "at most 2048 characters", ""),
    ],
)
def test_a_star_that_is_not_a_whole_segment_is_an_error(path: str, message: str, hint: str) -> None:
    for key in ("path_prefix", "path"):
        with pytest.raises(ConfigurationError) as caught:
            EndpointPattern(HOST, **{key: path})
        assert message in str(caught.value) and hint in str(caught.value.hint)
    with pytest.raises(ConfigurationError):
        credential(path)
    with pytest.raises(CapabilityFileError) as refused:
        parse(json.dumps({"http": {"allowlist": [{"host": "a.org", "path_prefix": path}]}}))
    assert refused.value.problems[0][0] == "http.allowlist[0].path_prefix"


def credential(*paths: str, name: str = "key", **more: object) -> CredentialMapping:
    return CredentialMapping(
        secret_name=name, location=CredentialLocation.bearer(), host_patterns=(HOST,), path_patterns=paths, **more
    )


def test_a_credential_is_sent_only_to_paths_that_match_its_pattern() -> None:
    http = HttpCapability((EndpointPattern(HOST),), (credential("/repos/*/*/issues/"),))

    def sent(path: str) -> bool:
        return bool(http.list_credentials(parse_url(f"https://{HOST}{path}")))

    assert sent("/repos/a/b/issues/1")
    for path in ("/repos/a/b/issues", "/repos/a%2Fb/c/issues/1", "/repos/a%00/b/issues/1", "/repos/a/issues/1"):
        assert not sent(path), path


def test_the_narrower_of_two_patterns_determines_the_credential() -> None:
    wide, narrow = credential("/*/*/issues/"), credential("/acme/*/issues/", name="own")
    http = HttpCapability((EndpointPattern(HOST),), (narrow, wide))

    def sent(path: str) -> list[str]:
        return [each.secret_name for each in http.list_credentials(parse_url(f"https://{HOST}{path}"))]

    assert sent("/acme/b/issues/1") == ["own"]
    assert sent("/other/b/issues/1") == ["key"]


@pytest.mark.parametrize(
    ("inner", "outer", "within"),
    [
        ("/repos/a/b/", "/repos/*/*/", True),
        ("/repos/a/b", "/repos/*/*/", False),
        ("/repos/a/b/issues/", "/repos/*/*/", True),
        ("/repos/*/b/", "/repos/*/*/", True),
        ("/repos/*/*/", "/repos/*/b/", False),
        ("/repos/*/*/", "/repos/", True),
        ("/repos/", "/repos/*", False),
        ("/repos/a%2Fb/", "/repos/*/", False),
        ("/repos//", "/repos/*", False),
        ("/repos/%2A/", "/repos/*/", True),
        ("/repos/*/", "/repos/%2A/", False),
    ],
)
def test_a_prefix_with_stars_covers_each_prefix_that_it_matches(inner: str, outer: str, within: bool) -> None:
    assert endpoint_within(EndpointPattern(HOST, inner), EndpointPattern(HOST, outer)) is within


def test_crossed_patterns_have_a_common_part() -> None:
    one, other = EndpointPattern(HOST, "/repos/*/b/"), EndpointPattern(HOST, "/repos/a/*/issues")

    assert [entry.path_prefix for entry in intersect_endpoints(one, other)] == ["/repos/a/b/issues"]
    assert intersect_endpoints(one, EndpointPattern(HOST, path="/repos/a/c/")) == []


def test_a_file_with_stars_is_written_as_it_was_read_and_fits_its_schema() -> None:
    text = (
        '{"http": {"allowlist": [{"host": "api.example.com", "path": "/repos/*/*/issues/*", "methods": ["PATCH"]}], '
        '"credentials": {"key": {"secret_name": "key", "location": {"type": "bearer"}, '
        '"host_patterns": ["api.example.com"], "path_patterns": ["/repos/*/*/"]}}}}'
    )
    file = parse(text)
    written = format_file(file)
    assert parse(written) == file and '"/repos/*/*/issues/*"' in written and '"/repos/*/*/"' in written
    pattern = capability_schema()["properties"]["http"]["properties"]["allowlist"]["items"]["properties"]["path"]
    assert re.search(pattern["pattern"], "/repos/*/*/issues/*")
    assert not re.search(pattern["pattern"], "/repos/a*/x") and not re.search(pattern["pattern"], "/**")


def test_the_sentences_explain_the_star_and_where_a_secret_goes() -> None:
    http = HttpCapability(
        (
            EndpointPattern(HOST, path="/repos/*/*/issues/*", methods=("PATCH",)),
            EndpointPattern(HOST, "/users/", methods=("GET",)),
        ),
        (credential("/repos/acme/*/"), credential("/users/*/keys", name="other")),
    )
    said = explain(Capabilities.none().with_http(http))

    assert (
        "may PATCH https://api.example.com/repos/*/*/issues/* (each * is any one segment, nothing below), with your "
        "secret key in the Authorization header, if the path is /repos/acme/*/issues/*"
    ) in said
    assert any(
        "GET https://api.example.com/users/ and below, with your secret other in the Authorization header under "
        "/users/*/keys" in each
        for each in said
    )


def test_the_powers_at_a_known_service_depend_on_the_segments_after_a_star() -> None:
    def said(path: str, method: str) -> str:
        entry = EndpointPattern("api.github.com", path_prefix=path, methods=(method,))
        token = CredentialMapping(
            secret_name="token", location=CredentialLocation.bearer(), host_patterns=("api.github.com",)
        )
        return "\n".join(explain(Capabilities.none().with_http(HttpCapability((entry,), (token,)))))

    issues = said("/repos/*/*/issues/", "PATCH")
    assert "can write issues and comments as you (GitHub)" in issues
    assert "delete them" not in issues and "pull requests" not in issues
    assert "delete them" in said("/repos/*/*", "DELETE") and "delete them" in said("/repos/*/*/", "DELETE")
    assert "delete them" in said("/*/*/*/", "DELETE")


def test_a_request_as_text_may_contain_stars() -> None:
    assert read_endpoint(f"PATCH https://{HOST}/repos/*/*/issues/") == EndpointPattern(
        HOST, "/repos/*/*/issues/", ("PATCH",)
    )
    with pytest.raises(ConfigurationError, match="whole segment"):
        read_endpoint(f"GET https://{HOST}/a*/")
    assert read_path_pattern("/*") == "/*"
