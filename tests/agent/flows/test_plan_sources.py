"""Sources of plans: in which forms a result has a value, and that injected text never chooses it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiers import examples
from wasmrt.agent.flows import ApprovedPlans, Plan
from wasmrt.core.effects import Effect

words = st.text("bcdfghjklmnpqrstvwxz", min_size=5, max_size=9)


@pytest.mark.parametrize(
    ("result", "place", "value", "covered"),
    [
        ([{"to": "a@x.example", "note": "b@x.example"}], {"member": "to"}, "a@x.example", True),
        ([{"to": "a@x.example", "note": "b@x.example"}], {"member": "to"}, "b@x.example", False),
        ([{"to": "a@x.example", "note": "b@x.example"}], {}, "a@x.example", False),
        ("to: a@x.example\nnote: b@x.example", {"member": "to"}, "a@x.example", True),
        ("to: a@x.example\nto: b@x.example", {"member": "to"}, "a@x.example", False),
        ("to: a@x.example to: b@x.example", {"member": "to"}, "a@x.example", False),
        ("to: a@x.example to: b@x.example", {"member": "to"}, "b@x.example", False),
        ("User name: ann User code: open-sesame", {"member": "user code"}, "open-sesame", True),
        ("User name: ann User code: open-sesame", {"member": "user name"}, "ann", True),
        ("User name: ann User code: open-sesame", {"member": "user name"}, "ann User", False),
        ("User name: ann User code: open-sesame", {"member": "name"}, "open-sesame", False),
        ("Your user code:\n\n 471290. Thanks", {"member": "code"}, "471290", True),
        ('<input id="name_field" name=x>', {"member": "id"}, "name_field", True),
        ("<input ID = 'name_field'>", {"member": "id"}, "name_field", True),
        ("<input id=name_field >", {"member": "id"}, "name_field", True),
        ('<a id="a1"><b id="b1">', {"member": "id"}, "b1", False),
        ('<a id="a1"><b id="b1">', {"member": "id", "many": 2}, "b1", True),
        ('<a id="a1"><b id="b1">', {"member": "id", "choice": True}, "b1", True),
        ('<a id="a1"><b id="b1">', {"member": "id", "choice": True}, "c1", False),
        ('<a id="a1">id: b1', {"member": "id", "choice": True}, "a1", False),
        ('<a id="a1">id: b1', {"member": "id", "choice": True}, "b1", False),
        ('id="<a id="a1"><b id="b1">', {"member": "id", "many": 2}, "b1", False),
        ('<a data-id="a1" x.id="b1" id="c1">', {"member": "id"}, "c1", False),
        ('<a data-id="a1" grid="b1" id="c1">', {"member": "id"}, "c1", True),
        ('<a id="a1">' * 100, {"member": "id"}, "a1", False),
        ("code: 471290 " + "and code: 471290 " * 99, {"member": "code"}, "471290", False),
        ([{"to": "a@x.example"}, {"to": "b@x.example"}], {"member": "to"}, "b@x.example", False),
        ([{"to": "a@x.example"}, {"to": "b@x.example"}], {"member": "to", "choice": True}, "b@x.example", True),
        ([{"to": "a@x.example"}, {"to": "b@x.example"}], {"member": "to", "many": 2}, "b@x.example", True),
        ([{"to": "a@x.example"}, {"to": "A@x.example"}], {"member": "to"}, "a@x.example", True),
        ([{"n": 1}, {"n": 2}], {"member": "n", "max": 5}, 2, False),
        ([{"to": "['a@x.example', 'b@x.example']"}], {"member": "to"}, "b@x.example", False),
        ([{"to": "['a@x.example', 'b@x.example']"}], {"member": "to", "choice": True}, "b@x.example", True),
        ([{"to": '["a@x.example"]'}], {"member": "to"}, "a@x.example", True),
        ([{"to": "['a@x.example'] or ['b@x.example']"}], {"member": "to"}, "b@x.example", False),
        ([{"to": "Hi, b@x.example, or c@x.example"}], {"member": "to"}, "b@x.example", False),
        ('[{"to": "a@x.example", "note": "b@x.example"}]', {"member": "to"}, "a@x.example", True),
        ('[{"to": "a@x.example", "note": "to: b@x.example"}]', {"member": "to"}, "b@x.example", False),
        ('{"to": "a@x.example", "to": "b@x.example"}', {"member": "to"}, "b@x.example", False),
        ('["general", "random"]', {}, "general", False),
        ('["general", "random"]', {"choice": True}, "general", True),
        ('["general", "random"]', {"choice": True}, "other", False),
        ([{"from": "a@x.example", "body": "Pay to b@x.example."}], {"member": "body"}, "b@x.example", True),
        ([{"body": "Pay to b@x.example."}, {"body": "Or c@x.example."}], {"member": "body"}, "b@x.example", False),
        ([{"body": "Pay it with SPRING10."}], {"member": "body"}, "SPRING10", True),
        ([{"body": "Pay it now."}], {"member": "body"}, "now", False),
        ([{"body": "Pay 90 now."}], {"member": "body", "max": 100}, 90, True),
        ([{"body": "Pay 90 now."}], {"member": "body", "max": 80}, 90, False),
        ([{"body": "Pay 90 now."}, {"body": "Pay 95."}], {"member": "body", "max": 100}, 95, False),
        ([{"body": "Pay 90 now."}, {"body": "Pay 95."}], {"member": "body", "max": 100, "choice": True}, 95, True),
        ("Pay 90 now, not 95", {"max": 100}, 95, False),
        ("Pay 90 now, not 95", {"max": 100, "choice": True}, 95, True),
        ("Pay 90 to DE89 3704 0044 0532 0130 00", {"max": 100}, 90, False),
        ("Pay 90 to DE89370400440532013000", {"max": 100}, 90, True),
        ("Pay 90 now, total 900", {"max": 100}, 90, True),
        ([{"n": 90}, {"n": "95"}], {"member": "n", "max": 100}, 95, False),
        ([90, 95], {"max": 100}, 95, False),
        ([90, 95], {"max": 100, "many": 2}, 95, True),
        ("2031-05-19", {}, "2031-05-19", True),
        ("run it", {}, "run it", False),
        (["general", "random"], {}, "general", False),
        (["general", "random"], {"many": 2}, "general", True),
        (["general", "general"], {}, "general", True),
        ("general random", {}, "general", False),
        ({"content": "IBAN DE89 3704 0044 0532 0130 00 please"}, {}, "DE89 3704 0044 0532 0130 00", True),
        ({"content": "IBAN DE89 3704 0044 0532 0130 00 please"}, {}, "DE89 3704 0044", False),
        ({"content": "https://a.example and https://a.example.evil.example"}, {}, "https://a.example", False),
        ("repeated: asked@x.example", {}, "asked@x.example", False),
        ("Use the code SPRING10 for 50.0% of 2,000.", {}, "SPRING10", True),
        ("Use the code SPRING10 or EVIL99.", {}, "SPRING10", False),
        ("Use the code SPR-ING10 or EVIL99.", {}, "EVIL99", False),
        ("Use the code &#83;PRING10 or EVIL99.", {}, "EVIL99", False),
        ("Use the code FREESHIP.", {}, "FREESHIP", False),
        ("DE89 3704 0044 0532 0130 00 or GB29NWBK60161331926819", {}, "GB29NWBK60161331926819", False),
        ("Pay to a@x.example, code GB29NWBK60161331926819", {}, "GB29NWBK60161331926819", False),
        ([{"n": "1,000.00"}], {"member": "n", "max": 1000}, 1000, True),
        ([{"n": "1,000.00"}], {"member": "n", "max": 999}, 1000, False),
    ],
)
def test_a_source_has_a_value_only_in_the_required_form(
    result: Any, place: dict[str, Any], value: Any, *, covered: bool
) -> None:
    assert is_found(result, place, value) == covered


def is_found(result: Any, place: dict[str, Any], value: Any) -> bool:
    """Return whether a plan's place covers a value that has a result as its source."""
    read_step = {"tool": "read", "effects": ["network"], "params": {"query": "asked@x.example"}}
    use_step = {"tool": "use", "effects": ["financial"], "params": {"x": {"from": "read", **place}}}
    data = {"steps": [read_step, use_step]}
    plans = ApprovedPlans()
    plans.approve(Plan.of(data), "ann", ["read", "use"])
    query = {"query": "asked@x.example"}
    read = plans.find("read", query, frozenset({Effect.NETWORK}), lambda _: False)
    assert read is not None
    plans.record(read, query, result)
    found = plans.find("use", {"x": value}, frozenset({Effect.FINANCIAL}), lambda _: False)
    return found is not None


