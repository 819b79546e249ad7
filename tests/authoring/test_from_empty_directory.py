"""Test every language from an empty directory to a running tool, and print the duration of each step.

Packages are downloaded only with WASMRT_GUESTS_PREPARE=1, as in CI (StarlingMonkey's 385 MB only
with WASMRT_GUESTS_STARLINGMONKEY=1 as well). Otherwise, a language whose toolchain is not installed is
skipped with a message.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from wasmrt.authoring.project import WorldForm, load_template, template_names, toolchains_dir
from wasmrt.cli import cli

pytestmark = pytest.mark.ci("toolchain")

_PLACES = "weather/places.txt"


def may_fetch(language: str) -> bool:
    wanted = ["WASMRT_GUESTS_PREPARE"] + ["WASMRT_GUESTS_STARLINGMONKEY"] * (language == "js-starlingmonkey")
    return all(os.environ.get(name) == "1" for name in wanted)


class Journey:
    """Runs commands in an empty folder, and measures their durations."""

    def __init__(self) -> None:
        self.times: list[str] = []

    def __call__(self, *arguments: str, code: int = 0) -> Result:
        started = time.monotonic()
        result = CliRunner().invoke(cli, list(arguments), prog_name="wasmrt")
        self.times.append(f"{arguments[0]} {time.monotonic() - started:.2f} s")
        if result.exit_code != code and '"missing-toolchain"' in result.stderr:
            problem = json.loads(result.stderr)
            pytest.skip(f"{problem['message']}: {problem['hint']} (WASMRT_GUESTS_PREPARE=1 lets this test fetch it)")
        if result.exit_code != code and "offline" in result.stderr:
            pytest.skip("crates are not in cargo's cache yet (WASMRT_GUESTS_PREPARE=1 lets this test fetch them)")
        assert result.exit_code == code, f"exit code {result.exit_code}: {result.stderr or result.exception!r}"
        return result


def enter_empty_folder(language: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the option with which a build may download packages, if it may."""
    # Uses installed toolchains and crates; everything else is private to this test.
    monkeypatch.setenv("WASMRT_TOOLCHAINS", str(toolchains_dir()))
    monkeypatch.setenv("WASMRT_HOME", str(tmp_path / "home"))
    fetching = may_fetch(language)
    if not fetching:
        monkeypatch.setenv("CARGO_NET_OFFLINE", "true")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return ["--yes"] * fetching


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("language", template_names())
def test_new_build_test_install_and_run(
    language: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    may_download = enter_empty_folder(language, tmp_path, monkeypatch)
    step = Journey()

    step("new", "weather", "--lang", language, "--example", "weather")
    built = json.loads(step("build", "weather", "--json", *may_download).stdout)
    again = json.loads(step("build", "weather", "--json").stdout)
    tested = json.loads(step("test", "weather", "--json").stdout)
    packed = [json.loads(step("pack", "weather", "--to", f"{number}.zip", "--json").stdout) for number in (1, 2)]
    inspected = json.loads(step("inspect", "./1.zip", "--json").stdout)
    step("install", "1.zip", "--yes")
    Path("files/weather").mkdir(parents=True)
    Path("files", _PLACES).write_text("Oslo 59.91 10.75\n")
    ran = step("run", "weather", '{"place": "Atlantis"}', "--workspace", "files", "--json", code=1)

    with capsys.disabled():
        size = f"{built['size_bytes']:,} B"
        print(f"\n{language}: {size}, {tested['passed']} cases passed; {', '.join(step.times)}")
    assert (built.pop("unchanged"), again.pop("unchanged")) == (False, True)
    assert built.pop("seconds") > 0
    again.pop("seconds")
    assert again == built
    assert packed[0]["digest"] == packed[1]["digest"]
    assert Path("1.zip").read_bytes() == Path("2.zip").read_bytes()
    assert (inspected["name"], inspected["sidecar"]["version"]) == ("weather", "0.1.0")
    assert inspected["asks"] == built["asks"]
    assert tested["failed"] == 0
    assert tested["passed"] >= 3
    has_bindings = WorldForm.FUNCTIONS in load_template(language).worlds
    assert built["world"] == ("plain functions" if has_bindings else "wasmrt:tool/provider@0.1.0")
    assert built["tools"] == ["weather-forecast" if has_bindings else "weather"]
    # Compilers remove unused imports; interpreters keep all imports of the world.
    assert not [line for line in built["denied"] if "/http@" in line or "/workspace@" in line]
    assert language not in ("c", "go", "rust") or built["denied"] == []
    assert [line for line in built["asks"] if "api.open-meteo.com" in line]
    # The tool read the granted file and failed with a code and a helpful message.
    assert json.loads(ran.stderr)["code"] == "tool:unknown-place"
    assert "Oslo" in json.loads(ran.stderr)["message"]
    if language in ("c", "rust"):
        assert not [name for name in built["imports"] if name.startswith("wasi:")]
        assert built["size_bytes"] < {"c": 12_000, "rust": 120_000}[language]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("language", [each for each in template_names() if load_template(each).minimal])
def test_the_minimal_tool_builds_passes_its_test_and_runs(
    language: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_download = enter_empty_folder(language, tmp_path, monkeypatch)
    step = Journey()
    step("new", "hello", "--lang", language)
    built = json.loads(step("build", "hello", "--json", *may_download).stdout)
    has_bindings = WorldForm.FUNCTIONS in load_template(language).worlds
    assert (built["tools"], built["denied"]) == (["words-count" if has_bindings else "hello"], [])
    tested = json.loads(step("test", "hello", "--json").stdout)
    assert (tested["passed"], tested["failed"]) == (1, 0)
    step("install", "hello/build/hello.wasm", "--yes")
    assert json.loads(step("run", "hello", '{"text": "one two three"}').stdout) == 3
