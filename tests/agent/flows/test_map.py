"""Paths through tools: derived from effects, described, with the change that closes each, and drawn."""

from __future__ import annotations

import tomllib
import xml.etree.ElementTree as ET
from dataclasses import replace

from tests.agent.flows.agents import Agent
from wasmrt import Preset, ToolPolicy, ToolRegistry, tool
from wasmrt.agent.flows import FlowMap, Reach, draw_paths
from wasmrt.agent.policy import Permission, ToolRule


def registry(*allowed: str) -> ToolRegistry:
    @tool(effects=["network"])
    def fetch(url: str) -> str:
        """Read a page."""
        return ""

    @tool(effects=["read-filesystem"])
    def read_note(name: str) -> str:
        """Read a note."""
        return ""

    @tool(effects=["external-write", "network"])
    def post(text: str) -> str:
        """Post."""
        return ""

    rules = tuple(ToolRule(tool=name, permission=Permission.ALLOW) for name in allowed)
    made = ToolRegistry(policy=ToolPolicy(rules=rules))
    for each in (fetch, read_note, post):
        made.register(each)
    return made


def test_a_path_leads_from_private_and_untrusted_text_to_a_sender() -> None:
    found = registry("post").flows()
    sentences = [path.sentence for path in found.paths() if path.is_open and path.sender.tool == "post"]
    assert (
        "read_note reads files; untrusted content that fetch reads (from the network) can make the agent send it: "
        "post can change something outside" in sentences
    )
    assert all(path.private.tool == "read_note" for path in found.paths())


def test_a_path_is_not_open_if_its_sender_requires_approval() -> None:
    asking = [path for path in registry().flows().paths() if path.sender.tool == "post"]
    assert asking
    assert not any(path.is_open for path in asking)
    assert all(path.sentence.endswith("; approval required") for path in asking)


def test_the_suggested_line_closes_exactly_the_reported_paths() -> None:
    before = registry("post")
    (change,) = (each for each in before.flows().changes() if '"post"' in each.line)
    rules = (*before.policy.rules, ToolRule(tool="post", permission=Permission.ASK))
    before._services.policy = replace(before.policy, rules=rules)
    assert tomllib.loads(change.line) == {"tools": {"rules": {"post": {"permission": "ask"}}}}
    assert registry("post").flows().count - before.flows().count == change.breaks > 0


def test_a_view_without_a_sender_or_private_text_has_no_path() -> None:
    whole = registry("post")
    assert whole.flows().count > 0
    assert list(whole.without_network().flows().paths()) == []
    preset = Preset(name="web", tools=("fetch", "post"), allow_network=True)
    assert list(whole.under(preset).flows().paths()) == []


def test_an_operators_labels_remove_a_tool_from_the_paths() -> None:
    found = registry("post")
    rules = (*found.policy.rules, ToolRule(tool="read_note", results=frozenset()))
    found._services.policy = replace(found.policy, rules=rules)
    assert list(found.flows().paths()) == []


def test_approval_that_depends_on_params_leaves_the_path_open() -> None:
    found = registry()

    @tool(effects=["network"], approval=lambda params: bool(params["text"]))
    def say(text: str) -> str:
        """Say."""
        return text

    found.register(say)
    assert any(path.is_open for path in found.flows().paths() if path.sender.tool == "say")


def test_names_are_escaped_in_the_svg_picture() -> None:
    hostile = Reach(
        tool="<script>x</script>", private="reads files", untrusted="from files", sends="can <b>", asks=False
    )
    drawn = draw_paths(FlowMap((hostile, *Agent().registry.flows().reaches)))
    root = ET.fromstring(drawn)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    names = {text.text for text in root.iter("{http://www.w3.org/2000/svg}text")}
    assert "<script>x</script>" in names
    assert root.find(".//{http://www.w3.org/2000/svg}script") is None
    assert ET.fromstring(draw_paths(FlowMap(()))) is not None


def test_the_list_of_paths_is_bounded() -> None:
    many = FlowMap(tuple(Reach(str(n), "reads files", "from files", "can send", asks=False) for n in range(300)))
    assert many.count == 300**3
    assert len(list(many.paths())) == 10_000
