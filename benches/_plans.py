"""A plan for the rest of a turn, made mechanically from its calls at the first one that requires approval.

Until the next reading call, the model knows all values, so they are fixed. Later, a short value that the model has read
before is fixed, and any other one names its source: the first call of the plan whose result has it, as a member, as an
item or as its only address. The rest is text of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from wasmrt.agent.flows import ApprovedPlans, Plan

_TEXT = 2000


def plan_for(
    seen: str, steps: list[tuple[Any, Any]], effects: Mapping[str, tuple[str, ...]], changes: Callable[[Any], bool]
) -> Plan:
    """Return the plan of calls; `steps` are the calls with their results, `seen` is what the model read before."""
    made: list[dict[str, Any]] = []
    known = True
    for number, (call, _) in enumerate(steps[:32]):
        places: dict[str, Any] = {}
        for path, values in _leaves(call.args):
            whole = call.args[path]
            places[path] = {"value": whole} if known else _place(seen, whole, values, steps[:number], made)
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


def _place(seen: str, whole: Any, values: list[Any], before: list[tuple[Any, Any]], made: list[dict[str, Any]]) -> Any:
    short = all(isinstance(each, (str, int, float)) and not isinstance(each, bool) for each in values)
    if not short or all(str(each).casefold() in seen.casefold() for each in values):
        return {"value": whole}
    many = {"many": len(values)} if len(values) > 1 else {}
    for number in range(len(before)):
        for place in _sources(values, before[number][1], made[number]["name"]):
            if all(_has(made, before, number, place, each) for each in values):
                return place | many
    if all(isinstance(each, str) for each in values):
        return {"text": _TEXT, "private": True} | many
    return {"max": 2 * max(values)} | many


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
        yield from (line.partition(":")[0].strip(" -") for line in result.splitlines() if ":" in line[1:80])


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
