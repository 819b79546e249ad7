"""Read the rule files of other secret scanners, and draw random tokens from their expressions."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from random import Random
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

import yaml

_SPACE, _REPEATS, _ANY = " ", 12, "abcdefghijklmnopqrstuvwxyz0123456789"
_CATEGORIES = {op.CATEGORY_DIGIT: "0123456789", op.CATEGORY_WORD: _ANY + _ANY.upper(), op.CATEGORY_SPACE: _SPACE}
_POSIX = {"[:alnum:]": "a-zA-Z0-9", "[:alpha:]": "a-zA-Z", "[:digit:]": "0-9", "[:xdigit:]": "0-9a-fA-F"}
_FLAGS = re.compile(r"\(\?([ismx]+)\)")
_SECRET_NAME = re.compile(r"(?i)key|token|secret|pat\b|pass")
_OTHER_NAME = re.compile(r"(?i)\bid\b|url|uri|domain|email|user|host|account|endpoint|placeholder|instance|^id|idpat")


class ForeignRule(NamedTuple):
    """One rule of another scanner: its id, its vendor, and the expression of the secret."""

    scanner: str
    id: str
    vendor: str
    secret: Any
    """The parsed expression of the secret alone, without the text before and after it."""


def read_rules(folder: Path) -> Iterator[ForeignRule]:
    """Yield the rules of every scanner in `folder`, as its repositories name the files.

    Expected are `gitleaks.toml`, and folders `kingfisher` (YAML), `trufflehog` (Go), `secretlint` (TypeScript) and
    `detect-secrets` (Python). Missing ones are left out.
    """
    found = (*_gitleaks(folder), *_kingfisher(folder), *_trufflehog(folder), *_secretlint(folder), *_detect(folder))
    for scanner, rule_id, vendor, expression, group in found:
        try:
            parsed = _parser.parse(_as_python(expression))
        except (re.error, OverflowError):
            continue
        secret = _find_group(parsed, group) if group else None
        yield ForeignRule(scanner, rule_id, vendor, secret if secret is not None else parsed)


_Found = tuple[str, str, str, str, int]


def _gitleaks(folder: Path) -> Iterator[_Found]:
    file = folder / "gitleaks.toml"
    for rule in tomllib.loads(file.read_text())["rules"] if file.exists() else ():
        if "regex" in rule and not _OTHER_NAME.search(rule["id"]):
            yield "gitleaks", rule["id"], rule["id"].split("-")[0], rule["regex"], rule.get("secretGroup", 1)


def _kingfisher(folder: Path) -> Iterator[_Found]:
    for file in sorted((folder / "kingfisher").glob("**/*.y*ml")):
        for rule in (yaml.safe_load(file.read_text()) or {}).get("rules", ()):
            if _is_secret(rule["name"]) and rule.get("visible", True):
                yield "kingfisher", rule["id"], rule["id"].split(".")[1], rule["pattern"], 1


def _trufflehog(folder: Path) -> Iterator[_Found]:
    call = re.compile(r"(\w+)\s*:?=\s*regexp\.MustCompile\((.*)\)\s*(?://.*)?$", re.MULTILINE)
    for file in sorted((folder / "trufflehog").glob("**/detectors/*/**/*.go")):
        if file.name.endswith("_test.go"):
            continue
        for name, argument in call.findall(file.read_text()):
            own = re.sub(r"detectors\.PrefixRegex\([^)]*\)", "", argument)
            literals = re.findall(r"`([^`]*)`|\"((?:[^\"\\]|\\.)*)\"", own)
            expression = "".join(raw or quoted for raw, quoted in literals)
            if expression and _is_secret(name):
                yield "trufflehog", f"{file.parent.name}/{name}", file.parent.name, expression, 1


def _secretlint(folder: Path) -> Iterator[_Found]:
    for file in sorted((folder / "secretlint").glob("**/*.ts")):
        vendor = file.name.partition("rule-")[2].partition("_")[0]
        for name, expression in re.findall(r"const (\w+) =\s*/((?:[^/\\\n]|\\.)+)/[a-z]*;", file.read_text()):
            if _is_secret(name):
                yield "secretlint", f"{vendor}/{name}", vendor, re.sub(r"\\p\{\w+\}", "a-z", expression), 0


def _detect(folder: Path) -> Iterator[_Found]:
    for file in sorted((folder / "detect-secrets").glob("**/plugins/*.py")):
        for expression in re.findall(r"re\.compile\(\s*r?'([^'\n]+)'", file.read_text()):
            yield "detect-secrets", file.stem, file.stem.split("_")[0], expression, 0


def _is_secret(name: str) -> bool:
    return bool(_SECRET_NAME.search(name)) and not _OTHER_NAME.search(name)


def _as_python(expression: str) -> str:
    """Convert an expression of Go, Rust or JavaScript to one of Python."""
    for posix, inside in _POSIX.items():
        expression = expression.replace(posix, inside)
    verbose = any("x" in flags for flags in _FLAGS.findall(expression))
    expression = _FLAGS.sub("", expression).replace(r"\z", r"\Z").replace("(?<", "(?P<").replace("(?P<!", "(?<!")
    expression = expression.replace("(?P<=", "(?<=").replace("(?PP<", "(?P<")
    return ("(?x)" if verbose else "") + re.sub(r"\\x\{([0-9a-f]+)\}", r"\\x\1", expression)


def _find_group(parsed: Any, number: int) -> Any:
    for kind, value in parsed:
        inner: list[Any] = []
        if kind is op.SUBPATTERN:
            if value[0] == number:
                return value[3]
            inner = [value[3]]
        elif kind is op.BRANCH:
            inner = value[1]
        elif kind in (op.MAX_REPEAT, op.MIN_REPEAT):
            inner = [value[2]]
        for part in inner:
            if (found := _find_group(part, number)) is not None:
                return found
    return None


def draw(parsed: Any, random: Random) -> str:
    """Return a random text that an expression matches. A repetition has at most `_REPEATS` items above its minimum."""
    return "".join(_draw_item(kind, value, random) for kind, value in parsed)


def _draw_item(kind: Any, value: Any, random: Random) -> str:
    if kind is op.LITERAL:
        return chr(value)
    if kind in (op.MAX_REPEAT, op.MIN_REPEAT):
        low, high, inner = value
        count = random.randint(low, min(high, low + _REPEATS))
        return "".join(draw(inner, random) for _ in range(count))
    if kind is op.IN:
        return random.choice(_members(value))
    if kind is op.BRANCH:
        return draw(random.choice(value[1]), random)
    if kind is op.SUBPATTERN:
        text = draw(value[3], random)
        mixed = value[1] & re.IGNORECASE and not text.isupper()
        return "".join(random.choice((c, c.swapcase())) for c in text) if mixed else text
    return random.choice(_ANY) if kind in (op.ANY, op.NOT_LITERAL) else ""


def _members(items: Any) -> str:
    found = ""
    for kind, value in items:
        if kind is op.LITERAL:
            found += chr(value)
        elif kind is op.RANGE:
            found += "".join(map(chr, range(value[0], min(value[1], 126) + 1)))
        elif kind is op.CATEGORY:
            found += _CATEGORIES.get(value, _ANY)
    return _ANY if items[0][0] is op.NEGATE or not found else found
