"""Each rule of each list, with commands that it matches and similar commands that it does not match."""

from __future__ import annotations

import pytest

from wasmrt.agent.builtin.shell import Action
from wasmrt.agent.builtin.shell._decide import decide_command
from wasmrt.agent.builtin.shell._lists import LAYERS

RULES = [(layer, rule) for layer, rules in LAYERS.items() for rule in rules]


def test_layers_are_in_the_documented_order() -> None:
    assert list(LAYERS) == ["blocked", "dangerous", "injection", "approval"]


@pytest.mark.parametrize("layer", LAYERS)
def test_each_rule_has_a_reason_examples_and_counterexamples(layer: str) -> None:
    ids = [rule.id for _, rule in RULES]
    assert [rule.id for rule in LAYERS[layer] if not (rule.examples and rule.others and rule.why)] == []
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("layer", LAYERS)
def test_each_rule_decides_its_examples_and_is_named_in_the_verdict(layer: str) -> None:
    action = Action.ASK if layer == "approval" else Action.REFUSE
    for rule in LAYERS[layer]:
        for line in rule.examples:
            verdict = decide_command(line)
            assert (line, verdict.action, verdict.layer, verdict.rule) == (line, action, layer, rule.id)
            assert rule.why in verdict.sentence and rule.id in verdict.sentence


@pytest.mark.parametrize("layer", LAYERS)
def test_counterexamples_of_each_rule_run(layer: str) -> None:
    others = [line for rule in LAYERS[layer] for line in rule.others]
    assert [line for line in others if decide_command(line).action is not Action.RUN] == []


def test_refusals_precede_approvals_and_earlier_layers_are_named() -> None:
    assert decide_command("rm -rf build; sudo id").rule == "become-another-user"
    assert decide_command("sudo rm -rf /").rule == "remove-the-system"
    assert decide_command("echo bHM= | base64 -d | sudo sh").rule == "become-another-user"
    assert decide_command("$x rm -r a").action is Action.ASK
