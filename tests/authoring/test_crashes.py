"""Tests that callers receive the reason of a crash, in every language, in a worker and in process.

Python and StarlingMonkey take 30 s each to build, so they run only with WASMRT_GUESTS_PREPARE=1, as in CI.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from textwrap import indent
from typing import Protocol

import pytest

from wasmrt import Capabilities, Isolation, ResourceLimits, WasmRuntimeConfig, WasmToolRuntime
from wasmrt.authoring.project import (
    WorldForm,
    build,
    create_project,
    find_toolchain,
    load_template,
    read_component,
    template_names,
)
from wasmrt.core.errors import GuestError, MemoryLimitError, MissingToolchainError, ToolError, TrapError
from wasmrt.core.limits import MIB

pytestmark = pytest.mark.ci("toolchain")

_PREPARES = os.environ.get("WASMRT_GUESTS_PREPARE") == "1"
SLOW = ("python", "js-starlingmonkey")
SECRET = "ghp_" + "A1b2C3d4E5" * 3 + "A1b2C3"
_AT_RUN = {
    "c": "    (void)context;\n",
    "go": "func run(params Params) (any, error) {\n",
    "js-quickjs": 'const run = ({ place, unit = "celsius" }) => {\n',
    "js-starlingmonkey": 'const run = ({ place, unit = "celsius" }) => {\n',
    "python": 'def _run(place: str, unit: str = "celsius") -> dict[str, Any]:\n',
    "rust": "fn run(params: Params) -> Result<Value, Failure> {\n",
}
_AT_FUNCTION = {
    "js-quickjs": "const forecast = (place, wanted) => {\n",
    "js-starlingmonkey": "const forecast = (place, wanted) => {\n",
    "python": "    def forecast(self, place: str, unit: Unit | None) -> Report:\n",
}
_JS = """  if (place === "!crash") null.field;
  if (place === "!deep") { const deep = (n) => 1 + deep(n + 1); deep(0); }
  if (place === "!memory") { const kept = []; for (;;) kept.push(new Uint8Array(1 << 22).fill(1)); }
"""
_CRASHES = {
    "c": """    text how;
    json_string(params, TEXT("place"), &how);
    if (same(how, TEXT("!crash"))) panic(TEXT("it fell over"));
    if (same(how, TEXT("!memory"))) for (;;) allocate(8, 4 << 20);
""",
    "go": """	var nothing *Params
	switch params.Place {
	case "!crash":
		return nothing.Place, nil
	case "!aside":
		go func() { panic("aside") }()
		select {}
	case "!stuck":
		select {}
	case "!memory":
		for kept := [][]byte{}; ; {
			kept = append(kept, make([]byte, 4<<20))
		}
	}
""",
    "js-quickjs": _JS,
    "js-starlingmonkey": _JS,
    "python": """    if place == "!crash":
        return {}["field"]
    if place == "!deep":
        deep = lambda: deep() + 1
        deep()
    if place == "!exit":
        raise SystemExit("done")
    if place == "!memory":
        kept = []
        while True:
            kept.append(bytearray(1 << 22))
""",
    "rust": """    if params.place == "!crash" {
        let none: Option<u32> = None;
        none.expect("it fell over");
    }
    if params.place == "!memory" {
        let mut kept = Vec::new();
        loop {
            kept.push(vec![1u8; 4 << 20]);
        }
    }
    if params.place.starts_with("say ") {
        panic!("{}", params.place);
    }
""",
}


@cache
def crashing(language: str, folder: Path, world: WorldForm = WorldForm.PROVIDER) -> bytes:
    """The template's tool, changed to crash as its `place` parameter says."""
    try:
        find_toolchain(load_template(language), confirm=lambda _question: _PREPARES)
    except MissingToolchainError as missing:
        pytest.skip(f"{language}: {missing.message}: {missing.hint}")
    parent = folder / f"{language}-{world}"
    parent.mkdir()
    project = create_project("fragile", language, parent, world=world)
    source = project.folder / load_template(language).edit
    text, at_run = source.read_text(), (_AT_RUN if world is WorldForm.PROVIDER else _AT_FUNCTION)[language]
    assert text.count(at_run) == 1
    crashes = indent(_CRASHES[language], "    ") if at_run.startswith(" ") else _CRASHES[language]
    source.write_text(text.replace(at_run, at_run + crashes))
    build(project, confirm=lambda _question: False)
    return read_component(project)


