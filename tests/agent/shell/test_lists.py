"""Each line of each list is tried: on what it is for, and on what only looks similar."""

from __future__ import annotations

import pytest

from wasmrt.agent.builtin.shell import Action
from wasmrt.agent.builtin.shell._decide import decide_command
from wasmrt.agent.builtin.shell._lists import LAYERS

RULES = [(layer, rule) for layer, rules in LAYERS.items() for rule in rules]


def test_the_layers_stand_in_their_order() -> None:
    assert list(LAYERS) == ["blocked", "dangerous", "injection", "approval"]


@pytest.mark.parametrize("layer", LAYERS)
def test_each_rule_has_examples_of_both_kinds_and_a_reason(layer: str) -> None:
    ids = [rule.id for _, rule in RULES]
    assert [rule.id for rule in LAYERS[layer] if not (rule.examples and rule.others and rule.why)] == []
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("layer", LAYERS)
def test_each_rule_decides_its_examples_and_is_named(layer: str) -> None:
    action = Action.ASK if layer == "approval" else Action.REFUSE
    for rule in LAYERS[layer]:
        for line in rule.examples:
            verdict = decide_command(line)
            assert (line, verdict.action, verdict.layer, verdict.rule) == (line, action, layer, rule.id)
            assert rule.why in verdict.sentence and rule.id in verdict.sentence


@pytest.mark.parametrize("layer", LAYERS)
def test_what_only_looks_similar_runs(layer: str) -> None:
    others = [line for rule in LAYERS[layer] for line in rule.others]
    assert [line for line in others if decide_command(line).action is not Action.RUN] == []


def test_an_earlier_layer_is_named_and_a_refusal_comes_before_every_question() -> None:
    assert decide_command("rm -rf build; sudo id").rule == "become-another-user"
    assert decide_command("sudo rm -rf /").rule == "remove-the-system"
    assert decide_command("echo bHM= | base64 -d | sudo sh").rule == "become-another-user"
    assert decide_command("$x rm -r a").action is Action.ASK
