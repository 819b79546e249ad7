"""Tests of the line that shows the progress of long work."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.cli.terminal import python_on_a_terminal

_ERASE = "\r\x1b[K"
IMPORTS = "import os, sys\nfrom wasmrt.cli.shared.progress import report_progress, status\n"
WORK = f"{IMPORTS}with status('a\\n\\x1b[2J' + 'long ' * 50): sys.stdin.readline()"
STEPS = f"""{IMPORTS}
with status('starting') as line:
    line.update('memory-bomb', 3, 12)
    sys.stdin.readline()
"""


def during(script: str, *, prompt: bytes = b"\r\x1b[K") -> str:
    """Run a script on a terminal of 40 columns; its input ends its work once the line is shown."""
    code, shown = python_on_a_terminal(b"\n", "-c", script, columns=40, prompt=prompt)
    assert code == 0, shown
    return shown.replace("\r\n", "")


def test_slow_work_shows_one_line_that_fits_the_terminal_and_is_erased() -> None:
    first, *others, last = during(WORK).removeprefix(_ERASE).split(_ERASE)
    assert first == "a \\u001b[2Jlong long long long long long lo"[:39]
    assert set(others) <= {first} and last == ""


@pytest.mark.parametrize("unset", ["NO_COLOR", ""])
def test_steps_with_a_known_number_show_a_bar_and_no_colours(monkeypatch: pytest.MonkeyPatch, unset: str) -> None:
    monkeypatch.setenv("NO_COLOR", "" if unset else "1")
    shown = during(STEPS)
    assert re.match(re.escape(f"{_ERASE}[#####---------------] 3/12 memory-bomb"), shown)
    assert "\x1b[" not in shown.replace(_ERASE, "")


def test_terminal_without_cursor_movement_gets_one_lasting_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert during(STEPS, prompt=b"...") == "[#####---------------] 3/12 memory-bomb ..."


def test_fast_work_shows_no_line() -> None:
    assert python_on_a_terminal(b"", "-c", f"{IMPORTS}with status('fast'): pass")[1] == ""


def test_pipes_get_no_line_and_one_message_for_each_finished_step() -> None:
    script = (
        f"{IMPORTS}import threading\n"
        "with report_progress(quiet=False)('compiling'): assert threading.active_count() == 1\n"
        "with status('silent'): assert threading.active_count() == 1  # no thread writes a line\n"
        "with report_progress(quiet=True)('compiling'): pass"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"compiling \([0-9.]+ s\)\n", ended.stderr) and ended.stdout == ""
