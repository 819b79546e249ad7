"""Attacks, and the way they are let loose on a runtime."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from wasmrt.authoring.testing._server import Script
from wasmrt.authoring.testing.attacks._build import Body, asking, tool
from wasmrt.authoring.testing.attacks._site import Held, site
from wasmrt.capabilities import Capabilities
from wasmrt.core.errors import DeadlineExceededError, ToolError, WasmrtError
from wasmrt.core.limits import ResourceLimits
from wasmrt.core.model import ToolOutput
from wasmrt.runtime.runtime import WasmToolRuntime
from wasmrt.sandbox.guest.engine import wat2wasm

OVERRUN_SECONDS = 0.1
"""Seconds after its deadline that an attack may still hold the caller."""
ONLY_THE_CLOCK = ResourceLimits(timeout_seconds=0.3, fuel=2**60)
"""Fuel for years: what stops the guest is the deadline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """One hostile component and the end it must come to."""

    name: str
    about: str
    body: Body | Callable[[], bytes]
    expects: tuple[type[WasmrtError], ...] = ()
    """Empty where the attack comes to nothing and the call succeeds."""
    harmless: bool = False
    """True where the call may succeed although something is expected."""
    params: Any = field(default_factory=dict)
    limits: ResourceLimits = ONLY_THE_CLOCK
    server: Script | None = None
    """The hostile server that the guest asks, where it is the server that attacks."""
    held: Held = Held.NOTHING
    """The secret that the host puts into that request for the guest."""
    whole_bytes: int = 0
    """The least size of an answer that the guest may not get: that of one with nothing taken out of it."""

    def component(self) -> bytes:
        return wat2wasm(tool(self.body)) if isinstance(self.body, Body) else self.body()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The end of an attack."""

    attack: str
    ended: ToolOutput | BaseException
    stopped_by: str
    """The error's code, or `harmless`."""
    seconds: float
    """Of the call; of preparing, where it never came to a call."""
    as_expected: bool
    in_time: bool

    @property
    def held(self) -> bool:
        return self.as_expected and self.in_time


def run(attack: Attack, runtime: WasmToolRuntime) -> Outcome:
    """Prepare and call an attack, and judge how it ended.

    One with a server has a runtime of its own, like the given one, that may reach it.
    """
    if attack.server is None:
        return _judged(attack, *_ended(attack, runtime, attack.component()))
    with site(attack.server, attack.held, runtime.config) as (own, scheme, port, grant):
        body = asking(scheme, port, attack.whole_bytes)
        return _judged(attack, *_ended(attack, own, wat2wasm(tool(body)), grant))


def _judged(attack: Attack, ended: Any, seconds: float, called: bool) -> Outcome:
    if isinstance(ended, ToolOutput):
        as_expected, stopped_by = attack.harmless or (not attack.expects and _answered(attack, ended)), "harmless"
    else:
        # The deadline may always be what ends one first: how fast a machine gets to another limit is its own affair.
        as_expected = isinstance(ended, (*attack.expects, DeadlineExceededError))
        stopped_by = ended.code if isinstance(ended, WasmrtError) else type(ended).__name__
    return Outcome(
        attack=attack.name,
        ended=ended,
        stopped_by=stopped_by,
        seconds=seconds,
        as_expected=as_expected,
        # Compiling is bounded by the component's size, not by the call's deadline.
        in_time=not called or seconds <= attack.limits.timeout_seconds + OVERRUN_SECONDS,
    )


def _ended(
    attack: Attack, runtime: WasmToolRuntime, component: bytes, grant: Capabilities | None = None
) -> tuple[Any, float, bool]:
    try:
        return _called(attack, runtime, component, grant)
    finally:
        runtime.forget(attack.name)


def _called(
    attack: Attack, runtime: WasmToolRuntime, component: bytes, grant: Capabilities | None
) -> tuple[Any, float, bool]:
    started = time.monotonic()
    try:
        prepared = runtime.prepare(attack.name, component, grant, limits=attack.limits)
    except Exception as error:
        return error, time.monotonic() - started, False
    started = time.monotonic()
    try:
        return prepared.execute(attack.params), time.monotonic() - started, True
    except ToolError as error:
        used = error.usage.wall_seconds if error.usage is not None else 0.0
        return error, max(used, time.monotonic() - started), True
    except Exception as error:
        return error, time.monotonic() - started, True


def _answered(attack: Attack, output: ToolOutput) -> bool:
    # A body that we wrote answers well only if it got nothing that it should not have.
    return output.result == {"ok": True} or not isinstance(attack.body, Body)
