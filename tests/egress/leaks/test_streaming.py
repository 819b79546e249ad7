"""Streaming redaction returns text early, and never shows more than redaction of the whole text."""

from __future__ import annotations

import base64
import gzip
import zlib
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.egress.leaks.test_exact_values import ENCODINGS
from tests.tiers import examples
from wasmrt.egress.leaks import Action, LeakDetector, StreamingRedactor

DETECTOR = LeakDetector()
SECRET = "Zq9kT7ab" + "vX2mB4nC6pD8eF"
GITHUB = "ghp_" + "wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO0pINUx"
KEY = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEowIBAAKCAQEAx9Kc2vQ7rT0pLwZb8mYh5dNq3sUe1fGjHk\n" * 9


def new_stream() -> StreamingRedactor:
    return StreamingRedactor(DETECTOR.scanner({"token": SECRET}))


def shown(stream: StreamingRedactor, text: bytes, size: int) -> bytes:
    pieces = [stream.feed(text[at : at + size]) for at in range(0, len(text), size)]
    return b"".join((*pieces, stream.finish()))


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\n\n"])
def test_a_line_is_returned_once_it_is_complete(end: bytes) -> None:
    stream = new_stream()
    assert stream.feed(b'data: {"n": 1}') == b""
    assert stream.feed(end) == b'data: {"n": 1}' + end
    assert stream.feed(b"data: two" + end + b"data: th") == b"data: two" + end
    assert stream.finish() == b"data: th"


def test_a_long_text_without_lines_is_returned_up_to_a_blank_far_from_its_end() -> None:
    stream = new_stream()
    early = stream.feed(b"word " * 40_000)
    assert early.endswith(b"word ") and 150_000 < len(early) < 190_000
    assert len(early + stream.finish()) == 200_000


@pytest.mark.parametrize("size", [1, 3, 7, 64, 100_000])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_secret_is_never_returned_however_it_is_split(encoding: str, size: int) -> None:
    encoded = ENCODINGS[encoding](SECRET)
    text = f'{{"before": 1}}\n"a": "{encoded}"\nand after\n'.encode()
    scanner = DETECTOR.scanner({"token": SECRET})
    out = shown(new_stream(), text, size)
    assert not [m for m in scanner.scan_bytes(out).matches if m.rule == "secret:token"]
    assert b"[REDACTED:" in out and out.endswith(b"and after\n")


@settings(max_examples=examples(60), deadline=None)
@given(cuts=st.lists(st.integers(0, 200), max_size=12), lines=st.integers(1, 9))
def test_a_secret_over_several_lines_shows_at_most_its_first_characters(cuts: list[int], lines: int) -> None:
    step = max(1, len(SECRET) // lines)
    split = "\n".join(SECRET[at : at + step] for at in range(0, len(SECRET), step))
    text = f"one line\n{split}\nthe last\n".encode()
    places = sorted({0, len(text), *(cut % len(text) for cut in cuts)})
    stream = new_stream()
    out = b"".join(stream.feed(text[a:b]) for a, b in pairwise(places)) + stream.finish()
    rest = out.removeprefix(b"one line\n")
    assert b"[REDACTED:secret:token]" in rest and rest.endswith(b"\nthe last\n")
    assert len(rest.partition(b"[")[0].replace(b"\n", b"")) < 4


@pytest.mark.parametrize("size", [1, 5, 50, 1000])
def test_token_formats_are_replaced_as_in_the_whole_text(size: int) -> None:
    text = f"one\ntoken={GITHUB}\ntwo {GITHUB} three\n{KEY}-----END RSA PRIVATE KEY-----\nfour\n".encode()
    assert shown(new_stream(), text, size) == DETECTOR.scanner().redact_bytes(text)


@pytest.mark.parametrize("opener", [KEY, "PuTTY-User-Key-File-3: ssh-rsa\n", "$ANSIBLE_VAULT;1.1;AES256\n"])
def test_a_multi_line_key_is_held_back_until_it_is_complete(opener: str) -> None:
    stream = new_stream()
    assert stream.feed(b"first\n" + opener.encode()) == b"first\n"
    assert stream.feed(b"QUFB\n") == b""
    assert stream.feed(b"plain text, line by line\n" * 700) != b""


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
def test_an_archive_is_held_back_until_its_end(pack) -> None:  # type: ignore[no-untyped-def]
    packed = pack(b"many words " * 40 + SECRET.encode()) + b"\n" * 9
    stream = new_stream()
    assert b"".join(stream.feed(packed[at : at + 1]) for at in range(len(packed))) == b""
    assert stream.finish() == b"[REDACTED:secret:token]"


@pytest.mark.parametrize("indent", [b"", b"  ", b"\t"])
def test_encoded_lines_are_held_back_while_they_continue(indent: bytes) -> None:
    hidden = base64.encodebytes(base64.b64encode(b"before " * 30 + SECRET.encode())).replace(b"\n", b"\n" + indent)
    hidden = hidden.removesuffix(indent)
    stream = new_stream()
    lines = (b"lines:\n" + hidden).splitlines(keepends=True)
    assert b"".join(map(stream.feed, lines)) == b"lines:\n"
    assert stream.feed(b"\nend.\n") == b"[REDACTED:secret:token]\n\nend.\n"


def test_short_words_on_separate_lines_are_returned_at_once() -> None:
    stream = new_stream()
    words = b"apple\nbanana\ncherry\nraspberry\n"
    assert b"".join(map(stream.feed, words.splitlines(keepends=True))) == words


@settings(max_examples=examples(60), deadline=None)
@given(text=st.binary(max_size=3000), size=st.integers(1, 400))
@example(text=b"\x1f\x9d\x90", size=1)
def test_clean_text_is_returned_unchanged(text: bytes, size: int) -> None:
    if DETECTOR.scanner({"token": SECRET}).scan_bytes(text).matches:  # for example, an archive that cannot be opened
        assert shown(new_stream(), text, size) != text
    else:
        assert shown(new_stream(), text, size) == text


def test_nothing_is_returned_after_a_blocking_match() -> None:
    stream = StreamingRedactor(LeakDetector(overrides={"github-pat": Action.BLOCK}).scanner())
    assert stream.feed(b"one\n") == b"one\n"
    assert stream.feed(f"two {GITHUB}\n".encode()) == b""
    assert stream.blocked is not None and stream.blocked.rule == "github-pat"
    assert stream.feed(b"three\n") + stream.finish() == b""
