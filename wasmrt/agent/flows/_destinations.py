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
    url urls uri link links href endpoint host hosts hostname domain server webhook callback remote site website proxy
"""
PATHS = """
    path paths file files filename filepath folder directory dir bucket repo repository branch database table target
    output
"""
IDS = "id ids uuid guid key issue ticket order number identifier ref"
AMOUNTS = "amount amounts price total sum quantity fee budget salary rate"
_EMAIL = re.compile(r"[^\s@<>\"',;]+@([^\s@<>\"',;]+)")
"""An email address. The dot in the domain is checked separately, so that matching takes linear time."""
_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]{1,20}://\S+")
_WWW = re.compile(r"(?:www\.)?(?:[a-zA-Z0-9-]+\.)+[a-zA-Z]{2,24}/\S+|www\.(?:[a-zA-Z0-9-]+\.)+[a-zA-Z]{2,24}")
_ACCOUNT = re.compile(r"[A-Z]{2}\d{2}(?: ?[A-Z0-9]{2,4}){3,8}|\+\d[\d ()-]{6,18}|0x[0-9a-fA-F]{40}")
_NAME_AROUND = re.compile(r"[\w \t.,;'\"()-]{0,200}")
"""Text that may surround an address in a value. Text with line breaks or other brackets could add a recipient."""
_MAX_WHEN = 32
"""Maximum length of a date with a time and a time zone."""
_PROSE = re.compile(r"(?:\S{1,64}\s+){11}\S")
"""Twelve words, which is the shortest text that can be prose."""
_MAX_KEY = 256
"""Maximum length of the name of an object member. Longer names are cut."""
_ALTERNATIVES = ("anyOf", "oneOf", "allOf")
_MAX_VARIANTS = 32
"""Maximum number of alternatives of a parameter whose schemas are read."""
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
    TIME = "time"
    """A date or a time in ISO 8601 format."""
    NAME = "name"
    """Any other short text. The meaning of the parameter is unknown."""


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


_ID_WORDS = frozenset(("id", "ids", "uuid", "guid", "number", "key"))


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
    """The destinations, the controls and the content in the params of a call."""

    destinations: tuple[Destination, ...]
    bodies: tuple[str, ...]
    controls: tuple[Destination, ...] = ()
    """Short values that are not destinations: numbers, and texts that are not prose. They can decide what happens."""
    names: tuple[str, ...] = ()
    """The names of object members that the caller chose, and numbers. They can carry data, too."""
    guessed_all: bool = False
    """True if the meaning of the parameters is unknown, so that every string is treated as a destination."""
    cut: bool = False
    """True if the params had more values than the limit, and the others were ignored."""


def find_outgoing(
    schema: Mapping[str, Any],
    params: Mapping[str, Any],
    named: Sequence[str] | None = None,
    content: Sequence[str] = (),
) -> Outgoing:
    """Return the destinations and the content of a call.

    `named` are the destination parameters that the tool or the operator declared; if `named` is empty, the tool has no
    destinations. If `named` is None, destinations are guessed from the names and formats in the schema, and from the
    values. If this finds no destination, every string is treated as a destination. `content` are declared parameters
    whose strings are content, and never destinations or controls.
    """
    members: list[str] = []
    leaves = list(islice(_iter_values(params, members), MAX_FLOW_VALUES + 1))
    cut = len(leaves) > MAX_FLOW_VALUES
    destinations: list[Destination] = []
    others: list[tuple[str, str, Any]] = []
    declared: list[str] = []
    for path, key, value in leaves[:MAX_FLOW_VALUES]:
        if isinstance(value, str) and (path in content or path.partition(".")[0] in content):
            declared.append(value)
            continue
        kind = _find_kind(path, key, value, schema, named)
        if kind is None:
            others.append((path, key, value))
        else:
            noun = _find_noun(key) if kind is Kind.ID else ""
            destinations += [Destination(path, part, kind, noun) for part in _split_addresses(value, kind)]
    cut = cut or len(destinations) > MAX_FLOW_VALUES
    destinations = destinations[:MAX_FLOW_VALUES]
    properties = schema.get("properties", {})
    carrying = (*(name for name in members if name not in properties),
                *(str(value) for *_, value in others if not isinstance(value, str)))  # fmt: skip
    bodies = tuple(value for *_, value in others if isinstance(value, str) and not _is_time(value)) + tuple(declared)
    if named is not None:
        return Outgoing(tuple(destinations), bodies, names=carrying, cut=cut)
    controls = tuple(
        Destination(path, value, _find_control_kind(value))
        for path, _, value in others
        if is_control(value) and not _is_constant(schema, path, value)
    )  # fmt: skip
    if any(each.kind is not Kind.AMOUNT for each in destinations):
        return Outgoing(tuple(destinations), bodies, controls, carrying, cut=cut)
    names = [each for each in controls if each.kind is Kind.NAME]
    prose = (*declared, *(value for *_, value in others if isinstance(value, str) and not is_control(value))) or bodies
    controls = tuple(each for each in controls if each.kind is not Kind.NAME)
    return Outgoing((*destinations, *names), prose, controls, carrying, guessed_all=True, cut=cut)


def describe_params(
    schema: Mapping[str, Any], named: Sequence[str] | None = None, content: Sequence[str] = ()
) -> dict[str, str]:
    """Return how the values of each parameter in a schema are treated, see `find_outgoing`."""
    given = schema.get("properties")
    properties = given if isinstance(given, Mapping) else {}
    names = [name for name, part in properties.items() if isinstance(part, Mapping)]
    kinds = {name: _guess_kind(name, next(_iter_formats(schema, name), "")) for name in names}
    guessed = any(kind not in (None, Kind.AMOUNT) for kind in kinds.values())
    found = {}
    for name in names:
        if named is not None:
            found[name] = "destination" if name in named else "content"
        elif name in content:
            found[name] = "content"
        elif any("enum" in each or "const" in each for each in _describe(schema, name)):
            found[name] = "constant"
        elif properties[name].get("type") == "boolean":
            found[name] = "not checked"
        elif (kind := kinds[name]) is not None:
            found[name] = f"destination ({kind})"
        else:
            text = "" if properties[name].get("type") in ("integer", "number") else ", or content from twelve words"
            found[name] = f"{'control' if guessed or not text else 'destination'}{text}"
    return found


def is_control(value: Any) -> bool:
    """Return whether a value is so short that it can decide what a call does: a number, or a text that is not prose."""
    return bool(value.strip()) and _PROSE.match(value.strip()) is None if isinstance(value, str) else True


def _find_control_kind(value: object) -> Kind:
    if not isinstance(value, str):
        return Kind.AMOUNT
    return Kind.TIME if _is_time(value) else Kind.NAME


def list_action_words(tool: str, destinations: Sequence[Destination]) -> list[str]:
    """Return the words of a tool's name that describe its action, without words for the given destinations."""
    named = {word for each in destinations for word in _split_words(each.param)}
    kinds = {each.kind for each in destinations}
    words = [word for word in _split_words(tool) if len(word) > 2 or not word.isalpha()]
    return [word for word in words if word not in named and _WORDS.get(word) not in kinds]


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
            if path and _find_kind_by_syntax(name) is not None:  # such as {"shares": {"ann@example.com": "read"}}
                yield path, key, name
            cut = str(name)[:_MAX_KEY]
            yield from _iter_values(part, names, f"{path}.{cut}" if path else cut, cut)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _iter_values(part, names, path, key)
    elif value is not None and not isinstance(value, bool):
        yield path, key, value


