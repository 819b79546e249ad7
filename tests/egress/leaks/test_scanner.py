"""The detector: reports, actions, directions, redaction and requests."""

from __future__ import annotations

import zlib
from base64 import b32encode, b64encode
from binascii import hexlify
from collections.abc import Callable
from functools import lru_cache
from random import Random
from urllib.parse import quote_from_bytes

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.egress.leaks.examples import example_of
from tests.tiers import examples
from wasmrt.core.errors import ConfigurationError
from wasmrt.egress.leaks import SCAN_BUDGET_RULE, Action, Direction, LeakDetector, Severity, load_custom_rules

DETECTOR = LeakDetector()
RULES = {rule.id: rule for rule in DETECTOR.rules}
BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def sample(rule_id: str) -> str:
    return example_of(RULES[rule_id]).strip()


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


def test_a_token_is_blocked_outward_and_redacted_inward() -> None:
    text = f"use {sample('openai-key')} now"
    assert DETECTOR.scan(text, direction=Direction.OUTWARD).should_block
    inward = DETECTOR.scan(text)
    assert not inward.should_block
    assert DETECTOR.redact(text) == "use [REDACTED:openai-key] now"


@pytest.mark.parametrize(("rule", "prefix"), [("github-pat", "ghp_"), ("github-oauth", "gho_"), ("npm-token", "npm_")])
def test_a_valid_checksum_makes_a_match_certain(rule: str, prefix: str) -> None:
    (match,) = DETECTOR.scan(with_checksum(prefix, Random(7))).matches
    assert match.rule == rule and match.certain


def test_an_invalid_checksum_proves_nothing() -> None:
    token = with_checksum("ghp_", Random(8))
    (match,) = DETECTOR.scan(token[:-1] + ("A" if token[-1] != "A" else "B")).matches
    assert not match.certain


def test_an_override_changes_a_rule_in_one_direction_only() -> None:
    detector = LeakDetector(overrides={"jwt": {Direction.OUTWARD: Action.WARN}})
    text = sample("jwt")
    assert detector.scan(text, direction=Direction.OUTWARD).matches[0].action is Action.WARN
    assert detector.scan(text).matches[0].action is Action.REDACT


def test_an_override_can_block_inward() -> None:
    assert LeakDetector(overrides={"jwt": Action.BLOCK}).scan(sample("jwt")).should_block


def test_an_override_of_an_unknown_rule_gets_a_suggestion() -> None:
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


def test_a_clean_request_passes() -> None:
    headers = {"Accept": "application/json", "X-Request-Id": "0d990263-018e-4e65-a703-eff731de951e"}
    assert not DETECTOR.scan_http_request("https://example.com/a?b=1", headers, b'{"q": "weather"}')


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize(
    "encode", [b64encode, b32encode, hexlify, lambda raw: quote_from_bytes(raw).replace("_", "%5F").encode()]
)
def test_encoded_content_of_a_request_is_searched(encode: Callable[[bytes], bytes], layers: int) -> None:
    data = with_checksum("ghp_", Random(8)).encode()
    for _ in range(layers):
        data = encode(data)
    text = data.decode()
    for url, headers, body in (
        (f"https://example.com/a/{text}/b", (), None),
        (f"https://example.com/?q={text}&x=1", (), None),
        ("https://example.com/", (("X-Data", text),), None),
        ("https://example.com/", (), f'{{"a": "{text}"}}'),
    ):
        report = DETECTOR.scan_http_request(url, headers, body)
        assert report.should_block and text not in str(report)


def test_encoded_content_without_a_secret_passes() -> None:
    image = b64encode(Random(1).randbytes(30_000)).decode()
    headers = (
        ("X-Request-Id", "0b7e9c52-6f0e-4b5e-9d9a-1f2e3d4c5b6a"),
        ("If-None-Match", '"33a64df551425fcc55e4d42a"'),
    )
    assert not DETECTOR.scan_http_request(f"https://example.com/{'a' * 40}", headers, f'{{"image": "{image}"}}')


@pytest.mark.parametrize("near", ["\u202e", "\ufeff", "\0", "☕", "\x1b[0m", "\\n", "%3D", '\\"'])
def test_adjacent_text_does_not_hide_a_token(near: str) -> None:
    token = sample("gitlab-pat")
    assert any(m.rule == "gitlab-pat" for m in DETECTOR.scan(f"a{near}{token}{near}").matches)


