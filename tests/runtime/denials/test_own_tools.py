"""Disabled and refusing built-in tools name a line of the operator's file, or a command for the user."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.agent.skills.conftest import write_skill
from tests.runtime.denials.lines import Tree, in_configuration, read_configuration, said_to_a_person
from wasmrt import CallbackApprover, ToolCall, ToolRegistry, WasmRuntimeConfig, WasmToolRuntime, load_registry
from wasmrt.agent import loading
from wasmrt.agent.registry import absent_tools
from wasmrt.catalog.bundled import CODE_TOOLS, DESKTOP_NAMES, FOLDER, HOST_TOOLS, SHELL_NAME, WEB_SEARCH
from wasmrt.cli import cli
from wasmrt.core.errors import NotAuthorizedError, UnknownToolError
from wasmrt.core.places import find_places

Open = Callable[[Tree], Any]


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    """Opens the registry of a configuration without components, which would have to be compiled."""
    monkeypatch.setenv("WASMRT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(loading, "TOOLS", ())
    folder = find_places().config.parent
    folder.mkdir(parents=True)
    (tmp_path / "work").mkdir()

    @contextmanager
    def made(config: Tree) -> Iterator[ToolRegistry]:
        read_configuration(folder, config)
        agreeing = CallbackApprover(lambda request: True)
        with (
            WasmToolRuntime(WasmRuntimeConfig.load(isolation="in-process")) as runtime,
            load_registry(runtime, approver=agreeing) as registry,
        ):
            yield registry

    return made


OFF: dict[str, tuple[tuple[str, ...], Tree, dict[str, str]]] = {
    "desktop": (DESKTOP_NAMES, {}, {}),
    "code mode": (CODE_TOOLS, {}, {}),
    "memory": (HOST_TOOLS, {"memory": {"enabled": False}}, {}),
    "workspace": ((SHELL_NAME, "shell.run"), {}, {"DIR": "WORK"}),
    "search": ((WEB_SEARCH,), {}, {}),
}


@pytest.mark.parametrize("part", OFF)
def test_the_named_line_enables_a_disabled_tool(opened: Open, tmp_path: Path, part: str) -> None:
    names, config, spelled_out = OFF[part]
    for name in names:
        with opened(config) as registry:
            with pytest.raises(UnknownToolError) as caught:
                registry.execute(name, {})
            step = caught.value.hint or ""
            assert step in said_to_a_person(caught.value)
            for form in (name, name.replace(".", "_")):
                assert step in registry.answer(ToolCall("1", form, {})).text
        given = {named: value.replace("WORK", str(tmp_path / "work")) for named, value in spelled_out.items()}
        with opened(in_configuration(config, step, **given)) as registry:
            assert name not in absent_tools(registry)
            assert name in registry or name == WEB_SEARCH


def denied(registry: ToolRegistry, name: str, params: dict[str, Any]) -> str | None:
    """Return the step shown to users after the rule was shown to a model, or None if the call is allowed."""
    try:
        registry.execute(name, params)
    except NotAuthorizedError as error:
        refused = error.decisions[-1]
        assert refused.hint and refused.hint in said_to_a_person(error)
        told = registry.answer(ToolCall("1", name, params)).text
        assert refused.rule in told and refused.hint not in told
        return refused.hint
    return None


@pytest.mark.parametrize(("name", "section"), [("skill_install", "skills"), ("tool_install", "extensions")])
def test_the_named_line_allows_an_unlisted_source(opened: Open, tmp_path: Path, name: str, section: str) -> None:
    sources = tmp_path / "sources"
    write_skill(sources, "notes")
    shutil.copy(FOLDER / "echo.wasm", sources / "parrot.wasm")
    params = {"name": "notes" if section == "skills" else "parrot"}
    with opened({}) as registry:
        step = denied(registry, name, params)
        assert step is not None
    config = in_configuration({}, step, FOLDER=str(sources))
    assert config == {section: {"sources": [str(sources)]}}
    with opened(config) as registry:
        assert denied(registry, name, params) is None


@pytest.mark.parametrize(("name", "section"), [("skill_install", "skills"), ("tool_install", "extensions")])
def test_an_unlisted_address_names_its_key_or_that_nothing_allows_it(opened: Open, name: str, section: str) -> None:
    with opened({section: {"hosts": ["good.example"]}}) as registry:
        step = denied(registry, name, {"name": "notes", "url": "https://other.example/x"})
        assert step is not None and f"wasmrt config set --append {section}.hosts HOST" in step
        for url in ("http://good.example/x", "https://a@good.example/x", "file:///x"):
            assert "no setting allows it" in (denied(registry, name, {"name": "notes", "url": url}) or "")


def test_an_unattended_change_names_the_users_command(opened: Open, tmp_path: Path) -> None:
    write_skill(tmp_path / "sources", "notes")
    config = {"skills": {"sources": [str(tmp_path / "sources")]}, "approvals": {"approver": "deny"}}
    with opened(config):
        pass
    with WasmToolRuntime(WasmRuntimeConfig.load(isolation="in-process")) as runtime, load_registry(runtime) as registry:
        step = denied(registry, "skill_install", {"name": "notes"})
    assert step is not None and "approve such calls" not in step, "no rule stands in for a look"
    command = step.partition("to do it yourself: wasmrt ")[2]
    done = CliRunner().invoke(cli, [*command.split(), "--yes"], prog_name="wasmrt")
    assert done.exit_code == 0, done.stderr


def test_a_memory_identity_file_names_the_command_that_writes_it(opened: Open, tmp_path: Path) -> None:
    with opened({}) as registry:
        step = denied(registry, "memory_write", {"content": "be kind", "target": "my notes/soul.md"})
    command = "a user can write it: wasmrt memory write 'my notes/soul.md' FILE"
    assert step == command
    (tmp_path / "soul.md").write_text("be kind")
    arguments = ["memory", "write", "my notes/soul.md", str(tmp_path / "soul.md")]
    done = CliRunner().invoke(cli, arguments, prog_name="wasmrt")
    assert done.exit_code == 0, done.stderr
