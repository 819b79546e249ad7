"""Find the destinations of a call: the values in its params that decide where data goes or what is changed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time
from enum import StrEnum
from functools import lru_cache
from itertools import islice
from typing import Any

from wasmrt.agent.flows._addresses import find_links, remove_links
from wasmrt.core.limits import MAX_FLOW_VALUES

ADDRESSES = """
    to cc bcc recipient recipients email emails mail address addresses participant participants attendee attendees
    invitee invitees invite user users username member members channel channels contact contacts phone receiver
    beneficiary payee account iban bic wallet handle person people assignee assignees reviewer reviewers owner group
    team room chat with share guest guests audience customer destination
"""
URLS = """
    url urls uri link links href endpoint host hosts hostname domain server webhook callback remote site website origin
    proxy
"""
PATHS = """
    path paths file files filename filepath folder directory dir bucket repo repository branch database table target
    output
"""
IDS = "id ids uuid guid key issue ticket order number identifier ref"
AMOUNTS = "amount amounts price total sum quantity fee budget salary rate"
BODIES = """
    body text content contents message messages description comment comments note notes html markdown data payload
    reason instructions location place venue summary query question details caption bio
"""
"""Words in the names of parameters that hold the content, not the destination."""
TIMES = """
    time date day start end when until since from deadline due duration timezone month year hour minute at action mode
    type kind format permission permissions role status state priority level color recurring language locale encoding
