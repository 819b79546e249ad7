"""Build credentials with the shapes that vendors document, so that no file contains a token-shaped string.

The shapes are in shapes.toml. They do not depend on the rules' expressions, so a wrong rule cannot produce its own
example.
"""

from __future__ import annotations

import base64
import json
import re
import tomllib
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from wasmrt.egress.leaks import Rule
from wasmrt.egress.leaks._rule_sets import RULE_FOLDER

DIGITS, LOWER = "0123456789", "abcdefghijklmnopqrstuvwxyz"
UPPER = LOWER.upper()
BASE62 = DIGITS + UPPER + LOWER
ALPHABETS = {
    "dec": (DIGITS,),
    "hex": (DIGITS, "abcdef"),
    "HEX": (DIGITS, "ABCDEF"),
    "low": (LOWER,),
    "alpha": (LOWER, UPPER),
    "l36": (LOWER, DIGITS),
    "u36": (UPPER, DIGITS),
    "b32": (UPPER, "234567"),
    "b32l": (LOWER, "234567"),
    "b58": (LOWER.replace("l", ""), UPPER.replace("I", "").replace("O", ""), DIGITS[1:]),
    "b62": (LOWER, UPPER, DIGITS),
    "b64": (LOWER, UPPER, DIGITS, "+/"),
    "b64u": (LOWER, UPPER, DIGITS, "-_"),
    "bech32": ("ACDEFGHJKLMNPQRSTUVWXYZ", "023456789"),
    "A": ("A",),
}
"""The alphabets of fillers, each as groups of characters that a filler mixes."""
_FILLER = re.compile(
    rf"<(?:({'|'.join(ALPHABETS)}|crc62|pem|luhn|bip39) ([0-9]+)"
    r"|(uuid|basic|nothing|jwt|long jwt|jwe|wrapped jwt|discord bot))>"
)


class Shape(NamedTuple):
    """Texts with one rule's credential, and a similar text without one."""

    examples: tuple[str, ...]
    near_miss: str


def fill(template: str, random: Random) -> str:
    """Return the template with its fillers replaced by random text."""
    return _FILLER.sub(lambda found: _filler(found, random), template)


def _filler(found: re.Match[str], random: Random) -> str:
    return _sized(found[1], int(found[2]), random) if found[1] else _STRUCTURED[found[3]](random)


def _sized(kind: str, size: int, random: Random) -> str:
    if kind == "crc62":  # GitHub's and npm's format: the CRC-32 of the text before it, in base 62
        body = _word(ALPHABETS["b62"], size, random)
        return body + _base62(zlib.crc32(body.encode()), width=6)
    if kind == "pem":
        return base64.encodebytes(random.randbytes(size)).decode()
    if kind == "bip39":
        return " ".join(random.sample(_mnemonic_words(), size))
    return _card_number(size, random) if kind == "luhn" else _word(ALPHABETS[kind], size, random)


def _word(groups: tuple[str, ...], length: int, random: Random) -> str:
    """Return random text that mixes all groups and repeats no character, like most real tokens."""
    letters: list[str] = []
    while len(letters) < length:
        group = groups[len(letters) % len(groups)] if len(letters) < len(groups) else "".join(groups)
        choices = [c for c in group if len(group) == 1 or c not in letters[-1:]]
        letters.append(random.choice(choices))
    while True:
        random.shuffle(letters)
        if letters[0] not in "-_+/" or set(letters) <= set("-_+/"):
            return "".join(letters)


def _base62(number: int, width: int) -> str:
    digits = ""
    while number:
        number, rest = divmod(number, 62)
        digits = BASE62[rest] + digits
    return digits.rjust(width, "0")


def _card_number(length: int, random: Random) -> str:
    body = "4" + _word(ALPHABETS["dec"], length - 2, random)
    doubled = sum(sum(divmod(2 * int(d), 10)) for d in body[-1::-2]) + sum(map(int, body[-2::-2]))
    return body + str(-doubled % 10)


def _segments(random: Random, header: dict[str, str], *sizes: int) -> str:
    parts = [json.dumps(header).encode(), *(random.randbytes(n) for n in sizes)]
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


def _jwt(random: Random, claims: int = 12) -> str:
    payload = json.dumps({"sub": _word(ALPHABETS["b62"], claims, random)}).encode()
    head, tail = _segments(random, {"alg": "HS256", "typ": "JWT"}, 32).split(".")
    return f"{head}.{base64.urlsafe_b64encode(payload).decode().rstrip('=')}.{tail}"


def _uuid(random: Random) -> str:
    return "-".join(_word(ALPHABETS["hex"], n, random) for n in (8, 4, 4, 4, 12))


def _basic(random: Random) -> str:
    pair = f"{_word(ALPHABETS['low'], 6, random)}:{_word(ALPHABETS['b62'], 12, random)}"
    return base64.b64encode(pair.encode()).decode()


def _discord_bot(random: Random) -> str:
    user = base64.b64encode(str(random.randrange(10**17, 9 * 10**17)).encode()).decode()
    return f"{user}.{_word(ALPHABETS['b62'], 6, random)}.{_word(ALPHABETS['b64u'], 27, random)}"


_STRUCTURED: dict[str, Callable[[Random], str]] = {
    "nothing": lambda random: "",
    "uuid": _uuid,
    "basic": _basic,
    "jwt": _jwt,
    "long jwt": lambda random: _jwt(random, claims=60),
    "jwe": lambda random: _segments(random, {"alg": "RSA-OAEP", "enc": "A256GCM"}, 256, 12, 48, 16),
    "wrapped jwt": lambda random: base64.b64encode(_jwt(random).encode()).decode().rstrip("="),
    "discord bot": _discord_bot,
}


@cache
def _mnemonic_words() -> list[str]:
    lines = (RULE_FOLDER / "bip39.txt").read_text("utf-8").splitlines()
    return " ".join(lines[1:]).split()


@cache
def _templates() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("shapes.toml").read_text("utf-8"))


@cache
def shape_of(rule_id: str) -> Shape:
    """Return the shape of a rule, filled from a seed that depends on the rule's id alone."""
    random, table = Random(rule_id), _templates()[rule_id]
    return Shape(tuple(fill(t, random) for t in table["examples"]), fill(table["near_miss"], random))


def shapes() -> dict[str, Shape]:
    """Return the shapes of every rule."""
    return {rule_id: shape_of(rule_id) for rule_id in _templates()}


def example_of(rule: Rule) -> str:
    """Return the first example of a rule, on a line."""
    return shape_of(rule.id).examples[0] + "\n"
