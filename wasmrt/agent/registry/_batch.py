"""Run the calls of one turn. Calls that only read run concurrently, all others in order. A denied call stops no other.

The results do not depend on the order in which approvals arrive. Calls that require no approval run first. Approved
calls then run in the given order: each one runs as soon as all calls before it have been approved and run, or denied.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from wasmrt.agent.registry._calls import ToolCall
from wasmrt.agent.registry._executor import AsyncExecutor
from wasmrt.agent.registry._output import ToolAnswer, build_answer
from wasmrt.agent.registry._pipeline import admit, approve, finish_failed, run
from wasmrt.agent.registry._state import CallState
from wasmrt.agent.registry._steps import runs_programs
from wasmrt.core.errors import ToolError
from wasmrt.core.model import ToolOutput

MAX_PARALLEL = 16
"""Maximum number of reading calls that run at the same time."""
_Ended = ToolOutput | ToolError


async def execute_many(calls: Sequence[ToolCall], state_of: Callable[[ToolCall], CallState]) -> list[ToolAnswer]:
    """Run calls through the pipeline, and return their answers in the given order."""
    states = [state_of(call) for call in calls]
    ended: dict[int, _Ended] = {}
    try:
        await _run_all(states, ended)
    except BaseException as error:  # a cancellation ends the remaining calls
        for place, state in enumerate(states):
            if place not in ended:
                finish_failed(state, error)
        raise
    return [
        _build_answer(state, call, ended[place]) for place, (call, state) in enumerate(zip(calls, states, strict=True))
    ]


async def _run_all(states: Sequence[CallState], ended: dict[int, _Ended]) -> None:
    """Admit every call, request the approvals, and run each call when it is its turn."""
    for place, state in enumerate(states):
        await _run_step(ended, place, state, _admit(state))
    waiting = [place for place, state in enumerate(states) if place not in ended and state.approval_needed is not None]
    asked = {place: asyncio.ensure_future(approve(states[place], AsyncExecutor())) for place in waiting}
    try:
        await _run_without_approval(states, ended, waiting)
        for place in waiting:
            await _run_step(ended, place, states[place], _run_when_approved(states[place], asked[place]))
    finally:
        for asking in asked.values():
            asking.cancel()
        await asyncio.gather(*asked.values(), return_exceptions=True)


async def _run_without_approval(states: Sequence[CallState], ended: dict[int, _Ended], waiting: Sequence[int]) -> None:
    """Run the calls that require no approval: calls that only read concurrently, and the others in order."""
    ready = [place for place in range(len(states)) if place not in ended and place not in waiting]
    reading = [place for place in ready if _only_reads(states[place])]
    limit = asyncio.Semaphore(MAX_PARALLEL)

    async def read(place: int) -> None:
        async with limit:
            await _run_step(ended, place, states[place], run(states[place], AsyncExecutor()))

    async def write() -> None:
        for place in ready:
            if place not in reading:
                await _run_step(ended, place, states[place], run(states[place], AsyncExecutor()))

    await asyncio.gather(write(), *(read(place) for place in reading))


def _only_reads(state: CallState) -> bool:
    """Return whether a call only reads. A call that runs a program never counts, because the program may do more."""
    return state.traits.tier(state.effects) == "read-only" and not runs_programs(state.known)


async def _admit(state: CallState) -> ToolOutput | None:
    admit(state)
    return None


async def _run_when_approved(state: CallState, asking: asyncio.Future[None]) -> ToolOutput:
    await asking
    return await run(state, AsyncExecutor())


async def _run_step(ended: dict[int, _Ended], place: int, state: CallState, work: Awaitable[ToolOutput | None]) -> None:
    """Run one step of a call. If the call ended with this step, record its output or its error in `ended`."""
    try:
        output = await work
    except Exception as error:
        ended[place] = finish_failed(state, error)
    else:
        if output is not None:
            ended[place] = output


def _build_answer(state: CallState, call: ToolCall, ended: _Ended) -> ToolAnswer:
    if isinstance(ended, ToolError):
        return build_answer(state, call.id, None, ended)
    return build_answer(state, call.id, ended, None)