def _find_kind(path: str, key: str, value: Any, schema: Mapping[str, Any], named: Sequence[str] | None) -> Kind | None:
    shape = _find_kind_by_syntax(value)
    if named is not None:
        if path.partition(".")[0] not in named and path not in named:
            return None
        return shape or _guess_kind(key, "") or Kind.NAME
    if shape is not None:
        return shape
    if _is_constant(schema, path, value):
        return None
    kind = _guess_kind(key, next(_iter_formats(schema, path), ""))
    if isinstance(value, (int, float)):
        return kind if kind in (Kind.AMOUNT, Kind.ID, Kind.ADDRESS) else None
    return kind if value.strip() else None


def _describe(schema: Mapping[str, Any], path: str) -> list[Mapping[str, Any]]:
    """Return the schemas of the parameter at a path: its own, its alternatives, and those of the items of a list."""
    found = _list_variants(schema, [schema])
    for name in path.split("."):
        found = [properties[name] for each in found if isinstance(properties := each.get("properties"), Mapping)
                 and name in properties]  # fmt: skip
        found = _list_variants(schema, found)
    return found


def _iter_formats(schema: Mapping[str, Any], path: str) -> Iterator[str]:
    return (form for each in _describe(schema, path) if isinstance(form := each.get("format"), str))


