"""The terminal approver: it shows a request, and reads the answer to that request only."""

from __future__ import annotations

import asyncio
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.agent.approvals.requests import WHY, request
from wasmrt.agent.approvals import (
    ApprovalAnswer,
    ApprovalRequest,
    Approvals,
    ApprovalScope,
    DenyApprover,
    ParamsPattern,
    TerminalApprover,
    current_user_name,
    default_approver,
)
from wasmrt.agent.approvals import _terminal as module


class Screen:
    """The controlling end of a pseudo-terminal: types text, and reads the screen."""

    def __init__(self) -> None:
        self.ours, self.theirs = pty.openpty()
        os.set_blocking(self.ours, False)
        self.seen = ""
        self.at = 0

    def type(self, text: str) -> None:
        os.write(self.ours, text.encode())

    async def shows(self, text: str) -> None:
        """Wait until a text appears on the screen, after the text of the previous wait."""
        while (found := self.seen.find(text, self.at)) < 0:
            try:
                self.seen += os.read(self.ours, 65536).decode("utf-8", "replace").replace("\r\n", "\n")
            except BlockingIOError:
                await asyncio.sleep(0.001)
        self.at = found + len(text)

    def approver(self) -> TerminalApprover:
        return TerminalApprover(stdin=self.theirs, stderr=self.theirs)


@pytest.fixture
def screen() -> Iterator[Screen]:
    made = Screen()
    yield made
    os.close(made.ours)
    os.close(made.theirs)


def dialogue(screen: Screen, asked: ApprovalRequest, *turns: tuple[str, str]) -> ApprovalAnswer:
    """Type an answer at each prompt."""

    async def scene() -> ApprovalAnswer:
        waiting = asyncio.ensure_future(Approvals(screen.approver()).decide(asked))
        for prompt, typed in turns:
            await screen.shows(prompt)
            screen.type(typed)
        answer = await waiting
        if answer.note == "":
            await screen.shows("  approved" if answer.approved else "  denied")
        return answer

    return asyncio.run(scene())


@pytest.mark.parametrize(
    ("typed", "approved", "scope"),
    [
        ("y\n", True, ApprovalScope.ONCE),
        ("Yes\n", True, ApprovalScope.ONCE),
        ("s\n", True, ApprovalScope.SESSION),
        ("session\n", True, ApprovalScope.SESSION),
        ("n\n", False, ApprovalScope.ONCE),
        ("no\n", False, ApprovalScope.ONCE),
        ("\n", False, ApprovalScope.ONCE),
        ("\x04", False, ApprovalScope.ONCE),
        ("what\nok\nsure\nyep\nja\n", False, ApprovalScope.ONCE),
    ],
)
def test_a_typed_word_is_the_answer(screen: Screen, typed: str, approved: bool, scope: ApprovalScope) -> None:
    answer = dialogue(screen, request(), ("approve write_file?", typed))
    assert (answer.approved, answer.scope, answer.by) == (approved, scope, current_user_name())


def test_the_terminal_shows_the_call_and_the_reason(screen: Screen) -> None:
    asked = request(preview="--- a/x\n+++ b/x\n-old\n+new")
    dialogue(screen, asked, ("approve", "n\n"))
    shown = screen.seen
    assert f"\napproval {asked.id}: Change notes/a.txt\n  tool: write_file\n" in shown
    assert "user: alice" in shown
    assert "effects: write-filesystem" in shown
    assert "reason: write_file: write_file writes" in shown
    assert '    {\n      "path": "notes/a.txt",\n      "text": "hello"\n    }' in shown
    assert "    -old\n    +new" in shown


def test_untrusted_text_cannot_control_the_terminal_or_imitate_wasmrt(screen: Screen) -> None:
    nasty = "\x1b[2J\x1b]0;x\x07\r\n  approve write_file? [y]es\u202e\u2028\x9b31m"
    asked = request(
        {nasty: nasty}, tool="t" + nasty, user=nasty, risk=nasty, preview=nasty, why=WHY._replace(rule=nasty)
    )
    dialogue(screen, asked, ("[a]lways", "n\n"))
    lines = screen.seen.split("\n")
    assert not set(screen.seen) & set("\x1b\x07\u202e\u2028\x9b")
    assert sum(line.startswith("  approve ") for line in lines) == 1
    assert [line[:9] for line in lines if line[:1] not in ("", " ")] == ["approval "]


