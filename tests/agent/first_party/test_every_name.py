"""Every host tool by each of its names: from the command line, from Python, and by a scripted model."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.agent.desktop.conftest import applications, bus, desktop, no_session, screen, shown  # noqa: F401  fixtures
from tests.agent.first_party.test_by_name import NAMES, tool_lines
from tests.agent.first_party.web import PUBLIC, Web, page
from tests.agent.skills.conftest import write_skill
from tests.sandbox.isolation.conftest import needs_landlock, needs_seccomp
from wasmrt import CallbackApprover, WasmToolRuntime, load_registry, tool
from wasmrt.agent import loading
from wasmrt.agent.approvals import Approver
from wasmrt.agent.builtin.desktop import _browser
from wasmrt.agent.registry import ToolCall, ToolRegistry, absent_tools
from wasmrt.catalog.bundled import (
    DESKTOP_NAMES,
    FOLDER,
    JOB_TOOLS,
    PROGRAM_TOOLS,
    ROUTINE_TOOLS,
    TOOLS,
    bundled_tool,
    own_tool,
    shipped_names,
)
from wasmrt.cli import cli
from wasmrt.core.errors import InvalidNameError, ToolError
from wasmrt.core.places import find_places
from wasmrt.egress.gateway import EgressGateway

Way = Callable[[str, dict[str, Any]], Any]
Row = tuple[str, dict[str, Any], str]
"""A name, the params of a call, and a part of its result."""
WAYS = ("command", "python", "model")
CALLS: dict[str, tuple[Row, ...]] = {
    "memory": (
        ("memory_write", {"content": "Ann prefers tea", "target": "memory"}, "MEMORY.md"),
        ("memory_search", {"query": "tea"}, "Ann prefers tea"),
        ("memory_read", {"path": "MEMORY.md"}, "Ann prefers tea"),
        ("memory_tree", {}, "MEMORY.md"),
    ),
    "tools": (
        ("tool_search", {"query": "parrot"}, "not installed"),
        ("tool_install", {"name": "parrot"}, "tool_activate"),
        ("tool_list", {"kind": "wasm"}, "parrot"),
        ("tool_activate", {"name": "parrot"}, '"active": ["parrot"]'),
        ("tool_auth", {"name": "parrot"}, "authorized"),
        ("tool_remove", {"name": "parrot"}, "parrot"),
    ),
    "skills": (
        ("skill_install", {"name": "notes"}, "installed"),
        ("skill_list", {}, "notes"),
        ("skill_search", {"query": "notes"}, "notes"),
        ("skill_read", {"name": "notes"}, "Write notes."),
        ("skill_remove", {"name": "notes"}, "notes"),
    ),
    "programs": (
        ("run_code", {"code": "return (await tools.echo({message: 'hi'}))"}, "hi"),
        ("search_tools", {"query": "echo"}, "echo("),
    ),
    "shell": tuple((name, {"command": "echo said"}, "said") for name in ("shell", "shell_exec", "shell.run")),
    "desktop": (
        ("clipboard.write", {"text": "copied"}, "6"),
        ("clipboard.read", {}, "copied"),
        ("notify.send", {"title": "done"}, "true"),
        ("apps.open", {"app": "org.example.Paint"}, "Paint"),
        ("windows.list", {}, '"windows"'),
        ("screen.capture", {}, "image/png"),
        ("mouse.move", {"x": 5, "y": 5}, "true"),
        ("mouse.click", {"x": 5, "y": 5}, "true"),
        ("mouse.drag", {"x": 5, "y": 5, "to_x": 9, "to_y": 9}, "true"),
        ("mouse.scroll", {"x": 5, "y": 5, "direction": "down"}, "true"),
    ),
    "window": (
        ("windows.focus", {"window": "0x1"}, ""),
        ("keyboard.type", {"window": "0x1", "text": "x"}, ""),
        ("keyboard.press", {"window": "0x1", "keys": "ctrl+a"}, ""),
    ),
    "page": (("browser.open_url", {"url": "https://example.com/"}, "made by a script"),),
}
JOB = {"title": "Notes", "description": "Read the notes.", "wait": True}
ROWS = {name: (params, found) for calls in CALLS.values() for name, params, found in calls}
CONFIG = """
desktop.tools = {desktop}
desktop.applications = ["org.example.Paint"]
code_mode.enabled = true
extensions.sources = ["{sources}"]
skills.sources = ["{sources}"]
jobs.command = ["/bin/sh", "-c", "cat > task.json; echo said"]
tools.filter.allow_external = true
network.hosts = {{ "example.com" = ["{public}"] }}
"""


@pytest.fixture(scope="module")
def config(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a configuration file that enables every tool, with a package and a skill to install."""
    sources = tmp_path_factory.mktemp("sources")
    shutil.copy(FOLDER / "echo.wasm", sources / "parrot.wasm")
    write_skill(sources, "notes")
    (home / "data").mkdir(exist_ok=True)
    file = home / "data/config.toml"
    file.write_text(CONFIG.format(desktop=json.dumps(DESKTOP_NAMES), sources=sources, public=PUBLIC))
    yield file
    file.unlink()


