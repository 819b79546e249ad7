"""Run code as a task of an event loop, as `aexecute` does, instead of on a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from typing import TypeVar

from wasmrt.core.scheduler import running_scheduler

T = TypeVar("T")


def start_task(work: Callable[[], T]) -> asyncio.Future[T]:
    """Start `work` as a task of the running loop; return the future of its result."""
    ended: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def run() -> None:
        result, failure = None, None
        try:
            result = work()
        except BaseException as error:
            failure = error
        if ended.get_loop().is_closed():
            return
        if failure is None:
            ended.set_result(result)  # type: ignore[arg-type]
        else:
            ended.set_exception(failure)

    running_scheduler().create_task(run, copy_context()).wake()
    return ended


def run_in_task(work: Callable[[], T]) -> T:
    """Return the result of `work`."""

    async def wait() -> T:
        return await start_task(work)

    return asyncio.run(wait())