"""
"""Words in the names of parameters that hold times and options."""
ABOUT = "count limit max min size page offset format type name"
"""Last words in names of parameters that describe a property: `file_size` does not name a file."""


_EMAIL = re.compile(r"[^\s@<>\"',;]+@([^\s@<>\"',;]+)")
"""An email address. The dot in the domain is checked separately, so that matching takes linear time."""
_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]{1,20}://\S+")
_WWW = re.compile(r"(?:www\.)?(?:[a-zA-Z0-9-]+\.)+[a-zA-Z]{2,24}/\S+|www\.(?:[a-zA-Z0-9-]+\.)+[a-zA-Z]{2,24}")
_ACCOUNT = re.compile(r"[A-Z]{2}\d{2}(?: ?[A-Z0-9]{2,4}){3,8}|\+\d[\d ()-]{6,18}|0x[0-9a-fA-F]{40}")
_NAME_AROUND = re.compile(r"[\w \t.,;'\"()-]{0,200}")
"""Text that may surround an address in a value. Text with line breaks or other brackets could add a recipient."""
_MAX_WHEN = 32
"""Maximum length of a date with a time and a time zone."""
_MAX_KEY = 256
"""Maximum length of the name of an object member. Longer names are cut."""
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class Kind(StrEnum):
    """The kind of a destination."""

    ADDRESS = "address"
    """A person, a group, an account or a channel."""
    URL = "url"
    PATH = "path"
    ID = "id"
    """An identifier of something that may also have a name."""
    AMOUNT = "amount"
    NAME = "name"
    """Any other text, if the meaning of the parameters is unknown."""


_WORDS: dict[str, Kind] = {
    word: kind
    for kind, words in (
        (Kind.AMOUNT, AMOUNTS), (Kind.PATH, PATHS), (Kind.URL, URLS), (Kind.ADDRESS, ADDRESSES), (Kind.ID, IDS),
    )
    for word in words.split()
}  # fmt: skip
_FORMATS = {
    "email": Kind.ADDRESS, "idn-email": Kind.ADDRESS, "uri": Kind.URL, "uri-reference": Kind.URL, "iri": Kind.URL,
    "hostname": Kind.URL, "idn-hostname": Kind.URL, "ipv4": Kind.URL, "ipv6": Kind.URL, "uuid": Kind.ID,
    "path": Kind.PATH, "file-path": Kind.PATH, "directory-path": Kind.PATH, "phone": Kind.ADDRESS,
}  # fmt: skip
_BODIES, _TIMES = frozenset(BODIES.split()), frozenset(TIMES.split())
_ABOUT_WORDS = frozenset(ABOUT.split())


@dataclass(frozen=True, slots=True)
class Destination:
    """One value that decides where data goes or what is changed."""

    param: str
    """The path of the parameter, such as `participants` or `rows.to`."""
    value: Any
    kind: Kind
    noun: str = ""
    """For an identifier, the type of the thing it identifies: `file` for a value of `file_id`."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """The destinations and the content in the params of a call."""

    destinations: tuple[Destination, ...]
    bodies: tuple[str, ...]
    names: tuple[str, ...] = ()
    """The names of object members that the caller chose, and numbers. They can carry data, too."""
    guessed_all: bool = False
    """True if the meaning of the parameters is unknown, so that every string is treated as a destination."""
    cut: bool = False
    """True if the params had more values than the limit, and the others were ignored."""


def find_outgoing(schema: Mapping[str, Any], params: Mapping[str, Any], named: Sequence[str] | None = None) -> Outgoing:
    """Return the destinations and the content of a call.

    `named` are the destination parameters that the tool or the operator declared; if `named` is empty, the tool has no
    destinations. If `named` is None, destinations are guessed from the names and formats in the schema, and from the
    values. If this finds no destination, every string is treated as a destination.
    """
    members: list[str] = []
    leaves = list(islice(_iter_values(params, members), MAX_FLOW_VALUES + 1))
    properties = schema.get("properties")
    formats = properties if isinstance(properties, Mapping) else {}
    cut = len(leaves) > MAX_FLOW_VALUES
    leaves = leaves[:MAX_FLOW_VALUES]
    destinations: list[Destination] = []
    others: list[tuple[str, str, Any]] = []
    for path, key, value in leaves:
        kind = _find_kind(path, key, value, formats, named)
        if kind is None:
            others.append((path, key, value))
        else:
            noun = _find_noun(key) if kind is Kind.ID else ""
            destinations += [Destination(path, part, kind, noun) for part in _split_addresses(value, kind)]
    cut = cut or len(destinations) > MAX_FLOW_VALUES
    destinations = destinations[:MAX_FLOW_VALUES]
    texts = [(path, key, value) for path, key, value in others if isinstance(value, str)]
    numbers = (str(value) for *_, value in others if not isinstance(value, str))
    carrying = (*(name for name in members if name not in formats), *numbers)
    known = any(each.kind is not Kind.AMOUNT for each in destinations)
    bodies = [value for _, key, value in texts if not _is_time_value(key, value)]
    if known or named is not None:
        return Outgoing(tuple(destinations), tuple(bodies), carrying, cut=cut)
    chosen = [each for each in texts if not (_word_set(each[1]) & _TIMES) and not _is_enumerated(formats, each[1])]
    names = [each for each in chosen if not _word_set(each[1]) & _BODIES] or chosen
    destinations += [Destination(path, value, Kind.NAME) for path, _, value in names if value.strip()]
    rest = [
        value
        for path, key, value in texts
        if ((path, key, value) not in names or len(names) == len(texts)) and not _is_time_value(key, value)
    ]
    return Outgoing(tuple(destinations), tuple(rest), carrying, guessed_all=True, cut=cut)


def is_email(text: str) -> bool:
    """Return whether a text is an email address."""
    found = _EMAIL.fullmatch(text)
    return found is not None and "." in found[1][1:-1]


def _split_addresses(value: Any, kind: Kind) -> tuple[Any, ...]:
    """Split a value into its addresses. Return only the address of `Bob <bob@example.com>`."""
    if kind is not Kind.ADDRESS or not isinstance(value, str) or is_email(value.strip()):
        return (value,)
    found = find_links(value)
    rest = remove_links(value).replace("<>", "")
    if found and (not rest.strip() or _NAME_AROUND.fullmatch(rest)):
        return tuple(found)
    parts = tuple(part.strip() for part in re.split(r"[,;]", value) if part.strip())
    return (*found, *parts) if len(parts) > 1 else (*found, value)


def _iter_values(value: Any, names: list[str], path: str = "", key: str = "") -> Iterator[tuple[str, str, Any]]:
    """Yield each value in the params, with its path and the name of the innermost object member that contains it.

    Add the names of all object members to `names`.
    """
    if isinstance(value, Mapping):
        for name, part in value.items():
            names.append(str(name))
            if path and _kind_by_syntax(name) is not None:  # such as {"shares": {"ann@example.com": "read"}}
                yield path, key, name
            cut = str(name)[:_MAX_KEY]
            yield from _iter_values(part, names, f"{path}.{cut}" if path else cut, cut)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _iter_values(part, names, path, key)
    elif value is not None and not isinstance(value, bool):
        yield path, key, value


def _find_kind(path: str, key: str, value: Any, formats: Mapping[str, Any], named: Sequence[str] | None) -> Kind | None:
    shape = _kind_by_syntax(value)
    if named is not None:
        if path.partition(".")[0] not in named and path not in named:
            return None
        return shape or _guess_kind(key, "") or Kind.NAME
    if shape is not None:
        return shape
    described = formats.get(path) if "." not in path else None
    form = described.get("format", "") if isinstance(described, Mapping) else ""
    kind = _guess_kind(key, form if isinstance(form, str) else "")
    if isinstance(value, (int, float)):
        return kind if kind in (Kind.AMOUNT, Kind.ID, Kind.ADDRESS) else None
    if kind is not None and not (isinstance(value, str) and value.strip()):
        return None
    return kind


@lru_cache(maxsize=2048)
def _guess_kind(key: str, form: str) -> Kind | None:
    """Guess the kind of a parameter from the format in its schema, or else from the words of the parameter's name."""
    if form in _FORMATS:
        return _FORMATS[form]
    words = _split_words(key)
    if not words:
        return None
    if words[-1] in ("id", "ids", "uuid", "guid", "key", "number"):
        return Kind.ID if len(words) > 1 or words[-1] != "key" else None
    if words[-1] == "name" and len(words) > 1 and words[-2] in _WORDS:
        return _WORDS[words[-2]]
    if words[-1] in _ABOUT_WORDS or words[-1] in _TIMES or words[-1] in _BODIES:
        return None
    if words[-1] in _WORDS:
        return _WORDS[words[-1]]
    return _WORDS.get(words[0]) if words[0] not in _TIMES and len(words) > 1 else None


