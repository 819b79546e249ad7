"""Plans: calls that a person approves at once. Each parameter has a fixed value, a bound, or a named source."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from blake3 import blake3

from wasmrt.agent.flows._destinations import Destination, Kind
from wasmrt.agent.flows._known import matches_pattern
from wasmrt.core.effects import Effect, in_words
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import MAX_FLOW_VALUES, MAX_JSON_DEPTH, MAX_PLAN_BYTES, MAX_PLAN_CALLS, MAX_PLAN_STEPS
from wasmrt.core.names import did_you_mean
from wasmrt.core.strict_json import JsonError, read_json, write_json

_NAME = re.compile(r"[\w-][\w.:/-]{0,127}", re.ASCII)
_PATTERN = re.compile(r"(?:\*[.@])?(?:[a-z0-9-]{1,63}\.){1,8}[a-z][a-z0-9-]{1,62}")
_MAX_TEXT = 100_000
_MAX_PURPOSE = 200
PROPOSE_PLAN = "propose_plan"
"""The name of the tool with which a model proposes a plan."""
_HINT = "a plan is {steps: [{tool, effects, times, params: {NAME: VALUE or {from, max, ...}}}]}; see docs/flows.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The values that one parameter of a planned call may have."""

    fixed: bool = False
    value: Any = None
    sources: tuple[int, ...] = ()
    """The steps whose results must contain the value."""
    member: str = ""
    """The object member, or the label of a line of text, that has the value in the results."""
    choice: bool = False
    """True if the model may choose among more values than `many` in the results."""
    maximum: float | None = None
    matches: str = ""
    """A host (`api.example.com`, `*.example.com`), or the domain of email addresses (`*@example.com`)."""
    below: str = ""
    """The folder of a path."""
    text: int = 0
    """Maximum number of characters of a text that the model writes."""
    private: bool = False
    """True if the text may contain private text of the trace."""
    many: int = 1
    """Maximum number of values, for a list."""

    @property
    def is_written(self) -> bool:
        """True if the model chooses the value, within a bound."""
        return not self.fixed and not self.sources

    def admits(self, value: Any) -> bool:
        """Return whether a value is equal to the fixed value, or within the bounds. Sources are not checked."""
        if self.fixed:
            return _is_same(self.value, value)
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if self.maximum is not None:
            return number and 0 <= value <= self.maximum
        if not isinstance(value, str):
            return number and bool(self.sources)
        if self.matches:
            kind = Kind.ADDRESS if "@" in self.matches else Kind.URL
            return matches_pattern(Destination("", value, kind), self.matches)
        if self.below:
            return value.startswith(self.below) and _is_plain_path(value.removeprefix(self.below))
        return bool(self.sources) or len(value) <= self.text

    def describe(self) -> str:
        """Return the place in words, as one line."""
        if self.fixed:
            words = json.dumps(self.value, ensure_ascii=False)
        elif self.text:
            carried = "which may contain private text" if self.private else "without private text"
            words = f"any text of up to {self.text:,} characters, {carried}"
        else:
            words = ", ".join(self._iter_bounds())
        return words if self.many == 1 else f"{words} (up to {self.many} values)"

    def _iter_bounds(self) -> Iterator[str]:
        if self.sources:
            steps = ", ".join(str(each + 1) for each in self.sources)
            found = f'"{self.member}"' if self.member else "a value"
            several = ", any of several values" if self.choice else ""
            yield f"{found} in the results of step {steps}{several}"
        if self.maximum is not None:
            yield f"a number from 0 to {self.maximum:,}"
        if self.matches:
            yield f"{'an email address' if '@' in self.matches else 'any URL'} of {self.matches}"
        if self.below:
            yield f"a path below {self.below}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStep:
    """Calls of one tool in a plan."""

    name: str
    tool: str
    effects: frozenset[Effect]
    """The effects that the calls may have."""
    times: int
    params: Mapping[str, Place]
    """A place for each parameter, by its path: `to`, or `rows.to` for a member of an object."""

    def match(self, params: Mapping[str, Any]) -> dict[str, list[Any]] | None:
        """Return the values of each place in the params of a call, or None if the params do not fit the step.

        SECURITY: every value, also True, null and an empty list, must have a place, and every place must have a value.
        """
        found: dict[str, list[Any]] = {}
        placed = all("." not in name and self._collect(name, part, found) for name, part in params.items())
        if not placed or found.keys() != self.params.keys():
            return None
        fits = all(
            len(values) <= self.params[path].many and all(map(self.params[path].admits, values))
            for path, values in found.items()
        )
        return found if fits else None

    def _collect(self, path: str, value: Any, found: dict[str, list[Any]]) -> bool:
        """Add the values below a path to `found`; return False if one of them has no place."""
        place = self.params.get(path)
        if place is not None and (place.fixed or not isinstance(value, (Mapping, list, tuple))):
            found.setdefault(path, []).append(value)
            return len(found[path]) <= MAX_FLOW_VALUES
        if isinstance(value, (list, tuple)) and value:
            return all(self._collect(path, part, found) for part in value)
        if place is not None or not isinstance(value, Mapping) or not value:
            return False
        return all("." not in name and self._collect(f"{path}.{name}", part, found) for name, part in value.items())

    def lines(self, number: int) -> Iterator[str]:
        """Yield the step as lines of text."""
        times = "once" if self.times == 1 else f"up to {self.times:,} times"
        yield f"{number}. {self.tool}, {times}: it may {in_words(self.effects)}"
        yield from (f"   {path}: {place.describe()}" for path, place in self.params.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A list of steps that a person or the program can approve for one trace (`Trace.approve_plan`)."""

    purpose: str = ""
    steps: tuple[PlanStep, ...]
    data: str = field(repr=False)
    """The plan as JSON text."""

    @classmethod
    def of(cls, data: Any) -> Plan:
        """Return the plan that JSON data describes.

        Raises:
            ConfigurationError: the data is not a valid plan, or exceeds a limit.
        """
        try:
            text = write_json(data)
            data = read_json(text, max_bytes=MAX_PLAN_BYTES, max_depth=MAX_JSON_DEPTH, exact=True)
        except JsonError as error:
            raise ConfigurationError(f"the plan is {error}", hint=_HINT) from error
        record = _Record(data, "plan", ("purpose", "steps"))
        steps = record.get("steps", list, [])
        if not 1 <= len(steps) <= MAX_PLAN_STEPS:
            raise ConfigurationError(f"plan.steps: expected 1 to {MAX_PLAN_STEPS} steps, got {len(steps)}", hint=_HINT)
        found: list[PlanStep] = []
        for each in steps:
            found.append(_read_step(each, found))
        return cls(purpose=record.text("purpose", _MAX_PURPOSE), steps=tuple(found), data=text)

    @property
    def digest(self) -> str:
        """BLAKE3 of the plan, in hexadecimal."""
        return blake3(self.data.encode()).hexdigest()

    @property
    def effects(self) -> frozenset[Effect]:
        """The effects of all steps."""
        return frozenset().union(*(step.effects for step in self.steps))

    @property
    def text(self) -> str:
        """The plan as text for the person who approves it."""
        head = f"purpose, as the plan states it: {json.dumps(self.purpose, ensure_ascii=False)}"
        steps = [line for number, step in enumerate(self.steps, 1) for line in step.lines(number)]
        return "\n".join([head, *steps] if self.purpose else steps)


_TYPES: dict[type[Any], str] = {
    str: "a text", int: "an integer", bool: "true or false", list: "a list", dict: "an object",
}  # fmt: skip


class _Record:
    """Reads an object of a plan's JSON data: unknown members and unexpected types are errors."""

    def __init__(self, data: Any, where: str, keys: tuple[str, ...]) -> None:
        if not isinstance(data, dict):
            raise ConfigurationError(f"{where}: expected an object, got {type(data).__name__}", hint=_HINT)
        for key in data:
            if key not in keys:
                near = did_you_mean(key, keys)
                hint = f"did you mean {near}?" if near else f"known keys: {', '.join(keys)}"
                raise ConfigurationError(f"{where}: unknown key {key!r:.80}", hint=hint)
        self.data, self.where = data, where

    def get(self, key: str, kind: type[Any], default: Any) -> Any:
        value = self.data.get(key, default)
        if type(value) is not kind:
            raise self.error(key, f"expected {_TYPES[kind]}, got {value!r:.80}")
        return value

    def text(self, key: str, limit: int) -> str:
        value: str = self.get(key, str, "")
        if len(value) > limit or (key in self.data and not value.strip()):
            raise self.error(key, f"expected 1 to {limit} characters, got {len(value)}")
        return value

    def name(self, key: str, default: Any = None) -> str:
        value: str = self.get(key, str, default)
        if _NAME.fullmatch(value) is None:
            raise self.error(key, f"expected a name of letters, digits and _ . : / -, got {value!r:.80}")
        return value

    def count(self, key: str, limit: int) -> int:
        value: int = self.get(key, int, 1)
        if not 1 <= value <= limit:
            raise self.error(key, f"expected 1 to {limit:,}, got {value}")
        return value

    def error(self, key: str, problem: str) -> ConfigurationError:
        return ConfigurationError(f"{self.where}.{key}: {problem}", hint=_HINT)


def _read_step(data: Any, earlier: list[PlanStep]) -> PlanStep:
    record = _Record(data, f"plan.steps[{len(earlier)}]", ("name", "tool", "effects", "times", "params"))
    tool = record.name("tool")
    effects = record.get("effects", list, None)
    unknown = next((each for each in effects if each not in list(Effect)), None)
    if unknown is not None:
        raise record.error("effects", f"{unknown!r:.40} is not an effect; known: {', '.join(Effect)}")
    # SECURITY: an approver must see every change of the agent's tools by itself.
    if Effect.MODIFY_TOOLS in effects:
        raise record.error("effects", f"a plan cannot include {Effect.MODIFY_TOOLS}")
    places: dict[str, Place] = {}
    for path, place in record.get("params", dict, {}).items():
        where = f"{record.where}.params.{path:.80}"
        if _NAME.fullmatch(path) is None:
            raise ConfigurationError(f"{where}: expected the name of a parameter, or its path such as rows.to")
        places[path] = _read_place(place, where, earlier)
    return PlanStep(
        name=record.name("name", tool), tool=tool, effects=frozenset(map(Effect, effects)),
        times=record.count("times", MAX_PLAN_CALLS), params=places,
    )  # fmt: skip


_BOUNDS = ("max", "matches", "below", "text", "from")


def _read_place(data: Any, where: str, earlier: list[PlanStep]) -> Place:
    if not isinstance(data, dict):
        return Place(fixed=True, value=data)
    record = _Record(data, where, ("value", "many", "member", "choice", "private", *_BOUNDS))
    many, bounds = record.count("many", MAX_FLOW_VALUES), [key for key in _BOUNDS if key in data]
    if "value" in data:
        if data.keys() - {"value", "many"}:
            raise ConfigurationError(
                f"{where}: expected either a value or bounds, got both", hint="remove value, or the other keys"
            )
        return Place(fixed=True, value=data["value"], many=many)
    if not bounds or len([key for key in bounds if key != "from"]) > 1 or {"text", "from"} <= {*bounds}:
        problem = "expected value, from, max, matches, below or text; only from can have one of max, matches and below"
        raise ConfigurationError(f"{where}: {problem}", hint=_HINT)
    if (data.keys() & {"member", "choice"} and "from" not in data) or ("private" in data and "text" not in data):
        problem = '"member" and "choice" require "from", and "private" requires "text"'
        raise ConfigurationError(f"{where}: {problem}", hint=_HINT)
    below = record.text("below", 1000)
    if below and not (below.endswith("/") and _is_plain_path(below.removeprefix("/").removesuffix("/"))):
        raise record.error("below", f"expected a folder such as bills/, got {below!r:.80}")
    matches = record.text("matches", 300)
    if matches and _PATTERN.fullmatch(matches) is None:
        raise record.error("matches", f"expected HOST, *.HOST or *@DOMAIN in lower case, got {matches!r:.80}")
    return Place(
        sources=_read_sources(record, earlier) if "from" in data else (), member=record.text("member", 100),
        choice=record.get("choice", bool, False), maximum=_read_maximum(record) if "max" in data else None,
        matches=matches, below=below, text=0 if "text" not in data else record.count("text", _MAX_TEXT),
        private=record.get("private", bool, False), many=many,
    )  # fmt: skip


def _read_sources(record: _Record, earlier: list[PlanStep]) -> tuple[int, ...]:
    name = record.name("from")
    found = tuple(at for at, step in enumerate(earlier) if name in (step.name, step.tool))
    if not found:
        known = ", ".join(dict.fromkeys(step.name for step in earlier)) or "none"
        raise record.error("from", f"{name} is not an earlier step; earlier steps: {known}")
    return found


def _read_maximum(record: _Record) -> float:
    value = record.data["max"]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
        raise record.error("max", f"expected a number of at least 0, got {value!r:.80}")
    return value


def _is_plain_path(path: str) -> bool:
    """Return whether a relative path has no hidden, empty or upward part."""
    parts = path.split("/")
    return path.isprintable() and "\\" not in path and all(part and part[0] not in ".~$%" for part in parts)


def _is_same(one: Any, other: Any) -> bool:
    """Return whether two JSON values are equal. Unlike `==`, this distinguishes True from 1."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
