"""Responses to forms: each counts once, a late one is ignored, and one without a form is an error."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from wasmrt.interop.mcp.server.protocol import Questions, Response


def answer_to(number: str) -> Response:
    return Response(number, {"action": "accept"})


async def asked(questions: Questions, number: str) -> asyncio.Task[dict[str, object] | None]:
    """A form that was sent and waits for its response."""
    waiting = asyncio.ensure_future(questions.answer(number))
    await asyncio.sleep(0)
    return waiting


async def taken_back(questions: Questions, number: str) -> None:
    waiting = await asked(questions, number)
    waiting.cancel()
    with suppress(asyncio.CancelledError):
        await waiting


def test_a_response_answers_only_its_own_form_once() -> None:
    async def run() -> None:
        questions = Questions()
        first, second = await asked(questions, "1"), await asked(questions, "2")
        assert questions.settle(answer_to("1"))
        assert not questions.settle(answer_to("1"))
        assert await first == {"action": "accept"} and not second.done()
        assert not questions.settle(answer_to("1"))
        questions.end()
        assert await second is None

    asyncio.run(run())


def test_a_response_to_a_withdrawn_form_is_late_but_valid() -> None:
    async def run() -> None:
        questions = Questions()
        waiting = await asked(questions, "1")
        waiting.cancel()
        assert questions.settle(answer_to("1"))  # before the task runs
        with suppress(asyncio.CancelledError):
            await waiting
        assert waiting.cancelled() and questions.settle(answer_to("1"))
        for number in range(2, 66):
            await taken_back(questions, str(number))
        assert questions.settle(answer_to("65")) and not questions.settle(answer_to("1"))

    asyncio.run(run())


def test_a_response_to_an_unknown_form_is_an_error() -> None:
    assert not Questions().settle(answer_to("1"))