def _kind_by_syntax(value: Any) -> Kind | None:
    """Return the kind of a value that has the syntax of a URL or an address, otherwise None."""
    if not isinstance(value, str) or not value or len(value) > 4096:
        return None
    text = value.strip()
    if _URL.fullmatch(text) or _WWW.fullmatch(text):
        return Kind.URL
    return Kind.ADDRESS if is_email(text) or _ACCOUNT.fullmatch(text) else None


def _is_time_value(key: str, value: str) -> bool:
    """Return whether a parameter for times has only a date or a time as its value. Such a value is not content."""
    if len(value) > _MAX_WHEN or not _word_set(key) & _TIMES:
        return False
    for read in (datetime.fromisoformat, time.fromisoformat):
        try:
            read(value)
        except ValueError:
            continue
        return True
    return False


def _is_enumerated(formats: Mapping[str, Any], key: str) -> bool:
    """Return whether the schema enumerates the values of a parameter, so that it cannot carry data."""
    described = formats.get(key)
    return isinstance(described, Mapping) and ("enum" in described or "const" in described)


def _find_noun(key: str) -> str:
    words = [word for word in _split_words(key) if word not in ("id", "ids", "uuid", "guid", "number", "key")]
    return words[-1] if words else ""


def _word_set(key: str) -> frozenset[str]:
    return frozenset(_split_words(key))


@lru_cache(maxsize=2048)
def _split_words(key: str) -> tuple[str, ...]:
    return tuple(word for word in re.split(r"[^a-z0-9]+", _CAMEL.sub("_", key).lower()) if word)
