"""A plan for each user task of AgentDojo, made mechanically from the calls that solve it, before any question.

A value that the user's message contains is fixed. Any other value names its source: the first earlier call whose result
has it, as a member, as an item or as its only address. The rest is text of the model, and what has no place is left out
of the plan, so that its calls ask as usual.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benches import _dojo as dojo
from wasmrt.agent.flows import ApprovedPlans, Plan

_TEXT = 2000


def plan_for(prompt: str, steps: list[tuple[Any, Any]]) -> Plan:
    """Return the plan of a task's calls; `steps` are the calls with their results."""
    made: list[dict[str, Any]] = []
    for number, (call, _) in enumerate(steps):
        effects = sorted(dojo.effects_of(call.name))
        places = {}
        for path, values in _leaves(call.args):
            places[path] = _place(prompt, values, steps[:number], made)
        made.append({"name": f"s{number}", "tool": call.name, "effects": effects, "times": 1, "params": places})
    return Plan.of({"purpose": "what the user asked", "steps": made[:32]})


def _leaves(args: Mapping[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    """Yield the path of each parameter with its values. Nested parameters are kept whole."""
    for name, value in args.items():
        nested = not isinstance(value, list) or not value or any(isinstance(each, (dict, list)) for each in value)
        yield name, [value] if nested else value


def _place(prompt: str, values: list[Any], before: list[tuple[Any, Any]], made: list[dict[str, Any]]) -> Any:
    whole = values[0] if len(values) == 1 else values
    short = all(isinstance(each, (str, int, float)) and not isinstance(each, bool) for each in values)
    if not short or all(str(each).casefold() in prompt.casefold() for each in values):
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
