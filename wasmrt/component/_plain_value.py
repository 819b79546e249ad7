"""Small immutable-by-habit values whose classes cost nothing to make.

A frozen dataclass takes half a millisecond to create, and the engine room has twenty such classes that every start
of the command would pay for; this is the part of them that is used.
"""

from __future__ import annotations

from typing import Any


class PlainValue:
    """Equality, hash and repr by `__slots__`; a subclass writes its own `__init__` and `__match_args__`."""

    __slots__: tuple[str, ...] = ()

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.__slots__)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash((type(self).__name__, *self._values()))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in zip(self.__slots__, self._values(), strict=True))
        return f"{type(self).__name__}({shown})"
