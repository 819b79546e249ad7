"""The detector's door: reports, actions, directions, redaction, requests and streams."""

from __future__ import annotations

import zlib
from functools import lru_cache
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wasmrt.errors import ConfigurationError, LeakError
from wasmrt.leaks import UNJUDGED_RULE, Action, Direction, LeakDetector, Severity, load_custom_rules, prove

DETECTOR = LeakDetector()
RULES = {rule.id: rule for rule in DETECTOR.rules}
BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def sample(rule_id: str) -> str:
    return prove(RULES[rule_id]).strip()


def with_checksum(prefix: str, random: Random) -> str:
    body = "".join(random.choices(BASE62, k=30))
    number, digits = zlib.crc32(body.encode()), ""
    while number:
        number, rest = divmod(number, 62)
        digits = BASE62[rest] + digits
    return prefix + body + digits.rjust(6, "0")


def test_a_clean_text_has_an_empty_report() -> None:
    report = DETECTOR.scan("The quick brown fox jumps over the lazy dog.")
    assert not report and not report.should_block and report.matches == ()


def test_a_token_blocks_outward_and_is_redacted_inward() -> None:
    text = f"use {sample('openai-key')} now"
    assert DETECTOR.scan(text, direction=Direction.OUTWARD).should_block
    inward = DETECTOR.scan(text)
    assert not inward.should_block
    assert DETECTOR.redact(text) == "use [REDACTED:openai-key] now"


@pytest.mark.parametrize(("rule", "prefix"), [("github-pat", "ghp_"), ("github-oauth", "gho_"), ("npm-token", "npm_")])
def test_a_checksum_that_holds_makes_a_match_certain(rule: str, prefix: str) -> None:
    (match,) = DETECTOR.scan(with_checksum(prefix, Random(7))).matches
    assert match.rule == rule and match.certain


def test_a_checksum_that_fails_proves_nothing() -> None:
    token = with_checksum("ghp_", Random(8))
    (match,) = DETECTOR.scan(token[:-1] + ("A" if token[-1] != "A" else "B")).matches
    assert not match.certain


def test_an_override_changes_a_rule_in_one_direction_only() -> None:
    detector = LeakDetector(overrides={"jwt": {Direction.OUTWARD: Action.WARN}})
    text = sample("jwt")
    assert detector.scan(text, direction=Direction.OUTWARD).matches[0].action is Action.WARN
    assert detector.scan(text).matches[0].action is Action.REDACT


def test_an_override_may_block_inward() -> None:
    assert LeakDetector(overrides={"jwt": Action.BLOCK}).scan(sample("jwt")).should_block


def test_an_override_of_an_unknown_rule_names_the_nearest() -> None:
    with pytest.raises(ConfigurationError) as caught:
        LeakDetector(overrides={"github-pta": Action.WARN})
    assert caught.value.hint == "did you mean github-pat?"


def test_a_warning_is_reported_and_not_redacted() -> None:
    text = sample("mapbox-public-token")
    assert DETECTOR.scan(text).matches[0].severity is Severity.LOW
    assert DETECTOR.redact(text) == text


@pytest.mark.parametrize("place", ["url", "header", "body", "escaped url", "bytes"])
def test_every_part_of_a_request_is_scanned(place: str) -> None:
    token = sample("anthropic-key")
    url, headers, body = "https://api.example.com/v1", {"Accept": "*/*"}, b"{}"
    if place == "url":
        url += f"?k={token}"
    elif place == "escaped url":
        url += "?k=" + "".join(f"%{b:02x}" for b in token.encode())
    elif place == "header":
        headers["X-Thing"] = token
    else:
        body = (b"\xff\xfe\x00" if place == "bytes" else b'{"a": "') + token.encode()
    report = DETECTOR.scan_http_request(url, headers, body)
    assert report.should_block
    assert {m.where for m in report.matches} == {
        {"url": "url", "escaped url": "url", "header": "header:X-Thing"}.get(place, "body")
    }


def test_an_innocent_request_passes() -> None:
    headers = {"Accept": "application/json", "X-Request-Id": "0d990263-018e-4e65-a703-eff731de951e"}
    assert not DETECTOR.scan_http_request("https://example.com/a?b=1", headers, b'{"q": "weather"}')


@pytest.mark.parametrize("near", ["\u202e", "\ufeff", "\0", "☕", "\x1b[0m", "\\n", "%3D", '\\"'])
def test_what_stands_beside_a_token_does_not_hide_it(near: str) -> None:
    token = sample("gitlab-pat")
    assert any(m.rule == "gitlab-pat" for m in DETECTOR.scan(f"a{near}{token}{near}").matches)


def test_a_private_key_is_one_match_from_its_first_line_to_its_last() -> None:
    key = sample("private-key")
    assert DETECTOR.redact(f"before\n{key}\nafter") == "before\n[REDACTED:private-key]\nafter"


def test_a_private_key_without_its_end_is_found() -> None:
    key = sample("private-key").rsplit("\n", 1)[0]
    assert DETECTOR.scan(key).matches[0].rule == "private-key"


OVERLAPPING = """
[[rules]]
id = "longer"
source = "ours"
token = 'longer_[0-9a-f]{24}_tail_'
not_matching = ["longer_0"]
[[rules]]
id = "other"
source = "ours"
token = '_tail_[0-9a-f]{20}'
inside = true
not_matching = ["_tail_0"]
"""


