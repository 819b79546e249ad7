"""The approved plans of a trace: how often each step may still run, and the results that are sources of values."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any

from wasmrt.agent.flows._addresses import Form, find_addresses
from wasmrt.agent.flows._destinations import is_control
from wasmrt.agent.flows._forms import find_likely_numbers, iter_readings, make_skeleton, parse_number
from wasmrt.agent.flows._ids import iter_members
from wasmrt.agent.flows._known import flow_texts, normalize_value
from wasmrt.agent.flows._plans import Place, Plan
from wasmrt.core.effects import Effect
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import MAX_JSON_DEPTH, MAX_PLAN_RESULT_BYTES, MAX_PLANS
from wasmrt.core.strict_json import JsonError, read_json

_QUOTED = r"'([^'\\]{0,500})'|\"([^\"\\]{0,500})\""
_LIST = re.compile(rf"\s*\[\s*(?:{_QUOTED})\s*(?:,\s*(?:{_QUOTED})\s*)*\]\s*")
"""A list of strings that a service returned as text."""
_MAX_LABELS = 100
"""Maximum number of occurrences of a label in a text."""
_CODE = re.compile(r"(?=[a-z]*\d)(?=\d*[a-z])[a-z0-9]{5,34}")
_WORD = re.compile(r"[^\W_]+")
_IBAN = re.compile(r"[a-z]{2}\d{2}[a-z0-9]{11,30}")


class _Text:
    """A text in which a value is found only if nothing else in the text could be meant.

    SECURITY: an injected second candidate makes the text ambiguous, so that the call requires approval.
    """

    def __init__(self, text: str) -> None:
        self._text = text

    def has(self, value: Any, place: Place) -> bool:
        """Return whether a value is in the text, and no other candidate is, except for choices that the plan allows.

        If the place has a maximum, the candidates are the numbers from 0 to the maximum. Otherwise, they are the
        addresses in the text if the value is an address, or the codes if the value is a code.
        """
        if place.maximum is not None:
            found = find_likely_numbers(make_skeleton(self._text))
            within = {each for each in found if 0 <= float(each) <= place.maximum}
            return parse_number(value) in within and _is_clear(len(within), place)
        return isinstance(value, str) and (self._is_only_address(_squeeze(value)) or self._is_only_code(value))

    def _is_only_address(self, value: str) -> bool:
        found = self._addresses
        return value in found and all(each == value or _is_part_of_account(each, value) for each in found)

    def _is_only_code(self, value: str) -> bool:
        """Return whether a value is the only word of both letters and digits, in any spelling, and no address."""
        plain = make_skeleton(value).strip()
        return _CODE.fullmatch(plain) is not None and _squeeze(value) not in self._addresses and self._codes == {plain}

    @cached_property
    def _codes(self) -> frozenset[str]:
        words = (word for plain in iter_readings(self._text) for word in _WORD.findall(plain))
        return frozenset(word for word in words if not word.isalpha() and not word.isdigit())

    @cached_property
    def _addresses(self) -> frozenset[str]:
        unclear = (Form.SPLIT, Form.FILE)
        return frozenset(_squeeze(each) for each, form in find_addresses(self._text) if form not in unclear)

    def is_labelled(self, value: Any, place: Place) -> bool:
        """Return whether the text has a value in the form `LABEL: VALUE`, or as an attribute (`id="VALUE"`).

        After a colon, the value is the next word, or the rest of the line.

        SECURITY: any occurrence of the label can be injected. After a colon, every occurrence must have the value. If
        attributes have different values, the plan must allow a choice among them. If the text has both forms, no value
        is found.
        """
        label = rf"(?<!\w){re.escape(place.member)}"
        rests = self._find(rf"{label}[ \t]*:\s+(?=(\S[^\n]{{0,1000}}))")
        attributes = self._find(rf"(?<!-){label}\s{{0,9}}=\s{{0,9}}(?=(\"[^\"]{{0,500}}|'[^']{{0,500}}|\S{{0,500}}))")
        if not 0 < len(rests) + len(attributes) < _MAX_LABELS or (rests and attributes):
            return False
        if attributes:
            return _is_listed(value, (each.lstrip("\"'") for each in attributes), place)
        return all(is_value_among(value, (rest, rest.split()[0].rstrip(".,;"))) for rest in rests)

    def _find(self, pattern: str) -> list[str]:
        return [each[1] for each in islice(re.finditer(pattern, self._text, re.I), _MAX_LABELS)]


class _Result:
    """One result of a step. SECURITY: values that repeat a param of the call are left out: the model chose them."""

    def __init__(self, result: Any, params: Mapping[str, Any]) -> None:
        self._result = _read_structure(result)
        text = "\n".join(flow_texts(self._result))
        self._text = _Text(text)
        self._params = "\n".join(str(each) for each in flow_texts(params)).casefold()
        # SECURITY: a longer text is not a value: its author would choose every word of it.
        several_words = isinstance(self._result, str) and len(self._result.split()) > 1
        self._is_list = not several_words and not any(isinstance(each, Mapping) for each in _iter_parts(self._result))
        self.size = len(text.encode("utf-8", "replace"))

    def has(self, value: Any, place: Place) -> bool:
        """Return whether the result has a value, in the form that a place requires."""
        if re.search(rf"(?<!\w){re.escape(str(value).strip().casefold())}(?!\w)", self._params):
            return False
        if place.member:
            found = tuple(iter_members(self._result, (place.member,)))
            if not found:
                return self._text.is_labelled(value, place)
            within = _Text("\n".join(str(each) for each in found if isinstance(each, (str, int, float))))
            return _is_listed(value, _with_items(found), place) or within.has(value, place)
        if self._is_list and _is_listed(value, _iter_parts(self._result), place):
            return True
        return self._text.has(value, place)


def _read_structure(result: Any) -> Any:
    """Return the JSON data of a result that is JSON text, as many MCP servers return it; otherwise the result."""
    if not isinstance(result, str) or not result.lstrip().startswith(("{", "[")):
        return result
    try:
        return read_json(result, max_bytes=MAX_PLAN_RESULT_BYTES, max_depth=MAX_JSON_DEPTH, distinct=True)
    except JsonError:
        return result


def _with_items(values: Iterable[Any]) -> Iterator[Any]:
    """Yield values. If one is a list of strings, written as text, yield its items instead."""
    for value in values:
        if isinstance(value, str) and _LIST.fullmatch(value):
            yield from (one or other for one, other in re.findall(_QUOTED, value))
        else:
            yield value


def _is_listed(value: Any, values: Iterable[Any], place: Place) -> bool:
    """Return whether a value is among the values that a result has for a place."""
    listed = [each for each in values if isinstance(each, (str, int, float))]
    return is_value_among(value, listed) and _is_clear(len({normalize_value(each) for each in listed}), place)


def _is_clear(candidates: int, place: Place) -> bool:
    """Return whether a plan allows a value out of this number of candidates in a result.

    SECURITY: injected text could choose among several values, so the plan has to allow a choice.
    """
    return place.choice or candidates <= place.many


def is_value_among(value: Any, values: Iterable[Any]) -> bool:
    """Return whether a value is among others. A number matches its text in any usual format."""
    number = parse_number(value)
    return any(
        normalize_value(each) == normalize_value(value) or (number is not None and parse_number(each) == number)
        for each in values
        if isinstance(each, (str, int, float))
    )


def _iter_parts(value: Any) -> Iterator[Any]:
    yield value
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from _iter_parts(part)


def _is_part_of_account(each: str, account: str) -> bool:
    """Return whether `each` is the IBAN `account` with fewer or more groups: in a text, an IBAN's end is unclear."""
    if _IBAN.fullmatch(account) is None:
        return False
    return account.startswith(each) or (each.startswith(account) and _IBAN.fullmatch(each) is not None)


