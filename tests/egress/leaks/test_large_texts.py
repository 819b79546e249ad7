"""Large texts are searched in fewer passes than small ones, with the same results."""

from __future__ import annotations

import base64
import importlib.util
import sys
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.egress.leaks.examples import example_of
from tests.tiers import examples
from wasmrt.egress.leaks import LeakDetector, Rule, _encoded
from wasmrt.egress.leaks._keywords import Prefilter
from wasmrt.egress.leaks._rule_sets import builtin_engine, builtin_rules

SECRET = "Zq9kT7ab" + "vX2mB4nC6pD8eF"
PLAIN = b'{"id": 12345, "name": "a plain name", "tags": ["one", "two"], "note": "nothing to see"},\n' * 800
CHUNK = 64 * 1024
needs_hyperscan = pytest.mark.skipif(importlib.util.find_spec("hyperscan") is None, reason="hyperscan is not installed")
DETECTOR = LeakDetector()
RULE = next(rule for rule in builtin_rules() if rule.id == "anthropic-key")


def gaps(text: bytes, gap: bytes) -> bytes:
    return gap.join(bytes([byte]) for byte in text)


ENCODINGS: dict[str, Callable[[bytes], bytes]] = {
    "as it is": lambda secret: secret,
    "upper case": bytes.upper,
    "reversed": lambda secret: secret[::-1],
    "hex": lambda secret: secret.hex().encode(),
    "base64": base64.b64encode,
    "base64 of more": lambda secret: base64.b64encode(b"user:" + secret + b" and so on and on and on"),
    "base64 in base64": lambda secret: base64.b64encode(b"x" * 40 + base64.b64encode(b"user:" + secret + b"y" * 40)),
    "spread": lambda secret: gaps(secret, b", "),
    "spread far": lambda secret: gaps(secret, b" \n" * 40),
    "numbers": lambda secret: b", ".join(b"%d" % byte for byte in secret),
    "numbers far apart": lambda secret: (b",\r\n" + b" " * 14).join(b"%d" % byte for byte in secret),
    "hexadecimal numbers": lambda secret: b" ".join(b"0x%02x" % byte for byte in secret),
    "numbers of UTF-16": lambda secret: b" ".join(b"%d" % byte for byte in secret.decode().encode("utf-16-le")),
    "percent": lambda secret: b"".join(b"%%%02x" % byte for byte in secret),
}