def _list_variants(schema: Mapping[str, Any], found: list[Any]) -> list[Mapping[str, Any]]:
    """Return schemas with their alternatives, their references and the schemas of their items, up to a limit."""
    variants: list[Mapping[str, Any]] = []
    waiting = list(found)
    while waiting and len(variants) < _MAX_VARIANTS:
        each = waiting.pop()
        if not isinstance(each, Mapping):
            continue
        variants.append(each)
        waiting += [part for key in _ALTERNATIVES if isinstance(each.get(key), list) for part in each[key]]
        waiting.append(each.get("items"))
        place, definitions = each.get("$ref"), schema.get("$defs")
        if isinstance(place, str) and isinstance(definitions, Mapping):
            waiting.append(definitions.get(place.removeprefix("#/$defs/")))
    return variants


def _is_constant(schema: Mapping[str, Any], path: str, value: Any) -> bool:
    """Return whether the schema lists a value, so that it cannot carry data."""
    for each in _describe(schema, path):
        listed = each.get("enum")
        if (isinstance(listed, list) and value in listed) or value in (each.get("const"), each.get("default")):
            return True
    return False


@lru_cache(maxsize=2048)
def _guess_kind(key: str, form: str) -> Kind | None:
    """Guess the kind of a parameter from the format in its schema, or else from the words of the parameter's name."""
    if form in _FORMATS:
        return _FORMATS[form]
    words = _split_words(key)
    if not words:
        return None
    if words[-1] in _ID_WORDS:
        return Kind.ID if len(words) > 1 or words[-1] != "key" else None
    if words[-1] == "name" and len(words) > 1 and words[-2] in _WORDS:
        return _WORDS[words[-2]]
    return _WORDS.get(words[-1])


def _find_kind_by_syntax(value: Any) -> Kind | None:
    """Return the kind of a value that has the syntax of a URL or an address, otherwise None."""
    if not isinstance(value, str) or not value or len(value) > 4096:
        return None
    text = value.strip()
    if _URL.fullmatch(text) or _WWW.fullmatch(text):
        return Kind.URL
    return Kind.ADDRESS if is_email(text) or _ACCOUNT.fullmatch(text) else None


def _is_time(value: str) -> bool:
    """Return whether a text is only a date or a time. Such a text is not content."""
    if len(value) > _MAX_WHEN:
        return False
    for read in (datetime.fromisoformat, time.fromisoformat):
        try:
            read(value)
        except ValueError:
            continue
        return True
    return False


def _find_noun(key: str) -> str:
    words = [word for word in _split_words(key) if word not in _ID_WORDS]
    return words[-1] if words else ""


@lru_cache(maxsize=2048)
def list_id_nouns(key: str) -> tuple[str, ...]:
    """Return the nouns, in the singular, in the name of a member: `payment`, `method` for `payment_method_ids`."""
    return tuple(word.removesuffix("s") for word in _split_words(key) if word not in _ID_WORDS)


@lru_cache(maxsize=2048)
def _split_words(key: str) -> tuple[str, ...]:
    return tuple(word for word in re.split(r"[^a-z0-9]+", _CAMEL.sub("_", key).lower()) if word)


_PLAIN_NAME = re.compile(r"[\w.-]{0,40}")
"""The name of a file or folder that carries no text, such as `notes.txt`."""


def carries_text(destination: Destination) -> bool:
    """Return whether a destination, such as the name of a file, can carry text to a conversation that reads it."""
    if destination.kind is Kind.PATH:
        return not all(map(_PLAIN_NAME.fullmatch, str(destination.value).split("/")))
    return destination.kind in (Kind.NAME, Kind.ADDRESS, Kind.URL)
