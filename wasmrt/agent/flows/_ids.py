"""Identifiers: the names of the things that they identify, and the identifiers of the user's own objects."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wasmrt.agent.flows._destinations import list_id_nouns
from wasmrt.agent.flows._known import normalize_value
from wasmrt.agent.flows._private import Marks
from wasmrt.core.limits import MAX_FLOW_IDS, MAX_FLOW_SAID_BYTES

_NAMES = ("name", "title", "filename", "file_name", "subject", "label", "summary", "display_name", "full_name")
_MAX_NAME = 200


class Ids:
    """The names of things, by parameter and identifier.

    SECURITY: the names decide whether an identifier needs approval. They are therefore read only from results whose
    structure the operator trusts. If an identifier has several names, the user must have named all of them.
    """

    def __init__(self, limit: int = MAX_FLOW_IDS) -> None:
        self._limit = limit
        self._names: dict[tuple[str, str], set[str]] = {}

    def add(self, result: Any, params: Sequence[str]) -> None:
        """Add the names of the things in a result. `params` are the parameters that accept their identifiers."""
        for record in _iter_records(result):
            names = {value[:_MAX_NAME] for key in _NAMES if isinstance(value := record.get(key), str) and value.strip()}
            for param in params:
                for key in (param, "id"):
                    value = record.get(key)
                    if isinstance(value, (str, int)) and not isinstance(value, bool) and names:
                        self._add_names((param, str(value)), names)
                        break

    def names(self, param: str, value: object) -> frozenset[str]:
        """Return the names of the thing that an identifier in a parameter identifies."""
        return frozenset(self._names.get((param.rpartition(".")[2], str(value)), ()))

    def _add_names(self, key: tuple[str, str], names: set[str]) -> None:
        if key not in self._names and len(self._names) >= self._limit:
            return  # the identifier stays unknown and requires approval
        self._names.setdefault(key, set()).update(sorted(names)[: len(_NAMES)])


def iter_members(result: Any, names: Sequence[str]) -> Iterator[str | int | float]:
    """Yield the values of the object members with the given names. If a value is a list, yield its items.

    SECURITY: text inside a string that looks like an object member is ignored.
    """
    for record in _iter_records(result):
        for name in names:
            value = record.get(name)
            for each in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(each, (str, int, float)) and not isinstance(each, bool):
                    yield each


def _iter_records(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, Mapping):
        yield value
        for part in value.values():
            yield from _iter_records(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _iter_records(part)


_APART = ",;()<>\"'`[]{}="
_TOKEN = re.compile(rf"[^\s{re.escape(_APART)}]+")
_SPACED = bytes(0x20 if chr(code) in _APART or chr(code).isspace() else code for code in range(256))
_PENDING_BYTES = 256 * 1024
_AROUND = b".:!?#"
_MAX_ID = 64


class OwnIds:
    """Identifiers that the calls of a trace returned for the user's own objects.

    SECURITY: an identifier is own only if a private result has it as the complete value of a member for identifiers,
    such as `order_id`, or as a value or a member name of a list of such things, such as `orders`. An identifier that a
    longer text mentions is not own, because the author of that text chose it.
    """

    def __init__(self, limit: int = MAX_FLOW_SAID_BYTES) -> None:
        self._limit = limit
        self._own, self._mentioned = Marks(), Marks()
        self._pending = ""

    def add(self, result: Any) -> None:
        """Add the identifiers of a private result."""
        if not self._own.exceeds(self._limit):
            self._own.add(mark for key, value in _iter_ids(result) for mark in _list_marks(key, value))

    def add_mentioned(self, texts: Sequence[str]) -> None:
        """Add the words of longer texts in an untrusted result."""
        if not self._mentioned.exceeds(self._limit):
            self._pending = "\n".join((self._pending, *(text for text in texts if len(text.split(None, 1)) > 1)))
            if len(self._pending) > _PENDING_BYTES:
                self._index_pending()

    def _index_pending(self) -> None:
        text, self._pending = self._pending, ""
        if text.isascii():
            self._mentioned.add(word.strip(_AROUND) for word in set(text.lower().encode().translate(_SPACED).split()))
        else:
            self._mentioned.add(map(_normalize, set(_TOKEN.findall(text))))

    def contains(self, param: str, value: object) -> bool:
        """Return whether a value of a parameter is an own identifier."""
        self._index_pending()
        if self._mentioned.exceeds(self._limit) or _normalize(value) in self._mentioned:
            return False
        return any(mark in self._own for mark in _list_marks(param.rpartition(".")[2], value, searched=True))


def _list_marks(key: str, value: object, *, searched: bool = False) -> list[bytes]:
    nouns = list_id_nouns(key)
    return [noun.encode() + b"\0" + _normalize(value) for noun in ((*nouns, "") if searched else nouns or ("",))]


def _normalize(value: object) -> bytes:
    return normalize_value(value).strip(_AROUND)


def _iter_ids(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield short values and member names, each with the name of the member that contains it."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            if key and not isinstance(part, (str, int, float)):
                yield key, str(name)
            yield from _iter_ids(part, str(name))
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _iter_ids(part, key)
    elif key and _is_id(value):
        yield key, str(value)


def _is_id(value: Any) -> bool:
    short = isinstance(value, (str, int)) and not isinstance(value, bool) and len(str(value)) <= _MAX_ID
    return short and not any(char.isspace() for char in str(value))
