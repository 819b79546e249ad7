"""Patterns for remembered answers: the parameters of one call, some of which may differ.

For example: "path: below src, limit: anything, other parameters unchanged". Patterns are not regular expressions.
Parameters that the pattern does not widen must be equal in value and type. Calls with further parameters never match.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import MAX_PATH_BYTES

_PLAIN = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029;&|`$<>(){}\[\]!*?'\"#~^\\]*")
"""Text without line breaks, and without characters that have a special meaning in a shell."""
_NAMES_IN_HINT = 8
_HIDDEN_STEPS = ("%2e", "%2f", "%5c", "\\", "\0")
"""Alternative spellings of `.` or `/` that some programs accept."""


class Wide(StrEnum):
    """The kinds of values that a widened parameter may have."""

    ANY = "any"
    STARTS = "starts"
    BELOW = "below"


@dataclass(frozen=True, slots=True)
class Widening:
    """The values that one parameter may have, according to `kind`.

    They are any JSON value, strings that start with `text` and continue without shell syntax, or paths below `text`.

    Raises:
        ConfigurationError: `text` is empty although the kind needs a text, is not a folder as the kind requires, or
            would match more values than the user expects, for example other hosts.
    """

    kind: Wide
    text: str = ""

    def __post_init__(self) -> None:
        if self.kind is Wide.ANY:
            if self.text:
                raise ConfigurationError("a pattern that allows any value cannot also have a text")
        elif not self.text:
            raise ConfigurationError("an empty text would match every string", hint='to allow any value, write "any"')
        elif self.kind is Wide.BELOW and not _split_path(self.text):
            raise ConfigurationError(f"expected a folder, got {self.text!r:.80}")
        elif self.kind is Wide.STARTS and re.fullmatch(r"(?:[a-zA-Z][a-zA-Z0-9+.-]*:)?//[^/]*", self.text):
            # SECURITY: https://example.com* would match https://example.com.evil.test
            raise ConfigurationError(
                f"the prefix {self.text!r:.80} would match other hosts, too",
                hint="end the host with a slash: https://example.com/*",
            )

    @classmethod
    def parse(cls, text: str) -> Widening:
        """Parse `TEXT*` (strings that start with TEXT), `FOLDER/` (paths below FOLDER), `any` or `*` (any value).

        Raises:
            ConfigurationError: the text has none of these forms.
        """
        if text in ("any", "*"):
            return cls(Wide.ANY)
        if text.endswith("*"):
            return cls(Wide.STARTS, text[:-1])
        if text.endswith("/"):
            return cls(Wide.BELOW, text)
        raise ConfigurationError(f"invalid pattern: {text!r:.80}", hint='write TEXT*, FOLDER/ or "any"')

    @property
    def words(self) -> str:
        """A description of the values."""
        if self.kind is Wide.ANY:
            return "anything"
        return f'"{self.text}*"' if self.kind is Wide.STARTS else f"below {self.text.rstrip('/')}"

    def matches(self, value: Any) -> bool:
        """Return whether a parameter may have this value."""
        if self.kind is Wide.ANY:
            return True
        if not isinstance(value, str):
            return False
        if self.kind is Wide.BELOW:
            folder, found = _split_path(self.text) or [], _split_path(value) or []
            return len(found) > len(folder) and found[: len(folder)] == folder
        # SECURITY: after an approved prefix, a second command or a parent directory must not match. Strings that are
        # rejected needlessly only cost another approval.
        rest = value[len(self.text) :]
        return value.startswith(self.text) and _PLAIN.fullmatch(rest) is not None and not _may_leave_folder(value)


@dataclass(frozen=True, slots=True)
class ParamsPattern:
    """The parameters of one call. `widened` has the allowed values for some of them, by JSON Pointer (RFC 6901)."""

    params: Mapping[str, Any]
    widened: Mapping[str, Widening] = field(default_factory=dict)

    def widen(self, place: str, widening: Widening) -> ParamsPattern:
        """Return the pattern with one more parameter that may differ; `place` is its name or JSON Pointer.

        Raises:
            ConfigurationError: the call has no such parameter, or its value in the call does not match `widening`.
        """
        pointer = place if place.startswith("/") else f"/{_escape_pointer(place)}"
        if not widening.matches(_find_value(self.params, pointer)):
            raise ConfigurationError(
                f"the value of {pointer[1:]!r:.80} in this call does not match {widening.words:.80}",
                hint="choose a pattern that matches this call, too",
            )
        return ParamsPattern(self.params, {**self.widened, pointer: widening})

    def widen_by(self, text: str) -> ParamsPattern:
        """Return the pattern widened by `NAME` (any value), `NAME=TEXT*` or `NAME=FOLDER/`.

        Raises:
            ConfigurationError: the text is invalid, or the parameter's value in the call does not match.
        """
        name, given, values = text.partition("=")
        return self.widen(name, Widening.parse(values) if given else Widening(Wide.ANY))

    def matches(self, params: Mapping[str, Any]) -> bool:
        """Return whether the pattern matches `params`, which must be JSON data within the depth limit of a call."""
        return self._matches_at("", self.params, params)

    def _matches_at(self, pointer: str, own: Any, other: Any) -> bool:
        if (widening := self.widened.get(pointer)) is not None:
            return widening.matches(other)
        if type(own) is not type(other):  # neither 1 for true, nor 1.0 for 1
            return False
        if isinstance(own, dict):
            return own.keys() == other.keys() and all(
                self._matches_at(f"{pointer}/{_escape_pointer(name)}", value, other[name])
                for name, value in own.items()
            )
        if isinstance(own, list):
            return len(own) == len(other) and all(
                self._matches_at(f"{pointer}/{index}", value, other[index]) for index, value in enumerate(own)
            )
        return bool(repr(own) == repr(other) if isinstance(own, float) else own == other)  # 0.0 is not -0.0

    @property
    def words(self) -> str:
        """A description of the pattern. It omits the values of parameters that may not differ."""
        wide = [f"{pointer[1:]}: {widening.words}" for pointer, widening in sorted(self.widened.items())]
        return ", ".join([*wide, "other parameters unchanged"]) if wide else "exactly these parameters"

    def as_dict(self) -> dict[str, Any]:
        """Return the pattern as JSON data."""
        wide = {pointer: {"kind": str(w.kind), "text": w.text} for pointer, w in self.widened.items()}
        return {"params": dict(self.params), "widened": wide}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ParamsPattern:
        """Return the pattern from the JSON data that `as_dict` returned."""
        wide = {pointer: Widening(Wide(w["kind"]), w["text"]) for pointer, w in data["widened"].items()}
        return cls(data["params"], wide)


def _split_path(path: str) -> list[str] | None:
    """Return the segments of a path, or None if the path may leave its folder.

    The first segment of an absolute path is empty.
    """
    if len(path) > MAX_PATH_BYTES:
        return None
    parts = path.removesuffix("/").split("/")
    named = parts[1:] if path.startswith("/") else parts
    if not named or any(part in ("", ".", "..") for part in named):
        return None
    lowered = path.lower()
    return None if any(step in lowered for step in _HIDDEN_STEPS) else parts


def _may_leave_folder(text: str) -> bool:
    lowered = text.lower()
    return any(step in lowered for step in _HIDDEN_STEPS) or ".." in re.split(r"[/\s=:,]", text)


def _escape_pointer(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _find_value(params: Mapping[str, Any], pointer: str) -> Any:
    value: Any = params
    for step in pointer[1:].split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, Mapping) and name in value:
            value = value[name]
        elif isinstance(value, list) and re.fullmatch("0|[1-9][0-9]{0,8}", step) and int(step) < len(value):
            value = value[int(step)]
        else:
            names = ", ".join(list(params)[:_NAMES_IN_HINT])
            raise ConfigurationError(
                f"the call has no parameter {pointer[1:]!r:.80}",
                hint=f"its parameters: {names:.200}" if names else "it has no parameters",
            )
    return value
