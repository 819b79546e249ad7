"""The same guest as rust/near-agent, in Python. Everything is imported at build time: the sandbox has no files."""

import json
import os
import random
import sys
import time
import uuid

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports.tool import Request, Response
from wit_world.imports import host

SCHEMA = {
    "type": "object",
    "properties": {"op": {"type": "string"}, "arg": {"type": "string"}},
}

_calls = 0


class Tool(exports.Tool):
    def execute(self, req: Request) -> Response:
        try:
            return Response(output=_run(req), error=None)
        except Err as error:
            return Response(output=None, error=str(error.value))
        except (ValueError, OSError) as error:
            return Response(output=None, error=f"{type(error).__name__}: {error}")

    def schema(self) -> str:
        return json.dumps(SCHEMA)

    def description(self) -> str:
        return "Does on request what a test wants to see."


def _run(req: Request) -> str:
    params = json.loads(req.params)
    op, arg = params.get("op", ""), params.get("arg", "")
    if op in {"", "echo"}:
        return req.params
    if op == "context":
        return req.context or "null"
    if op == "invoke":
        return host.tool_invoke(arg, "{}")
    if op == "invalid":
        return "this is not JSON"
    return json.dumps(_OPERATIONS[op](arg) if op in _OPERATIONS else _unknown(op))


def _unknown(op: str) -> None:
    raise ValueError(f"no operation {op!r}")


def _http(url: str) -> dict[str, object]:
    response = host.http_request("GET", url, '{"accept": "*/*"}', None, 5_000)
    body = response.body.decode(errors="replace")
    return {"status": response.status, "headers": json.loads(response.headers_json), "body": body}


def _log(message: str) -> None:
    for level in host.LogLevel:
        host.log(level, message)


def _count(_: str) -> int:
    global _calls
    _calls += 1
    return _calls


def _spin(_: str) -> None:
    while True:
        pass


def _grow(_: str) -> None:
    kept = []
    while True:
        kept.append(bytes(1 << 20))


def _recurse(arg: str) -> int:
    return _recurse(arg) + 1


def _sleep(arg: str) -> None:
    time.sleep(float(arg))


def _print(arg: str) -> None:
    print(arg)
    print(arg, file=sys.stderr)


def _read(arg: str) -> str:
    with open(arg) as file:
        return file.read()


_OPERATIONS = {
    "now": lambda _: {"now": host.now_millis()},
    "workspace": lambda path: {"text": host.workspace_read(path)},
    "http": _http,
    "secret": lambda name: host.secret_exists(name),
    "log": _log,
    "fail": lambda arg: _fail(arg),
    "count": _count,
    "trap": lambda arg: sys.exit(arg),
    "spin": _spin,
    "grow": _grow,
    "recurse": _recurse,
    "big": lambda arg: "x" * int(arg),
    # What only WASI can answer; with stubs these trap.
    "clock": lambda _: time.time(),
    "sleep": _sleep,
    "print": _print,
    "env": lambda _: dict(os.environ),
    "read": _read,
    "list": lambda arg: os.listdir(arg),
    "random": lambda _: [random.SystemRandom().random(), str(uuid.uuid4())],
}


def _fail(arg: str) -> None:
    raise Err(arg)
