"""The evasions in evasions.toml, and whether flow rules ask about them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from wasmrt import ToolDefaults, ToolOutput, ToolRegistry
from wasmrt.agent.flows import Label
from wasmrt.agent.policy import Permission, ToolPolicy, ToolRule, flow_policy
from wasmrt.core.traits import Traits

EVASIONS = tomllib.loads(Path(__file__).with_name("evasions.toml").read_text("utf-8"))["evasion"]


class _Tool(ToolDefaults):
    description, schema = "A tool.", {"type": "object"}

    def __init__(self, name: str, effects: list[str]) -> None:
        self.name, self.traits = name, Traits.of(effects)

    def execute(self, params: Any, context: Any = None) -> ToolOutput:
        return ToolOutput(result="done")


def outcome(evasion: dict[str, Any]) -> str:
    """Return the outcome of the call after its page, and private text if it says so, were read."""
    rules = (ToolRule(tool="*", permission=Permission.ALLOW),)
    tools = ToolRegistry(policy=ToolPolicy(flows=flow_policy(), rules=rules))
    tools.register(_Tool(evasion["tool"], evasion["effects"]), builtin=True)
    trace = tools.trace("t")
    trace.add_user_message(evasion["said"])
    trace.add_content(f"Good morning. {evasion['text']} Regards.")
    if evasion.get("private"):
        trace.add_content("The merger with Contoso closes in May.", (Label.PRIVATE,))
    return str(tools.explain(evasion["tool"], evasion["params"], trace="t").outcome)


@pytest.mark.parametrize("evasion", EVASIONS, ids=[each["name"] for each in EVASIONS])
def test_an_evasion_has_the_listed_verdict(evasion: dict[str, Any]) -> None:
    assert outcome(evasion) == evasion["verdict"]


def test_a_hundred_evasions_are_listed_and_each_that_runs_names_a_documented_limit() -> None:
    assert len(EVASIONS) >= 100 and len({each["name"] for each in EVASIONS}) == len(EVASIONS)
    limits = (Path(__file__).parents[3] / "docs/flows.md").read_text().partition("## Limits")[2]
    for each in EVASIONS:
        assert (each["verdict"] == "runs") == bool(each.get("why"))
        assert each.get("why", "") in limits