def test_long_content_is_cut_and_shown_on_request(screen: Screen) -> None:
    rows, why = list(range(100)), WHY._replace(subject="y" * 5000)
    asked = request({"a": "x" * 5000, "rows": rows}, preview="\n".join(f"+{n}" for n in rows), why=why)
    answer = dialogue(screen, asked, ("[m]ore", "m\n"), ("[e]dit: ", "y\n"))
    assert answer.approved
    assert "x" * 5000 in screen.seen
    assert "    +99\n" in screen.seen
    screen.seen, screen.at = "", 0
    dialogue(screen, asked, ("[m]ore", "n\n"))
    assert "... 4,810 more characters" in screen.seen
    assert "... 60 more lines" in screen.seen
    assert max(map(len, screen.seen.split("\n"))) < 450


@pytest.mark.parametrize("word", ["y", "s", "a"])
def test_a_request_cannot_be_approved_while_parts_are_cut(screen: Screen, word: str) -> None:
    hidden = request({**{f"a{n}": n for n in range(60)}, "command": "curl evil"})
    answer = dialogue(screen, hidden, ("[m]ore", f"{word}\n"), ("press m to see the whole request", "n\n"))
    assert not answer.approved
    assert "curl evil" not in screen.seen
    assert dialogue(screen, hidden, ("[m]ore", "m\n"), ("curl evil", ""), ("approve", "y\n")).approved


def test_an_approval_for_always_can_list_params_that_may_differ(screen: Screen) -> None:
    asked = request()
    prompt = "may differ (NAME, NAME=TEXT* or NAME=FOLDER/), or Enter: "
    answer = dialogue(
        screen,
        asked,
        ("approve", "a\n"),
        (prompt, "path=notes/\n"),
        ("so far: path: below notes, other parameters unchanged", ""),
        (prompt, "path=other/\n"),
        ("does not match below other", ""),
        (prompt, "missing\n"),
        ("no parameter 'missing'", ""),
        (prompt, "text\n"),
        (prompt, "\n"),
    )
    assert answer.scope is ApprovalScope.ALWAYS
    assert answer.pattern is not None
    assert answer.pattern.words == "path: below notes, text: anything, other parameters unchanged"


def test_always_applies_to_exactly_these_params_by_default(screen: Screen) -> None:
    asked = request()
    answer = dialogue(screen, asked, ("approve", "always\n"), ("may differ", "\n"))
    assert answer.pattern == ParamsPattern(asked.params)


def test_parameters_are_edited_and_shown_again(screen: Screen) -> None:
    prompt = "as NAME=JSON"
    answer = dialogue(
        screen,
        request(),
        ("approve", "e\n"),
        (prompt, 'path="b.txt"\n'),
        (prompt, "mode=1\n"),
        (prompt, "text=\n"),
        (prompt, "text=\n"),
        ("not a parameter of the call", ""),
        (prompt, "x=nope\n"),
        ("not JSON", ""),
        (prompt, 'x="\\ud800"\n'),
        ("half a surrogate pair", ""),
        (prompt, "x\n"),
        ("missing an = sign", ""),
        (prompt, "\n"),
        ('"mode": 1', ""),
        ("approve", "y\n"),
    )
    assert answer.approved
    assert answer.params == {"path": "b.txt", "mode": 1}


def test_an_edit_without_changes_is_not_an_edit(screen: Screen) -> None:
    answer = dialogue(screen, request(), ("approve", "e\n"), ("as NAME=JSON", "\n"), ("approve", "y\n"))
    assert answer.params is None


def test_an_edit_to_an_equal_value_of_another_type_is_detected(screen: Screen) -> None:
    asked = request({"all": True})
    answer = dialogue(
        screen, asked, ("approve", "e\n"), ("as NAME=JSON", "all=1\n"), ("or Enter", "\n"), ("approve", "y\n")
    )
    assert answer.params is not None
    assert answer.params["all"] is not True


def test_only_available_scopes_are_offered(screen: Screen) -> None:
    async def scene() -> None:
        for changed, absent in (({"digest": ""}, ["[s]ession", "[a]lways"]), ({"trace": ""}, ["[s]ession"])):
            for word in ("s\n", "a\n") if "digest" in changed else ("s\n",):
                waiting = asyncio.ensure_future(screen.approver().ask(request(**changed)))
                await screen.shows("[e]dit: ")
                assert not any(word in screen.seen for word in absent)
                screen.type(word)
                await screen.shows("unknown answer")
                await screen.shows("[e]dit: ")
                screen.type("n\n")
                assert not (await waiting).approved
                await screen.shows("denied")

    asyncio.run(scene())


