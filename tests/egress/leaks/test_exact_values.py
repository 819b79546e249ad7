"""A watched secret is found in every encoding, and the surrounding text is kept."""

from __future__ import annotations

import base64
import codecs
import gzip
import html
import json
import string
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiers import examples
from wasmrt.egress.leaks import Action, Direction, LeakDetector, Severity
from wasmrt.egress.leaks._exact import ExactMatcher

DETECTOR = LeakDetector()

SECRETS = st.text(alphabet=string.ascii_letters + string.digits + string.punctuation, min_size=16, max_size=200)


def split_by(separator: str) -> Callable[[str], str]:
    return lambda s: separator.join(s[i : i + 3] for i in range(0, len(s), 3))


def percent_all(s: str) -> str:
    return "".join(f"%{b:02X}" for b in s.encode())


def partly_percent(s: str) -> str:
    return "".join(f"%{ord(c):02x}" if i % 3 == 0 else c.replace("%", "%25") for i, c in enumerate(s))


ENCODINGS: dict[str, Callable[[str], str]] = {
    "verbatim": lambda s: s,
    "base64": lambda s: base64.b64encode(s.encode()).decode(),
    "base64-offset-1": lambda s: base64.b64encode(b"a" + s.encode() + b"tail").decode(),
    "base64-offset-2": lambda s: base64.b64encode(b"ab" + s.encode() + b"x").decode(),
    "base64url": lambda s: base64.urlsafe_b64encode(b"q" + s.encode()).decode().rstrip("="),
    "base64-in-lines": lambda s: base64.encodebytes(b"some text before " + s.encode() * 2).decode(),
    "hex": lambda s: s.encode().hex(),
    "HEX": lambda s: s.encode().hex().upper(),
    "hex-with-colons": lambda s: s.encode().hex(":"),
    "percent-all": percent_all,
    "percent-partly": partly_percent,
    "code-points-partly": lambda s: "".join(f"U+{ord(c):04X} " if i % 3 == 0 else c for i, c in enumerate(s)),
    "percent-as-urls-do": lambda s: quote(s, safe=""),
    "percent-twice": lambda s: quote(quote(s, safe=""), safe=""),
    "backslash-u": lambda s: "".join(f"\\u{ord(c):04x}" for c in s),
    "backslash-x": lambda s: "".join(f"\\x{ord(c):02x}" for c in s),
    "json": lambda s: json.dumps({"v": s}),
    "json-in-json": lambda s: json.dumps(json.dumps({"v": s})),
    "html": lambda s: html.escape(s),
    "html-numeric": lambda s: "".join(f"&#{ord(c)};" for c in s),
    "html-hex": lambda s: "".join(f"&#x{ord(c):x};" for c in s),
    "html-numeric-unterminated": lambda s: "".join(f"&#{ord(c)}" for c in s),
    "html-hex-unterminated": lambda s: "".join(f"&#x{ord(c):X}" for c in s),
    "octal": lambda s: "".join(f"\\{ord(c):03o}" for c in s),
    "octal-short": lambda s: "".join(f"\\{ord(c):o}" for c in s),
    "list-of-hex": lambda s: "{" + ",".join(f"0x{ord(c):02x}" for c in s) + "}",
    "list-of-hex-in-lines": lambda s: ",\n    ".join(f"0x{ord(c):02X}" for c in s),
    "list-of-decimals": lambda s: str(list(s.encode())),
    "list-without-commas": lambda s: " ".join(str(b) for b in s.encode()),
    "base32": lambda s: base64.b32encode(s.encode()).decode(),
    "base32-lower-case": lambda s: base64.b32encode(f"its value: {s}".encode()).decode().lower(),
    "base64-of-utf16": lambda s: base64.b64encode(s.encode("utf-16-le")).decode(),
    "base64-of-utf16-big-endian": lambda s: base64.b64encode(s.encode("utf-16-be")).decode(),
    "base64-of-utf16-with-mark": lambda s: base64.b64encode(s.encode("utf-16")).decode(),
    "hex-of-utf16": lambda s: s.encode("utf-16-le").hex(),
    "full-width": lambda s: "".join(chr(ord(c) + 0xFEE0) for c in s),
    "rot13": lambda s: codecs.encode(s, "rot13"),
    "reversed": lambda s: s[::-1],
    "split-by-space": split_by(" "),
    "split-by-newline": split_by("\r\n  "),
    "split-by-zero-width": split_by("\u200b"),
    "split-by-joiner": split_by("\u2060\ufeff"),
    "split-by-hyphen": split_by("-"),
    "split-by-quotes": split_by('" + "'.replace("+", "")),
    "gzip-in-base64": lambda s: base64.b64encode(gzip.compress(("x" * 50 + s).encode())).decode(),
    "base64-twice": lambda s: base64.b64encode(base64.b64encode(s.encode())).decode(),
    "hex-of-base64": lambda s: base64.b64encode(s.encode()).hex(),
    "percent-of-base64": lambda s: percent_all(base64.b64encode(s.encode()).decode()),
}


