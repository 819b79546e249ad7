"""Attacks without a hostile component: a tool, its schema or an unresponsive server suffices."""

from __future__ import annotations

import json
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from wasmrt.testing import attacks
from wasmrt.testing.attacks import ATTACKS, Body

from tests.sandbox.schema.test_validation_work import multiplied
from wasmrt import Isolation, WasmRuntimeConfig, WasmToolRuntime
from wasmrt.capabilities import RateLimitConfig
from wasmrt.core.errors import ExternalServiceError, ToolError, WasmrtError
from wasmrt.core.limits import MIB, ResourceLimits
from wasmrt.egress.rates import RateLimiter
from wasmrt.sandbox.guest.engine import wat2wasm

_SHORT = ResourceLimits(timeout_seconds=0.1, fuel=2**60)
_TEXT_AT = 1024
"""The address of a body's text in its memory."""
_WAITING = 3
_LINES = 1_000
_ESCAPES = b"&lt;a" * 200


class Move(NamedTuple):
    """The result of one attack."""

    stopped_by: str
    """The code of the error, or `harmless`."""
    seconds: float
    """The time that the attack blocked its caller; with a deadline, only the time after it."""


@contextmanager
def moves(runtime: WasmToolRuntime, isolation: Isolation) -> Iterator[dict[str, Callable[[], Move]]]:
    """Set up every attack, and yield them by name."""
    with ExitStack() as stack:
        yield {
            "warm prepare beside compiles": stack.enter_context(_beside_compiles(isolation)),
            "schema of 4,900 parts": _checked(runtime, "parts", multiplied({"maxLength": 3}, 70), "a" * 400_000 + "1"),
            "schema of 3,600 patterns": _checked(
                runtime, "patterns", multiplied({"pattern": "^[a-z]*$"}, 60), "a" * 3_900_000
            ),
            "params of 4 MB in 0.1 s": _numbers(runtime),
            "logs of escapes": _logs(runtime),
            "silent token endpoint, thrice": _at_once(runtime),
            "silent Redis": stack.enter_context(_silent_redis()),
        }


def _ended(act: Callable[[], object], deadline: float = 0.0) -> Move:
    started, code = time.monotonic(), "harmless"
    try:
        act()
    except WasmrtError as error:
        code = error.code
    return Move(code, max(0.0, time.monotonic() - started - deadline))


@contextmanager
def _beside_compiles(isolation: Isolation) -> Iterator[Callable[[], Move]]:
    """Prepare a compiled component while two compiles hold all permits for compiling."""
    slow = {name: _named(name).component() for name in ("many-functions", "jump-tables")}
    honest = wat2wasm(attacks.tool(Body()))
    with tempfile.TemporaryDirectory() as folder:
        kept = WasmRuntimeConfig(isolation=isolation, cache_dir=Path(folder), max_concurrent_compiles=1)
        cold = WasmRuntimeConfig(isolation=isolation, cache_compiled=False, max_concurrent_compiles=1)
        with WasmToolRuntime(kept) as warm:
            warm.prepare("honest", honest)

            def act() -> Move:
                with WasmToolRuntime(cold) as compiling:
                    threads = [threading.Thread(target=_quietly, args=(compiling, *each)) for each in slow.items()]
                    for thread in threads:
                        thread.start()
                    move = _ended(lambda: warm.prepare("honest", honest))
                    for thread in threads:
                        thread.join()
                return move

            yield act


def _quietly(runtime: WasmToolRuntime, name: str, data: bytes) -> None:
    with suppress(WasmrtError):
        runtime.prepare(name, data)


def _checked(runtime: WasmToolRuntime, name: str, schema: dict[str, Any], value: str) -> Callable[[], Move]:
    text = json.dumps(schema).encode()
    told = f"(i32.store (i32.const 128) (i32.const {_TEXT_AT})) (i32.store (i32.const 132) (i32.const {len(text)}))"
    body = Body(text=text, schema=f"{told} (i32.const 128)")
    tool = runtime.prepare(name, wat2wasm(attacks.tool(body)))
    assert tool.schema == schema, tool.problems
    return lambda: _ended(lambda: tool.execute({"x": value}))


def _numbers(runtime: WasmToolRuntime) -> Callable[[], Move]:
    tool = runtime.prepare("numbers", wat2wasm(attacks.tool(Body())), limits=_SHORT)
    params = json.dumps({"x": [0.1234567890123] * 240_000})
    assert 3 * MIB < len(params) < 4 * MIB
    return lambda: _ended(lambda: tool.execute(params), _SHORT.timeout_seconds)


def _logs(runtime: WasmToolRuntime) -> Callable[[], Move]:
    loop = f"""(loop $more (call $log (i32.const 2) (i32.const {_TEXT_AT}) (i32.const {len(_ESCAPES)}))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br_if $more (i32.lt_u (local.get $i) (i32.const {_LINES})))) (loop $on (br $on)) (call $ok)"""
    body = Body(imports=("log",), text=_ESCAPES, execute=loop)
    tool = runtime.prepare("logs", wat2wasm(attacks.tool(body)), limits=_SHORT)
    return lambda: _ended(lambda: tool.execute({}), _SHORT.timeout_seconds)


def _at_once(runtime: WasmToolRuntime) -> Callable[[], Move]:
    attack = _named("silent-token-endpoint")

    def act() -> Move:
        ended: list[attacks.Outcome] = []
        threads = [threading.Thread(target=lambda: ended.append(attacks.run(attack, runtime))) for _ in range(_WAITING)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        latest = max(ended, key=lambda outcome: outcome.seconds)
        return Move(latest.stopped_by, max(0.0, latest.seconds - attack.limits.timeout_seconds))

    return act


@contextmanager
def _silent_redis() -> Iterator[Callable[[], Move]]:
    """Request a permit from a server that accepts connections but never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        limiter = RateLimiter(redis_url=f"redis://127.0.0.1:{listener.getsockname()[1]}/0")
        with suppress(ToolError, ExternalServiceError):
            limiter.check_and_record("ann", "tool", RateLimitConfig())  # the first request waits half a second
        yield lambda: _ended(lambda: limiter.check_and_record("ann", "tool", RateLimitConfig()))


def _named(name: str) -> attacks.Attack:
    return next(attack for attack in ATTACKS if attack.name == name)
