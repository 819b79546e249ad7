"""Encodings that a server may use in an echo, in addition to those in `test_exact_values`."""

from __future__ import annotations

import base64
import binascii
import bz2
import codecs
import gzip
import io
import json
import lzma
import re
import string
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from wasmrt.egress.leaks import Action, LeakDetector, StreamingRedactor

DETECTOR = LeakDetector()
SECRET = "Zq9kT7ab" + "vX2mB4nC+6pD8/eF"
RAW = SECRET.encode()
ROT5 = str.maketrans(string.digits, "5678901234")
ATBASH = str.maketrans(string.ascii_letters, string.ascii_lowercase[::-1] + string.ascii_uppercase[::-1])


def each(notation: str, between: str = "") -> Callable[[bytes], bytes]:
    return lambda raw: between.join(notation.format(byte) for byte in raw).encode()


def between(mark: str) -> Callable[[bytes], bytes]:
    return lambda raw: mark.join(raw.decode()).encode()


def styled(first_upper: int, first_lower: int) -> Callable[[bytes], bytes]:
    def write(raw: bytes) -> bytes:
        return "".join(
            chr(first_upper + ord(c) - 65) if c.isupper() else chr(first_lower + ord(c) - 97) if c.islower() else c
            for c in raw.decode()
        ).encode()

    return write


def zipped(method: int) -> Callable[[bytes], bytes]:
    def write(raw: bytes) -> bytes:
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", method) as archive:
            archive.writestr("one.txt", b"a few words " * 9)
            archive.writestr("two.txt", b"and before it " + raw * 2)
        return file.getvalue()

    return write


def in_base(digits: str) -> Callable[[bytes], bytes]:
    def write(raw: bytes) -> bytes:
        number, written = int.from_bytes(raw, "big"), ""
        while number:
            number, rest = divmod(number, len(digits))
            written = digits[rest] + written
        return written.encode()

    return write


def raw_deflate(raw: bytes) -> bytes:
    deflate = zlib.compressobj(wbits=-15)
    return deflate.compress(b"many words " * 5 + raw) + deflate.flush()


def hexdump(raw: bytes, *, swapped: bool = False, ascii_column: bool = True, colon: str = "") -> bytes:
    lines = []
    for at in range(0, len(raw), 16):
        row = raw[at : at + 16]
        words = [row[i : i + 2] for i in range(0, len(row), 2)]
        shown = " ".join((word[::-1] if swapped else word).hex() for word in words)
        text = "".join(chr(b) if 32 <= b < 127 else "." for b in row)
        lines.append(f"{at:08x}{colon} {shown:<39}" + (f"  {text}" if ascii_column else ""))
    return "\n".join(lines).encode()


def canonical(raw: bytes) -> bytes:
    lines = []
    for at in range(0, len(raw), 16):
        row = raw[at : at + 16]
        lines.append(f"{at:08x}  {row[:8].hex(' ')}  {row[8:].hex(' '):<23}  |{row.decode('latin-1')}|")
    return "\n".join(lines).encode()


def crockford(raw: bytes) -> bytes:
    return base64.b32encode(raw).translate(
        bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", b"0123456789ABCDEFGHJKMNPQRSTVWXYZ")
    )


def dump(raw: bytes, offset: str, number: str, size: int, *, text: bool = False) -> bytes:
    lines = []
    for at in range(0, len(raw), size):
        row = raw[at : at + size]
        numbers = " ".join(number.format(byte) for byte in row)
        lines.append(f"{offset.format(at)} {numbers}" + (f"  {row.decode()}" if text else ""))
    return "\n".join(lines).encode()


SMALL_CAPITALS = str.maketrans(
    string.ascii_lowercase,
    "\u1d00\u0299\u1d04\u1d05\u1d07\ua730\u0262\u029c\u026a\u1d0a\u1d0b\u029f\u1d0d\u0274\u1d0f\u1d18\u01eb\u0280\ua731\u1d1b\u1d1c\u1d20\u1d21x\u028f\u1d22",
)
Z_BASE32 = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", b"ybndrfg8ejkmcpqxot1uwisza345h769")

