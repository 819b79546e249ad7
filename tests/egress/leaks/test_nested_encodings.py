"""A watched secret is found in, or withheld with, every composition of two encodings."""

from __future__ import annotations

import base64
import bz2
import gzip
import io
import json
import lzma
import string
import zipfile
import zlib
from collections.abc import Callable
from random import Random

import pytest

from tests.egress.leaks.test_more_encodings import hexdump
from wasmrt.egress.leaks import LeakDetector

DETECTOR = LeakDetector()
ALPHABETS = (string.ascii_letters + string.digits, string.ascii_lowercase + string.digits, string.hexdigits.lower())


def zipped(method: int) -> Callable[[bytes], bytes]:
    def write(raw: bytes) -> bytes:
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", method) as archive:
            archive.writestr("one.txt", raw)
        return file.getvalue()

    return write


def raw_deflate(raw: bytes) -> bytes:
    deflate = zlib.compressobj(wbits=-15)
    return deflate.compress(raw) + deflate.flush()


def lzip(raw: bytes) -> bytes:
    filters = [{"id": lzma.FILTER_LZMA1, "dict_size": 4096}]
    return b"LZIP\x01\x0c" + lzma.compress(raw, lzma.FORMAT_RAW, filters=filters) + bytes(20)


def each(notation: str, between: str = "") -> Callable[[bytes], bytes]:
    return lambda raw: between.join(notation.format(byte) for byte in raw).encode()


ENCODINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zlib": zlib.compress,
    "raw deflate": raw_deflate,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "lzma": lambda raw: lzma.compress(raw, lzma.FORMAT_ALONE),
    "lzip": lzip,
    "zip": zipped(zipfile.ZIP_DEFLATED),
    "zip of bzip2": zipped(zipfile.ZIP_BZIP2),
    "zip of lzma": zipped(zipfile.ZIP_LZMA),
    "zip of stored": zipped(zipfile.ZIP_STORED),
    "base64": base64.b64encode,
    "base64url": base64.urlsafe_b64encode,
    "base64 in lines": base64.encodebytes,
    "base32": base64.b32encode,
    "base32hex": base64.b32hexencode,
    "hex": lambda raw: raw.hex().encode(),
    "hex with colons": lambda raw: raw.hex(":").encode(),
    "hex with blanks": lambda raw: raw.hex(" ").encode(),
    "decimal list": each("{}", ", "),
    "hexadecimal list": each("0x{:02x}", ","),
    "decimals with dots": each("{}", "."),
    "octal list": each("{:03o}", " "),
    "binary list": each("{:08b}", " "),
    "quoted-printable": each("={:02X}"),
    "percent": each("%{:02X}"),
    "backslash-x": each("\\x{:02x}"),
    "octal": each("\\{:03o}"),
    "backslash-u": each("\\u{:04x}"),
    "html": each("&#{};"),
    "json": lambda raw: json.dumps(raw.decode("latin-1")).encode(),
    "hexdump": hexdump,
    "xxd": lambda raw: hexdump(raw, colon=":"),
    "od": lambda raw: hexdump(raw, swapped=True, ascii_column=False),
    "utf-16": lambda raw: raw.decode("latin-1").encode("utf-16"),
    "utf-8 of latin-1": lambda raw: raw.decode("latin-1").encode(),
}
LATER = {("raw deflate", "json")}
"""Raw deflate behind another byte has no magic number, so it is not found."""


def missed(inner: str, outer: str, random: Random) -> bool:
    secret = "".join(random.choices(random.choice(ALPHABETS), k=random.randint(16, 64)))
    packed = ENCODINGS[inner](secret.encode())
    if inner == "raw deflate" and packed.isascii():
        return False  # not found: all of a text's bytes would have to be tried as raw deflate
    text = ENCODINGS[outer](packed)
    rules = {match.rule for match in DETECTOR.scanner({"token": secret}).scan_bytes(text).matches}
    return not rules & {"secret:token", "decode-limit-exceeded"} and (inner, outer) not in LATER


@pytest.mark.parametrize(
    ("inner", "outer"),
    [("gzip", "gzip"), ("zlib", "zlib"), ("bzip2", "base64"), ("raw deflate", "hex"), ("zip", "percent")],
)
def test_a_short_secret_in_two_encodings_is_found_or_withheld(inner: str, outer: str) -> None:
    random = Random(37)
    assert not any(missed(inner, outer, random) for _ in range(20))


def test_the_last_line_of_base64_may_be_shorter_than_four_characters() -> None:
    secret = "Zq9kT7ab" + "vX2mB4nC6pD8eF"
    numbers = ".".join(str(byte) for byte in secret.encode()).encode()
    for size in range(57):  # base64 in lines has 57 bytes in each line
        packed = base64.encodebytes(b" " * size + numbers)
        assert "secret:token" in {m.rule for m in DETECTOR.scanner({"token": secret}).scan_bytes(packed).matches}, size


