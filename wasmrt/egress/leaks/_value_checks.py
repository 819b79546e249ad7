"""Checks of a candidate's bytes alone: randomness, checksums, placeholders, documented values."""

from __future__ import annotations

import binascii
import json
import math
import re
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from itertools import groupby, repeat
from operator import and_, sub
from pathlib import Path
from typing import Any

from wasmrt.egress.leaks._linear import compile_linear

_MNEMONIC_WORDS, _LEAST_DIFFERENT_WORDS = 12, 8
_BASE62 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

_PLACEHOLDER_WORDS = (
    b"example", b"placeholder", b"changeme", b"change_me", b"change-me", b"redacted", b"replace", b"dummy",
    b"insert", b"your_", b"your-", b"yourt", b"yours", b"yourp", b"yourk", b"youra", b"_here", b"-here", b"todo",
    b"sample", b"notreal", b"not_real", b"xxxx", b"****", b"...", b"####", b"fake_", b"fake-", b"_fake", b"-fake",
    b"deadbeef", b"lorem", b"foobar", b"putyour", b"my_token", b"my-token", b"mytoken", b"tokenhere", b"secrethere",
    b"goeshere",
)  # fmt: skip
_TEMPLATE_MARKS = (b"${", b"{{", b"}}", b"<%", b"%(", b"$(", b"#{", b"{%", b"%{")


_SHARES = [0.0, *(n * math.log2(n) for n in range(1, 257))]


def measure_entropy(value: bytes) -> float:
    """Return the Shannon entropy of the bytes, in bits per byte."""
    total = len(value)
    if not total:
        return 0.0
    counts = Counter(value).values()
    shares = map(_SHARES.__getitem__, counts) if total < len(_SHARES) else (n * math.log2(n) for n in counts)
    return math.log2(total) - sum(shares) / total


@lru_cache(maxsize=64)
def _run_expression(length: int) -> re.Pattern[bytes]:
    return re.compile(rb"(?s)(.)\1{%d}" % (length - 1))


def has_run(value: bytes, length: int) -> bool:
    """Return whether a byte is repeated `length` times in a row."""
    return _run_expression(length).search(value) is not None


def has_sequence(value: bytes, length: int) -> bool:
    """Return whether `length` consecutive bytes count up or down by one, like `abcdef` and `98765`."""
    far = length - 1
    if far not in map(abs, map(sub, value[far:], value)):
        return False  # the ends of such a sequence would differ by `far`
    steps = bytes(map(and_, map(sub, value[1:], value), repeat(255)))
    return b"\x01" * far in steps or b"\xff" * far in steps


@lru_cache(maxsize=1)
def _compile_placeholders() -> Any:
    """Compile one expression for all words and marks. It is as fast as two separate expressions."""
    words, marks = (b"|".join(map(re.escape, group)) for group in (_PLACEHOLDER_WORDS, _TEMPLATE_MARKS))
    return compile_linear(b"(?i:" + words + b")|" + marks)