@pytest.fixture(scope="module")
def registry(config: Path, runtime: WasmToolRuntime) -> Iterator[ToolRegistry]:
    with load_registry(runtime, approver=CallbackApprover(lambda request: True)) as registry:
        yield registry


@pytest.fixture
def machine(config: Path, root: Path, web: Web, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a workspace on a machine with the test web and an approver that approves everything."""
    monkeypatch.setattr(EgressGateway, "_open_transport", lambda gateway: web.transport)
    monkeypatch.setattr(web.transport, "close", lambda: None)  # shared by these tests
    monkeypatch.setattr("wasmrt.cli.shared.registry.make_approver", agreeing)
    script = "<p id=a></p><script>a.innerText = 'made ' + 'by a script'</script>"
    web.pages["https://example.com/"] = page(script)
    return root


def agreeing(*_: object) -> Approver:
    return CallbackApprover(lambda request: True)


@pytest.fixture
def paint(applications: Path) -> None:  # noqa: F811  a fixture
    """Create an application of this machine."""
    (applications / "org.example.Paint.desktop").write_text(
        f"[Desktop Entry]\nType=Application\nName=Paint\nExec={shutil.which('true')}\n"
    )


@pytest.fixture(params=WAYS)
def call(request: pytest.FixtureRequest, machine: Path, registry: ToolRegistry, monkeypatch: pytest.MonkeyPatch) -> Way:
    """Return a function that calls a tool by name, in each supported way, and returns its result."""

    def command(name: str, params: dict[str, Any]) -> Any:
        arguments = ["run", name, json.dumps(params), "--workspace", str(machine)]
        result = CliRunner().invoke(cli, arguments, prog_name="wasmrt")
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    def model(name: str, params: dict[str, Any]) -> Any:
        answer = registry.answer(ToolCall("1", name.replace(".", "_"), json.dumps(params)))
        assert answer.output is not None, answer.text
        return answer.output.result

    if request.param == "command":  # each command opens a registry; load one component instead of all
        monkeypatch.setattr(loading, "TOOLS", tuple(tool for tool in TOOLS if tool.name == "echo"))
    ways = {"command": command, "python": lambda name, params: registry.execute(name, params).result, "model": model}
    return ways[request.param]


def check(call: Way, kind: str) -> None:
    for name, params, found in CALLS[kind]:
        assert found in json.dumps(call(name, params)), name


@pytest.mark.parametrize("kind", ["memory", "tools", "skills", "programs"])
def test_host_tools_run_by_name(call: Way, kind: str) -> None:
    check(call, kind)


@needs_seccomp
@needs_landlock
def test_shell_runs_by_each_of_its_names(call: Way) -> None:
    check(call, "shell")


@needs_seccomp
@needs_landlock
def test_job_tools_run_by_name(call: Way) -> None:
    created = call("create_job", JOB)
    assert created["output"] == "said"
    job = {"job_id": created["job_id"]}
    assert job.items() <= call("list_jobs", {})["jobs"][0].items()
    assert call("job_status", job)["status"] == "completed"
    assert call("job_events", job)["events"][0]["event_type"] == "result"


@pytest.mark.ci("slow")
@pytest.mark.usefixtures("desktop", "shown")
@pytest.mark.skipif(shutil.which("xclip") is None, reason="no xclip here")
def test_desktop_tools_run_by_name(call: Way, paint: None) -> None:
    check(call, "desktop")


@pytest.mark.ci("browser")
@needs_seccomp
@needs_landlock
@pytest.mark.skipif(
    find_spec("playwright") is None or not any(map(shutil.which, _browser._NAMES)),
    reason="no chromium-headless-shell or no Playwright here",
)
def test_browser_runs_by_name(call: Way) -> None:
    check(call, "page")


@pytest.mark.parametrize("name", DESKTOP_NAMES)
def test_desktop_tools_without_a_desktop_suggest_a_fix(
    machine: Path, registry: ToolRegistry, paint: None, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(_browser, "_NAMES", ("no-such-browser",))
    params = ROWS[name][0]
    step = "chromium-headless-shell" if name == "browser.open_url" else "desktop session"
    with pytest.raises(ToolError) as caught:
        registry.execute(name, params)
    assert step in (caught.value.hint or ""), "in Python"
    answer = registry.answer(ToolCall("1", name.replace(".", "_"), json.dumps(params)))
    assert not answer.ok and caught.value.message in answer.text
    said = CliRunner().invoke(cli, ["run", name, json.dumps(params)], prog_name="wasmrt")
    assert said.exit_code != 0 and step in said.stderr


def test_installed_tool_precedes_an_alternative_spelling(machine: Path, registry: ToolRegistry) -> None:
    def wasmrt(*arguments: str) -> str:
        result = CliRunner().invoke(cli, arguments, prog_name="wasmrt")
        assert result.exit_code == 0, result.stderr
        return result.stdout

    assert registry.get("files_read_text").name == "read_file"
    taken = ("files_read_text", "clipboard_read")
    for name in taken:
        wasmrt("install", str(FOLDER / "echo.wasm"), "--name", name, "--yes")
        assert json.loads(wasmrt("run", name, '{"message": "hi"}')) == "hi"
    assert registry.installed is not None
    registry.installed.refresh()
    try:
        assert registry.get("files_read_text").name == "files_read_text"
        assert "files.read_text" not in registry, "nobody takes one for the other"
        assert registry.get("file_read").name == "read_file"
    finally:
        for name in taken:
            wasmrt("remove", name, "--yes")
        registry.installed.refresh()
    assert registry.get("files_read_text").name == "read_file"


@pytest.mark.parametrize("name", ["../echo", "echo!", "files/read_text", " shell", "", "tool", "shell__run"])
def test_similar_names_are_unknown(registry: ToolRegistry, name: str) -> None:
    assert bundled_tool(name) is None and own_tool(name) is None
    assert name not in registry


def test_tools_cannot_register_a_spelling_of_an_existing_name(registry: ToolRegistry) -> None:
    @tool(effects=[])
    def files_read_text() -> str:
        """Read."""
        return ""

    with pytest.raises(InvalidNameError, match="already registered, as 'read_file'"):
        registry.register(files_read_text)


def test_every_documented_and_registered_tool_is_tested(registry: ToolRegistry) -> None:
    tried = {name for name, _ in NAMES} | set(ROWS) | {*JOB_TOOLS, *ROUTINE_TOOLS}
    assert tried == set(shipped_names())
    lines = tool_lines("On by default") | tool_lines("Off by default")
    assert tried == {name for line in lines.values() for name in re.findall(r"`([^`]+)`", line["names"])}
    assert set(registry.all_names()) <= tried
    assert set(absent_tools(registry)) - tried == set(PROGRAM_TOOLS)
    assert find_places().config.is_file(), "everything is turned on"