ENCODINGS: dict[str, Callable[[bytes], bytes]] = {
    "percent-u": each("%u{:04x}"),
    "backslash-x-braces": each("\\x{{{:x}}}"),
    "u-plus": each("U+{:04X}", " "),
    "u-braces": each("\\u{{{:x}}}"),
    "octal-list": each("{:03o}", " "),
    "binary-list": each("{:08b}", " "),
    "decimals-with-bars": each("{:d}", "|"),
    "decimals-with-slashes": each("{:d}", "/"),
    "decimals-with-dots": each("{:d}", "."),
    "decimals-with-plus": each("{:d}", " + "),
    "decimals-of-three-digits": each("{:03d}"),
    "hexadecimals-with-bars": each("0x{:02x}", "|"),
    "base32": base64.b32encode,
    "base32-hex": lambda raw: base64.b32hexencode(raw),
    "base32-crockford": crockford,
    "base32-crockford-inside": lambda raw: crockford(b"its value is " + raw),
    "ascii85": base64.a85encode,
    "ascii85-adobe": lambda raw: base64.a85encode(b"xy" + raw, adobe=True),
    "ascii85-in-lines": lambda raw: base64.a85encode(b"a" + raw, wrapcol=20),
    "base85": lambda raw: base64.b85encode(b"abc" + raw),
    "as-one-number": lambda raw: b"%d" % int.from_bytes(raw, "big"),
    "xxd": lambda raw: hexdump(b"before " + raw, colon=":"),
    "hexdump": lambda raw: hexdump(b"before " + raw, swapped=True, ascii_column=False),
    "hexdump-canonical": lambda raw: canonical(b"before " + raw),
    "base64-reversed": lambda raw: base64.b64encode(b"a" + raw)[::-1],
    "base64-of-utf-16": lambda raw: b"+" + base64.b64encode(raw.decode().encode("utf-16-be")).rstrip(b"=") + b"-",
    "base32-in-groups": lambda raw: b"-".join(re.findall(b".{1,4}", base64.b32encode(b"abc" + raw))),
    "base58-flickr": in_base("123456789abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ"),
    "base62-letters-first": in_base(string.ascii_uppercase + string.ascii_lowercase + string.digits),
    "hexadecimal-reversed": lambda raw: raw.hex().encode()[::-1],
    "hexadecimal-of-words": lambda raw: b" ".join(
        raw[at : at + 2][::-1].hex().encode() for at in range(0, len(raw), 2)
    ),
    "hexadecimals-with-h": each("{:02x}h", " "),
    "hexadecimals-in-style-sheets": each("\\{:06x}"),
    "bits-of-characters": each("{:07b}", " "),
    "bits-inverted": lambda raw: "".join(f"{255 - byte:08b}" for byte in raw).encode(),
    "bits-reversed": lambda raw: "".join(f"{byte:08b}"[::-1] for byte in raw).encode(),
    "decimals-below-zero": lambda raw: ",".join(str(byte - 256) for byte in raw).encode(),
    "decimals-with-a-fraction": lambda raw: json.dumps([float(byte) for byte in raw]).encode(),
    "characters-in-php": each("chr({})", "."),
    "characters-in-sql": each("CHAR({})", " || "),
    "as-one-number-from-the-end": lambda raw: b"%d" % int.from_bytes(raw, "little"),
    "rot5-and-rot13": lambda raw: codecs.encode(raw.decode(), "rot13").translate(ROT5).encode(),
    "atbash": lambda raw: raw.decode().translate(ATBASH).encode(),
    "pairs-of-characters-swapped": lambda raw: b"".join(raw[at : at + 2][::-1] for at in range(0, len(raw), 2)),
    "uuencode": lambda raw: b"".join(binascii.b2a_uu(b"a" + raw[at : at + 44]) for at in range(0, len(raw), 44)),
    "inverted": lambda raw: bytes(255 - byte for byte in raw),
    "yenc": lambda raw: bytes(byte + 42 for byte in raw),
    "ebcdic": lambda raw: raw.decode().encode("cp500"),
    "nibbles-swapped": lambda raw: bytes((byte >> 4 | byte << 4) & 255 for byte in raw),
    "tag-characters": styled(0xE0041, 0xE0061),
    "variation-selectors": lambda raw: "".join(chr(0xE0100 + byte - 16) for byte in raw).encode(),
    "braille": lambda raw: "".join(chr(0x2800 + byte) for byte in raw).encode(),
    "tags": between("<b></b>"),
    "a-tag-with-attributes": between('<span class="x1">'),
    "soft-hyphens": between("&shy;"),
    "tabs-as-entities": between("&Tab;"),
    "colours": between("\x1b[31m"),
    "title-sequences": between("\x1b]0;a\x07"),
    "circled": styled(0x24B6, 0x24D0),
    "negative-circled": styled(0x1F150, ord("a")),
    "squared": styled(0x1F130, ord("a")),
    "bold": styled(0x1D400, 0x1D41A),
    "script": styled(0x1D4D0, 0x1D4EA),
    "regional": styled(0x1F1E6, ord("a")),
    "gzip-behind-others": lambda raw: b"--".join([gzip.compress(b"%d" % n) for n in range(40)] + [gzip.compress(raw)]),
    "gzip-with-a-wrong-checksum": lambda raw: gzip.compress(b"before " + raw)[:-8] + b"\0" * 8,
    "gzip-with-a-name": lambda raw: b"\x1f\x8b\x08\x08" + b"\0" * 6 + b"a-name.txt\0" + raw_deflate(raw),
    "zlib-later": lambda raw: b"a word before it: " + zlib.compress(b"and " + raw),
    "zlib-with-a-small-window": lambda raw: (lambda c: c.compress(b"and " + raw) + c.flush())(
        zlib.compressobj(9, 8, 9)
    ),
    "raw-deflate": raw_deflate,
    "raw-deflate-in-base64": lambda raw: base64.b64encode(raw_deflate(raw) * 3),
    "zip": zipped(zipfile.ZIP_DEFLATED),
    "zip-of-bzip2": zipped(zipfile.ZIP_BZIP2),
    "bzip2": lambda raw: bz2.compress(b"and " + raw),
    "bzip2-later": lambda raw: b"first\n" + bz2.compress(b"and " + raw),
    "xz": lambda raw: lzma.compress(b"and " + raw),
    "gzip-members-of-one-character": lambda raw: b"".join(gzip.compress(bytes((byte,))) for byte in raw),
    "bzip2-members": lambda raw: b"".join(bz2.compress(raw[at : at + 3]) for at in range(0, len(raw), 3)),
    "lzma-with-other-properties": lambda raw: lzma.compress(
        raw, lzma.FORMAT_ALONE, filters=[{"id": lzma.FILTER_LZMA1, "lc": 0, "lp": 2, "pb": 1, "dict_size": 1 << 16}]
    ),
    "look-alikes": lambda raw: (
        raw.decode().translate(str.maketrans("aTXBCpe", "\u0430\u0422\u0425\u0412\u0421\u0440\u0435")).encode()
    ),
    "small-capitals": lambda raw: raw.decode().lower().translate(SMALL_CAPITALS).encode(),
    "z-base-32": lambda raw: base64.b32encode(raw).rstrip(b"=").translate(Z_BASE32),
    "rot13-of-base64": lambda raw: codecs.encode(base64.b64encode(raw).decode(), "rot13").encode(),
    "base64-reversed-twice": lambda raw: base64.b64encode(raw[::-1])[::-1],
    "uuencode-with-zeros": lambda raw: b" ".join(binascii.b2a_uu(b"P" * at + raw) for at in range(3)),
    "html-with-zeros": each("&#0000000{};"),
    "octal-in-braces": each("\\o{{{:o}}}"),
    "octal-dump": lambda raw: dump(raw, "{:07o}", "{:03o}", 16),
    "binary-dump": lambda raw: dump(raw, "{:08x}:", "{:08b}", 6, text=True),
    "dump-of-eight-byte-words": lambda raw: b"\n".join(
        b"%07o %b" % (at, raw[at : at + 8][::-1].hex().encode()) for at in range(0, len(raw), 8)
    ),
    "hexadecimal-with-swapped-digits": lambda raw: "".join(f"{byte:02x}"[::-1] for byte in raw).encode(),
    "binary-with-0b": each("0b{:08b}", ", "),
    "hexadecimal-characters-in-php": each("chr(0x{:02x})", "."),
    "hexadecimals-in-basic": each("&H{:02X}", ", "),
    "hexadecimals-in-ada": each("16#{:02X}#", ", "),
    "one-binary-number": lambda raw: f"{int.from_bytes(raw, 'big'):b}".encode(),
    "one-octal-number": lambda raw: f"{int.from_bytes(raw, 'big'):o}".encode(),
    "base64-of-a-frame": lambda raw: base64.b64encode(bytes(range(90)) + gzip.compress(b"and " + raw)),
}


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
def test_a_secret_is_found_in_each_encoding(encoding: str, large: bool) -> None:
    scanner = DETECTOR.scanner({"token": SECRET})
    around = b"a plain line of words\n" * (5000 if large else 1)
    encoded = ENCODINGS[encoding](RAW)
    if encoding == "raw-deflate":
        around = b""  # it has no magic number, so it is only tried at the start of a text
    report = scanner.scan_bytes(around + encoded + b"\n" + around)
    assert "secret:token" in {match.rule for match in report.matches}