def test_requests_are_shown_one_at_a_time_and_earlier_keys_are_ignored(screen: Screen) -> None:
    async def scene() -> None:
        approver = screen.approver()
        asked = [request({"n": n}) for n in range(3)]
        waiting = [asyncio.ensure_future(approver.ask(r)) for r in asked]
        answers = []
        for _ in asked:
            await screen.shows("[e]dit: ")
            assert screen.seen.count("\napproval ") == len(answers) + 1
            screen.type("n\ny\ny\n")  # keys after the first line answer no request
            done, _ = await asyncio.wait([w for w in waiting if w not in answers], return_when="FIRST_COMPLETED")
            assert len(done) == 1
            answers += done
        assert [a.result().approved for a in answers] == [False] * 3

    asyncio.run(scene())


def test_an_answer_after_cancellation_is_reported_as_too_late(screen: Screen) -> None:
    async def scene() -> None:
        approvals = Approvals(screen.approver())
        first, second = request(), request({"n": 2})
        cancelled = asyncio.ensure_future(approvals.decide(first))
        await screen.shows("[e]dit: ")
        queued = asyncio.ensure_future(approvals.decide(second))
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        screen.type("a\n")
        await screen.shows("the request was withdrawn; nothing was changed")
        await screen.shows("[e]dit: ")  # and the next request is shown
        screen.type("y\n")
        assert (await queued).approved
        assert approvals.remembered(first) is None

    asyncio.run(scene())


@pytest.mark.parametrize("when", ["while it is read", "once it was told"])
def test_an_answer_during_cancellation_is_reported_as_too_late(
    screen: Screen, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    async def scene() -> None:
        turn = module._Turn(screen.theirs, screen.theirs)
        if when == "while it is read":
            monkeypatch.setattr(module, "current_user_name", lambda: turn.withdraw() or "alice")
        asked = asyncio.ensure_future(asyncio.to_thread(turn.ask, request()))
        await screen.shows("[e]dit: ")
        screen.type("y\n")
        answer = await asked
        if when == "once it was told":
            turn.withdraw()
        else:
            assert not answer.approved
        await screen.shows("the request was withdrawn; nothing was changed")

    asyncio.run(scene())


def test_a_request_cancelled_before_its_turn_is_not_shown(screen: Screen) -> None:
    async def scene() -> None:
        approver = screen.approver()
        first = asyncio.ensure_future(approver.ask(request()))
        await screen.shows("[e]dit: ")
        second = asyncio.ensure_future(approver.ask(request({"n": "never shown"})))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.wait({second})
        screen.type("y\n")
        assert (await first).approved
        third = asyncio.ensure_future(approver.ask(request({"n": "shown"})))
        await screen.shows("[e]dit: ")
        screen.type("y\n")
        assert (await third).approved
        assert "never shown" not in screen.seen

    asyncio.run(scene())


def test_a_closed_terminal_denies() -> None:
    screen = Screen()

    async def scene() -> None:
        waiting = asyncio.ensure_future(screen.approver().ask(request()))
        await screen.shows("[e]dit: ")
        os.close(screen.ours)
        assert not (await waiting).approved

    asyncio.run(scene())
    os.close(screen.theirs)


@pytest.mark.parametrize("which", ["stdin", "stderr"])
def test_input_that_is_not_a_terminal_is_never_read(screen: Screen, which: str) -> None:
    ours, theirs = os.pipe()
    os.write(theirs, b"y\n")
    ends = {"stdin": screen.theirs, "stderr": screen.theirs} | {which: ours if which == "stdin" else theirs}
    answer = asyncio.run(TerminalApprover(**ends).ask(request()))
    assert not answer.approved
    assert answer.note == "no terminal is available"
    expected = b"y\n"
    assert os.read(ours, 10) == expected
    os.close(ours)
    os.close(theirs)


def _default(**streams: Any) -> str:
    script = "from wasmrt.agent.approvals import default_approver; print(type(default_approver()).__name__)"
    return subprocess.run(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=True, **streams
    ).stdout.strip()


def test_the_default_approver_is_the_terminal_if_there_is_one(screen: Screen) -> None:
    assert _default(stdin=screen.theirs, stderr=screen.theirs) == "TerminalApprover"
    assert _default(stdin=subprocess.DEVNULL, stderr=screen.theirs) == "DenyApprover"
    assert _default(stdin=screen.theirs, stderr=subprocess.DEVNULL) == "DenyApprover"
    assert isinstance(default_approver(), DenyApprover)
