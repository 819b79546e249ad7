"""Handles of one call, by the number that the guest has. Capped; gone with the call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from wasmrt.core.errors import BudgetExceededError, InternalError
from wasmrt.core.limits import MAX_HANDLES, MAX_POLLABLES
from wasmrt.sandbox.guest.call import GuestCall


def unreachable(resource: str, methods: str) -> dict[str, Callable[..., Any]]:
    """`[method]resource.name` for every word of `methods`, each an internal error should it ever run."""
    return {f"[method]{resource}.{method}": _method(f"{resource}.{method}") for method in methods.split()}


def _method(name: str) -> Callable[..., Any]:
    def refuse(*_: object) -> Any:
        raise InternalError(f"{name} was called, but no {name.partition('.')[0]} was ever given out")

    return refuse


Kind = TypeVar("Kind")


class Handles:
    """Open streams, errors, descriptors and the like."""

    limit = MAX_HANDLES
    setting = "limits.MAX_HANDLES"
    noun = "handles"

    def __init__(self) -> None:
        self._open: dict[int, object] = {}
        self._next = 0

    def add(self, thing: object) -> int:
        """Number `thing`.

        Raises:
            BudgetExceededError: the guest already holds as many as it may.
        """
        if len(self._open) >= self.limit:
            raise BudgetExceededError(
                f"the guest holds {self.limit:,} {self.noun} open and wants one more",
                limit=self.limit, used=self.limit + 1, setting=self.setting,
                hint="have the tool drop what it no longer uses",
            )  # fmt: skip
        self._next += 1
        self._open[self._next] = thing
        return self._next

    def get(self, rep: int, kind: type[Kind]) -> Kind:
        thing = self._open.get(rep)
        if not isinstance(thing, kind):
            # The engine checks a handle's type and life before it hands over its number.
            raise InternalError(f"handle {rep} is not an open {kind.__name__}")
        return thing

    def drop(self, rep: int) -> None:
        self._open.pop(rep, None)


class Pollables(Handles):
    limit = MAX_POLLABLES
    setting = "limits.MAX_POLLABLES"
    noun = "pollables"


def drop_handle(ctx: GuestCall, rep: int) -> None:
    """The destructor of every resource in `Handles`."""
    ctx.part(Handles).drop(rep)


def drop_pollable(ctx: GuestCall, rep: int) -> None:
    ctx.part(Pollables).drop(rep)