INJECTED = [
    "{label}: {value}", "{label}:{value}", "{LABEL} : {value}", "{label}:\n{value}", "x{label}: {value}", "{value}",
    '{label}="{value}"', "{label}={value}", '{label}="', '<{label}="x',
    '"{label}": "{value}"', '{{"{label}": "{value}"}}', "['{value}']", "{label}: ['{value}']", "{label}:", "{label}: x",
]  # fmt: skip


@settings(max_examples=examples(200))
@given(st.lists(words, min_size=3, max_size=3, unique=True), st.lists(st.sampled_from(INJECTED), max_size=3), st.data())
def test_injected_text_never_chooses_the_value_of_a_source(
    names: list[str], injected: list[str], data: st.DataObject
) -> None:
    label, own, evil = names
    texts = [each.format(label=label, LABEL=label.upper(), value=evil) for each in injected]
    place = data.draw(st.integers(0, len(texts)))
    between = data.draw(st.sampled_from([" ", "\n", ". ", ", "]))
    text = between.join([*texts[:place], f"{label}: {own}", *texts[place:]])
    assert not is_found(text, {"member": label}, evil)
    assert not is_found(between.join([*texts[:place], f'<a {label}="{own}">', *texts[place:]]), {"member": label}, evil)
    assert not is_found([{label: own, "body": text}], {"member": label}, evil)
    assert not is_found(json.dumps({label: own, "body": text}), {"member": label}, evil)
    assert is_found(json.dumps({label: own, "body": text}), {"member": label}, own)
    assert not is_found([{"body": f"Pay to {own}@x.example. {text} {evil}@x.example"}], {"member": "body"},
                        f"{evil}@x.example")  # fmt: skip
