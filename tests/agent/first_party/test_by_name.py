"""Every tool by each of its names: from the command line, from Python and in a registry; and the docs page."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.agent.first_party.conftest import Run
from tests.agent.first_party.names import ON_ITSELF
from tests.agent.first_party.web import PUBLIC, Web, page
from tests.sandbox.isolation.conftest import needs_landlock, needs_seccomp
from wasmrt import (
    CallbackApprover,
    FunctionRunner,
    PreparedTool,
    ToolRegistry,
    WasmToolRuntime,
    add_jobs,
    load_registry,
)
from wasmrt.agent.builtin.desktop import desktop_tool
from wasmrt.agent.registry import PROTECTED_TOOL_NAMES, ToolCall
from wasmrt.agent.routines import RoutineStore, register_routine_tools
from wasmrt.catalog.bundled import (
    CODE_TOOLS,
    DESKTOP_NAMES,
    HOST_TOOLS,
    JOB_TOOLS,
    ROUTINE_TOOLS,
    SHELL_ALIASES,
    SHELL_NAME,
    TOOLS,
    bundled_names,
    bundled_tool,
    shipped_names,
)
from wasmrt.cli import cli
from wasmrt.core.limits import MIB
from wasmrt.core.names import offered_name
from wasmrt.core.traits import ToolDomain
from wasmrt.egress.gateway import EgressGateway
from wasmrt.runtime.config_extensions import DesktopSettings

PAGE = Path(__file__).resolve().parents[3] / "docs/first-party-tools.md"
PARAMS: dict[str, dict[str, Any]] = {
    "echo": {"message": "hi"},
    "time": {"operation": "now"},
    "json": {"operation": "validate", "data": "[]"},
    "read_file": {"path": "a.txt"},
    "write_file": {"path": "b.txt", "content": "b"},
    "list_dir": {},
    "apply_patch": {"path": "a.txt", "old_string": "one", "new_string": "two"},
    "apply_diff": {"path": "a.txt", "diff": "@@ -1 +1 @@\n-one\n+two\n"},
    "file_search": {"pattern": "one"},
    "file_delete": {"path": "a.txt"},
    "files.ensure_dir": {"path": "made"},
    "files.move_glob": {"from": "", "patterns": ["a.*"], "to": "made"},
    "vault_copyto": {"source": "vault/k", "destination": "shared"},
    "html_to_markdown": {"html": "<p>hi</p>"},
    "http": {"method": "GET", "url": "https://example.com/"},
    "web_fetch": {"url": "https://example.com/"},
    "web_search": {"query": "words"},
}
NAMES = [(name, tool.name) for tool in TOOLS for name in (tool.name, *tool.aliases)]


def fill(root: Path) -> None:
    (root / "a.txt").write_text("one\n")
    (root / "vault").mkdir(exist_ok=True)
    (root / "vault/k").write_text("k")
    for made in ("made/a.txt", "shared/k"):
        (root / made).unlink(missing_ok=True)


@pytest.fixture
def files(root: Path) -> Path:
    fill(root)
    return root


@pytest.fixture(autouse=True)
def pages(web: Web) -> None:
    web.pages["https://example.com/"] = page("<p>hi</p>")
    web.pages["https://search.example.com/search"] = page('{"results": []}', kind="application/json")


@pytest.fixture
def wasmrt(home: Path, web: Web, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Return the command line on a machine with the test web."""
    monkeypatch.setattr(EgressGateway, "_open_transport", lambda gateway: web.transport)
    (home / "data").mkdir(exist_ok=True)
    (home / "data/config.toml").write_text(
        f'[network]\nhosts = {{ "example.com" = ["{PUBLIC}"], "search.example.com" = ["{PUBLIC}"] }}\n'
        '[web_search]\nprovider = "searxng"\nurl = "https://search.example.com/"\n'
        '[tools.rules.http]\npermission = "allow"\n'
    )

    def run(*arguments: str | Path, code: int = 0) -> Result:
        result = CliRunner().invoke(cli, [str(each) for each in arguments], prog_name="wasmrt")
        assert result.exit_code == code, f"exit code {result.exit_code}: {result.stderr or result.exception!r}"
        return result

    return run


@pytest.fixture(scope="package")
def registry(runtime: WasmToolRuntime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolRegistry]:
    with load_registry(runtime, approver=CallbackApprover(lambda request: True)) as registry:
        add_jobs(registry, FunctionRunner(lambda tools: str.upper))
        register_routine_tools(registry, RoutineStore(tmp_path_factory.mktemp("routines") / "routines.sqlite3"))
        yield registry


@pytest.mark.table
@pytest.mark.parametrize(("name", "canonical"), NAMES)
def test_tool_runs_by_each_of_its_names_in_python(files: Path, run: Run, name: str, canonical: str) -> None:
    assert run(name, **PARAMS[canonical]) is not None


