"""A plan for the rest of a turn, made mechanically from its calls at the first one that requires approval.

Until the next reading call, the model knows all values, so they are fixed. Later, a short value is fixed if the model
has read its words before, or if no result of the plan has it, so that the model chooses it. Any other one names its
source: the first call of the plan whose result has it, as a member, as an item or as its only address. The rest is text
of the model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from wasmrt.agent.flows import ApprovedPlans, Plan, is_control

_TEXT = 2000
_WORDS = re.compile(r"\w+")
_BEFORE_COLON = re.compile(r"((?:[\w'-]+ ){0,7}[\w'-]+) ?:\s")
_ATTRIBUTE = re.compile(r"(?<![\w-])([a-z-]+)=\"")


def plan_for(
    seen: str,
    steps: list[tuple[Any, Any]],
    effects: Mapping[str, tuple[str, ...]],
    changes: Callable[[Any], bool],
    *,
    choice: bool,
) -> Plan:
    """Return the plan of calls; `steps` are the calls with their results, `seen` is what the model read before.

    If `choice` is true, the plan allows a choice among several values of a result.
    """
    made: list[dict[str, Any]] = []
    known = True
    for number, (call, _) in enumerate(steps[:32]):
        places: dict[str, Any] = {}
        for path, values in _leaves(call.args):
            whole = call.args[path]
            places[path] = {"value": whole} if known else _place(seen, whole, values, steps[:number], made, choice)
            if places[path] == {"value": whole}:
                seen += f"\n{whole}"
        made.append(
            {"name": f"s{number}", "tool": call.name, "effects": sorted(effects[call.name]), "times": 1,
             "params": places}
        )  # fmt: skip
        known = known and changes(call)
    return Plan.of({"purpose": "what the user asked", "steps": made})


def _leaves(args: Mapping[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    """Yield the path of each parameter with its values. Nested parameters are kept whole."""
    for name, value in args.items():
        nested = not isinstance(value, list) or not value or any(isinstance(each, (dict, list)) for each in value)
        yield name, [value] if nested else value


def _place(
    seen: str, whole: Any, values: list[Any], before: list[tuple[Any, Any]], made: list[dict[str, Any]], choice: bool
) -> Any:
    simple = all(isinstance(each, (str, int, float)) and not isinstance(each, bool) for each in values)
    read = "\n".join(text for _, result in before for text in _texts(result)).casefold()
    if not simple or all(_is_known(each, seen.casefold(), read) for each in values):
        return {"value": whole}
    many = {"many": len(values)} if len(values) > 1 else {}
    for chosen in ({}, {"choice": True}) if choice else ({},):
        for number in range(len(before)):
            for found in _sources(values, before[number][1], made[number]["name"]):
                place = found | chosen | many
                if all(_has(made, before, number, place, each) for each in values):
                    return place
    if all(isinstance(each, str) for each in values):
        return {"text": _TEXT, "private": True} | many
    return {"max": 2 * max(values)} | many


def _is_known(value: Any, seen: str, read: str) -> bool:
    """Return whether the model knows a value when it makes the plan; `read` are the results of later calls."""
    text = str(value).casefold()
    if not isinstance(value, str) or not is_control(value):
        return text in seen
    return text not in read or all(word in seen for word in _WORDS.findall(text))


def _texts(value: Any) -> Iterator[str]:
    """Yield the strings in a result, without the names of members."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (Mapping, list)):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(part)


def _sources(values: list[Any], result: Any, name: str) -> Iterator[dict[str, Any]]:
    """Yield the places that could have the values as their source in a result, the narrowest first."""
    bound = {"max": 2 * max(values)} if all(isinstance(each, (int, float)) for each in values) else {}
    yield from ({"from": name, "member": member} | bound for member in dict.fromkeys(_members(result)))
    yield {"from": name} | bound


def _members(result: Any) -> Iterator[str]:
    if isinstance(result, Mapping):
        for key, part in result.items():
            yield str(key)
            yield from _members(part)
    elif isinstance(result, list):
        for part in result:
            yield from _members(part)
    elif isinstance(result, str):
        yield from _ATTRIBUTE.findall(result)
        for found in _BEFORE_COLON.finditer(result):
            words = found[1].split()
            yield from (" ".join(words[-count:]) for count in range(1, len(words) + 1))


def _has(made: list[dict[str, Any]], before: list[tuple[Any, Any]], number: int, place: Any, value: Any) -> bool:
    """Return whether a place at the result of one step would cover a value, by the rules of plans themselves."""
    probe = {"tool": "probe", "effects": [], "params": {"x": place}}
    source = made[number] | {"params": {"x": "y"}}
    plans = ApprovedPlans()
    plans.approve(Plan.of({"steps": [source, probe]}), "bench", ["source", "probe"])
    read = plans.find("source", {"x": "y"}, frozenset(), lambda _: False)
    assert read is not None
    plans.record(read, before[number][0].args, before[number][1])
    return plans.find("probe", {"x": value}, frozenset(), lambda _: False) is not None
