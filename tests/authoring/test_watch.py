"""Tests of watching a project, with a simulated wait."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from wasmrt.authoring.project import Project, watch_changes
from wasmrt.cli import cli
from wasmrt.cli.author import dev as dev_file
from wasmrt.cli.author.dev import _JsonEvents, _TextEvents
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import MAX_PROJECT_FILES


class Clock:
    """Runs one action at each wait, and returns False when none is left."""

    def __init__(self, *doings: Callable[[], object] | None) -> None:
        self.doings = list(doings)
        self.waited: list[float] = []

    def __call__(self, seconds: float) -> bool:
        self.waited.append(seconds)
        if not self.doings:
            return False
        doing = self.doings.pop(0)
        if doing is not None:
            doing()
        return True


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "tool.py").write_text("1")
    return Project(tmp_path, "tool", "python")


def write(project: Project, name: str, text: str) -> Callable[[], object]:
    def doing() -> None:
        path = project.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    return doing


def test_change_is_reported_once_when_stable(project: Project) -> None:
    clock = Clock(None, write(project, "src/tool.py", "12"), write(project, "new.txt", "1"), None, None)
    assert list(watch_changes(project, clock)) == [("new.txt", "src/tool.py")]
    assert all(seconds > 0 for seconds in clock.waited)


def test_a_removed_file_is_a_change(project: Project) -> None:
    clock = Clock((project.folder / "src" / "tool.py").unlink, None, None)
    assert list(watch_changes(project, clock)) == [("src/tool.py",)]


def test_change_before_the_first_next_is_not_missed(project: Project) -> None:
    watched = watch_changes(project, Clock(None, None, None))
    write(project, "src/tool.py", "changed during the build")()
    assert next(watched) == ("src/tool.py",)


@pytest.mark.parametrize(
    "name", ["build/tool.wasm", "target/x", "node_modules/a/b.js", ".git/HEAD", ".hidden", "a/__pycache__/x"]
)
def test_build_output_is_not_a_change(name: str, project: Project) -> None:
    assert list(watch_changes(project, Clock(write(project, name, "x"), None, None))) == []


def test_huge_folder_is_not_watched(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"{number}" for number in range(MAX_PROJECT_FILES + 1)]
    monkeypatch.setattr("os.walk", lambda _root: iter([(str(project.folder), [], names)]))
    monkeypatch.setattr("os.lstat", lambda _path: project.folder.stat())
    with pytest.raises(ConfigurationError, match="10000 files"):
        watch_changes(project, Clock())


@pytest.mark.ci("slow")
def test_dev_builds_tests_and_runs_again_after_a_change(
    c_project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = c_project.folder / "tool.c"
    good = source.read_text()
    files = c_project.folder.parent / "files"
    (files / "weather").mkdir(parents=True)
    (files / "weather" / "places.txt").write_text("Oslo 59.91 10.75\n")
    clock = Clock(
        lambda: source.write_text(good + "\nint broken = ;\n"), None, lambda: source.write_text(good + "\n"), None
    )
    dev_file.watch(
        c_project, clock, dev_file.CallOptions(params='{"place": "Atlantis"}', workspace=files), _TextEvents()
    )

    said = capsys.readouterr().err
    rounds = said.split("-- ")[1:]
    assert len(rounds) == 3
    assert "5 passed, 0 failed" in rounds[0]
    assert "there is no place" in rounds[0]
    assert "expected expression" in rounds[1]
    assert "hint:" in rounds[1]
    assert "5 passed, 0 failed" in rounds[2]


@pytest.mark.ci("slow")
def test_dev_json_prints_one_line_per_event(
    c_project: Project, capsys: pytest.CaptureFixture[str], write_cases: Callable[..., None]
) -> None:
    source = c_project.folder / "tool.c"
    good = source.read_text()
    refused = {"name": "says what is unknown", "input": {}, "expected_error": {"code": "invalid-parameters"}}
    write_cases(c_project, refused, {"name": "fails", "input": {}, "expected_output": 1})
    clock = Clock(
        lambda: source.write_text(good + "\nint broken = ;\n"), None, lambda: source.write_text(good + "\n"), None
    )
    dev_file.watch(c_project, clock, dev_file.CallOptions(params="{}"), _JsonEvents())

    told = capsys.readouterr()
    assert told.err == ""
    events = [json.loads(line) for line in told.out.splitlines()]
    words = " ".join(event["event"] for event in events)
    whole_round = "changed step step step step built case case tested failed waiting"
    assert words == f"{whole_round} changed failed waiting {whole_round}"
    changed, step, _, _, _, built, passed, failed, tested, refusal, _, _, broken, *_ = events
    assert changed["files"] == ["weather"]
    assert step["doing"] == "compiling tool.c"
    assert built["tools"] == ["weather"]
    assert (passed["passed"], failed["passed"]) == (True, False)
    assert (tested["passed"], tested["failed"]) == (1, 1)
    assert refusal["code"] == "invalid-parameters"
    assert "expected expression" in broken["output"]


@pytest.mark.ci("slow")
def test_dev_ends_quietly_on_ctrl_c(c_project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_seconds: float) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(dev_file, "wait", interrupted)
    result = CliRunner().invoke(cli, ["dev", str(c_project.folder)], prog_name="wasmrt")
    assert result.exit_code == 0, result.output
    assert "waiting for changes" in result.stderr
    result = CliRunner().invoke(cli, ["dev", str(c_project.folder), "--json"], prog_name="wasmrt")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    assert json.loads(result.stdout.splitlines()[-1]) == {"event": "waiting"}


@pytest.mark.ci("slow")
def test_testing_a_stale_component_warns(c_project: Project) -> None:
    def said() -> str:
        return CliRunner().invoke(cli, ["test", str(c_project.folder)], prog_name="wasmrt").stderr

    built = c_project.component.stat().st_mtime_ns
    for path in c_project.folder.rglob("*"):
        os.utime(path, ns=(built - 1, built - 1))
    os.utime(c_project.component, ns=(built, built))
    assert said() == ""
    (c_project.folder / "notes.txt").write_text("no source")
    for stray in ("tests/weather.json", "notes.txt", "README.md", "weather.capabilities.json", "wasmrt.toml"):
        os.utime(c_project.folder / stray, ns=(built + 1, built + 1))
    assert said() == ""
    os.utime(c_project.folder / "wit" / "tool.wit", ns=(built + 1, built + 1))
    assert "changed since the last build" in said()
    os.utime(c_project.folder / "wit" / "tool.wit", ns=(built - 1, built - 1))
    os.utime(c_project.folder / "tool.c", ns=(built + 1, built + 1))
    assert "changed since the last build" in said()
