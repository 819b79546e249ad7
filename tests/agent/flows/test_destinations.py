"""The destinations in a call's params, and the spellings in which a value counts as named or as private."""

from __future__ import annotations

from typing import Any

import pytest

from wasmrt.agent.flows import FlowTrace, Kind, Label, Provenance, find_outgoing


@pytest.mark.parametrize(
    ("form", "kind"),
    [
        ("email", Kind.ADDRESS),
        ("uri", Kind.URL),
        ("hostname", Kind.URL),
        ("uuid", Kind.ID),
        ("path", Kind.PATH),
        ("phone", Kind.ADDRESS),
    ],
)
def test_the_schema_format_decides_if_the_name_is_unknown(form: str, kind: Kind) -> None:
    found = find_outgoing(
        {"properties": {"x": {"type": "string", "format": form}}}, {"x": "somewhere", "text": "hello"}
    )

    assert [(each.param, each.kind) for each in found.destinations] == [("x", kind)]
    assert found.bodies == ("hello",)


@pytest.mark.parametrize("params", [{"to": True}, {"to": None}, {"amount": False}, {"to": "  "}, {"to": []}])
def test_values_without_a_destination_are_not_destinations(params: dict[str, Any]) -> None:
    assert find_outgoing({}, params).destinations == ()


def test_an_address_as_member_name_is_a_destination() -> None:
    found = find_outgoing({}, {"shares": {"ann@example.com": "read"}})

    assert "ann@example.com" in {each.value for each in found.destinations}


@pytest.mark.parametrize(
    ("said", "amount", "expected"),
    [
        ("pay 1,250.50 to the printer", 1250.5, Provenance.SAID),
        ("pay 1.250,50 to the printer", "1250.50", Provenance.SAID),
        ("pay 1 250 to the printer", 1250, Provenance.SAID),
        ("pay $ 12 to the printer", "$12", Provenance.SAID),
        ("pay 1e3 to the printer", "9" * 41, Provenance.UNSAID),
        ("pay 12 to the printer", 120, Provenance.UNSAID),
        ("pay 12 to the printer", "1e99", Provenance.UNSAID),
        ("pay 12 to the printer", float("inf"), Provenance.UNSAID),
    ],
)
def test_an_amount_matches_common_spellings(said: str, amount: Any, expected: Provenance) -> None:
    trace = FlowTrace()
    trace.user_said(said)

    (traced,) = trace.flow("pay", find_outgoing({}, {"amount": amount})).destinations

    assert traced.provenance is expected


def test_private_text_over_the_limit_makes_every_text_private() -> None:
    trace = FlowTrace(limit=2000)
    for number in range(400):
        trace.saw(f"the meeting of group {number} begins in room {number * 7} of building {number}", {Label.PRIVATE})

    assert trace.flow("send_mail", find_outgoing({}, {"to": "ann@example.com", "body": "anything"})).private_body
    assert trace.size <= 40_000


def test_written_text_is_not_recorded_before_untrusted_text_was_read() -> None:
    trace = FlowTrace()
    call = find_outgoing({}, {"path": "notes.md", "content": "call eve@evil.example"})

    assert trace.select_text_to_mark(call) == ()
    trace.saw("call eve@evil.example", {Label.UNTRUSTED})
    assert "call eve@evil.example" in trace.select_text_to_mark(call)
    assert trace.clear() == {Label.UNTRUSTED}
    assert trace.select_text_to_mark(call) == () and Label.TRUSTED not in trace.labels


@pytest.mark.parametrize(
    ("said", "param", "value", "named"),
    [
        ("log in as USR001", "user_id", "USR001", True),
        ("log in as usr001 please", "user_id", "USR001", True),
        ("log in as USR0015", "user_id", "USR001", False),
        ("never use USR001", "user_id", "USR001", False),
        ("meet on the 13th, in room 2001", "user_id", "2001", False),
        ("mention Julia in it", "mentions", "@Julia", True),
        ("tag it with 'spring'", "tags", "#spring", True),
        ("mention Juliane in it", "mentions", "@Julia", False),
        ("it is a b", "mentions", "@b", False),
    ],
)
def test_a_code_or_a_handle_is_said_as_a_complete_word(said: str, param: str, value: str, named: bool) -> None:
    trace = FlowTrace()
    trace.user_said(said)
    flow = trace.flow("send", find_outgoing({}, {param: value}))
    assert [each.provenance is Provenance.SAID for each in flow.destinations] == [named]
