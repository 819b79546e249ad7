"""Run many calls, a limited number at a time, and yield the results in input order or as they complete."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

from wasmrt.core.errors import ToolError
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.model import ToolOutput

if TYPE_CHECKING:
    from concurrent.futures import Future


class BatchResult(NamedTuple):
    """The result of one call of a batch: its output or its error."""

    place: int
    """Index of the call's params in the batch, from 0."""
    output: ToolOutput | None
    error: ToolError | None


Start = Callable[[Any], "tuple[Lifetime, Future[ToolOutput]]"]
"""A function that starts the call for the given params on another thread, and returns the call's lifetime."""


class Batch:
    """The calls of a batch. At most `parallel` calls run at a time. The params of a call are read when it starts.

    Ending the iteration early cancels the calls in flight. A failed call does not stop the others.
    """

    def __init__(self, start: Start, params: Iterable[Any], *, parallel: int, ordered: bool) -> None:
        self._start = start
        self._params = enumerate(params)
        self._parallel = parallel
        self._ordered = ordered
        self._flying: dict[int, Lifetime] = {}
        self._held: dict[int, BatchResult] = {}
        self._ended: SimpleQueue[tuple[int, Future[ToolOutput]]] = SimpleQueue()
        self._next = 0

    def results(self) -> Iterator[BatchResult]:
        """Yield the result of each call."""
        try:
            self._start_calls()
            while self._flying:
                yield from self._collect(*self._ended.get())
        finally:
            self._cancel_calls()

    async def aresults(self) -> AsyncIterator[BatchResult]:
        """Yield the result of each call without blocking the event loop."""
        import asyncio  # already imported in programs that await

        try:
            self._start_calls()
            while self._flying:
                for result in self._collect(*await asyncio.to_thread(self._ended.get)):
                    yield result
        finally:
            self._cancel_calls()

    def _start_calls(self) -> None:
        # Results that wait for their turn count as running calls, so that they cannot accumulate behind a slow call.
        while len(self._flying) + len(self._held) < self._parallel:
            item = next(self._params, None)
            if item is None:
                return
            place, params = item
            self._flying[place], future = self._start(params)
            future.add_done_callback(partial(self._note_end, place))

    def _note_end(self, place: int, future: Future[ToolOutput]) -> None:
        self._ended.put((place, future))

    def _collect(self, place: int, future: Future[ToolOutput]) -> Iterator[BatchResult]:
        del self._flying[place]
        error = future.exception()
        if error is not None and not isinstance(error, ToolError):
            raise error
        result = BatchResult(place, None if error else future.result(), error)
        if not self._ordered:
            self._start_calls()
            yield result
            return
        self._held[place] = result
        while self._next in self._held:
            ready = self._held.pop(self._next)
            self._next += 1
            self._start_calls()
            yield ready

    def _cancel_calls(self) -> None:
        for lifetime in self._flying.values():
            lifetime.cancel()