@settings(max_examples=examples(120), deadline=None)
@given(
    encoding=st.sampled_from(sorted(ENCODINGS)),
    near=st.sampled_from([0, 64, 4096, 4 * CHUNK, 4 * CHUNK + 64, 5 * CHUNK, 6 * CHUNK]),
    shift=st.integers(-70, 70),
    size=st.integers(4 * CHUNK, 8 * CHUNK + 100),
)
def test_a_secret_is_found_anywhere_in_a_large_text(encoding: str, near: int, shift: int, size: int) -> None:
    planted = b"; " + ENCODINGS[encoding](SECRET.encode()) + b" ;"
    at = max(0, min(near + shift, size))
    filler = PLAIN * (size // len(PLAIN) + 1)
    scanner = DETECTOR.scanner({"token": SECRET})
    found = scanner.scan_bytes(filler[:at] + planted + filler[at:size])
    alone = scanner.scan_bytes(planted)
    assert {match.rule for match in found.matches} == {match.rule for match in alone.matches} >= {"secret:token"}
    assert any(match.start < at + len(planted) and at < match.end for match in found.matches)


@settings(max_examples=examples(60), deadline=None)
@given(
    start=st.integers(0, len(SECRET) - 8),
    length=st.integers(8, 12),
    at=st.integers(CHUNK - 20, CHUNK + 20) | st.integers(0, 200),
)
def test_a_part_of_a_secret_is_found_in_a_large_text(start: int, length: int, at: int) -> None:
    filler, piece = PLAIN * 4, SECRET[start : start + length].encode()
    found = DETECTOR.scanner({"token": SECRET}).partial.scan_bytes(filler[:at] + b" " + piece + b" " + filler[at:])
    assert [(m.start, m.end) for m in found.matches if m.rule == "secret:token"] == [(at + 1, at + 1 + len(piece))]


def test_a_secret_with_few_letters_is_found_in_a_large_text() -> None:
    secret = "+-+" + "!%9$#" * 3 + "=="
    text = PLAIN * 4 + secret.encode()
    assert [m.rule for m in DETECTOR.scanner({"odd": secret}).scan_bytes(text).matches] == ["secret:odd"]


def test_many_threads_can_scan_large_texts_at_once() -> None:
    wrong: list[bool] = []

    def scan(secret: bool) -> None:
        for _ in range(10):
            text = PLAIN * 2 + (SECRET.encode() if secret else b"")
            if bool(DETECTOR.scanner({"token": SECRET}).scan_bytes(text).matches) != secret:
                wrong.append(secret)

    threads = [threading.Thread(target=scan, args=(number % 2 == 0,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@cache
def prefilter() -> Prefilter:
    """A prefilter that has scanned enough to be compiled."""
    made = Prefilter(builtin_rules().keywords)
    while not made.rules_out(PLAIN):
        assert made._seen_bytes < 10_000_000
    return made


@cache
def keywords_by_re2() -> Any:
    return builtin_engine()._keywords._compile()


@pytest.mark.ci("slow")
@needs_hyperscan
def test_the_prefilter_never_excludes_a_text_that_a_rule_matches() -> None:
    missed = [rule.id for rule in builtin_rules() if prefilter().rules_out(PLAIN + example_of(rule).encode())]
    assert missed == []


@needs_hyperscan
@settings(max_examples=examples(150), deadline=None)
@given(drawn=st.data(), before=st.binary(max_size=300), after=st.binary(max_size=300))
def test_the_prefilter_agrees_with_re2(drawn: st.DataObject, before: bytes, after: bytes) -> None:
    keyword = drawn.draw(st.sampled_from(tuple(builtin_rules().keywords))).encode("ascii")
    inside = drawn.draw(st.from_regex(keyword, fullmatch=True))
    cut = inside[: drawn.draw(st.integers(0, len(inside)))]
    for text in (before + inside + after, before + cut + after):
        assert prefilter().rules_out(text) == (not keywords_by_re2().Match(text))


_DIGITS = "[0-9A-Fa-f]"
ENCODED = "|".join((
    r"[A-Za-z0-9+/_\-]{24,40}", r"([0-9]{1,3}[,; \t\r\n]{1,4}){7}[0-9]{2,3}", r"(0[xX][0-9a-f]{1,2}[,;]? ){7}0x[0-9]",
    rf"{_DIGITS}{{2}}([:.,;_\-]?[ \t\r\n]{{0,16}}{_DIGITS}{{2}}){{7,9}}",
    rf"(\n[ \t|\"'`>#*]{{0,16}}(0[xX])?{_DIGITS}{{0,8}}[0-9]{_DIGITS}{{3,15}}[:|>]?[ \t|]{{1,8}}{_DIGITS}{{2}}){{1,3}}",
))  # fmt: skip


@cache
def prefilter_of_encoded_text() -> Prefilter:
    """The prefilter for encoded text, compiled."""
    for _ in range(1 + (4 << 20) // len(PLAIN)):
        _encoded._PREFILTER.rules_out(PLAIN)
    assert _encoded._PREFILTER.rules_out(PLAIN)
    return _encoded._PREFILTER


@needs_hyperscan
@settings(max_examples=examples(400), deadline=None)
@given(encoded=st.from_regex(ENCODED, fullmatch=True), before=st.binary(max_size=40), after=st.binary(max_size=40))
def test_encoded_text_is_never_ruled_out(encoded: str, before: bytes, after: bytes) -> None:
    text = before + encoded.encode("latin-1", "replace") + after
    if _encoded._compile_on_first_use(_encoded.LEAST_ENCODED).search(text) is not None:
        assert not prefilter_of_encoded_text().rules_out(text)


@pytest.mark.parametrize(
    ("keyword", "text"),
    [("nimbus[^\\s]", "nimbus\x0b"), ("nimbus[\\S]", "nimbus\x0b"), ("nimbus[x]{08}", "nimbusx{08}")],
    ids=["vertical tab", "vertical tab inside", "leading zero"],
)
def test_a_keyword_with_a_different_meaning_in_perl_is_found_in_a_large_text(keyword: str, text: str) -> None:
    rule = Rule(id="nimbus", source="this test", pattern="(nimbus.{1,9}q7Zk2Lw9)", keywords=(keyword,), entropy=1.0)
    detector = LeakDetector(rules=[rule])
    _warm_up(detector)
    planted = (text + " q7Zk" + "2Lw9").encode()
    assert [m.rule for m in detector.scan_bytes(PLAIN * 3 + planted + PLAIN).matches] == ["nimbus"]


def test_a_password_with_a_vertical_tab_is_found_in_a_large_text() -> None:
    detector = LeakDetector()
    _warm_up(detector)
    url = b"postgres://admin:S3cr\x0bet9" + b"xQz7Lk2vB@db.example.net/x"
    assert "url-credentials" in {m.rule for m in detector.scan_bytes(PLAIN * 3 + url).matches}


def _rule() -> Rule:
    return Rule(id="nimbus", source="this test", token="nimbus-[0-9a-f]{12}", entropy=1.0)


def _warm_up(detector: LeakDetector) -> None:
    """Scan so much that the prefilter is compiled."""
    for _ in range(1 + (4 << 20) // len(PLAIN)):
        assert not detector.scan_bytes(PLAIN).matches


@pytest.mark.parametrize("own_rules", [False, True])
def test_a_token_is_found_anywhere_in_a_text_of_many_chunks(own_rules: bool) -> None:
    rule = _rule()
    detector = LeakDetector(rules=[rule]) if own_rules else LeakDetector()
    _warm_up(detector)
    shipped = example_of(next(rule for rule in builtin_rules() if rule.id == "gitlab-pat")).strip().encode()
    token, name = (b"nimbus-" + b"0a1b2c3d4e5f", rule.id) if own_rules else (shipped, "gitlab-pat")
    text = PLAIN * 30
    for at in (0, CHUNK - 6, 8 * CHUNK - 9, 8 * CHUNK, len(text) // 2, 16 * CHUNK - 9, 16 * CHUNK + 1, len(text)):
        found = detector.scan_bytes(text[:at] + b" " + token + b" " + text[at:])
        assert [(m.rule, m.start) for m in found.matches] == [(name, at + 1)]
    assert not detector.scan_bytes(text).matches


@needs_hyperscan
def test_a_flood_does_not_use_up_the_budget_of_later_plain_text() -> None:
    with_prefilter, by_re2 = LeakDetector(), LeakDetector(rules=[_rule()])
    _warm_up(with_prefilter)
    keywords = keywords_by_re2()
    names = {name for rule in builtin_rules() for name in rule.names if name.replace("_", "").isalnum()}
    flood = (" ".join(sorted(names)) + "\n").encode() * 100
    head, matched = b"", set[int]()
    for name in sorted(names, key=lambda name: -len(keywords.Match(name.encode()) or ()) / (len(name) + 1)):
        more = set(keywords.Match(name.encode()) or ())
        if not more <= matched and len(head) + len(name) < 254:
            head, matched = head + b" " + name.encode(), matched | more
    named = next(rule for rule in builtin_rules() if rule.id == "pinecone-legacy-key")
    secret = b"\n" + example_of(named).encode() + b"\n"
    plain = b"plain words here. \n" * (16 * CHUNK // 19 + 1)
    flooded = plain[: 12 * CHUNK] + (flood * 4)[: 4 * CHUNK]
    text = flooded + plain[:CHUNK] + plain[:257] + head + plain[: CHUNK // 2] + secret + plain[: 3 * CHUNK]
    found = by_re2.scan_bytes(text)
    assert named.id in {match.rule for match in found.matches}
    assert with_prefilter.scan_bytes(text) == found


def test_without_hyperscan_re2_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hyperscan", None)
    without = Prefilter(builtin_rules().keywords)
    assert not any(without.rules_out(PLAIN) for _ in range(2 + (4 << 20) // len(PLAIN)))


@needs_hyperscan
def test_a_text_is_not_excluded_while_another_thread_scans() -> None:
    with prefilter()._lock:
        assert not prefilter().rules_out(PLAIN)
    assert prefilter().rules_out(PLAIN)


@settings(max_examples=examples(40), deadline=None)
@given(
    encoding=st.sampled_from(["base64", "hex", "numbers", "hexadecimal numbers", "base64 in base64", "as it is"]),
    at=st.integers(0, len(PLAIN)),
)
def test_a_large_body_is_searched_for_encoded_tokens_with_and_without_a_secret(encoding: str, at: int) -> None:
    """The search for secrets saves the next one a pass, but hides nothing from it."""
    token = f'{{"token": "{example_of(RULE)}"}}'.encode()
    body = PLAIN[:at] + b"; " + ENCODINGS[encoding](token) + b" ;" + PLAIN[at:]
    scanner = DETECTOR.scanner({"name": SECRET})
    scanner.scan_bytes(PLAIN)  # above this size, one pass finds the possible searches
    found = scanner.scan_http_request("https://example.com/", (), body)
    assert {match.rule for match in found.matches} >= {RULE.id}
    assert found == DETECTOR.scan_http_request("https://example.com/", (), body)