@pytest.mark.parametrize("size", [1, 13, 4096])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_secret_is_not_shown_by_a_stream_in_any_encoding(encoding: str, size: int) -> None:
    scanner = DETECTOR.scanner({"token": SECRET})
    text = ENCODINGS[encoding](RAW) + b"\nthe end\n"
    stream = StreamingRedactor(scanner)
    shown = b"".join(stream.feed(text[at : at + size]) for at in range(0, len(text), size)) + stream.finish()
    assert not [m for m in scanner.scan_bytes(shown).matches if m.rule == "secret:token"]
    assert b"[REDACTED:" in shown


@pytest.mark.parametrize("value", ["abcdefgh" + "ijklmnop", "83027491" + "65520348", "QWERTZUI" + "OPASDFGH"])
def test_a_secret_with_one_kind_of_character_is_found_in_pieces(value: str) -> None:
    scanner = DETECTOR.scanner({"token": value}).partial
    assert scanner.scan(f"one half {value[:8]}, and then {value[8:]}.").matches
    assert not scanner.scan("an ordinary sentence of words, and 12345 numbers").matches


def test_a_short_secret_is_found_in_a_double_encoding() -> None:
    random = Random(4)
    for _ in range(50):
        value = "".join(random.choices(string.ascii_letters + string.digits, k=12))
        twice = base64.b64encode(value[::-1].encode()).decode()
        assert DETECTOR.scanner({"token": value}).scan(f"v={twice};").matches, value


