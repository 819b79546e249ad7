"""Draw an example from a rule's own format, so that no file needs to hold anything that looks like a secret.

Reads the part of the expression language that the rules use: literals, classes, groups, alternatives, repetition.
"""

from __future__ import annotations

import base64
import json
from random import Random

from wasmrt.core.errors import ConfigurationError
from wasmrt.egress.leaks import Rule
from wasmrt.egress.leaks._engine import RuleEngine

_TRIES = 400
_BY_HAND = {
    "generic-assignment": 'service_token = "[0-9A-Za-z]{40}"',
    "facebook-app-token": r"facebook 1[0-9]{14}\|[0-9A-Za-z_\-]{27}",
    "openvpn-static-key": "-----BEGIN OpenVPN Static " + "key V1-----" + r"\n[0-9a-f]{32}\n[0-9a-f]{32}\n[0-9a-f]{32}"
    r"\n-----END OpenVPN Static key V1-----",
}
"""Rules, by their id, whose examples cannot be drawn from their format, and what to draw them from."""
_CLASSES = {
    "d": "0123456789",
    "w": "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "s": " ",
    "S": "abcdefghjkmnpqrstuvwxyz23456789",
    "n": "\n",
    "r": "\r",
    "t": "\t",
}
_ANY = "abcdefghjkmnpqrstuvwxyzACDEFGHJKLMNPQRTUVWXYZ23456789"


class _Drawer:
    """One pass over an expression, drawing as it reads."""

    def __init__(self, expression: str, random: Random) -> None:
        self._text = expression
        self._at = 0
        self._random = random

    def draw(self) -> str:
        """Draw one of the alternatives up to the end of the group."""
        branches = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            branches.append(self._sequence())
        return self._random.choice(branches)

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _sequence(self) -> str:
        drawn = []
        while self._peek() not in ("", "|", ")"):
            begin = self._at
            once = self._atom()
            end = self._at
            low, high = self._repetition()
            times = self._random.randint(low, high)
            resume = self._at
            pieces = [once] if times else []
            for _ in range(times - 1):
                self._at = begin
                pieces.append(self._atom())
            self._at = max(resume, end)
            drawn.append("".join(pieces))
        return "".join(drawn)

    def _atom(self) -> str:
        sign = self._peek()
        self._at += 1
        if sign == "(":
            return self._group()
        if sign == "[":
            return self._random.choice(self._class())
        if sign == "\\":
            return self._escape()
        if sign in "^$":
            return ""
        return self._random.choice(_ANY) if sign == "." else sign

    def _group(self) -> str:
        if self._peek() == "?":
            self._at = self._text.index(":", self._at) + 1
        inside = self.draw()
        if self._peek() != ")":
            raise ConfigurationError("an expression has an open group")
        self._at += 1
        return inside

    def _escape(self) -> str:
        sign = self._peek()
        self._at += 1
        if sign == "b":
            return ""
        if sign == "x":
            self._at += 2
            return chr(int(self._text[self._at - 2 : self._at], 16))
        return self._random.choice(_CLASSES[sign]) if sign in _CLASSES else sign

    def _class(self) -> str:
        end = self._text.index("]", self._at + 1 + (self._peek() == "^"))
        while self._text[end - 1] == "\\" and self._text[end - 2] != "\\":
            end = self._text.index("]", end + 1)
        body, self._at = self._text[self._at : end], end + 1
        if body.startswith("^"):
            return "".join(c for c in _ANY + " =" if c not in _members(body[1:]))
        return _members(body)

    def _repetition(self) -> tuple[int, int]:
        low, high = 1, 1
        sign = self._peek()
        if sign in ("?", "*", "+"):
            self._at += 1
            low, high = {"?": (0, 1), "*": (0, 2), "+": (1, 8)}[sign]
        elif sign == "{":
            end = self._text.index("}", self._at)
            first, comma, last = self._text[self._at + 1 : end].partition(",")
            low = int(first)
            high = int(last) if last else low + 8 if comma else low
            self._at = end + 1
        if self._peek() == "?" and sign:
            self._at += 1
        return low, high


def _members(body: str) -> str:
    """The characters of a class, readable ones first choice where it names very many."""
    found, at = [], 0
    while at < len(body):
        sign = body[at]
        if sign == "\\":
            escaped = body[at + 1]
            if escaped == "x":
                found.append(chr(int(body[at + 2 : at + 4], 16)))
                at += 4
            else:
                found.append(_CLASSES.get(escaped, escaped))
                at += 2
            if at >= len(body) - 1 or body[at] != "-":
                continue
        else:
            at += 1
            found.append(sign)
        if at < len(body) - 1 and body[at] == "-":
            stop = body[at + 1]
            at += 2
            if stop == "\\":
                stop = chr(int(body[at + 1 : at + 3], 16)) if body[at] == "x" else body[at]
                at += 3 if body[at] == "x" else 1
            found.append("".join(map(chr, range(ord(found[-1][-1]) + 1, ord(stop) + 1))))
    return "".join(found)


def _word(random: Random, length: int) -> str:
    return "".join(random.choices(_ANY, k=length))


def _jwt(random: Random) -> str:
    parts = [
        json.dumps({"alg": "HS256", "typ": "JWT"}).encode(),
        json.dumps({"sub": _word(random, 12)}).encode(),
        random.randbytes(32),
    ]
    return ".".join(base64.urlsafe_b64encode(p).decode().rstrip("=") for p in parts)


def _pem(random: Random) -> str:
    label = "RSA " + "PRIVATE KEY"
    body = base64.encodebytes(random.randbytes(300)).decode()
    return f"-----BEGIN {label}-----\n{body}-----END {label}-----"


def _pair(random: Random) -> str:
    return base64.b64encode(f"{_word(random, 6)}:{_word(random, 12)}".encode()).decode()


def _recipe(rule: Rule, random: Random) -> str | None:
    """Examples that a format alone cannot give, because a check looks inside."""
    if rule.check == "jwt":
        return _jwt(random)
    if rule.check == "wrapped-jwt":
        return base64.b64encode(_jwt(random).encode()).decode().rstrip("=")
    if rule.check == "pem":
        return _pem(random)
    if rule.check == "kubernetes-data":
        value = f"data:\n  password: {_pair(random)}\n"
        return f"kind: Secret\n{value}" if rule.pattern.startswith("(?i:kind") else f"{value}kind: Secret\n"
    if rule.check == "basic":
        name = '{"auth": "%s"}' if rule.keywords == ('"auth"',) else "Authorization: Basic %s"
        return name % _pair(random)
    return None


def example_of(rule: Rule) -> str:
    """Draw an example that the rule finds; the same one every time.

    Raises:
        ConfigurationError: none was found, so the rule contradicts itself.
    """
    random = Random(rule.id)
    engine = RuleEngine((rule,))
    for _ in range(_TRIES):
        by_hand = _BY_HAND.get(rule.id)
        text = _Drawer(by_hand, random).draw() if by_hand else _recipe(rule, random) or _drawn(rule, random)
        if any(True for _ in engine.find(text.encode("utf-8"))):
            return text
    raise ConfigurationError(f"rule {rule.id}: no example drawn from its format is found by it")


def _drawn(rule: Rule, random: Random) -> str:
    if rule.names:
        name = _Drawer(rule.names[0], random).draw()
        return f'{name}_key = "{_Drawer(rule.value, random).draw()}"\n'
    return _Drawer(rule.expression, random).draw() + "\n"
