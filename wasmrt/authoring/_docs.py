"""Carries the doc comments of the WIT into the component, since no toolchain's last step does.

The convention is the custom section `package-docs` (wit-parser, metadata.rs). In a component its readers take it for
the docs of the world that they read the component as, `root`, and refuse a name that is not there. So what the world
itself exports stands there; the docs of interfaces of packages stand in a section of our own, in the form that names
its package, which most readers of `package-docs` do not know yet.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from wasmrt.component import DOCS_SECTION, OWN_DOCS_SECTION, doc_comments
from wasmrt.limits import MAX_SCHEMA_BYTES

_TOKEN = re.compile(
    r"(?P<doc>///[^\n]*|/\*\*(?!/).*?\*/)"
    r"|(?P<skipped>//[^\n]*|/\*.*?\*/|\s+|@(?:since|unstable|deprecated)\([^)]*\))"
    r"|%?[A-Za-z_][A-Za-z0-9-]*|.",
    re.DOTALL,
)
_MAX_TOKENS = 200_000

Docs = dict[str, dict[str, str]]
"""Function -> text, by interface; the world's own functions under the empty name."""


@dataclass(slots=True)
class _Package:
    name: str = ""
    interfaces: Docs = field(default_factory=dict)
    """Those that stand by themselves."""
    worlds: Docs = field(default_factory=dict)
    """What worlds export: functions, and interfaces that are written inside."""

    def qualified(self, interface: str) -> str:
        path, at, version = self.name.partition("@")
        return f"{path}/{interface}{at}{version}"


def with_docs(component: bytes, wit: str, exports: Iterable[str]) -> bytes:
    """Return the component with the doc comments that `wit` (one package) has on what it exports at its top level.

    One that carries doc comments already is returned as it is. Docs that are over the bound of a schema are left out.
    """
    if doc_comments(component):
        return component
    names, package = set(exports), _read(wit)
    functions = {name: text for name, text in package.worlds.pop("", {}).items() if name in names}
    inside = {name: {"funcs": docs} for name, docs in package.worlds.items() if docs and name in names}
    own = {name: docs for name, docs in package.interfaces.items() if docs and package.qualified(name) in names}
    if functions or inside:
        root = {"funcs": functions, "interfaces": inside}
        component += _section(DOCS_SECTION, 0, {"worlds": {"root": root}})
    if own:
        interfaces = {
            name: {"funcs": {key: {"docs": text} for key, text in docs.items()}} for name, docs in own.items()
        }
        component += _section(OWN_DOCS_SECTION, 1, {"package": package.name, "interfaces": interfaces})
    return component


def _section(name: bytes, version: int, docs: Mapping[str, object]) -> bytes:
    content = bytes([version]) + json.dumps(docs, ensure_ascii=False, separators=(",", ":")).encode()
    if len(content) > MAX_SCHEMA_BYTES:
        return b""
    body = _leb128(len(name)) + name + content
    return b"\0" + _leb128(len(body)) + body


def _leb128(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _read(text: str) -> _Package:
    """Find the doc comments of functions; it looks at nothing else, since the toolchain has parsed this text."""
    package = _Package()
    places: list[Docs | None] = []
    names: list[str] = []
    for docs, words, end in _statements(text):
        match words:
            case ["package", *rest] if end == ";" and not places:
                package.name = "".join(rest)
            case ["interface", name] if end == "{" and not places:
                _open(places, names, package.interfaces, name)
                continue
            case ["world", _] if end == "{" and not places:
                _open(places, names, package.worlds, "")
                continue
            case ["export", name, ":", "interface"] if end == "{":
                _open(places, names, package.worlds, name)
                continue
            case [name, ":", "func" | "async", *_] | ["export", name, ":", "func" | "async", *_] if end == ";":
                exported = words[0] == "export"
                if docs and places and (place := places[-1]) is not None and exported == (names[-1] == ""):
                    place[names[-1]][name] = docs
        if end == "{":
            places.append(None)
            names.append("")
        elif end == "}" and places:
            places.pop()
            names.pop()
    return package


def _open(places: list[Docs | None], names: list[str], docs: Docs, name: str) -> None:
    docs.setdefault(name, {})
    places.append(docs)
    names.append(name)


def _statements(text: str) -> Iterator[tuple[str, list[str], str]]:
    """Doc comment, words and the mark that ends it, of whatever stands between `;`, `{` and `}`."""
    docs: list[str] = []
    words: list[str] = []
    for number, found in enumerate(_TOKEN.finditer(text)):
        if number > _MAX_TOKENS:
            return
        token = found[0]
        if found.lastgroup == "doc":
            if not words:
                docs.append(_said(token))
        elif token in ("{", "}", ";"):
            yield "\n".join(docs), words, token
            docs, words = [], []
        elif found.lastgroup != "skipped":
            words.append(token.removeprefix("%"))


def _said(comment: str) -> str:
    if comment.startswith("///"):
        return comment[3:].strip()
    lines = (line.strip().removeprefix("*").strip() for line in comment[3:-2].strip().splitlines())
    return "\n".join(lines)