def test_a_private_key_is_one_match_from_its_first_line_to_its_last() -> None:
    key = sample("private-key")
    assert DETECTOR.redact(f"before\n{key}\nafter") == "before\n[REDACTED:private-key]\nafter"


def test_an_incomplete_private_key_is_found() -> None:
    key = sample("private-key").rsplit("\n", 1)[0]
    assert DETECTOR.scan(key).matches[0].rule == "private-key"


LONGER, OTHER = "longer_" + "0a1b2c3d" * 3 + "_tail_", "_tail_" + "0a1b2c3d4e" * 2
OVERLAPPING = """
[[rules]]
id = "longer"
source = "ours"
token = 'longer_[0-9a-f]{24}_tail_'
matching = ["LONGER"]
not_matching = ["longer_0"]
[[rules]]
id = "other"
source = "ours"
token = '_tail_[0-9a-f]{20}'
inside = true
matching = ["OTHER"]
not_matching = ["_tail_0"]
""".replace("LONGER", LONGER).replace("OTHER", OTHER)


def test_overlapping_matches_are_replaced_as_one_without_a_rest() -> None:
    rules = load_custom_rules(OVERLAPPING)
    text = f"a {LONGER}{OTHER.removeprefix('_tail_')} b"
    detector = LeakDetector(rules=rules)
    assert {m.rule for m in detector.scan(text).matches} == {"longer", "other"}
    assert detector.redact(text) == "a [REDACTED:longer] b"


def test_a_secret_across_a_block_boundary_is_found_once() -> None:
    token = sample("github-pat")
    for shift in range(4096 - 60, 4096 + 20, 3):
        matches = DETECTOR.scan("x" * (shift - 1) + " " + token + " tail").matches
        assert [(m.rule, m.start, m.end) for m in matches] == [("github-pat", shift, shift + len(token))]


@lru_cache
def rejected(kind: str) -> bytes:
    """Return a megabyte of false positives, each of which has to be classified to be rejected."""
    random = Random(12)
    starts = [example_of(rule).strip()[:9] for rule in DETECTOR.rules]
    masked = sample("github-pat")[:4] + "x" * 36
    kinds = {
        "tokens": lambda: "AKIA" + "".join(random.choices(BASE62[10:36], k=16)) + "\n",
        "assignments": lambda: f"password = change{random.randrange(10**6)}me\n",
        "repeated": lambda: f"password = changeme1 {masked}\n",
        "formats": lambda: random.choice(starts) + "-",
    }
    return "".join(kinds[kind]() for _ in range(40_000)).encode()


KINDS = ["tokens", "assignments", "repeated", "formats"]


@pytest.mark.ci("slow")
@pytest.mark.parametrize("kind", KINDS)
def test_some_of_many_false_positives_are_classified_and_the_rest_causes_a_warning(kind: str) -> None:
    classified = 0

    def count() -> None:
        nonlocal classified
        classified += 1

    flood = rejected(kind)
    report = DETECTOR.scanner(check=count).scan_bytes(flood)
    assert 0 < classified < len(flood) / 100
    (warning,) = [m for m in report.matches if m.rule == SCAN_BUDGET_RULE]
    assert warning.action is Action.WARN and warning.severity is Severity.LOW and not report.should_block
    assert warning.end - warning.start > len(flood) / 2


@pytest.mark.parametrize("kind", ["assignments", "repeated", "formats"])
def test_a_token_among_more_false_positives_than_the_budget_covers_is_found(kind: str) -> None:
    flood, token = rejected(kind), sample("gitlab-pat").encode()
    place = len(flood) - 1000
    matches = DETECTOR.scan_bytes(flood[:place] + b" " + token + b" " + flood[place:]).matches
    assert ("gitlab-pat", place + 1, place + 1 + len(token)) in [(m.rule, m.start, m.end) for m in matches]


def test_an_override_can_block_a_text_beyond_the_work_budget() -> None:
    assert LeakDetector(overrides={SCAN_BUDGET_RULE: Action.BLOCK}).scan_bytes(rejected("tokens")).should_block


@settings(max_examples=examples(60), deadline=None)
@given(st.binary(max_size=3000))
def test_any_bytes_are_scanned_without_an_error(data: bytes) -> None:
    DETECTOR.scanner({"k": "some-" + "secret-value-1"}).scan_bytes(data)


@settings(max_examples=examples(60), deadline=None)
@given(st.text(max_size=800))
def test_redacting_twice_changes_nothing(text: str) -> None:
    once = DETECTOR.redact(text)
    assert DETECTOR.redact(once) == once
