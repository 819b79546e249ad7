"""Blocking work for a coroutine, in a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def in_own_thread(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a function in a new thread and return its result.

    A person takes minutes to answer: waiting in an executor's threads would keep them from everybody else, and from
    ending with the process. A caller that is cancelled goes; the function ends by itself, and its result is dropped.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, failure = None, None
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            # A future does not take StopIteration (PEP 479).
            failure = RuntimeError("StopIteration") if isinstance(error, StopIteration) else error
        with suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(settle, result, failure)

    Thread(target=run, name="wasmrt-approval", daemon=True).start()
    return await done


async def to_its_end(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a short function in a thread; a caller that is cancelled goes when it has ended, and not before."""
    work = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return work.result()
