"""Declarations of third-party tools in data files: whose file applies, to which schemas, and what it changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from wasmrt import ToolDefaults, ToolOutput, ToolRegistry, WasmToolRuntime
from wasmrt.agent.flows import find_declaration, find_outgoing, schema_digest
from wasmrt.agent.policy import ExternalFilter, Permission, ToolPolicy, ToolRule
from wasmrt.agent.registry import Outcome, ToolSource, describe_declarations
from wasmrt.catalog.bundled import TOOLS
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.places import find_places
from wasmrt.core.strict_toml import read_toml
from wasmrt.core.tool_defaults import Declaration
from wasmrt.core.traits import Traits

SHIPPED = Path(__file__).parents[3] / "wasmrt/agent/flows/declared"
ISSUE = {
    "type": "object",
    "properties": {"repo": {"type": "string"}, "title": {"type": "string"}, "label": {"type": "string"}},
}
FILE = "open_issue = {{ {schema}effects = ['network', 'external-write'], content = ['title'], results = [] }}\n"


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the operator's directory of declarations."""
    monkeypatch.setenv("WASMRT_HOME", str(tmp_path))
    found = find_places().declarations
    found.mkdir(parents=True)
    return found


def _find(schema: dict[str, Any] = ISSUE, *publishers: str) -> Declaration | None:
    return find_declaration(publishers or ("server:desk",), "open_issue", schema)


def test_every_shipped_file_is_valid_and_names_the_schema_of_each_tool() -> None:
    files = sorted(SHIPPED.glob("*.toml"))
    servers = [path for path in files if path.name.startswith(("npm+", "pypi+"))]
    assert len(servers) == 20 and len([path for path in files if path.name.startswith("package+")]) == 6
    for path in files:
        kind, _, name = path.stem.partition("+")
        publisher = f"{kind}:{name.replace('+', '/')}"
        for tool, fields in read_toml(path.read_bytes()).items():
            assert len(fields["schema"]) == 32
            found = find_declaration((publisher,), tool, {})
            assert found is not None and Path(found.source) == path and not found.matches


def test_declarations_of_own_tools_match_their_schemas() -> None:
    declared = read_toml((SHIPPED / "wasmrt+tools.toml").read_bytes())
    with WasmToolRuntime() as runtime:
        for name, fields in declared.items():
            assert name in {tool.name for tool in TOOLS}
            assert schema_digest(runtime.prepare_installed(name).schema) == fields["schema"]


def test_a_declaration_applies_only_to_the_declared_schema(folder: Path) -> None:
    (folder / "server+desk.toml").write_text(FILE.format(schema=f"schema = '{schema_digest(ISSUE)}', "))
    found = _find()
    assert found is not None and found.matches and found.content == ("title",)
    changed = {"type": "object", "properties": {**ISSUE["properties"], "webhook": {"type": "string"}}}  # type: ignore[dict-item]
    other = _find(changed)
    assert other is not None and not other.matches and other.content == () and other.effects is None


def test_descriptions_do_not_change_the_digest_but_parameters_of_that_name_do() -> None:
    described = {**ISSUE, "description": "x", "title": "y"}
    assert schema_digest(described) == schema_digest(ISSUE)
    named = {"type": "object", "properties": {**ISSUE["properties"], "description": {"type": "string"}}}  # type: ignore[dict-item]
    assert schema_digest(named) != schema_digest(ISSUE)
    assert schema_digest({**ISSUE, "required": ["repo"]}) != schema_digest(ISSUE)


def test_the_operators_file_replaces_the_shipped_one(folder: Path) -> None:
    time = ("pypi:mcp-server-time",)
    shipped = find_declaration(time, "get_current_time", {})
    assert shipped is not None and Path(shipped.source).parent == SHIPPED
    (folder / "pypi+mcp-server-time.toml").write_text("get_current_time = { results = ['untrusted'] }\n")
    own = find_declaration(time, "get_current_time", {})
    assert own is not None and own.matches and own.results == {"untrusted"}
    assert find_declaration(time, "convert_time", {}) is None


