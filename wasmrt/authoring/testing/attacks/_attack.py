"""Define attacks, and run them in a runtime."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from wasmrt.authoring.testing._server import Script
from wasmrt.authoring.testing.attacks._build import Body, create_requesting_body, tool
from wasmrt.authoring.testing.attacks._site import SiteSecret, open_site
from wasmrt.capabilities import Capabilities
from wasmrt.core.errors import DeadlineExceededError, ToolError, WasmrtError
from wasmrt.core.limits import ResourceLimits
from wasmrt.core.model import ToolOutput
from wasmrt.runtime.runtime import WasmToolRuntime
from wasmrt.sandbox.guest.engine import wat2wasm

OVERRUN_SECONDS = 0.1
"""Maximum time by which an attack may exceed its deadline."""
ONLY_THE_CLOCK = ResourceLimits(timeout_seconds=0.3, fuel=2**60)
"""Limits with practically unlimited fuel, so that the deadline stops the guest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """A hostile component and its expected outcome."""

    name: str
    about: str
    body: Body | Callable[[], bytes]
    expects: tuple[type[WasmrtError], ...] = ()
    """The errors that may end the attack; empty if it has no effect and the call succeeds."""
    harmless: bool = False
    """True if the call may also succeed."""
    params: Any = field(default_factory=dict)
    limits: ResourceLimits = ONLY_THE_CLOCK
    server: Script | None = None
    """The hostile server that the guest sends a request to, if the server attacks."""
    secret: SiteSecret = SiteSecret.NOTHING
    """The secret that the host adds to the guest's request."""
    whole_bytes: int = 0
    """The size of an unredacted response, which the guest must not receive."""

    def component(self) -> bytes:
        return wat2wasm(tool(self.body)) if isinstance(self.body, Body) else self.body()


def attack(name: str, about: str, body: Body | Callable[[], bytes], *expects: type[WasmrtError], **more: Any) -> Attack:
    """Return an attack; `expects` are the errors that may end it."""
    return Attack(name=name, about=about, body=body, expects=expects, **more)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of an attack."""

    attack: str
    ended: ToolOutput | BaseException
    stopped_by: str
    """The code of the error, or `harmless`."""
    seconds: float
    """The duration of the call or, if preparing the component failed, of the preparation."""
    as_expected: bool
    in_time: bool

    @property
    def held(self) -> bool:
        """True if the attack ended as expected and in time."""
        return self.as_expected and self.in_time


def run(attack: Attack, runtime: WasmToolRuntime) -> Outcome:
    """Prepare and call an attack, and evaluate its outcome.

    An attack with a server runs in a separate runtime with the same configuration, which may reach the server.
    """
    if attack.server is None:
        return _evaluate(attack, *_call(attack, runtime, attack.component()))
    with open_site(attack.server, attack.secret, runtime.config) as (own, scheme, port, grant):
        body = create_requesting_body(scheme, port, attack.whole_bytes)
        return _evaluate(attack, *_call(attack, own, wat2wasm(tool(body)), grant))


def _evaluate(attack: Attack, ended: Any, seconds: float, called: bool) -> Outcome:
    if isinstance(ended, ToolOutput):
        # A `Body` returns this result only if it got nothing that it must not get.
        is_ok = ended.result == {"ok": True} or not isinstance(attack.body, Body)
        as_expected, stopped_by = attack.harmless or (not attack.expects and is_ok), "harmless"
    else:
        # On a slow machine, the deadline may end an attack before the expected limit does.
        as_expected = isinstance(ended, (*attack.expects, DeadlineExceededError))
        stopped_by = ended.code if isinstance(ended, WasmrtError) else type(ended).__name__
    return Outcome(
        attack=attack.name,
        ended=ended,
        stopped_by=stopped_by,
        seconds=seconds,
        as_expected=as_expected,
        # The size of the component bounds its compilation, which the deadline of the call does not include.
        in_time=not called or seconds <= attack.limits.timeout_seconds + OVERRUN_SECONDS,
    )


def _call(
    attack: Attack, runtime: WasmToolRuntime, component: bytes, grant: Capabilities | None = None
) -> tuple[Any, float, bool]:
    """Return the output or error of an attack, its duration, and whether it was called."""
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
    finally:
        runtime.forget(attack.name)
