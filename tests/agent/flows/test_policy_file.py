"""Flow rules in the configuration file, and flow presets."""

from __future__ import annotations

from pathlib import Path

import pytest

from wasmrt.agent.config import read_config_file
from wasmrt.agent.flows import Label, Provenance
from wasmrt.agent.policy import FLOW_PRESETS, FlowAction, FlowPolicy, Preset, ToolPolicy, flow_policy
from wasmrt.core.effects import Effect
from wasmrt.core.errors import ConfigFileError, ConfigurationError

WHOLE = """
[tools.flows]
preset = "careful"
known = ["*@example.com", "api.example.com"]
automation = true
files_untrusted = false

[tools.flows.rules]
new-host = "allow"
private-body = "refuse"
no-money = { effects = ["financial"], labels = ["untrusted"], provenance = ["said", "known"], action = "refuse" }

[tools.rules."contacts"]
results = ["private"]

[tools.rules."drive.*"]
ids = ["file_id"]
destinations = ["file_id", "email"]
vouched = ["owner"]

[presets.web]
tools = ["*"]
allow_network = true
flows = "careful"
"""


def read(tmp_path: Path, text: str) -> ToolPolicy:
    path = tmp_path / "config.toml"
    path.write_text(text)
    return read_config_file(path).policy


def test_every_key_is_read(tmp_path: Path) -> None:
    policy = read(tmp_path, WHOLE)
    flows = policy.flows
    assert flows is not None
    assert (flows.preset, flows.known) == ("careful", ("*@example.com", "api.example.com"))
    assert (flows.automation, flows.files_untrusted) == (True, False)
    rules = {rule.name: rule for rule in flows.rules}
    assert rules["new-host"].action is FlowAction.ALLOW
    assert rules["private-body"].action is FlowAction.REFUSE
    assert rules["no-money"].effects == {Effect.FINANCIAL}
    assert rules["no-money"].provenance == {Provenance.SAID, Provenance.KNOWN}
    assert policy.find_result_labels("contacts") == {Label.PRIVATE}
    assert (policy.find_id_parameters("drive.search"), policy.find_destination_parameters("drive.share")) == (
        ("file_id",), ("file_id", "email"))  # fmt: skip
    assert (policy.find_vouched_members("drive.search"), policy.find_vouched_members("contacts")) == (("owner",), ())
    assert policy.presets["web"].flows == flow_policy("careful")


def test_a_file_without_flows_has_no_flow_rules(tmp_path: Path) -> None:
    policy = read(tmp_path, "[tools]\n[presets.web]\ntools = ['*']\n")
    assert (policy.flows, policy.presets["web"].flows) == (None, None)
    assert policy.digest == ToolPolicy(presets={"web": Preset(name="web", tools=("*",))}).digest


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[tools.flows]\npreset = "carefull"', 'did you mean "careful"?'),
        ('[tools.flows]\nknow = ["a"]', "did you mean known?"),
        ('[tools.flows]\nknown = "a"', "must be a list of strings"),
        ('[tools.flows.rules]\nnew-hosts = "allow"', "did you mean new-host?"),
        ('[tools.flows.rules]\nnew-host = "deny"', "known actions: allow, ask, refuse"),
        ('[tools.flows.rules]\nnew-host = { labels = ["private"] }', "two flow rules have the same name"),
        ('[tools.flows.rules.mine]\nlabels = ["secret"]', "known labels: trusted, private, untrusted"),
        ('[tools.flows.rules.mine]\nprovenance = ["nobody"]', "must be one of said, known, unsaid, untrusted"),
        ('[tools.flows.rules.mine]\neffects = ["send"]', "effects are "),
        ("[tools.flows]\nrules = 1", "must be a section"),
        ("[tools]\nflows = 1", "must be a section"),
        ('[tools.rules.x]\nresults = ["trusted", "untrusted"]', "cannot be both trusted and untrusted"),
        ('[presets.x]\nflows = "strict"', "must be one of careful, default, trusting, off"),
    ],
)
def test_a_mistake_is_reported_with_its_place_and_a_hint(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigFileError) as caught:
        read(tmp_path, text)
    assert said in str(caught.value.as_dict())


def test_flow_rules_are_part_of_the_policy_digest() -> None:
    digests = {ToolPolicy(flows=flows).digest for flows in (None, *FLOW_PRESETS.values())}
    assert len(digests) == 1 + len(FLOW_PRESETS)
    assert Preset(name="a").digest != Preset(name="a", flows=flow_policy("default")).digest


@pytest.mark.parametrize("looser", [("default", "careful"), ("trusting", "default"), ("off", "trusting")])
def test_a_stricter_preset_covers_the_rules_of_a_looser_one(looser: tuple[str, str]) -> None:
    loose, tight = (FLOW_PRESETS[name] for name in looser)
    by_name = {rule.name: rule for rule in tight.rules}
    for rule in loose.rules:
        tighter = by_name[rule.name]
        assert rule.effects <= tighter.effects
        assert tighter.labels <= rule.labels
        assert rule.provenance <= tighter.provenance


def test_an_unknown_flow_preset_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="unknown flow preset: 'carful'"):
        flow_policy("carful")
    with pytest.raises(ConfigurationError, match="two flow rules have the same name"):
        FlowPolicy(rules=2 * FLOW_PRESETS["default"].rules)