@pytest.mark.parametrize("separator", ["-", '"  "', "\u200b", "\n", " "])
@pytest.mark.parametrize("secret", ["0000000---------", "-a-1-b-2-c-3-----", "ab`'\"\\-------- c"])
def test_a_secret_of_few_letters_is_found_with_separators_in_it(secret: str, separator: str) -> None:
    scanner = DETECTOR.scanner({"token": secret})
    text = f"before, {split_by(separator)(secret)} and after"
    report = scanner.scan(text, direction=Direction.OUTWARD)
    assert report.should_block
    assert not scanner.scan(scanner.redact(text)).matches
    assert not scanner.scan("0000000 and ------- a-1 b-2").matches


@pytest.mark.parametrize("encoding", ENCODINGS)
@settings(max_examples=examples(100), deadline=None)
@given(secret=SECRETS)
def test_a_watched_secret_is_found_in_every_encoding(encoding: str, secret: str) -> None:
    text = f"before, {ENCODINGS[encoding](secret)} and after"
    scanner = DETECTOR.scanner({"token": secret})
    if scanner.unwatched:
        return
    report = scanner.scan(text, direction=Direction.OUTWARD)
    ours = [m for m in report.matches if m.rule == "secret:token"]
    assert ours
    assert report.should_block
    assert all(m.certain and m.action is Action.BLOCK for m in ours)
    assert not any(m.rule == "secret:token" for m in scanner.scan(scanner.redact(text)).matches)


@pytest.mark.parametrize("change", [str.upper, str.lower])
@settings(max_examples=examples(30), deadline=None)
@given(secret=st.text(alphabet=string.ascii_lowercase + string.digits, min_size=16, max_size=60))
def test_a_single_case_secret_is_found_in_the_other_case(change: Callable[[str], str], secret: str) -> None:
    assert DETECTOR.scanner({"k": secret}).scan(f"v={change(secret)};").matches


@pytest.mark.parametrize("junk", ["234", "999", "301, 7", "0, 0, 0", "300, 200, 1", "0x00"])
def test_a_secret_among_other_numbers_in_a_list_is_found(junk: str) -> None:
    secret = "Zq9kT7ab" + "vX2mB4nC6pD8eF"
    numbers = ", ".join(str(ord(character)) for character in secret)
    between = f", {junk}, ".join(numbers.split(", "))
    for text in (f"[{junk}, {numbers}]", f"[{numbers}, {junk}]", f"[{junk}, {numbers}, {junk}]", f"[{between}]"):
        assert "secret:token" in {m.rule for m in DETECTOR.scanner({"token": secret}).scan(text).matches}, text


def test_a_secret_inside_gzip_is_found_in_bytes() -> None:
    secret = "b1ue-" + "Whale/42-sings"
    packed = gzip.compress(b"many words " * 40 + secret.encode())
    assert DETECTOR.scanner({"k": secret}).scan_bytes(packed).matches[0].rule == "secret:k"


QUIET = {"k": "quiet-" + "secret-value-7"}


def nested(text: bytes, layers: int) -> bytes:
    for _ in range(layers):
        text = base64.b64encode(text)
    return text


def many_archives() -> bytes:
    """Return more members than the budget covers."""
    return b"--".join([gzip.compress(b"a member")] * 33_000)


@pytest.mark.ci("slow")
@pytest.mark.parametrize(
    "data",
    [
        gzip.compress(gzip.compress(b"\0" * 200_000_000)),
        nested(b"a plain text that is packed very often", 7),
        b"%25" + b"25" * 16 + b"41",
        many_archives(),
    ],
    ids=["bomb", "nested", "escaped", "many"],
)
def test_content_over_the_budget_is_withheld_at_a_bounded_cost(data: bytes) -> None:
    report = DETECTOR.scanner(QUIET).scan_bytes(data)
    (match,) = report.matches
    assert (match.rule, match.start, match.end) == ("decode-limit-exceeded", 0, len(data))
    assert match.severity is Severity.HIGH and match.action is Action.BLOCK and not match.certain


@pytest.mark.parametrize(
    "data",
    [gzip.compress(gzip.compress(b"\0" * 2_000_000)), nested(b"a plain text", 4), b"%25%2541", b"text" * 9],
    ids=["compressed", "nested", "escaped", "plain"],
)
def test_content_within_the_budget_is_not_withheld(data: bytes) -> None:
    assert DETECTOR.scanner(QUIET).scan_bytes(data).matches == ()


