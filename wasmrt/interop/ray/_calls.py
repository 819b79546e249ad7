"""One run of `RayPool.execute_many`: groups of calls on actors, bounded in number, and what happens when actors die."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from wasmrt.core.errors import ExternalServiceError, ToolError, ToolErrorKind, WasmrtError
from wasmrt.core.model import ToolOutput
from wasmrt.interop.ray._actor import ToolFacts
from wasmrt.runtime.call import BatchResult

START_SECONDS = 120.0
"""Time limit for an actor to start, or to start again on another node, and to prepare the tools."""
_GROUP = 16
"""Number of calls in one message, if calls can be repeated. A message takes as much time as several calls."""
_ATTEMPTS = 3


@dataclass(slots=True, eq=False)
class _Slot:
    """An actor, and how many groups it runs."""

    actor: Any
    running: int = 0
    restart: Any = None
    """A reference that is ready when the actor runs again, or None while it runs."""


@dataclass(slots=True)
class _Group:
    """Calls that one message takes to an actor."""

    places: list[int]
    params: list[Any]
    attempts: int = 0
    deadline: float = 0.0


class RunningBatch:
    """The calls of a batch. At most `calls_per_actor` groups run on each actor."""

    def __init__(
        self,
        ray: Any,
        actors: Sequence[Any],
        calls_per_actor: int,
        call: tuple[str, Any, str],
        facts: ToolFacts,
        batch: Iterable[Any],
        *,
        ordered: bool,
        repeatable: bool,
    ) -> None:
        self._ray = ray
        self._slots = [_Slot(actor) for actor in actors]
        self._calls_per_actor = calls_per_actor
        self._name, self._context, self._user = call
        self._seconds = facts.timeout_seconds
        self._batch = enumerate(batch)
        self._ordered = ordered
        self._repeatable = repeatable
        self._again: deque[_Group] = deque()
        self._flying: dict[Any, tuple[_Group, _Slot]] = {}
        self._held: dict[int, BatchResult] = {}
        self._next = 0

    def results(self) -> Iterator[BatchResult]:
        """Yield the result of each call.

        Raises:
            ExternalServiceError: no actor runs any more, and items of the batch were not read.
        """
        while True:
            self._start_groups()
            if not self._flying and not self._again:
                if not self._slots and next(self._batch, None) is not None:
                    raise _make_no_actors_error()
                return
            for result in self._wait():
                yield from self._iter_in_order(result)

    def _start_groups(self) -> None:
        # Results that wait for their turn count, so that they cannot accumulate behind a slow call.
        room = 2 * len(self._slots) * self._calls_per_actor * _GROUP
        while (slot := self._find_free_slot()) is not None:
            if self._again:
                self._start(self._again.popleft(), slot)
            elif len(self._held) < room and (group := self._read_group()) is not None:
                self._start(group, slot)
            else:
                return

    def _read_group(self) -> _Group | None:
        items = list(islice(self._batch, _GROUP if self._repeatable else 1))
        return _Group([place for place, _ in items], [params for _, params in items]) if items else None

    def _find_free_slot(self) -> _Slot | None:
        free = (slot for slot in self._slots if slot.restart is None and slot.running < self._calls_per_actor)
        return min(free, key=lambda slot: slot.running, default=None)

    def _start(self, group: _Group, slot: _Slot) -> None:
        reference = slot.actor.run.remote(self._name, group.params, self._context, self._user)
        group.attempts += 1
        group.deadline = time.monotonic() + START_SECONDS + len(group.params) * self._seconds
        slot.running += 1
        self._flying[reference] = group, slot

    def _wait(self) -> list[BatchResult]:
        """Wait until a group ends, an actor runs again or a deadline passes, and return the results."""
        restarts = {slot.restart: slot for slot in self._slots if slot.restart is not None}
        if not self._flying and not restarts:
            return self._give_up()
        now = time.monotonic()
        deadline = min((group.deadline for group, _ in self._flying.values()), default=now + START_SECONDS)
        ready, _ = self._ray.wait([*self._flying, *restarts], num_returns=1, timeout=max(0.0, deadline - now))
        if not ready and not self._flying:
            return self._give_up()
        results: list[BatchResult] = []
        for reference in ready:
            if (slot := restarts.get(reference)) is not None:
                self._note_restart(slot)
            else:
                results += self._collect(reference)
        now = time.monotonic()
        for reference in [each for each, (group, _) in self._flying.items() if group.deadline <= now]:
            results += self._lose(reference, hung=True)
        return results

    def _collect(self, reference: Any) -> list[BatchResult]:
        try:
            outcomes = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError:
            raise  # a fault of the actor's code, not the end of its node
        except self._ray.exceptions.RayError:
            return self._lose(reference, hung=False)
        group, slot = self._flying.pop(reference)
        slot.running -= 1
        return [_make_result(*each) for each in zip(group.places, outcomes, strict=True)]

    def _lose(self, reference: Any, *, hung: bool) -> list[BatchResult]:
        """Restart an actor that died or did not answer. Queue its group again if the calls can be repeated."""
        group, slot = self._flying.pop(reference)
        slot.running -= 1
        if slot.restart is None:
            if hung:
                self._ray.kill(slot.actor, no_restart=False)
            slot.restart = slot.actor.describe.options(max_task_retries=-1).remote(self._name)
        if self._repeatable and group.attempts < _ATTEMPTS:
            self._again.append(group)
            return []
        return [BatchResult(place, None, _make_lost_error(self._name)) for place in group.places]

    def _note_restart(self, slot: _Slot) -> None:
        try:
            self._ray.get(slot.restart)
        except self._ray.exceptions.RayError:
            self._slots.remove(slot)
        slot.restart = None

    def _give_up(self) -> list[BatchResult]:
        places = [place for group in self._again for place in group.places]
        self._again.clear()
        self._slots.clear()
        return [BatchResult(place, None, _make_no_actors_error()) for place in places]

    def _iter_in_order(self, result: BatchResult) -> Iterator[BatchResult]:
        if not self._ordered:
            yield result
            return
        self._held[result.place] = result
        while self._next in self._held:
            yield self._held.pop(self._next)
            self._next += 1


def _make_result(place: int, outcome: ToolOutput | WasmrtError) -> BatchResult:
    if isinstance(outcome, ToolOutput):
        return BatchResult(place, outcome, None)
    if isinstance(outcome, ToolError):
        return BatchResult(place, None, outcome)
    raise outcome


def _make_lost_error(name: str) -> ToolError:
    return ToolError(
        f"the actor ended before it answered, so the outcome of this call of {name} is unknown",
        code="outcome-unknown", kind=ToolErrorKind.EXTERNAL_SERVICE,
        hint="check what the call changed before calling again",
    )  # fmt: skip


def _make_no_actors_error() -> ToolError:
    return ExternalServiceError(
        "no actor of the pool is running, and none restarted in time", code="no-actors",
        hint="check the nodes with: ray status",
    )  # fmt: skip