def _squeeze(address: str) -> str:
    return re.sub(r"[ -]", "", address.strip()).casefold()


@dataclass(slots=True)
class _Approved:
    """An approved plan. `tools` are the tools that its steps name, as they were registered at that time."""

    plan: Plan
    by: str
    tools: tuple[object, ...]
    left: list[int]
    results: list[list[_Result]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A call that fits a step of an approved plan."""

    approved: _Approved
    step: int
    fixed: frozenset[str]
    """The parameters with a fixed value."""
    values: tuple[Any, ...]
    """The values that have a fixed value or a source."""
    has_text: bool
    """True if the model chose a text or a part of a value. Links in it require approval as usual."""
    has_private: bool
    """True if the plan allows private text in all of these texts."""

    @property
    def by(self) -> str:
        """The person or program that approved the plan."""
        return self.approved.by

    @property
    def name(self) -> str:
        """The step and the digest of its plan, for receipts."""
        return f"step {self.step + 1} of plan {self.approved.plan.digest[:16]}"


class ApprovedPlans:
    """The approved plans of one trace. Thread-safe. They end with the trace, and no other trace has them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plans: list[_Approved] = []
        self._size = 0

    def approve(self, plan: Plan, by: str, tools: Sequence[object]) -> None:
        """Add a plan; `tools` are the registered tools of its steps.

        Raises:
            ConfigurationError: the trace has too many plans.
        """
        with self._lock:
            if len(self._plans) >= MAX_PLANS:
                hint = "close the trace and open another one"
                raise ConfigurationError(f"the trace already has {MAX_PLANS} approved plans, the maximum", hint=hint)
            empty: list[list[_Result]] = [[] for _ in plan.steps]
            self._plans.append(_Approved(plan, by, tuple(tools), [step.times for step in plan.steps], empty))

    def end(self) -> None:
        """Remove all plans."""
        with self._lock:
            self._plans, self._size = [], 0

    def find(
        self,
        tool: object,
        params: Mapping[str, Any],
        effects: frozenset[Effect],
        is_untrusted: Callable[[Any], bool],
    ) -> PlannedCall | None:
        """Return the first step that may still run and that matches the call, or None. The call is not counted.

        `is_untrusted` returns whether a value was found only in untrusted text.
        """
        with self._lock:
            for approved in self._plans:
                for at, left in enumerate(approved.left):
                    # SECURITY: a tool that was replaced since the approval is another tool.
                    if left and approved.tools[at] is tool and effects <= approved.plan.steps[at].effects:
                        found = self._fit(approved, at, params, is_untrusted)
                        if found is not None:
                            return found
        return None

    def take(self, call: PlannedCall) -> bool:
        """Count a call; return False if its step was used up meanwhile, or the plan has ended."""
        with self._lock:
            if call.approved not in self._plans or not call.approved.left[call.step]:
                return False
            call.approved.left[call.step] -= 1
            return True

    def record(self, call: PlannedCall, params: Mapping[str, Any], result: Any) -> None:
        """Add the result of a counted call as a source for later steps. Results beyond the limit are ignored."""
        found = _Result(result, params)
        with self._lock:
            if self._size + found.size <= MAX_PLAN_RESULT_BYTES:
                self._size += found.size
                call.approved.results[call.step].append(found)

    def _fit(
        self, approved: _Approved, at: int, params: Mapping[str, Any], is_untrusted: Callable[[Any], bool]
    ) -> PlannedCall | None:
        places = approved.plan.steps[at].params
        values = approved.plan.steps[at].match(params)
        if values is None:
            return None
        for path, found in values.items():
            place = places[path]
            results = [result for source in place.sources for result in approved.results[source]]
            for value in found:
                if place.sources and not any(result.has(value, place) for result in results):
                    return None
                # SECURITY: a bound approves the values of the model. An injected one could be any value within it.
                if place.is_written and (not place.text or is_control(value)) and is_untrusted(value):
                    return None
        written = [places[path] for path in values if places[path].is_written and places[path].maximum is None]
        return PlannedCall(
            approved, at, frozenset(path for path in values if places[path].fixed),
            tuple(value for path, found in values.items() if not places[path].is_written for value in found),
            bool(written), all(place.private for place in written),
        )  # fmt: skip