@pytest.mark.ci("slow")
def test_an_override_may_pass_content_over_the_budget() -> None:
    scanner = LeakDetector(overrides={"decode-limit-exceeded": Action.WARN}).scanner(QUIET)
    secret = QUIET["k"].encode()
    report = scanner.scan_bytes(secret + b" " + many_archives())
    assert not report.should_block
    assert [m.rule for m in report.matches] == ["secret:k", "decode-limit-exceeded"]


@pytest.mark.ci("slow")
def test_hundreds_of_secrets_are_all_found() -> None:
    secrets = {f"k{number}": f"Zq9k{number:04}" + "T7abvX2mB4nC6pD8eFyK3wL5sN7uQ9" for number in range(300)}
    scanner = LeakDetector().scanner(secrets).partial
    for _ in range(3):
        assert not scanner.scan_bytes(b"a plain text\n" * 3000).matches
        assert "secret:k299" in {m.rule for m in scanner.scan(f"a {secrets['k299']} b").matches}


def test_an_encoding_without_letters_and_digits_is_found_in_a_long_text() -> None:
    secret = "PQRST" + "UVWXYZ[]PRQT^V"  # ROT47 of these characters is punctuation
    rot47 = "".join(chr(33 + (ord(c) - 33 + 47) % 94) for c in secret)
    scanner, text = DETECTOR.scanner({"k": secret}), "a plain text\n" * 6000
    assert not any(c.isalnum() for c in rot47)
    assert not scanner.scan(text).matches
    assert scanner.scan(f"{text} {rot47}\n{text}").matches


def test_a_secret_is_found_in_a_text_whose_words_were_clean_before() -> None:
    secret, word = "Zq9kT7ab" + "vX2mB4nC6pD8eF", "Access-Control-Allow-Credentials"
    scanner = DETECTOR.scanner({"k": secret}).partial
    packed = base64.b64encode(gzip.compress(secret.encode(), mtime=0)).decode()
    for _ in range(3):
        assert not scanner.scan(f"{word}: a {word}").matches
        assert scanner.scan(f"{word}: {packed} {word}").secret == "secret:k"


def test_secrets_that_are_too_short_are_listed() -> None:
    assert DETECTOR.scanner({"a": "x1", "b": "y2"}).unwatched == ("a", "b")


@pytest.mark.parametrize("word", ["word", "pass", "a b"])
def test_a_short_secret_does_not_redact_english(word: str) -> None:
    scanner = DETECTOR.scanner({"short": word})
    text = f"One {word} in a sentence, and the {word} again."
    assert scanner.redact(text) == text
    assert scanner.unwatched == ("short",)


def test_an_ordinary_word_in_another_case_is_not_the_secret() -> None:
    scanner = DETECTOR.scanner({"pw": "Bluebird" + "sings"})
    assert not scanner.scan("bluebird sings; BLUEBIRD SINGS").matches
    assert scanner.scan("Bluebird" + "sings").matches


def test_only_the_secret_is_replaced_and_offsets_are_in_characters() -> None:
    secret = "tr0ub" + "4dor-and-three"
    text = f"naïve ☕ {secret} ☕ fin"
    scanner = DETECTOR.scanner({"k": secret})
    (match,) = scanner.scan(text).matches
    assert text[match.start : match.end] == secret
    assert scanner.redact(text) == "naïve ☕ [REDACTED:secret:k] ☕ fin"


def test_a_secret_split_by_zero_width_characters_is_replaced_completely() -> None:
    secret = "Kq7xWz90" + "mNpLrT4v"
    text = "a " + "\u200b".join(secret) + " b"
    assert DETECTOR.scanner({"k": secret}).redact(text) == "a [REDACTED:secret:k] b"


def test_an_escaped_secret_is_replaced_from_its_first_to_its_last_escape() -> None:
    secret = "p&ss/w%rd+" + "with=signs#9"
    text = f"x={quote(secret, safe='')}&y=1"
    assert DETECTOR.scanner({"k": secret}).redact(text) == "x=[REDACTED:secret:k]&y=1"


def test_creating_a_scanner_builds_no_patterns_before_the_first_scan() -> None:
    scanner = DETECTOR.scanner({f"s{i}": f"value-{i}-" + "x9" * 12 for i in range(10)})
    assert scanner._exact is not None and scanner._exact._prepared.patterns is None
    assert DETECTOR.scanner()._exact is None


PIECE_EDGE = 64 * 1024