@pytest.mark.parametrize(("name", "canonical"), [*NAMES, ("files_read_text", "read_file")])
def test_tool_runs_by_each_of_its_names_from_the_command_line(
    files: Path, wasmrt: Callable[..., Result], name: str, canonical: str
) -> None:
    json.loads(wasmrt("run", name, json.dumps(PARAMS[canonical]), "--workspace", files).stdout)


def test_each_file_tool_has_its_own_part_of_the_grant(
    files: Path, runtime: WasmToolRuntime, wasmrt: Callable[..., Result]
) -> None:
    component = runtime.prepare_installed("files")
    assert component.has_several and component.tool("read_file").capabilities.workspace_write is None
    assert component.tool("file_delete").execute({"path": "a.txt"}).result["files"] == 1
    found = wasmrt("run", "files", "{}", "--tool", "list_dir", "--workspace", files).stdout
    assert [entry["path"] for entry in json.loads(found)["entries"]] == ["vault"]


def test_run_that_changed_files_prints_the_undo_command(files: Path, wasmrt: Callable[..., Result]) -> None:
    said = wasmrt("run", "write_file", '{"path": "a.txt", "content": "two"}', "--workspace", files).stderr
    command = re.search(r"wasmrt (undo \S+)", said)
    assert command is not None and (files / "a.txt").read_text() == "two"
    wasmrt(*command[1].split(), "--yes")
    assert (files / "a.txt").read_text() == "one\n"
    assert "undo" not in wasmrt("run", "read_file", '{"path": "a.txt"}', "--workspace", files).stderr


def test_denials_on_the_command_line_suggest_a_fix(files: Path, tmp_path: Path, wasmrt: Callable[..., Result]) -> None:
    said = wasmrt("run", "read_file", '{"path": "a.txt"}', code=3).stderr
    assert "--workspace DIR" in said
    narrow = tmp_path / "narrow.json"
    narrow.write_text('{"workspace": true, "workspace_write": {"allowed_prefixes": ["out/"]}}')
    arguments = ("--workspace", files, "--capabilities", narrow)
    said = wasmrt("run", "write_file", '{"path": "b.txt", "content": "x"}', *arguments, code=3).stderr
    assert 'add to workspace_write.allowed_prefixes: "b.txt"' in said and not (files / "b.txt").exists()
    narrow.write_text('{"workspace": true, "workspace_write": {"allowed_prefixes": true}}')
    said = wasmrt("run", "file_delete", '{"path": "a.txt"}', *arguments, code=3).stderr
    assert '"remove": true' in said and (files / "a.txt").exists()


@pytest.mark.parametrize(("name", "canonical"), NAMES)
def test_model_calls_a_tool_by_each_of_its_names(
    registry: ToolRegistry, files: Path, name: str, canonical: str
) -> None:
    assert registry.get(name).name == canonical
    for written in {offered_name(canonical) if name == canonical else name, name.replace(".", "_")}:
        answer = registry.answer(ToolCall("1", written, json.dumps(PARAMS[canonical])))
        assert answer.ok and answer.output is not None, answer.text
        fill(files)


def test_file_tools_are_listed_if_there_is_a_workspace(files: Path, wasmrt: Callable[..., Result]) -> None:
    listed = json.loads(wasmrt("tools", "list", "--workspace", files, "--json").stdout)
    assert sorted(row["name"] for row in listed) == sorted((*bundled_names(), *HOST_TOOLS, *ON_ITSELF, SHELL_NAME))
    described = json.loads(wasmrt("tools", "describe", "file_edit", "--workspace", files, "--json").stdout)
    assert described["name"] == "file_edit" and described["schema"]["required"][0] == "path"


def test_model_searches_reads_and_needs_approval_to_send(registry: ToolRegistry, web: Web) -> None:
    found = '{"results": [{"title": "One", "url": "https://example.com/", "content": "First."}]}'
    web.pages["https://search.example.com/search"] = page(found, kind="application/json")
    script = iter(
        [
            lambda said: ToolCall("1", "web_search", {"query": "one"}),
            lambda said: ToolCall("2", "web_fetch", {"url": re.findall(r"https://example\.com/", said)[0]}),
            lambda said: ToolCall("3", "http", {"method": "POST", "url": "https://example.com/", "body": said}),
        ]
    )
    said = ""
    for turn in script:
        answer = registry.answer(turn(said))
        said = answer.text
    assert [request.method for request in web.asked] == ["GET", "GET", "POST"]
    assert b"hi" in web.asked[-1].body and '"status":200' in said.replace(" ", "")


def test_request_to_an_internal_host_is_refused_with_its_rule(wasmrt: Callable[..., Result], web: Web) -> None:
    for name, more in (("http", '"method": "GET", '), ("web_fetch", "")):
        said = wasmrt("run", name, f'{{{more}"url": "https://10.0.0.5/"}}', code=3).stderr
        assert "10.0.0.5 is private" in said and "lists this host" in said
        assert "unsafe_allowed_networks" not in said  # no setting allows it
    assert not web.asked