@pytest.mark.ci("slow")
def test_a_secret_in_any_two_encodings_is_found_or_withheld() -> None:
    random = Random(38)
    pairs = [(inner, outer) for inner in ENCODINGS for outer in ENCODINGS]
    assert [pair for _ in range(8) for pair in pairs if missed(*pair, random)] == []


def test_content_at_the_depth_limit_withholds_a_text_unless_it_is_searched_elsewhere() -> None:
    secret = "Zq9kT7ab" + "vX2mB4nC6pD8eF"
    run = base64.b64encode(b"an ordinary sentence of words, encoded once")
    hidden = base64.b64encode(b"the secret in other words is " + secret[::-2].encode())
    deep = hidden
    for _ in range(5):
        deep = base64.b64encode(deep)
    rules = [
        [match.rule for match in DETECTOR.scanner({"token": secret}).scan_bytes(text).matches]
        for text in (run, deep, deep + b" and " + run, deep + b" and " + hidden)
    ]
    assert rules == [[], ["decode-limit-exceeded"], ["decode-limit-exceeded"], []]


@pytest.mark.parametrize(("levels", "rule"), [(3, "secret:token"), (16, "secret:token"), (17, "decode-limit-exceeded")])
def test_levels_of_escapes_have_a_limit_of_their_own(levels: int, rule: str) -> None:
    secret = "Zq9kT7ab" + "vX2mB4nC6pD8eF"
    text = secret.encode()
    for _ in range(5):
        text = base64.b64encode(text)
    escaped = b"".join(b"&" + b"amp;" * (levels - 1) + b"#%d;" % byte for byte in text)
    rules = {match.rule for match in DETECTOR.scanner({"token": secret}).scan_bytes(escaped).matches}
    assert rules == {rule}


def test_content_that_was_too_deep_to_open_is_searched_again_where_it_is_not() -> None:
    secret = "Zq9kT7ab" + "vX2mB4nC6pD8eF"
    packed = secret.encode() + b" and more words" * 4000  # so that the deep one is searched first
    for _ in range(4):
        packed = base64.b64encode(packed)
    deep = packed
    for _ in range(3):
        deep = base64.b64encode(deep)
    rules = {match.rule for match in DETECTOR.scanner({"token": secret}).scan_bytes(deep + b"\n\n" + packed).matches}
    assert "secret:token" in rules


@pytest.mark.parametrize("between", [" ", " &amp; ", "&#65; ", " &#65;", "\\n", "\\u0041 "])
def test_every_copy_of_an_encoded_secret_is_found_in_a_text_with_escapes(between: str) -> None:
    secret = "Zq9kT7ab" + "vX2mB4nC6pD8eF"
    run = base64.b64encode(zlib.compress(secret.encode())).decode()
    plain = base64.b64encode(b"an ordinary sentence of words").decode()
    text = f"{plain} {run}{between}{plain}{between}{run}{between}{run} {plain} \\n"
    redacted = DETECTOR.scanner({"token": secret}).redact(text)
    assert run.rstrip("=") not in redacted and redacted.startswith(f"{plain} [REDACTED:secret:token]")


@pytest.mark.parametrize("outer", ["base64", "base64url", "hex"])
@pytest.mark.parametrize("inner", ["gzip", "zlib", "bzip2", "xz", "base64", "hex", "zip"])
@pytest.mark.parametrize("prefix", ["a", "ab", "abc", "id_", "0x", "/files/", "https://files.example.com/a/b/", "g"])
def test_encoded_content_behind_other_characters_of_its_alphabet_is_found(prefix: str, inner: str, outer: str) -> None:
    random = Random(f"{prefix} {inner} {outer}")
    secret = "".join(random.choices(ALPHABETS[0], k=random.randint(16, 40)))
    text = f"see {prefix}".encode() + ENCODINGS[outer](ENCODINGS[inner](secret[::-1].encode())) + b" and more"
    assert "secret:token" in {match.rule for match in DETECTOR.scanner({"token": secret}).scan_bytes(text).matches}


def test_a_zip_file_of_thousands_of_small_members_is_not_withheld() -> None:
    random = Random(39)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(4000):
            archive.writestr(f"{number}.txt", " ".join(random.choices(("one", "word", "of", "many", "others"), k=40)))
    assert not DETECTOR.scanner({"token": "Zq9kT7ab" + "vX2mB4nC6pD8eF"}).scan_bytes(file.getvalue()).matches


def test_a_zip_signature_in_a_program_is_not_a_closed_zip_member() -> None:
    member = zipped(zipfile.ZIP_DEFLATED)(b"words of a text")
    encrypted = member[:6] + b"\1" + member[7:]
    code = encrypted[:30] + bytes(range(8)) + encrypted[38:]
    scanner = DETECTOR.scanner({"token": "Zq9kT7ab" + "vX2mB4nC6pD8eF"})
    assert [m.rule for m in scanner.scan_bytes(encrypted).matches] == ["decode-limit-exceeded"]
    assert not scanner.scan_bytes(code).matches