@pytest.mark.parametrize("encoding", ["verbatim", "base64-twice", "split-by-space", "hex", "reversed"])
@pytest.mark.parametrize("edge", [PIECE_EDGE, 2 * PIECE_EDGE])
def test_a_secret_across_a_piece_boundary_is_found(encoding: str, edge: int) -> None:
    secret = "Kq7xWz90" + "mNpLrT4v"
    encoded = f" {ENCODINGS[encoding](secret)} ".encode()
    scanner = DETECTOR.scanner({"k": secret})
    for shift in range(0, len(encoded), 3):
        before = (b"a few words " * (edge // 12 + 1))[: edge - shift]
        assert scanner.scan_bytes(before + encoded + b"and more " * 9).matches, shift


def test_the_ends_of_a_secret_are_replaced_even_if_they_are_punctuation() -> None:
    secret = "--==" + "Kq7xWz90mNpLrT4v" + "!?--"
    assert DETECTOR.scanner({"k": secret}).redact(f"a{secret}b") == "a[REDACTED:secret:k]b"


class Ended(Exception):
    """Raised by a check."""


class Counted:
    """A check that counts its calls, and ends the scan at one of them."""

    def __init__(self, last: int | None = None) -> None:
        self.calls = 0
        self.last = last

    def __call__(self) -> None:
        self.calls += 1
        if self.calls == self.last:
            raise Ended


MIXED_CASE = "abCDefGH" + "1234xy"


@pytest.mark.parametrize(
    "text",
    [
        *("&lt;a" * 40_000, "%41a" * 40_000, "\\na" * 40_000, "%25252525a" * 10_000, "\\q" * 40_000),
        *(f"{MIXED_CASE} " * 500, "65, " * 400_000, "0x41\n" * 200_000),
    ],
    ids=["html", "percent", "json", "percent-in-layers", "no-escapes", "secret", "numbers", "hexadecimal-numbers"],
)
def test_a_check_can_end_a_scan_at_any_of_its_calls(text: str) -> None:
    counted = Counted()
    LeakDetector().scanner({"k": MIXED_CASE}, check=counted).scan(text)
    assert counted.calls >= 10
    for last in (1, counted.calls // 2, counted.calls):
        ending = Counted(last)
        with pytest.raises(Ended):
            LeakDetector().scanner({"k": MIXED_CASE}, check=ending).scan(text)
        assert ending.calls == last


def test_many_copies_of_a_secret_in_another_case_cost_no_work() -> None:
    counted = Counted()
    scanner = DETECTOR.scanner({"k": MIXED_CASE}, check=counted)
    flood = f"{MIXED_CASE.swapcase()} " * 14_000
    assert not scanner.scan(flood).matches
    assert counted.calls < 50
    assert len(scanner.scan(flood + MIXED_CASE).matches) == 1


class CountedBytes(bytes):
    """Bytes that count how many of them were copied."""

    copied = 0

    def __getitem__(self, key: object) -> bytes:  # type: ignore[override]
        found = super().__getitem__(key)  # type: ignore[call-overload]
        if isinstance(key, slice):
            CountedBytes.copied += len(found)
        return found  # type: ignore[no-any-return]


@pytest.mark.parametrize("encoding", ["verbatim", "reversed", "split-by-space"])
def test_locating_many_matches_takes_linear_time(encoding: str) -> None:
    text = f"{ENCODINGS[encoding](MIXED_CASE)}, ".encode() * 3000
    CountedBytes.copied = 0
    found = set(ExactMatcher([("k", MIXED_CASE)]).find(CountedBytes(text)))
    assert len(found) == 3000
    assert CountedBytes.copied < 10 * len(text)


LARGE = b'{"id": 12345, "name": "a plain name", "tags": ["one", "two"], "note": "nothing to see"},\n' * 8000


@pytest.mark.table
@pytest.mark.parametrize("place", [0, 300_000, len(LARGE)])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_secret_in_a_large_text_is_found_as_in_a_small_one(encoding: str, place: int) -> None:
    secret = "Zq9kT7ab" + "vX2mB4nC+6pD8/eF"
    encoded = ENCODINGS[encoding](secret).encode()
    report = DETECTOR.scanner({"token": secret}).scan_bytes(LARGE[:place] + b" " + encoded + b" " + LARGE[place:])
    assert any(m.rule == "secret:token" and place < m.end <= place + len(encoded) + 2 for m in report.matches)


def test_a_secret_of_punctuation_is_found_in_a_large_text() -> None:
    secret = "#!=?#&!=*" + "a1#+~"
    scanner = DETECTOR.scanner({"token": secret})
    for written in (secret, secret.upper(), "\n".join(secret)):
        assert scanner.scan_bytes(LARGE + written.encode()).matches
    assert not scanner.scan_bytes(LARGE).matches


@pytest.mark.ci("slow")
def test_many_secrets_are_all_found_in_a_large_text() -> None:
    secrets = {f"s{n}": base64.b64encode(b"%032d" % (n * 7919)).decode() for n in range(200)}
    report = DETECTOR.scanner(secrets).scan_bytes(LARGE + " and ".join(secrets.values()).encode())
    assert {m.rule for m in report.matches} >= {f"secret:{name}" for name in secrets}