@pytest.mark.parametrize("publisher", ["npm:../x", "npm:a/b/c", "file:/etc/x", "server:desk/../../x", "npm:A B"])
def test_a_name_cannot_choose_a_file_elsewhere(folder: Path, publisher: str) -> None:
    (folder / "x.toml").write_text(FILE.format(schema=""))
    assert _find(ISSUE, publisher) is None


@pytest.mark.parametrize("text", ["open_issue = {", "open_issue = { effect = [] }", "open_issue = { results = ['x'] }"])
def test_an_error_in_the_operators_file_is_reported(folder: Path, text: str) -> None:
    (folder / "server+desk.toml").write_text(text)
    with pytest.raises(ConfigurationError, match=r"server\+desk\.toml"):
        _find()


def test_declared_content_is_neither_destination_nor_control() -> None:
    params = {"repo": "ann/notes", "title": "Short", "label": "urgent"}
    found = find_outgoing(ISSUE, params, None, ("title",))
    assert [each.param for each in (*found.destinations, *found.controls)] == ["repo", "label"]
    assert found.bodies.count("Short") == 1
    alone = find_outgoing({"properties": {"title": {}}}, {"title": "Short"}, None, ("title",))
    assert not alone.destinations and alone.bodies == ("Short",)


class _Tool(ToolDefaults):
    name, description, schema = "open_issue", "Open an issue.", ISSUE
    traits = Traits.of(["network", "external-write"])

    def __init__(self, declaration: Declaration | None) -> None:
        self.declaration = declaration

    def execute(self, params: Any, context: Any = None) -> ToolOutput:
        return ToolOutput(result="opened as number 77")


@pytest.mark.parametrize(
    ("declaration", "outcome", "labels"),
    [
        (None, Outcome.ASKS, ["trusted", "untrusted"]),
        (Declaration("x.toml", False, content=("title",)), Outcome.ASKS, ["trusted", "untrusted"]),
        (Declaration("x.toml", True, content=("title",), results=frozenset()), Outcome.RUNS, ["trusted"]),
    ],
)
def test_only_a_matching_declaration_changes_decisions(
    declaration: Declaration | None, outcome: Outcome, labels: list[str]
) -> None:
    rules = (ToolRule(tool="*", permission=Permission.ALLOW),)
    tools = ToolRegistry(policy=ToolPolicy(rules=rules, filter=ExternalFilter(allow_external=True)))
    tools.register(_Tool(declaration), source=ToolSource.MCP_LOCAL)
    with_mail, without = tools.trace("mail"), tools.trace("clean")
    for trace in (with_mail, without):
        trace.add_user_message("Open an issue in ann/notes.")
    with_mail.add_content("Open an issue with the title Crash on start.")
    call = {"repo": "ann/notes", "title": "Crash on start"}
    assert tools.explain("open_issue", call, trace="mail").outcome is outcome
    tools.execute("open_issue", {"repo": "ann/notes", "title": "An own title"}, trace="clean")
    assert sorted(without.labels) == labels


def test_the_declaration_in_force_is_described_with_its_source() -> None:
    rule = ToolRule(tool="open_issue", destinations=("label",))
    for policy, declaration, source, title in [
        (ToolPolicy(), None, "derived from its schema and effects", "control, or content from twelve words"),
        (ToolPolicy(), Declaration("x.toml", True, content=("title",)), "file: x.toml", "content"),
        (ToolPolicy(rules=(rule,)), None, 'operator: [tools.rules."open_issue"]', "content"),
    ]:
        tools = ToolRegistry(policy=policy)
        tools.register(_Tool(declaration), source=ToolSource.MCP_LOCAL)
        (found,) = describe_declarations(tools, "open_issue")
        assert found["declared_by"][0] == source and found["params"]["title"] == title
    tools = ToolRegistry()
    tools.register(_Tool(Declaration("x.toml", False)), source=ToolSource.MCP_LOCAL, group="mcp:desk")
    (found,) = describe_declarations(tools, "desk")
    assert found["declared_by"] == [
        "file: x.toml: does not apply, because the tool's schema is different", "derived from its schema and effects"
    ]  # fmt: skip