@needs_seccomp
@needs_landlock
@pytest.mark.parametrize("name", [SHELL_NAME, *SHELL_ALIASES])
def test_registry_has_the_shell_by_each_of_its_names(registry: ToolRegistry, files: Path, name: str) -> None:
    assert registry.get(name).name == SHELL_NAME
    assert registry.execute(name, {"command": "cat a.txt"}).result["stdout"] == "one\n"


def test_names_of_the_file_tools_are_protected() -> None:
    assert {"read_file", "write_file", "list_dir", "apply_patch"} <= PROTECTED_TOOL_NAMES & {
        tool.name for tool in TOOLS
    }


# -- docs page ---------------------------------------------------------------------------------------------------------


_LINE = re.compile(r"- (?P<names>`.+?) \((?P<effects>[^()]*)\): (?P<limits>.+)")


def tool_lines(section: str) -> dict[str, re.Match[str]]:
    """Return the lines of the tools in a section of the page, by name."""
    text = PAGE.read_text().partition(f"### {section}\n")[2].partition("\n#")[0]
    found = [match for line in text.splitlines() if (match := _LINE.fullmatch(line))]
    return {re.findall(r"`([^`]+)`", match["names"])[0]: match for match in found}


def test_docs_page_lists_every_tool_with_its_properties(
    registry: ToolRegistry, prepared: Callable[[str], PreparedTool]
) -> None:
    on, off = tool_lines("On by default"), tool_lines("Off by default")
    every = {tool.name: (tool.aliases, prepared(tool.name)) for tool in TOOLS}
    every |= {name: ((), registry.get(name)) for name in (*HOST_TOOLS, *ON_ITSELF, *JOB_TOOLS, *ROUTINE_TOOLS)}
    every[SHELL_NAME] = SHELL_ALIASES, registry.get(SHELL_NAME)
    registry.add_code_mode()
    every |= {name: ((), registry.get(name)) for name in CODE_TOOLS}
    every |= {name: ((), desktop_tool(name, DesktopSettings(), EgressGateway)) for name in DESKTOP_NAMES}
    assert sorted([*on, *off]) == sorted(every)
    assert set(off) == {*DESKTOP_NAMES, *CODE_TOOLS, *JOB_TOOLS, *ROUTINE_TOOLS}
    always = set()
    for name, (aliases, tool) in every.items():
        line = (on | off)[name]
        assert re.findall(r"`([^`]+)`", line["names"]) == [name, *aliases]
        traits = tool.traits if name in DESKTOP_NAMES else registry.traits(name)
        assert sorted(re.findall(r"`([^`]+)`", line["effects"])) == sorted(traits.effects), name
        asks = getattr(tool, "default_permission", "") == "ask" or (name in JOB_TOOLS and tool.requires_approval({}))
        if asks and traits.confirmation() != "always":
            always.add(name)
    stated = PAGE.read_text().partition("These require it whatever their effects: ")[2].partition(".\n")[0]
    assert set(re.findall(r"`([^`]+)`", stated)) == always


def test_each_tool_has_the_stated_domain(registry: ToolRegistry) -> None:
    container = "read_file write_file list_dir apply_patch shell tool_install tool_remove skill_install skill_remove"
    orchestrator = "echo time json http html_to_markdown tool_search tool_auth tool_activate tool_list skill_list"
    for name in (*container.split(), *orchestrator.split(), "skill_search", *HOST_TOOLS):
        assert (registry.traits(name).domain is ToolDomain.CONTAINER) == (name in container.split()), name


def test_missing_names_of_the_specifications_have_a_reason(
    registry: ToolRegistry, prepared: Callable[[str], PreparedTool]
) -> None:
    named: dict[str, list[str]] = {}
    for section in tomllib.loads(Path(__file__).with_name("seed_names.toml").read_text()).values():
        named |= section
    shipped = set(shipped_names())
    left_out = {
        name
        for line in PAGE.read_text().partition("## Not included")[2].splitlines()
        if line.startswith("|") and (cells := [cell.strip() for cell in line.strip("|").split("|")])[1]
        for name in re.findall(r"`([^`]+)`", cells[0]) or [cells[0]]
    }
    assert {name for name in named if name not in shipped} == left_out & set(named)
    assert not left_out & shipped
    for name, params in named.items():
        if not params or name not in shipped:
            continue
        tool = prepared(name) if bundled_tool(name) is not None else registry.get(name)
        required = set(tool.schema.get("required", []))
        for param in params:
            plain = param.rstrip("*")
            assert plain in tool.schema["properties"] and param.endswith("*") == (plain in required), (name, param)


def test_docs_page_states_the_limits_of_the_capability_files(prepared: Callable[[str], PreparedTool]) -> None:
    for name in bundled_names():
        writing = prepared(name).capabilities.workspace_write
        if writing is not None:
            assert (writing.max_file_bytes, writing.max_bytes, writing.max_files) == (5 * MIB, 16 * MIB, 1100), name
    assert "16 MiB and 1,100 files and folders a call" in PAGE.read_text()