def test_findings_that_overlap_are_cut_as_one_so_that_no_tail_is_left() -> None:
    rules = load_custom_rules(OVERLAPPING)
    longer, other = (prove(rule).strip() for rule in rules)
    text = f"a {longer}{other.removeprefix('_tail_')} b"
    detector = LeakDetector(rules=rules)
    assert {m.rule for m in detector.scan(text).matches} == {"longer", "other"}
    assert detector.redact(text) == "a [REDACTED:longer] b"


FILLER = "the quick brown fox: token handling, keys = words, https://example.com/a/b?c=d\n"


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    cuts=st.lists(st.integers(1, 40_000), max_size=12),
    rules=st.lists(
        st.sampled_from(["github-pat", "jwt", "private-key", "url-credentials", "generic-assignment"]), max_size=5
    ),
)
def test_chunks_find_what_the_whole_finds(seed: int, cuts: list[int], rules: list[str]) -> None:
    random = Random(seed)
    secret = "Sw0rdfish-" + "in-the-deep-9"
    parts = [FILLER * random.randint(0, 120)]
    for rule in rules:
        parts += [" ", sample(rule), "\n", secret, FILLER * random.randint(0, 120)]
    data = "".join(parts).encode()
    scanner = DETECTOR.primed({"k": secret})
    stream = scanner.stream()
    edges = sorted({0, len(data), *(c for c in cuts if c < len(data))})
    early = [m for low, high in pairwise(edges) for m in stream.feed(data[low:high])]
    whole = scanner.scan_bytes(data)
    assert stream.finish() == whole
    assert {m.rule for m in early} <= {m.rule for m in whole.matches}


def test_a_secret_on_the_edge_of_a_block_is_found_once() -> None:
    token = sample("github-pat")
    for shift in range(4096 - 60, 4096 + 20, 3):
        matches = DETECTOR.scan("x" * (shift - 1) + " " + token + " tail").matches
        assert [(m.rule, m.start, m.end) for m in matches] == [("github-pat", shift, shift + len(token))]


def test_a_stream_is_bounded_and_ends_once() -> None:
    stream = DETECTOR.primed({}).stream(max_bytes=100)
    with pytest.raises(LeakError):
        stream.feed(b"x" * 101)
    done = DETECTOR.primed({}).stream()
    done.finish()
    with pytest.raises(LeakError):
        done.feed(b"more")


@lru_cache
def refused(kind: str) -> bytes:
    """Some megabyte of look-alikes, each of which has to be weighed to be refused."""
    random = Random(12)
    masked = sample("github-pat")[:4] + "x" * 36
    kinds = {
        "tokens": lambda: "AKIA" + "".join(random.choices(BASE62[10:36], k=16)) + "\n",
        "assignments": lambda: f"password = change{random.randrange(10**6)}me\n",
        "repeated": lambda: f"password = changeme1 {masked}\n",
        "formats": lambda: random.choice(STARTS) + "-",
    }
    return "".join(kinds[kind]() for _ in range(40_000)).encode()


STARTS = [prove(rule).strip()[:9] for rule in DETECTOR.rules]
KINDS = ["tokens", "assignments", "repeated", "formats"]


@pytest.mark.parametrize("kind", KINDS)
def test_of_very_many_look_alikes_some_are_weighed_and_the_rest_is_warned_of(kind: str) -> None:
    weighed = 0

    def count() -> None:
        nonlocal weighed
        weighed += 1

    flood = refused(kind)
    report = DETECTOR.primed({}, check=count).scan_bytes(flood)
    assert 0 < weighed < len(flood) / 100
    (warning,) = [m for m in report.matches if m.rule == UNJUDGED_RULE]
    assert warning.action is Action.WARN and warning.severity is Severity.LOW and not report.should_block
    assert warning.end - warning.start > len(flood) / 2


@pytest.mark.parametrize("kind", ["assignments", "repeated", "formats"])
def test_a_token_among_more_look_alikes_than_are_weighed_is_found(kind: str) -> None:
    flood, token = refused(kind), sample("gitlab-pat").encode()
    place = len(flood) - 1000
    matches = DETECTOR.scan_bytes(flood[:place] + b" " + token + b" " + flood[place:]).matches
    assert ("gitlab-pat", place + 1, place + 1 + len(token)) in [(m.rule, m.start, m.end) for m in matches]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_left_unjudged_does_not_depend_on_how_a_text_arrives(kind: str) -> None:
    flood = refused(kind)
    stream = DETECTOR.primed({}).stream()
    for low in range(0, len(flood), 100_001):
        stream.feed(flood[low : low + 100_001])
    assert stream.finish() == DETECTOR.scan_bytes(flood)


def test_an_override_may_block_what_is_left_unjudged() -> None:
    assert LeakDetector(overrides={UNJUDGED_RULE: Action.BLOCK}).scan_bytes(refused("tokens")).should_block


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=3000))
def test_any_bytes_are_scanned_without_an_error(data: bytes) -> None:
    DETECTOR.primed({"k": "some-" + "secret-value-1"}).scan_bytes(data)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=800))
def test_redaction_is_stable(text: str) -> None:
    once = DETECTOR.redact(text)
    assert DETECTOR.redact(once) == once
