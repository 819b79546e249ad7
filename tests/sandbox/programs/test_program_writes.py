"""A program that writes files: only with a grant and atomically, in a worker and in this process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.sandbox.programs.build import program
from wasmrt import (
    Capabilities,
    Isolation,
    PreparedTool,
    Preset,
    ToolPolicy,
    ToolRegistry,
    WasmRuntimeConfig,
    WasmToolRuntime,
)
from wasmrt.agent.policy import Permission, ToolRule
from wasmrt.agent.registry import ToolView
from wasmrt.capabilities import WorkspaceWriteCapability
from wasmrt.cli import cli
from wasmrt.core.effects import Effect
from wasmrt.core.errors import GuestExitError, InvalidParametersError, ToolError, TrapError
from wasmrt.core.model import Reason
from wasmrt.core.places import find_places
from wasmrt.runtime.context import ToolContext
from wasmrt.runtime.workspace import UndoJournal, undo

pytestmark = pytest.mark.ci("toolchain")


@pytest.fixture(scope="module", params=[Isolation.PROCESS, Isolation.IN_PROCESS])
def runtime(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WasmToolRuntime]:
    workspace = tmp_path_factory.mktemp("workspace")
    config = WasmRuntimeConfig(workspace=workspace, isolation=request.param, cache_compiled=False)
    with WasmToolRuntime(config) as opened:
        yield opened


@pytest.fixture
def root(runtime: WasmToolRuntime) -> Iterator[Path]:
    root = runtime.config.workspace
    assert root is not None
    (root / "out").mkdir(exist_ok=True)
    for path in (root / "out").rglob("*"):
        if path.is_file():
            path.unlink()
    (root / "out/a.txt").write_text("alpha")
    (root / "notes.txt").write_text("kept")
    yield root
    assert (root / "notes.txt").read_text() == "kept"


def tool_with(runtime: WasmToolRuntime, **bounds: Any) -> PreparedTool:
    grant = Capabilities.none().with_workspace_read([""])
    return runtime.prepare(
        "program", program(), grant.with_workspace_write(WorkspaceWriteCapability(("out/",), **bounds))
    )


@pytest.fixture
def tool(runtime: WasmToolRuntime) -> PreparedTool:
    return tool_with(runtime)


def change(tool: PreparedTool, *words: str) -> str:
    return str(tool.execute({"args": ["change", *words]}).result["stdout"])


def refused(tool: PreparedTool, *words: str) -> tuple[str, list[Reason]]:
    with pytest.raises(GuestExitError) as caught:
        tool.execute({"args": ["change", *words]})
    return caught.value.message, [one.reason for one in caught.value.decisions if not one.allowed]


@pytest.mark.parametrize(
    ("words", "seen"),
    [
        (("write", "out/a.txt", "new"), "new"),
        (("write", "out/b.txt", ""), ""),
        (("new", "out/b.txt", "made"), "made"),
        (("append", "out/a.txt", " and more"), "alpha and more"),
        (("append", "out/b.txt", "first"), "first"),
        (("patch", "out/a.txt", "__"), "al__a"),
        (("patch", "out/a.txt", "ter and longer"), "alter and longer"),
        (("resize", "out/a.txt", "2"), "al"),
        (("resize", "out/a.txt", "7"), "alpha\0\0"),
        (("rename", "out/a.txt", "out/b.txt"), "alpha"),
        (("make", "out/new/deep"), "a folder"),
    ],
)
def test_a_program_writes_and_reads_granted_files(
    tool: PreparedTool, root: Path, words: tuple[str, ...], seen: str
) -> None:
    assert change(tool, *words) == seen
    path = root / (words[2] if words[0] == "rename" else words[1])
    assert path.is_dir() if seen == "a folder" else path.read_bytes() == seen.encode()
    assert not [path for path in root.rglob("*") if path.name.startswith(".")]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("write", "notes.txt", "x"), Reason.PREFIX_NOT_ALLOWED),
        (("write", "other.txt", "x"), Reason.PREFIX_NOT_ALLOWED),
        (("append", "notes.txt", "x"), Reason.PREFIX_NOT_ALLOWED),
        (("resize", "notes.txt", "0"), Reason.PREFIX_NOT_ALLOWED),
        (("rename", "notes.txt", "out/x"), Reason.PREFIX_NOT_ALLOWED),
        (("rename", "out/a.txt", "x.txt"), Reason.PREFIX_NOT_ALLOWED),
        (("make", "elsewhere"), Reason.PREFIX_NOT_ALLOWED),
        (("remove", "notes.txt"), Reason.PREFIX_NOT_ALLOWED),
        (("write", "out/agents.md", "x"), Reason.PROTECTED_FILE),
        (("make", "context"), Reason.PROTECTED_FILE),
        (("remove", "out/a.txt"), Reason.REMOVE_NOT_ALLOWED),
    ],
)
def test_writes_outside_the_grant_are_refused_and_recorded(
    tool: PreparedTool, root: Path, words: tuple[str, ...], reason: Reason
) -> None:
    assert refused(tool, *words)[1] == [reason]
    assert sorted(path.name for path in root.iterdir()) == ["notes.txt", "out"]
    assert (root / "out/a.txt").read_text() == "alpha"


def test_a_program_removes_files_with_a_grant(runtime: WasmToolRuntime, root: Path) -> None:
    tool = tool_with(runtime, remove=True)
    assert change(tool, "remove", "out/a.txt") == "nothing"
    (root / "out/empty").mkdir()
    assert change(tool, "remove-folder", "out/empty") == "nothing"
    assert not (root / "out/a.txt").exists() and not (root / "out/empty").exists()
    assert refused(tool, "remove", "out/a.txt")[1] == []


def test_exclusive_creation_fails_for_an_existing_file(tool: PreparedTool, root: Path) -> None:
    message, reasons = refused(tool, "new", "out/a.txt", "x")
    assert "exists" in message.lower() and reasons == []
    assert (root / "out/a.txt").read_text() == "alpha"


def test_the_grants_limits_apply_to_the_program(runtime: WasmToolRuntime, root: Path) -> None:
    small = tool_with(runtime, max_file_bytes=4096, max_bytes=6000, max_files=2)
    assert refused(small, "large", "out/b.txt", "5")[1] == [Reason.FILE_TOO_LARGE]
    assert (root / "out/b.txt").read_bytes() in (b"", b"x" * 4096)
    change(small, "large", "out/b.txt", "4")
    assert (root / "out/b.txt").stat().st_size == 4096


def test_a_failed_write_on_close_fails_the_call(runtime: WasmToolRuntime, root: Path) -> None:
    small = tool_with(runtime, max_bytes=2000)
    with pytest.raises(ToolError) as caught:
        change(small, "large", "out/a.txt", "2")
    assert caught.value.code == "not-written" and "2000 bytes" in caught.value.message
    assert Reason.WRITE_BUDGET in [one.reason for one in caught.value.decisions]
    assert (root / "out/a.txt").read_text() == "alpha"


def test_a_file_left_open_is_written_at_exit(tool: PreparedTool, root: Path) -> None:
    tool.execute({"args": ["leave-open", "out/b.txt", "0"]})
    assert (root / "out/b.txt").read_text() == "left open"
    with pytest.raises(GuestExitError):
        tool.execute({"args": ["leave-open", "out/c.txt", "3"]})
    assert (root / "out/c.txt").read_text() == "left open"


def test_a_trapped_program_leaves_the_old_content(tool: PreparedTool, root: Path) -> None:
    with pytest.raises(TrapError):
        tool.execute({"args": ["break-off", "out/a.txt"]})
    assert (root / "out/a.txt").read_text() == "alpha"


def test_a_read_only_call_cannot_write(tool: PreparedTool, root: Path) -> None:
    context = ToolContext(effects=frozenset({Effect.READ_FILESYSTEM}))
    with pytest.raises(GuestExitError) as caught:
        tool.execute({"args": ["change", "write", "out/a.txt", "x"]}, context)
    (decision,) = (one for one in caught.value.decisions if not one.allowed)
    assert decision.rule == "the call is limited to its effects (read-filesystem)"
    assert (root / "out/a.txt").read_text() == "alpha"


@pytest.mark.parametrize(
    ("path", "presets", "written"),
    [
        ("out/deep/x", [], True),
        ("out/deep/x", [("out",)], True),
        ("out/deep/x", [("out/deep/", "elsewhere")], True),
        ("out/deep/x", [("out",), ("out/deep",)], True),
        ("out/x", [("out",), ("out/deep",)], False),
        ("out/x", [("out/deep",)], False),
        ("out/x", [()], False),
        ("out/x", [("out",), ()], False),
    ],
)
def test_a_preset_limits_a_component_to_its_write_paths(
    tool: PreparedTool, root: Path, path: str, presets: list[tuple[str, ...]], written: bool
) -> None:
    (root / "out/deep").mkdir(exist_ok=True)
    view: ToolView = ToolRegistry(policy=ToolPolicy(rules=(ToolRule(tool="*", permission=Permission.ALLOW),)))
    view.register(tool)  # type: ignore[attr-defined]
    for number, paths in enumerate(presets):
        view = view.under(Preset(name=f"p{number}", tools=("*",), allow_write_paths=paths, allow_network=True))
    params = {"args": ["change", "write", path, "x"]}
    if written:
        assert view.execute("program", params).result["stdout"] == "x"
        return
    with pytest.raises(GuestExitError) as caught:
        view.execute("program", params)
    (decision,) = (one for one in caught.value.decisions if one.capability == "workspace_write")
    assert decision.rule == "the preset does not allow tools to write to this path"
    assert "allow_write_paths" in (decision.hint or "")
    assert not (root / path).exists()


def test_a_preset_applies_without_cached_permissions_too(
    tool: PreparedTool, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wasmrt.runtime.call._target._MAX_GRANTS", 1)
    registry = ToolRegistry(policy=ToolPolicy(rules=(ToolRule(tool="*", permission=Permission.ALLOW),)))
    registry.register(tool)
    for path, written in (("out/", True), ("elsewhere/", False), ("out/", True), ("other/", False)):
        view = registry.under(Preset(name="p", tools=("*",), allow_write_paths=(path,), allow_network=True))
        (root / "out/b.txt").unlink(missing_ok=True)
        if written:
            view.execute("program", {"args": ["change", "write", "out/b.txt", "x"]})
        else:
            with pytest.raises(GuestExitError):
                view.execute("program", {"args": ["change", "write", "out/b.txt", "x"]})
        assert (root / "out/b.txt").exists() is written


def test_a_write_only_file_cannot_be_read_by_writing(runtime: WasmToolRuntime, root: Path) -> None:
    blind = runtime.prepare("program", program(), Capabilities.none().with_workspace_write(["out/"]))
    assert change(blind, "write", "out/b.txt", "x") in ("nothing", "x")
    assert (root / "out/b.txt").read_text() == "x"
    assert refused(blind, "patch", "out/a.txt", "x")[1] == [Reason.NOT_GRANTED]
    assert (root / "out/a.txt").read_text() == "alpha"


def test_writable_folders_are_mounted_under_configured_names(tool: PreparedTool, root: Path) -> None:
    context = ToolContext(data={"workspace": "/workspace", "writable": {"/write/out": "out"}})

    def run(*words: str) -> str:
        return str(tool.execute({"args": ["change", *words]}, context).result["stdout"])

    assert run("write", "/write/out/b.txt", "by name") == "by name"
    assert run("rename", "/write/out/b.txt", "/write/out/c.txt") == "by name"
    assert (root / "out/c.txt").read_text() == "by name"
    for words in (
        ("write", "/workspace/out/c.txt", "read-only"),
        ("make", "/workspace/out/new"),
        ("remove", "/workspace/out/c.txt"),
        ("rename", "/workspace/out/c.txt", "/write/out/d.txt"),
        ("rename", "/write/out/c.txt", "/workspace/out/d.txt"),
    ):
        with pytest.raises(GuestExitError) as caught:
            run(*words)
        assert [one.reason for one in caught.value.decisions if not one.allowed] == [Reason.FILESYSTEM_DENIED], words
    assert (root / "out/c.txt").read_text() == "by name"


def test_an_installed_program_writes_only_granted_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WASMRT_HOME", str(tmp_path / "home"))

    def command(*words: str | Path, code: int = 0) -> Result:
        result = CliRunner().invoke(cli, [str(word) for word in words], prog_name="wasmrt")
        assert result.exit_code == code, f"exit code {result.exit_code}: {result.stderr or result.exception!r}"
        return result

    (tmp_path / "files/out").mkdir(parents=True)
    (tmp_path / "writer.wasm").write_bytes(program().read_bytes())
    asked = {"workspace": True, "workspace_write": {"allowed_prefixes": ["out/"], "max_bytes": 1024}}
    (tmp_path / "writer.capabilities.json").write_text(json.dumps(asked))
    shown = command("install", tmp_path / "writer.wasm", "--command", "--yes")
    assert "may write files under out/" in shown.stdout + shown.stderr
    place = ("--workspace", tmp_path / "files")
    ran = command("run", "writer", '{"args": ["change", "write", "out/x", "by the program"]}', *place)
    assert json.loads(ran.stdout)["stdout"] == "by the program"
    assert (tmp_path / "files/out/x").read_text() == "by the program"
    refused = command("run", "writer", '{"args": ["change", "write", "x", "no"]}', *place, code=3)
    assert "workspace_write.allowed_prefixes" in refused.stderr
    assert [path.name for path in (tmp_path / "files").iterdir()] == ["out"]


@pytest.mark.parametrize("writable", [[], {"out": "out"}, {"/out": 1}, {"/out": "/etc"}, {"/out": ""}])
def test_mount_names_are_validated(tool: PreparedTool, root: Path, writable: Any) -> None:
    with pytest.raises(InvalidParametersError):
        tool.execute({"args": ["args"]}, ToolContext(data={"writable": writable}))


def test_a_programs_writes_can_be_undone(tool: PreparedTool, root: Path) -> None:
    journal = UndoJournal(find_places().undo)
    done = tool.execute({"args": ["change", "write", "out/a.txt", "beta"]})
    assert (root / "out/a.txt").read_text() == "beta"
    undo(journal, done.call_id)
    assert (root / "out/a.txt").read_text() == "alpha"
    with WasmToolRuntime(WasmRuntimeConfig(workspace=root, undo=False, isolation=Isolation.IN_PROCESS)) as without:
        done = tool_with(without).execute({"args": ["change", "write", "out/a.txt", "beta"]})
    assert done.call_id not in journal.call_ids()
