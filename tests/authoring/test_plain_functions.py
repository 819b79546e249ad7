"""Plain functions of interpreted languages: output, clocks, uncaught exceptions, files, and results of a wrong type.

Python and StarlingMonkey take long to build, so they run only with WASMRT_GUESTS_PREPARE=1, as in CI.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from wasmrt import WasmToolRuntime
from wasmrt.authoring.project import build, find_toolchain, load_template, open_project, read_component
from wasmrt.core.errors import GuestError, MissingToolchainError
from wasmrt.core.model import LogLevel
from wasmrt.runtime.prepared import PreparedTool

pytestmark = [pytest.mark.ci("toolchain"), pytest.mark.timeout(600)]

_PREPARES = os.environ.get("WASMRT_GUESTS_PREPARE") == "1"
_SLOW = ("python", "js-starlingmonkey")
_WIT = """package local:plain;

interface plain {
    record report { place: string, temperature: f64 }
    /// Divides by zero.
    divide: func() -> s32;
    /// Prints two lines.
    say: func(text: string) -> string;
    /// Returns the time in seconds.
    now: func() -> f64;
    /// Opens a file.
    open-file: func(path: string) -> string;
    /// Returns a number for a string.
    wrong: func() -> string;
    /// Returns a string for a number in a record.
    nested: func() -> result<report, string>;
    /// Returns its own error.
    refuse: func() -> result<string, string>;
    /// Returns a random number.
    dice: func() -> f64;
}

world tool {
    export plain;
}
"""
_PYTHON = """import random
import sys
import time

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports.plain import Report


class Plain(exports.Plain):
    def divide(self):
        return 1 // 0  # line 12

    def say(self, text):
        print("printed", text)
        print("warned", text, file=sys.stderr)
        return text

    def now(self):
        return time.time()

    def open_file(self, path):
        return open(path).read()  # line 23

    def wrong(self):
        return 5  # line 26

    def nested(self):
        return Report("Oslo", "warm")  # line 29

    def refuse(self):
        raise Err("not today")

    def dice(self):
        return random.random()
"""
_JS = """export const plain = {
  divide: () => null.field, // line 2
  say: (text) => {
    console.log("printed", text);
    console.error("warned", text);
    return text;
  },
  now: () => Date.now() / 1000,
  openFile: (path) => require("fs").readFileSync(path), // line 9
  wrong: () => 5,
  nested: () => ({ place: "Oslo", temperature: "warm" }),
  refuse: () => {
    throw "not today";
  },
  dice: () => Math.random(),
};
"""
_SOURCES = {"python": ("app.py", _PYTHON), "js-quickjs": ("tool.js", _JS), "js-starlingmonkey": ("tool.js", _JS)}


@pytest.fixture(scope="module", params=_SOURCES)
def plain(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PreparedTool]:
    """A component of plain functions, in each interpreted language."""
    language: str = request.param
    if language in _SLOW and not _PREPARES:
        pytest.skip("slow: WASMRT_GUESTS_PREPARE=1 lets this test build it")
    try:
        find_toolchain(load_template(language), confirm=lambda _question: _PREPARES)
    except MissingToolchainError as missing:
        pytest.skip(f"{language}: {missing.message}: {missing.hint}")
    folder: Path = tmp_path_factory.mktemp(language)
    file, source = _SOURCES[language]
    (folder / "wit").mkdir()
    (folder / "wit" / "tool.wit").write_text(_WIT)
    (folder / file).write_text(source)
    (folder / "wasmrt.toml").write_text(f'name = "plain"\nlanguage = "{language}"\nversion = "0.1.0"\n')
    project = open_project(folder)
    build(project, confirm=lambda _question: False)
    with WasmToolRuntime() as runtime:
        yield runtime.prepare("plain", read_component(project))


def _crash(plain: PreparedTool, tool: str, **params: object) -> str:
    with pytest.raises(GuestError) as caught:
        plain.tool(f"plain-{tool}").execute(params)
    assert caught.value.code == "tool:crashed"
    assert caught.value.hint == "fix the tool's source, then run: wasmrt build && wasmrt test"
    return caught.value.message


def test_an_uncaught_exception_is_reported_with_its_line(plain: PreparedTool) -> None:
    message = _crash(plain, "divide")
    assert re.match(r"(ZeroDivisionError: division by zero|TypeError: .*) \(", message)
    assert message.endswith(("(app.py, line 12, in divide)", "(tool.js, line 2, in divide)"))


def test_output_becomes_log_lines(plain: PreparedTool) -> None:
    output = plain.tool("plain-say").execute({"text": "hello"})
    assert [entry.message for entry in output.logs] == ["printed hello", "warned hello"]
    assert output.logs[0].level is LogLevel.INFO
    assert output.logs[1].level in (LogLevel.WARN, LogLevel.ERROR)


def test_the_clock_has_the_current_time(plain: PreparedTool) -> None:
    before = time.time()
    assert before - 1 < plain.tool("plain-now").execute({}).result < time.time() + 1


def test_opening_a_file_is_refused_with_the_line_and_the_alternative(plain: PreparedTool) -> None:
    message = _crash(plain, "open-file", path="/etc/passwd")
    assert re.search(r"\((app.py, line 23|tool.js, line 9), in ", message)
    assert "workspace" in message


def test_a_result_of_a_wrong_type_names_the_function_its_line_and_both_types(plain: PreparedTool) -> None:
    message = _crash(plain, "wrong")
    assert re.match(r"plain.wrong returned a wrong type: expected string( \(str\))?, got (int|number) 5", message)
    assert message.endswith(("(app.py, line 26, in wrong)", "(tool.js, line 10, in wrong)"))
    nested = _crash(plain, "nested")
    assert re.search(r"expected f64 \((float|a number)\), got (str|string) .?warm.? at temperature", nested)


def test_a_declared_error_is_returned_unchanged(plain: PreparedTool) -> None:
    with pytest.raises(GuestError) as caught:
        plain.tool("plain-refuse").execute({})
    assert (caught.value.code, caught.value.message) == ("guest-error", "not today")


def test_random_numbers_differ_between_calls(plain: PreparedTool) -> None:
    assert len({plain.tool("plain-dice").execute({}).result for _ in range(3)}) == 3