CLOSED = {
    "zstd": bytes.fromhex("28b52ffd0458b5000080") + b"Zq9kT7abvX2mB4nC" + bytes.fromhex("0100069f4b66a72d3a"),
    "lz4": bytes.fromhex("04224d186440a71b000000ff01")
    + b"Zq9kT7abvX2mB4nC"
    + bytes.fromhex("10000850")
    + b"mB4nC\0\0\0\0",
    "7z": b"7z\xbc\xaf\x27\x1c\0\4" + b"\x81\xfe\3\7" + (40).to_bytes(8, "little") * 2 + b"\x81\xfe\3\7" * 20,
    "rar": b"Rar!\x1a\7\0" + bytes.fromhex("cf907300000d00000000000000") + b"\x81\xfe\3" * 20,
    "rar-5": b"Rar!\x1a\7\1\0" + bytes.fromhex("3392b5e50a01050600050101808000") + b"\x81\xfe\3" * 20,
    "compress": b"\x1f\x9d\x90" + sum(byte << 9 * at for at, byte in enumerate(RAW)).to_bytes(27, "little"),
    "encrypted-zip": b"PK\3\4\x14\0\1\0\x08\0" + bytes(16) + b"\5\0\0\0a.txt" + b"\x81\xfe\3" * 20,
}


@pytest.mark.parametrize("kind", CLOSED)
def test_an_archive_that_cannot_be_opened_is_withheld(kind: str) -> None:
    scanner = DETECTOR.scanner({"token": "quiet-" + "secret-value-7"})
    for text in (CLOSED[kind], b"a word: " + CLOSED[kind], gzip.compress(CLOSED[kind])):
        (match,) = scanner.scan_bytes(text).matches
        assert (match.rule, match.action) == ("decode-limit-exceeded", Action.BLOCK)


ORDINARY = {
    "names of formats": "café, 7-Zip and LZIP archives, Rar!\x1a\x07 too".encode(),
    "magic numbers as constants": "# é\n".encode() + Path(zipfile.__file__).read_bytes(),
    "characters without another form": "℮ 500 g, ℞ \U0001f198".encode() * 9,
    "many backslashes": b"\\" * 3000 + b" a banner " + b"/\\" * 300,
    "hashes": b"\n".join(b"%032x" % (number * 0x9E3779B97F4A7C15F39CC060) for number in range(3000)),
    "a repeated pattern": b"\x08\x1d" * 100_000,
    "random bytes": Random(5).randbytes(300_000),
    "one character in a row": b"3" * 8192,
}


@pytest.mark.parametrize("kind", ORDINARY)
def test_ordinary_content_is_not_withheld(kind: str) -> None:
    assert not DETECTOR.scanner({"token": SECRET}).partial.scan_bytes(ORDINARY[kind]).matches


def test_a_text_with_hundreds_of_thousands_of_secrets_is_replaced_as_a_whole() -> None:
    text = f"{SECRET} ".encode() * 50_000
    report = DETECTOR.scanner({"token": SECRET}).scan_bytes(text)
    assert [(m.rule, m.start, m.end) for m in report.matches] == [("secret:token", 0, len(text))]
