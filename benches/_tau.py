"""The tasks of tau-bench (https://github.com/sierra-research/tau-bench) as suites of recorded calls.

The domains are retail and airline. The user says the whole instruction of a task at once. An action that changes
something is preceded by the reads that an agent needs for it: the user, the order or reservation, and the products or
flights that the action names.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from benches._suites import ACCOUNT, PAY, PUBLIC, WRITE, Call, Function, Suite, Task

_PUBLIC = ("get_product_details", "list_all_product_types", "list_all_airports", "search_direct_flight",
           "search_onestop_flight")  # fmt: skip
_READS = ("find", "get", "list", "search")


def record(folder: Path, domain: str) -> Suite:
    """Return a domain, `retail` or `airline`, with its test tasks."""
    sys.path.insert(0, str(folder))
    for name in ("", ".agents", ".agents.base", ".envs", ".envs.base", f".envs.{domain}"):
        _skip(f"tau_bench{name}", folder / "tau_bench" / name.replace(".", "/").strip("/"))  # they import model clients
    envs = f"tau_bench.envs.{domain}"
    tools = {each.get_info()["function"]["name"]: each for each in importlib.import_module(f"{envs}.tools").ALL_TOOLS}
    module = importlib.import_module(f"{envs}.tasks_test")
    tasks = getattr(module, "TASKS_TEST", None) or module.TASKS
    functions = [_function(each.get_info()["function"]) for each in tools.values()]
    data = json.dumps(importlib.import_module(f"{envs}.data").load_data())
    found = Suite(domain, functions, declared={name: {"results": ["private"]} for name in tools})
    changing = {each.name for each in functions if each.effects in (WRITE, PAY)}
    for number, task in enumerate(tasks):
        world, steps = json.loads(data), []
        calls = [Call(action.name, action.kwargs) for action in task.actions]
        for call in calls:
            before = _reads(world, call) if call.name in changing else ()
            for each in (*before, call):
                if each.name in tools and (each not in [done for done, _ in steps] or each is call):
                    steps.append((each, _parsed(tools[each.name].invoke(data=world, **each.args))))
        found.tasks.append(Task(f"task {number}", [(task.instruction, steps)]))
    return found


def _skip(name: str, folder: Path) -> None:
    """Make a package importable without running its `__init__`."""
    module = ModuleType(name)
    module.__path__ = [str(folder)]
    sys.modules.setdefault(name, module)


def _function(info: dict[str, Any]) -> Function:
    name = info["name"]
    if name in ("calculate", "think"):
        effects: tuple[str, ...] = ()
    elif name.partition("_")[0] in _READS:
        effects = PUBLIC if name in _PUBLIC else ACCOUNT
    else:
        effects = PAY if "payment" in json.dumps(info["parameters"]["properties"]) else WRITE
    return Function(name, info["description"], info["parameters"], effects)


def _reads(world: dict[str, Any], call: Call) -> Iterator[Call]:
    args = call.args
    order = world.get("orders", {}).get(args.get("order_id"))
    reservation = world.get("reservations", {}).get(args.get("reservation_id"))
    user = args.get("user_id") or (order or reservation or {}).get("user_id")
    if user in world["users"]:
        yield Call("get_user_details", {"user_id": user})
    if order is not None:
        yield Call("get_order_details", {"order_id": args["order_id"]})
        for product in {item["product_id"] for item in order["items"] if "new_item_ids" in args}:
            yield Call("get_product_details", {"product_id": product})
    if reservation is not None:
        yield Call("get_reservation_details", {"reservation_id": args["reservation_id"]})
    for flight in args.get("flights", ()):
        found = world["flights"].get(flight["flight_number"])
        if found is not None:
            route = {"origin": found["origin"], "destination": found["destination"], "date": flight["date"]}
            yield Call("search_direct_flight", route)


def _parsed(text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return text
