"""{{name}}: returns the temperature at a place. Change `_run`, SCHEMA and `describe`; keep the rest.

The module is imported during the build, so import everything at the top. Raise a failure that the caller can correct or
should understand; any other exception is reported with its line.
"""

import json
from typing import Any

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports.provider import Annotations, Tool
from wit_world.imports import http, log, progress, workspace
from wit_world.imports.types import Failure, FailureKind

SCHEMA = {
    "type": "object",
    "properties": {
        "place": {"type": "string", "description": "A place listed in weather/places.txt"},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "description": "Default: celsius"},
    },
    "required": ["place"],
    "additionalProperties": False,
}


class Provider(exports.Provider):
    def describe(self) -> list[Tool]:
        annotations = Annotations(read_only=True, destructive=False, network=True)
        return [Tool("{{name}}", "Tells how warm it is at a place.", json.dumps(SCHEMA), annotations)]

    def call(self, name: str, params: str, context: str | None) -> str:
        return json.dumps(_run(**json.loads(params)))


def _run(place: str, unit: str = "celsius") -> dict[str, Any]:
    latitude, longitude = _coordinates(place)
    progress.report(1, 2, "found the place")
    forecast = _get(
        f"https://api.open-meteo.com/v1/forecast?latitude={latitude}&longitude={longitude}"
        f"&current=temperature_2m&temperature_unit={unit}"
    )
    progress.report(2, 2, None)
    return {"place": place, "temperature": forecast["current"]["temperature_2m"], "unit": unit}


def _coordinates(place: str) -> tuple[str, str]:
    """Each line of the file is a name, a latitude and a longitude."""
    known = {}
    for line in workspace.read("weather/places.txt").decode().splitlines():
        if line.count(" ") == 2:
            name, latitude, longitude = line.split()
            known[name] = (latitude, longitude)
    if place not in known:
        raise _failure(FailureKind.INPUT, "unknown-place", f"there is no place {place!r}, only {', '.join(known)}")
    return known[place]


def _get(url: str) -> Any:
    log.log(log.Level.INFO, f"GET {url}")
    headers = [http.Header("accept", "application/json")]
    response = http.fetch(http.Request(http.Method.GET, url, headers, None, 10_000))
    if response.status != 200:
        message = f"the API answered with status {response.status}"
        raise _failure(FailureKind.OPERATION_FAILED, "bad-status", message)
    return json.loads(response.body)


def _failure(kind: FailureKind, code: str, message: str) -> Err[Failure]:
    return Err(Failure(kind, code, message))