class Fails(Protocol):
    def __call__(self, language: str, how: str, world: WorldForm = WorldForm.PROVIDER) -> ToolError: ...


@pytest.fixture(scope="module", params=[Isolation.PROCESS, Isolation.IN_PROCESS])
def fails(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fails]:
    """Call the tool of a language, and return its error."""
    folder = Path(tmp_path_factory.getbasetemp())
    with WasmToolRuntime(WasmRuntimeConfig(isolation=request.param)) as runtime:

        def call(language: str, how: str, world: WorldForm = WorldForm.PROVIDER) -> ToolError:
            if language in SLOW and not _PREPARES:
                pytest.skip("slow: WASMRT_GUESTS_PREPARE=1 lets this test build it")
            with pytest.raises(ToolError) as caught:
                runtime.prepare("fragile", crashing(language, folder, world)).execute({"place": how})
            return caught.value

        yield call


@pytest.mark.timeout(300)
@pytest.mark.parametrize("language", template_names())
def test_a_crash_keeps_its_reason(fails: Fails, language: str) -> None:
    said = {
        "c": "it fell over",
        "go": "nil pointer dereference (line ",
        "js-quickjs": "TypeError",
        "js-starlingmonkey": "TypeError",
        "python": "KeyError: 'field' (app.py, line ",
        "rust": "it fell over",
    }[language]
    error = fails(language, "!crash")
    assert said in error.message
    if language in ("c", "rust"):  # the guest cannot return a result after this
        assert isinstance(error, TrapError)
    else:
        assert isinstance(error, GuestError)
        assert error.code == "tool:crashed"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("language", _AT_FUNCTION)
def test_crash_of_a_function_keeps_its_reason(fails: Fails, language: str) -> None:
    error = fails(language, "!crash", WorldForm.FUNCTIONS)
    assert error.code == "tool:crashed"
    assert ("KeyError: 'field' (app.py, line " if language == "python" else "TypeError") in error.message
    memory = fails(language, "!memory", WorldForm.FUNCTIONS)
    assert isinstance(memory, MemoryLimitError)
    assert memory.limit == 64 * MIB


@pytest.mark.timeout(300)
@pytest.mark.parametrize("language", template_names())
def test_memory_limit_error_names_the_limit(fails: Fails, language: str) -> None:
    error = fails(language, "!memory")
    whole = f"{error.message} {error.hint}"
    assert "64 MiB" in whole
    assert "memory" in error.message
    assert isinstance(error, MemoryLimitError)
    assert (error.limit, error.setting) == (64 * MIB, "limits.memory_bytes")


@pytest.mark.parametrize(
    ("language", "how", "said"),
    [
        ("go", "!aside", "panic: aside"),
        ("go", "!stuck", "all goroutines are asleep - deadlock!"),
        ("js-quickjs", "!deep", "stack"),
        ("python", "!deep", "RecursionError"),
        ("python", "!exit", "SystemExit: done"),
    ],
)
def test_uncatchable_end_keeps_its_reason(fails: Fails, language: str, how: str, said: str) -> None:
    assert said in fails(language, how).message


@pytest.mark.parametrize("language", ["c", "rust", "go"])
def test_memory_limit_while_passing_a_value_names_the_limit(
    language: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (tmp_path / "weather").mkdir()
    (tmp_path / "weather/places.txt").write_text("Oslo 1 2\n" * 440_000)
    component = crashing(language, tmp_path_factory.mktemp("refused"))
    grant, limits = Capabilities.none().with_workspace_read(["weather/"]), ResourceLimits(memory_bytes=4 * MIB)
    with WasmToolRuntime(WasmRuntimeConfig(workspace=tmp_path)) as runtime, pytest.raises(ToolError) as caught:
        runtime.prepare("fragile", component, grant, limits=limits).execute({"place": "Nope"})
    whole = f"{caught.value.message} {caught.value.hint}"
    assert "memory limit of 4 MiB" in whole or "memory over its limit of 4 MiB" in whole


def test_last_output_is_scanned_and_truncated(fails: Fails) -> None:
    assert SECRET not in json.dumps(fails("rust", f"say {SECRET}").as_dict())
    assert len(fails("rust", "say " + "word " * 10_000).message) < 2000
