"""Identifiers and the things that they name, as the results of a service say it that the operator vouches for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wasmrt.core.limits import MAX_FLOW_IDS

_NAMES = ("name", "title", "filename", "file_name", "subject", "label", "summary", "display_name", "full_name")
_MAX_NAME = 200


class Ids:
    """The names of things by the parameter and the identifier that stand for them.

    SECURITY: an identifier stands for what its names say, so only results whose structure the operator vouches for are
    taken in. One that was given two things counts for neither, unless the person named both.
    """

    def __init__(self, limit: int = MAX_FLOW_IDS) -> None:
        self._limit = limit
        self._names: dict[tuple[str, str], set[str]] = {}

    def add(self, result: Any, params: Sequence[str]) -> None:
        """Take in the things of a result, as those that `params` name by their identifiers."""
        for record in _records(result):
            names = {value[:_MAX_NAME] for key in _NAMES if isinstance(value := record.get(key), str) and value.strip()}
            for param in params:
                for key in (param, "id", "id_"):
                    value = record.get(key)
                    if isinstance(value, (str, int)) and not isinstance(value, bool) and names:
                        self._put((param, str(value)), names)
                        break

    def names(self, param: str, value: object) -> frozenset[str]:
        """Return the names of the thing that an identifier stands for as the value of a parameter."""
        return frozenset(self._names.get((param.rpartition(".")[2], str(value)), ()))

    def _put(self, key: tuple[str, str], names: set[str]) -> None:
        if key not in self._names and len(self._names) >= self._limit:
            return  # its identifier means nothing, and is asked about
        self._names.setdefault(key, set()).update(sorted(names)[: len(_NAMES)])


def members(result: Any, names: Sequence[str]) -> Iterator[str | int | float]:
    """Yield the values of the members of a result that have one of some names, and of lists there.

    SECURITY: what a text says inside of itself is no member.
    """
    for record in _records(result):
        for name in names:
            value = record.get(name)
            for each in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(each, (str, int, float)) and not isinstance(each, bool):
                    yield each


def _records(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, Mapping):
        yield value
        for part in value.values():
            yield from _records(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _records(part)
