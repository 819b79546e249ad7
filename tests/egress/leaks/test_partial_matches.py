"""Parts of a watched secret are found on request, but words are not."""

from __future__ import annotations

import base64
import string

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiers import examples
from wasmrt.egress.leaks import LeakDetector

DETECTOR = LeakDetector()
SECRET = "Zq9kT7ab" + "vX2mB4nC6pD8eF"
LARGE = b'{"id": 12345, "name": "a plain name", "tags": ["one", "two"], "note": "nothing to see"},\n' * 4000


def found(secret: str, text: bytes) -> list[tuple[int, int]]:
    report = DETECTOR.scanner({"token": secret}).partial.scan_bytes(text)
    return [(m.start, m.end) for m in report.matches if m.rule == "secret:token"]


@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_a_third_of_a_secret_is_found_wherever_it_was_cut_out(data: st.DataObject) -> None:
    alphabet = string.ascii_letters + string.digits + "-_+/"
    secret = data.draw(st.text(alphabet, min_size=14, max_size=120)) + "a9Z"
    least = max(8, -(-len(secret) // 3))
    start = data.draw(st.integers(0, len(secret) - least))
    piece = secret[start : data.draw(st.integers(start + least, len(secret)))]
    bare = piece.strip("-_. /:")
    if bare.isdigit() or (bare.isalpha() and (bare.islower() or bare.isupper() or bare.istitle())):
        return
    places = found(secret, b"-- " + piece.encode() + b" --")
    assert places
    if len(set(secret)) > len(secret) // 2:  # otherwise it may fit in several ways
        assert places[0][0] <= 3 and places[-1][1] >= 3 + len(piece)


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(0, 10), st.integers(12, 22), st.sampled_from(["hex", "HEX", "base64", "base64url"]))
def test_an_encoded_part_is_found(start: int, stop: int, encoding: str) -> None:
    piece = SECRET[start:stop].encode()
    text = {
        "hex": piece.hex().encode(),
        "HEX": piece.hex().upper().encode(),
        "base64": base64.b64encode(piece),
        "base64url": base64.urlsafe_b64encode(piece),
    }[encoding]
    if len(piece) >= 11:
        assert found(SECRET, b"v=" + text + b";")


def test_parts_are_found_in_a_large_text_as_in_a_small_one() -> None:
    for piece in (SECRET[:9], SECRET[7:16], SECRET[-8:]):
        assert found(SECRET, LARGE + piece.encode() + LARGE) == [(len(LARGE), len(LARGE) + len(piece))]
    assert found(SECRET, LARGE) == []


def test_less_than_a_third_or_eight_characters_is_not_a_partial_match() -> None:
    assert found(SECRET, SECRET[:7].encode()) == []
    long = "".join(f"{n:02x}Z" for n in range(60))
    assert found(long, long[:59].encode()) == []
    assert found(long, long[:60].encode()) == [(0, 60)]


def test_words_and_numbers_are_not_partial_matches() -> None:
    secret = "acme-production-20261121" + "-x7"
    assert found(secret, b"production, Production and -20261121-") == []
    assert found(secret, b"the acme-production one") == [(4, 19)]


def test_a_part_among_many_false_starts_is_found() -> None:
    flood = (SECRET[:5] + " ").encode() * 5000
    for length in (8, 10):
        text = flood + SECRET[:length].encode() + b" " + flood
        assert found(SECRET, text) == [(len(flood), len(flood) + length)]


def test_only_a_scanner_for_partial_matches_finds_them() -> None:
    scanner = DETECTOR.scanner({"token": SECRET})
    assert not scanner.scan(SECRET[:12]).matches
    assert scanner.partial.scan(SECRET).matches == scanner.scan(SECRET).matches
    assert scanner.partial.redact(f"is {SECRET[:12]}.") == "is [REDACTED:secret:token]."
    plain = DETECTOR.scanner()
    assert plain.partial is plain
