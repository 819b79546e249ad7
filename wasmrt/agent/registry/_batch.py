"""Run the calls of one turn. Calls that only read run concurrently, all others in order. Each denial affects one call.

A call that reads data of a kind, for example files, runs after the earlier calls that can change data of this kind, and
before the later ones. Calls that require no approval run first. A call has to wait, however, if it reads what an
earlier call can change and that earlier call requires approval. Approved calls then run in the given order, as soon as
all calls before them have ended or were denied. So the results do not depend on the order in which approvals arrive.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from wasmrt.agent.registry._calls import ToolCall
from wasmrt.agent.registry._executor import AsyncExecutor
from wasmrt.agent.registry._output import ToolAnswer, build_answer
from wasmrt.agent.registry._pipeline import admit, approve, finish_failed, run
from wasmrt.agent.registry._state import CallState
from wasmrt.agent.registry._steps import runs_programs
from wasmrt.core.effects import Effect
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
    """Admit every call, request the approvals, and run each call after the calls that it has to wait for."""
    for place, state in enumerate(states):
        await _run_step(ended, place, state, _admit(state))
    ready = [place for place in range(len(states)) if place not in ended]
    waiting = [place for place in ready if states[place].approval_needed is not None]
    asked = {place: asyncio.ensure_future(approve(states[place], AsyncExecutor())) for place in waiting}
    before = _order_calls(states, ready, waiting)
    done = {place: asyncio.Event() for place in ready}
    limit = asyncio.Semaphore(MAX_PARALLEL)

    async def run_in_turn(place: int) -> None:
        state = states[place]
        try:
            for each in before[place]:
                await done[each].wait()
            if place in asked:
                await _run_step(ended, place, state, _run_when_approved(state, asked[place]))
            else:
                async with limit:
                    await _run_step(ended, place, state, run(state, AsyncExecutor()))
        finally:
            done[place].set()

    try:
        await asyncio.gather(*map(run_in_turn, ready))
    finally:
        for asking in asked.values():
            asking.cancel()
        await asyncio.gather(*asked.values(), return_exceptions=True)


def _order_calls(states: Sequence[CallState], ready: Sequence[int], waiting: Sequence[int]) -> dict[int, list[int]]:
    """Return for each call the calls that must end before it runs."""
    before: dict[int, list[int]] = {}
    late: set[int] = set()  # calls that run after a call that requires approval
    for place in ready:
        earlier = [each for each in ready if each < place]
        if place in waiting:
            before[place] = [each for each in earlier if each in waiting or each in late]
            continue
        before[place] = [each for each in earlier if _must_wait_for(states, each, place, waiting)]
        if any(each in waiting or each in late for each in before[place]):
            late.add(place)
    for place in waiting:  # calls that require no approval are not delayed
        before[place] += [each for each in ready if each not in waiting and each not in late]
    return before


def _must_wait_for(states: Sequence[CallState], earlier: int, later: int, waiting: Sequence[int]) -> bool:
    """Return whether a call that requires no approval has to wait for an earlier call."""
    one, other = states[earlier], states[later]
    if _is_reading(other):
        return not _is_reading(one) and bool(_list_changed_kinds(one) & _read_kinds(other))
    if earlier in waiting:
        return False
    return not _is_reading(one) or bool(_read_kinds(one) & _list_changed_kinds(other))


_FILES, _MEMORY, _OUTSIDE = "files", "memory", "outside"
_ALL_KINDS = frozenset((_FILES, _MEMORY, _OUTSIDE))
_READ_KINDS: Mapping[Effect, frozenset[str]] = {
    Effect.READ_FILESYSTEM: frozenset((_FILES,)),
    Effect.READ_MEMORY: frozenset((_MEMORY,)),
    Effect.NETWORK: frozenset((_OUTSIDE,)),
    Effect.INVOKE_TOOL: _ALL_KINDS,
}
_CHANGED_KINDS: Mapping[Effect, frozenset[str]] = {
    Effect.WRITE_FILESYSTEM: frozenset((_FILES,)),
    Effect.DELETE_FILESYSTEM: frozenset((_FILES,)),
    Effect.WRITE_MEMORY: frozenset((_MEMORY,)),
    Effect.EXTERNAL_WRITE: frozenset((_OUTSIDE,)),
    Effect.FINANCIAL: frozenset((_OUTSIDE,)),
    **dict.fromkeys((Effect.EXECUTE_CODE, Effect.SPAWN_PROCESS, Effect.INVOKE_TOOL, Effect.MODIFY_TOOLS), _ALL_KINDS),
}


def _read_kinds(state: CallState) -> frozenset[str]:
    """Return the kinds of data that a call can read."""
    return frozenset().union(*(_READ_KINDS.get(effect, frozenset()) for effect in state.effects))


def _list_changed_kinds(state: CallState) -> frozenset[str]:
    """Return the kinds of data that a call can change."""
    if runs_programs(state.known):
        return _ALL_KINDS
    return frozenset().union(*(_CHANGED_KINDS.get(effect, frozenset()) for effect in state.effects))


def _is_reading(state: CallState) -> bool:
    """Return whether a call only reads. False for a call that runs a program, because the program may do more."""
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