def is_placeholder(value: bytes) -> bool:
    """Return whether a value is clearly a placeholder."""
    if _compile_placeholders().search(value):
        return True
    return len(value) >= 8 and (has_run(value, max(6, len(value) // 3)) or has_sequence(value, 16))


@lru_cache(maxsize=1)
def _read_documented() -> frozenset[str]:
    text = (Path(__file__).parent / "rules" / "documented.txt").read_text(encoding="ascii")
    return frozenset(line.split()[0] for line in text.splitlines() if line and not line.startswith("#"))


def is_documented(value: bytes) -> bool:
    """Return whether a value is an example from a standard or a manual. Only SHA-256 digests are stored."""
    import hashlib  # loads OpenSSL, which takes 3 ms and is only needed if something was found

    return hashlib.sha256(value).hexdigest()[:32] in _read_documented()


def _has_valid_crc(value: bytes) -> bool:
    # GitHub and npm: the last six characters are the CRC-32 of the thirty before them, in base 62.
    body = value.rsplit(b"_", 1)[-1]
    payload, tail = body[:-6], body[-6:]
    number, digits = binascii.crc32(payload), bytearray()
    while number:
        number, rest = divmod(number, 62)
        digits.append(_BASE62[rest])
    return bytes(reversed(digits)).rjust(6, b"0") == tail


def _passes_luhn(value: bytes) -> bool:
    # ISO/IEC 7812-1 annex B.
    digits = [c - 48 for c in value if 48 <= c <= 57]
    total = sum(digits[-1::-2]) + sum(sum(divmod(2 * d, 10)) for d in digits[-2::-2])
    return len(digits) >= 13 and total % 10 == 0


def decode_unpadded_base64(value: bytes) -> bytes | None:
    """Decode base64 or base64url, with or without padding; return None if `value` is neither."""
    plain = value.rstrip(b"=").replace(b"-", b"+").replace(b"_", b"/")
    try:
        return binascii.a2b_base64(plain + b"=" * (-len(plain) % 4), strict_mode=True)
    except (binascii.Error, ValueError):
        return None


def _is_jwt(value: bytes) -> bool:
    # RFC 7515 section 4: the header is a JSON object with the algorithm.
    header = decode_unpadded_base64(value.split(b".", 1)[0])
    return header is not None and _has_algorithm(header)


def _has_algorithm(header: bytes) -> bool:
    try:
        fields = json.loads(header)
    except (ValueError, RecursionError):
        return header.startswith(b'{"alg"')
    return isinstance(fields, dict) and isinstance(fields.get("alg") or fields.get("enc"), str)


def _is_wrapped_jwt(value: bytes) -> bool:
    """Return whether a value is a JWT in base64."""
    inner = decode_unpadded_base64(value[: len(value) // 4 * 4])
    return inner is not None and inner.startswith(b"eyJ")


def _is_basic_login(value: bytes) -> bool:
    """Return whether a value is the base64 of `user:password` (RFC 7617), without a common example password."""
    pair = decode_unpadded_base64(value)
    if pair is None or b":" not in pair or not pair.isascii() or not pair.decode().isprintable():
        return False
    user, password = pair.split(b":", 1)
    return len(user) + len(password) >= 6 and not is_placeholder(password)


def _is_mixed(value: bytes) -> bool:
    """Return whether a value has letters of both cases and a digit, like random base 62 of some length."""
    return value.lower() != value != value.upper() and _has_digit(value)


def _has_two_kinds(value: bytes) -> bool:
    """Return whether a value has at least two of lower case, upper case and digits, unlike words and placeholders."""
    return (value != value.upper()) + (value != value.lower()) + _has_digit(value) >= 2


def _has_both_cases(value: bytes) -> bool:
    return value.lower() != value != value.upper()


def _has_digit(value: bytes) -> bool:
    return len(value.translate(None, b"0123456789")) < len(value)


def _has_letter_and_digit(value: bytes) -> bool:
    return _has_digit(value) and value.lower() != value.upper()


def _has_upper_and_digit(value: bytes) -> bool:
    """Return whether a value has upper case and digits, like random base 32 of some length."""
    return _has_digit(value) and value != value.lower()


@lru_cache(maxsize=1)
def _read_mnemonic_words() -> frozenset[bytes]:
    text = (Path(__file__).parent / "rules" / "bip39.txt").read_bytes()
    return frozenset(word for line in text.splitlines() if line[:1] != b"#" for word in line.split())


def _is_mnemonic(value: bytes) -> bool:
    """Return whether a value has twelve consecutive words of BIP 39's list, with at least eight different words."""
    words = re.findall(rb"[a-z]+", value)
    runs = [tuple(run) for listed, run in groupby(words, key=_read_mnemonic_words().__contains__) if listed]
    return any(len(run) >= _MNEMONIC_WORDS and len(set(run)) >= _LEAST_DIFFERENT_WORDS for run in runs)


CHECKSUMS: dict[str, Callable[[bytes], bool]] = {"crc62": _has_valid_crc}
"""Checksums by name. A valid checksum proves a match. An invalid one proves nothing, since old tokens have none."""

CHECKS: dict[str, Callable[[bytes], bool]] = {
    "jwt": _is_jwt,
    "wrapped-jwt": _is_wrapped_jwt,
    "basic": _is_basic_login,
    "luhn": _passes_luhn,
    "mixed": _is_mixed,
    "two-kinds": _has_two_kinds,
    "both-cases": _has_both_cases,
    "digit": _has_digit,
    "letter-digit": _has_letter_and_digit,
    "upper-digit": _has_upper_and_digit,
    "mnemonic": _is_mnemonic,
}
"""Checks by name. A candidate must pass the check that its rule sets."""
