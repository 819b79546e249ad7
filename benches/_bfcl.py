"""The multi-turn tasks of BFCL (https://gorilla.cs.berkeley.edu/leaderboard.html) as one suite of recorded calls."""

from __future__ import annotations

import ast
import importlib
import json
import re
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

from benches._suites import ACCOUNT, PAY, PUBLIC, WRITE, Call, Function, Suite, Task

_CLASSES = {
    "GorillaFileSystem": "gorilla_file_system", "MathAPI": "math_api", "MessageAPI": "message_api",
    "TwitterAPI": "posting_api", "TicketAPI": "ticket_api", "TradingBot": "trading_bot", "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}  # fmt: skip
_FILES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("cp", "echo", "mkdir", "mv", "touch"), ("write-filesystem",)),
    **dict.fromkeys(("rm", "rmdir"), ("delete-filesystem",)),
}
_PAYS = ("place_order", "fund_account", "withdraw_funds", "book_flight", "purchase_insurance")
_WRITES = re.findall(
    r"\w+",
    """
    add_contact delete_message send_message message_login authenticate_twitter comment follow_user mention post_tweet
    retweet unfollow_user close_ticket create_ticket edit_ticket resolve_ticket ticket_login logout add_to_watchlist
    cancel_order notify_price_change remove_stock_from_watchlist trading_login trading_logout authenticate_travel
    cancel_booking contact_customer_support register_credit_card set_budget_limit verify_traveler_information
    activateParkingBrake adjustClimateControl fillFuelTank lockDoors pressBrakePedal releaseBrakePedal setCruiseControl
    setHeadlights set_navigation startEngine
""",
)
_PUBLIC = re.findall(
    r"\w+",
    """
    get_tweet get_tweet_comments get_user_stats get_user_tweets search_tweets get_available_stocks
    filter_stocks_by_price get_stock_info get_symbol_by_name get_current_time compute_exchange_rate get_flight_cost
    get_nearest_airport_by_city list_all_airports find_nearest_tire_shop get_outside_temperature_from_google
    get_outside_temperature_from_weather_com get_zipcode_based_on_city
""",
)
_TRANSFORMS = ("estimate_distance", "gallon_to_liter", "liter_to_gallon")
_OTHERS_WRITE = ("get_tweet", "get_tweet_comments", "get_user_tweets", "search_tweets", "search_messages")
"""Tools of the services whose results contain text of other users."""
_TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": "string"}


def record(folder: Path) -> Suite:
    """Return the tasks of the category multi_turn_base."""
    sys.path.insert(0, str(folder))
    data = folder / "bfcl_eval" / "data"
    functions, owners = [], {}
    for owner, module in _CLASSES.items():
        for each in _lines(data / "multi_turn_func_doc" / f"{module}.json"):
            name = each["name"]
            functions.append(Function(name, each["description"], _schema(each["parameters"]), _effects(owner, name)))
            owners[name] = owner
    services = {name for name, owner in owners.items() if owner not in ("GorillaFileSystem", "MathAPI")}
    declared = {name: {"results": ["private"]} for name in services if name not in _OTHERS_WRITE}
    found = Suite("multi-turn", functions, declared=declared)
    answers = {
        each["id"]: each["ground_truth"] for each in _lines(data / "possible_answer" / "BFCL_v4_multi_turn_base.json")
    }
    for task in _lines(data / "BFCL_v4_multi_turn_base.json"):
        objects = {owner: _object(owner, task["initial_config"]) for owner in task["involved_classes"]}
        turns = []
        for messages, calls in zip(task["question"], answers[task["id"]], strict=True):
            steps = []
            for text in calls:
                call = _call(text, functions)
                steps.append((call, _answer(objects[owners[call.name]], call)))
            turns.append(("\n".join(each["content"] for each in messages), steps))
        found.tasks.append(Task(task["id"], turns))
    return found


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line]


def _effects(owner: str, name: str) -> tuple[str, ...]:
    if owner == "GorillaFileSystem":
        return _FILES.get(name, () if name in ("cd", "pwd") else ("read-filesystem",))
    if owner == "MathAPI" or name in _TRANSFORMS:
        return ()
    return PAY if name in _PAYS else WRITE if name in _WRITES else PUBLIC if name in _PUBLIC else ACCOUNT


def _schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with the names of types that JSON Schema has."""
    found = dict(schema)
    found["type"] = _TYPES.get(schema.get("type", "object"), schema.get("type", "object"))
    if "properties" in found:
        found["properties"] = {name: _schema(part) for name, part in found["properties"].items()}
    if "items" in found:
        found["items"] = _schema(found["items"])
    return found


def _object(owner: str, config: dict[str, Any]) -> Any:
    place = f"bfcl_eval.eval_checker.multi_turn_eval.func_source_code.{_CLASSES[owner]}"
    found = vars(importlib.import_module(place))[owner]()
    if owner != "MathAPI":
        found._load_scenario(deepcopy(config.get(owner, {})))
    return found


def _call(text: str, functions: list[Function]) -> Call:
    node = ast.parse(text, mode="eval").body
    assert isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    function = next(each for each in functions if each.name == node.func.id)
    args = dict(zip(function.schema["properties"], map(ast.literal_eval, node.args), strict=False))
    return Call(function.name, args | {each.arg: ast.literal_eval(each.value) for each in node.keywords if each.arg})


def _answer(service: Any, call: Call) -> Any:
    try:
        return json.loads(json.dumps(getattr(service, call.name)(**call.args), default=str))
    except Exception as error:
        return f"error: {error}"
