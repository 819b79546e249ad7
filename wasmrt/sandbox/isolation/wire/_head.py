"""The fields of a frame's head. SECURITY: workers' heads are hostile: each field is read by name, type and bound."""

from __future__ import annotations

from typing import Any

from wasmrt.core.errors import WasmrtError
from wasmrt.core.limits import KIB
from wasmrt.sandbox.component import printable

MAX_TEXT = 32 * KIB
"""Maximum number of characters of a string in a head, unless a field has another limit."""


class ProtocolError(WasmrtError):
    """A frame violates the protocol; its sender is ended."""

    code = "protocol"


class Head:
    """The fields of a frame's head, read by name and type. A field that is missing or has another type is an error."""

    __slots__ = ("_fields",)

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    def text(self, name: str, most: int = MAX_TEXT) -> str:
        """Return a string of at most `most` characters."""
        value = self._fields.get(name)
        if not isinstance(value, str) or len(value) > most:
            raise ProtocolError(f"field {name}: expected a string of at most {most} characters")
        return value

    def line(self, name: str, most: int = MAX_TEXT) -> str:
        """Return a string of at most `most` characters as one line, without control or invisible characters."""
        return printable(self.text(name, most))

    def read_optional_line(self, name: str, most: int = MAX_TEXT) -> str | None:
        """Return a string as `line` does, or None if the field is absent or null."""
        return None if self._fields.get(name) is None else self.line(name, most)

    def name(self, name: str, most: int) -> str:
        """Return a string of 1 to `most` printable characters."""
        value = self.text(name, most)
        if not value or printable(value) != value:
            raise ProtocolError(f"field {name}: expected a name of printable characters")
        return value

    def read_optional_text(self, name: str, most: int = MAX_TEXT) -> str | None:
        """Return a string, or None if the field is absent or null."""
        return None if self._fields.get(name) is None else self.text(name, most)

    def whole(self, name: str, most: int = 2**63) -> int:
        """Return an integer from 0 to `most`."""
        value = self._fields.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
            raise ProtocolError(f"field {name}: expected an integer from 0 to {most}")
        return value

    def read_optional_whole(self, name: str) -> int | None:
        """Return an integer from 0, or None if the field is absent or null."""
        return None if self._fields.get(name) is None else self.whole(name)

    def read_optional_number(self, name: str) -> float | None:
        """Return a non-negative number, or None if the field is absent or null."""
        value = self._fields.get(name)
        if value is None:
            return None
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < 1e300:
            raise ProtocolError(f"field {name}: expected a non-negative number")
        return float(value)

    def flag(self, name: str) -> bool:
        """Return a boolean."""
        value = self._fields.get(name)
        if not isinstance(value, bool):
            raise ProtocolError(f"field {name}: expected true or false")
        return value

    def items(self, name: str, most: int) -> list[Any]:
        """Return a list of at most `most` items, which the caller validates."""
        value = self._fields.get(name)
        if not isinstance(value, list) or len(value) > most:
            raise ProtocolError(f"field {name}: expected a list of at most {most} items")
        return value

    def mapping(self, name: str) -> dict[str, Any]:
        """Return an object, whose values the caller validates."""
        value = self._fields.get(name)
        if not isinstance(value, dict):
            raise ProtocolError(f"field {name}: expected an object")
        return value
