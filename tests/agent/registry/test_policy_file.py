"""The policy in the configuration file: strict parsing, and all mistakes reported with their lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from wasmrt import RateLimitConfig, ToolPolicy
from wasmrt.agent.config import read_config_file
from wasmrt.agent.policy import ApproverKind, ExfiltrationGuard, ExternalFilter, Permission, Preset, ToolRule
from wasmrt.core.errors import ConfigFileError, ConfigurationError
from wasmrt.core.traits import Confirmation, Risk, SafetyTier, SubagentAccess, TraitRestrictions

WHOLE = """
[tools]
preset = "dev"
max_output_bytes = 4096

[tools.filter]
allow_external = true
external_allow_list = ["weather"]

[tools.exfiltration_guard]
enabled = true
allow_tools = ["search"]

[tools.rules."files.*"]
confirmation = "always"
risk = "high"
safety_tier = "privileged"
subagent_access = "denied"
network_outbound = true
permission = "ask"
requests_per_minute = 5
timeout_seconds = 2

[presets.dev]
tools = ["weather", "files.*"]
allow_network = true
allow_write_paths = ["out"]

[presets.shut]
read_only = true

[approvals]
approver = "queue"
timeout_seconds = 60
"""


def read(tmp_path: Path, text: str) -> ToolPolicy:
    path = tmp_path / "config.toml"
    path.write_text(text)
    return read_config_file(path).policy


def test_every_section_is_read(tmp_path: Path) -> None:
    policy = read(tmp_path, WHOLE)
    assert policy.active == Preset(
        name="dev", tools=("weather", "files.*"), allow_network=True, allow_write_paths=("out",)
    )
    assert policy.presets["shut"].read_only
    assert policy.filter == ExternalFilter(allow_external=True, external_allow_list=("weather",))
    assert policy.guard == ExfiltrationGuard(enabled=True, allow_tools=("search",))
    assert policy.rules == (
        ToolRule(
            tool="files.*",
            permission=Permission.ASK,
            tightening=TraitRestrictions(
                tier=SafetyTier.PRIVILEGED, risk=Risk.HIGH, confirmation=Confirmation.ALWAYS,
                subagent_access=SubagentAccess.DENIED, network_outbound=True,
            ),
            rate=RateLimitConfig(5, 300),
            timeout_seconds=2.0,
        ),
    )  # fmt: skip
    assert (policy.max_output_bytes, policy.approver, policy.approval_seconds) == (4096, ApproverKind.QUEUE, 60.0)


def test_an_empty_file_gives_the_default_policy(tmp_path: Path) -> None:
    assert read(tmp_path, "") == ToolPolicy()
    assert not ToolPolicy().filter.allow_external


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tools]\npresett = 'dev'", "tools.presett is not known (line 2)"),
        ("[tools]\n\npreset = 'nope'", "tools.preset unknown preset: 'nope' (line 3)"),
        ("[tools.filter]\nallow_external = 1", "tools.filter.allow_external must be true or false (line 2)"),
        ("[presets.dev]\ntool = []", "presets.dev.tool is not known (line 2)"),
        ("[presets.dev]\nallow_write_paths = ['../x']", "presets.dev.allow_write_paths the write path '../x' leaves"),
        ("[presets.dev]\nallow_write_paths = ['/etc']", "leaves the workspace"),
        ("[tools.rules.x]\nrisk = 'hihg'", "tools.rules.x.risk must be one of low, medium, high (line 2)"),
        ("[tools.rules.x]\npermission = 'yes'", "must be one of allow, ask, deny"),
        ("[approvals]\ntimeout_seconds = 0", "approvals.timeout_seconds must be a number of seconds"),
        ("tools = 1", "tools must be a section"),
        ("presets = []", "presets must be a section"),
        ("[presets]\ndev = 1", "presets.dev must be a section"),
        ("[tools]\nrules = 1", "tools.rules must be a section"),
        ("[tool]\npreset = 'dev'", "[tool] is not known"),
    ],
)
def test_a_mistake_is_reported_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigFileError) as caught:
        read(tmp_path, text)
    assert said in caught.value.message


def test_all_mistakes_are_reported_together_with_similar_keys(tmp_path: Path) -> None:
    with pytest.raises(ConfigFileError) as caught:
        read(
            tmp_path,
            "[network]\nca_fil = 'x'\n[tools.filter]\nallow_externl = true\n[presets.a]\nallow_netwrk = true\n",
        )
    problems = dict(caught.value.problems)
    assert list(problems) == ["network.ca_fil", "tools.filter.allow_externl", "presets.a.allow_netwrk"]
    assert problems["tools.filter.allow_externl"] == "is not known (line 4); did you mean allow_external?"
    assert problems["presets.a.allow_netwrk"].endswith("did you mean allow_network?")


def test_the_old_list_of_blocked_tools_causes_a_warning(tmp_path: Path) -> None:
    policy = read(tmp_path, "[tools.exfiltration_guard]\nenabled = true\nblocked_tools = ['http']\n")
    assert policy.guard == ExfiltrationGuard(enabled=True)
    assert any("blocked_tools" in warning for warning in policy.warnings())


def test_an_allow_list_with_ineffective_names_causes_warnings() -> None:
    policy = ToolPolicy(
        presets={"dev": Preset(name="dev", tools=("weather",))},
        filter=ExternalFilter(allow_external=True, external_allow_list=("echo", "weather", "lost")),
    )
    warnings = policy.warnings(built_in=["echo"])
    assert next(warning.split(",")[0] for warning in warnings if "echo" in warning).startswith(
        "external_allow_list contains echo"
    )
    assert any("lost, which no preset lists" in warning for warning in warnings)
    assert not any("weather" in warning for warning in warnings)
    for allowed, no_effect in ((False, True), (None, False), (True, False)):
        filter_ = ExternalFilter(allow_external=allowed, external_allow_list=("x",))
        assert any("no effect" in warning for warning in ToolPolicy(filter=filter_).warnings()) is no_effect


def test_the_digest_of_a_preset_does_not_depend_on_the_order() -> None:
    one = Preset(name="dev", tools=("a", "b"), allow_write_paths=("x", "y"))
    assert one.digest == Preset(name="dev", tools=("b", "a", "a"), allow_write_paths=("y", "x")).digest
    others = [
        Preset(name="other", tools=("a", "b"), allow_write_paths=("x", "y")),
        Preset(name="dev", tools=("a",), allow_write_paths=("x", "y")),
        Preset(name="dev", tools=("a", "b"), allow_write_paths=("x", "y"), allow_network=True),
        Preset(name="dev", tools=("a", "b"), allow_write_paths=("x", "y"), read_only=True),
        Preset(name="dev", tools=("a", "b"), allow_write_paths=("x",)),
    ]
    assert len({one.digest, *(other.digest for other in others)}) == 6


def test_an_unknown_preset_is_an_error() -> None:
    with pytest.raises(ConfigurationError) as caught:
        ToolPolicy(presets={"develop": Preset(name="develop")}, preset="develp")
    assert caught.value.hint == "did you mean develop?"


def test_the_strictest_of_several_rules_applies() -> None:
    policy = ToolPolicy(
        rules=(
            ToolRule(tool="*", permission=Permission.ALLOW, rate=RateLimitConfig(10, 100), timeout_seconds=5),
            ToolRule(tool="files.*", permission=Permission.ASK, rate=RateLimitConfig(20, 50), timeout_seconds=9),
            ToolRule(tool="files.rm", permission=Permission.DENY, tightening=TraitRestrictions(risk=Risk.HIGH)),
            ToolRule(tool="files.rm", tightening=TraitRestrictions(risk=Risk.LOW)),
        )
    )
    assert policy.find_permission("web") is Permission.ALLOW
    assert policy.find_permission("files.read") is Permission.ASK
    assert policy.find_permission("FILES.RM") is Permission.DENY
    assert policy.find_rate_limits("files.read") == RateLimitConfig(10, 50)
    assert policy.find_timeout("files.read") == 5
    assert policy.find_restrictions("files.rm").risk is Risk.HIGH
