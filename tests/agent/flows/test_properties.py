"""Properties of flows: labels are never removed, untrusted text never avoids approval, no spelling hides a value."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.tiers import examples
from wasmrt.agent.flows import FlowTrace, Label, Provenance, find_outgoing
from wasmrt.agent.flows._untrusted_text import UntrustedText
from wasmrt.agent.policy import FLOW_PRESETS, FlowAction, FlowPolicy, decide_flow, flow_policy
from wasmrt.core.effects import Effect

LETTERS = "abcdefghijklmnopqrstuvwxyz"
names = st.text(LETTERS, min_size=3, max_size=9)
addresses = st.builds("{}@{}.{}".format, names, names, st.sampled_from(["example", "test", "com"]))
hosts = st.builds("https://{}.{}/{}".format, names, st.sampled_from(["example", "org"]), names)
values = st.one_of(addresses, hosts, names, st.integers(1, 10**7).map(str))
labels = st.sets(st.sampled_from([Label.PRIVATE, Label.UNTRUSTED]), max_size=2)
texts = st.lists(st.one_of(values, st.text(max_size=30)), max_size=6).map(" ".join)
seen = st.lists(st.tuples(texts, labels), max_size=5)
params = st.fixed_dictionaries(
    {}, optional={"to": st.lists(values, max_size=3), "url": hosts, "body": texts, "amount": st.integers(1, 10**6),
                  "file_id": st.integers(1, 99).map(str), "x": values},
)  # fmt: skip
effects = st.sets(st.sampled_from(list(Effect)), min_size=1, max_size=3).map(frozenset)


@st.composite
def policies(draw: st.DrawFn) -> FlowPolicy:
    policy = FLOW_PRESETS[draw(st.sampled_from(["careful", "default", "trusting"]))]
    off = draw(st.sets(st.sampled_from([rule.name for rule in policy.rules]), max_size=3))
    return policy.with_actions(dict.fromkeys(off, FlowAction.ALLOW))


def trace_of(said: str, results: list[tuple[str, set[Label]]]) -> FlowTrace:
    trace = FlowTrace()
    trace.user_said(said)
    for text, given_labels in results:
        trace.saw(text, given_labels)
    return trace


@given(seen, texts)
def test_labels_never_shrink(results: list[tuple[str, set[Label]]], said: str) -> None:
    trace, before = FlowTrace(), frozenset[Label]()
    for text, given_labels in results:
        trace.saw(text, given_labels)
        trace.user_said(said)
        trace.flow("send", find_outgoing({}, {"to": text}))
        assert before | given_labels <= trace.labels
        before = trace.labels


@settings(max_examples=examples(200))
@given(texts, seen, st.integers(0, 5), texts, params, effects, policies())
def test_untrusted_text_never_removes_a_required_approval(
    said: str, results: list[tuple[str, set[Label]]], at: int, more: str, sent: dict[str, object],
    given_effects: frozenset[Effect], policy: FlowPolicy,
) -> None:  # fmt: skip
    with_it = [*results[:at], (more, {Label.UNTRUSTED}), *results[at:]]
    call = find_outgoing({}, sent)
    before, after = (
        decide_flow((policy,), trace_of(said, each).flow("send", call), given_effects, automation=False)
        for each in (results, with_it)
    )
    assert before is None or after is not None


@given(values, seen, st.sampled_from(list(Provenance)))
def test_user_text_remains_valid(value: str, results: list[tuple[str, set[Label]]], _: Provenance) -> None:
    call = find_outgoing({}, {"to": value})
    (found,) = trace_of(f"send it to '{value}' now", results).flow("send", call).destinations
    assert found.provenance is Provenance.SAID


def fullwidth(text: str) -> str:
    return "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in text)


def lookalike(text: str) -> str:
    return text.translate(str.maketrans("aeopcxyis", "\u0430\u0435\u043e\u0440\u0441\u0445\u0443\u0456\u0455"))


SPELLINGS = {
    "capitals": str.upper,
    "percent": lambda text: "".join(f"%{byte:02X}" for byte in text.encode()),
    "percent twice": lambda text: quote("".join(f"%{byte:02x}" for byte in text.encode())),
    "entities": lambda text: "".join(f"&#x{ord(char):x};" for char in text),
    "json": lambda text: "".join(f"\\u{ord(char):04x}" for char in text),
    "full width": fullwidth,
    "look-alikes": lookalike,
    "zero width": "\u200d".join,
    "blanks": " ".join,
    "base64": lambda text: base64.b64encode(f"<{text}> is the one".encode()).decode(),
    "hexadecimal": lambda text: text.encode().hex(),
}
LONG = st.one_of(addresses, hosts).filter(lambda value: len(value) >= 12)


@settings(max_examples=examples(150))
@given(LONG, st.sampled_from(sorted(SPELLINGS)), st.sampled_from(sorted(SPELLINGS)), texts, texts)
@example("https://aaa.org/aaa", "blanks", "base64", "", "")  # a short host
def test_every_spelling_of_a_value_is_found_in_a_text(
    value: str, written: str, sent: str, before: str, after: str
) -> None:
    one = UntrustedText()
    one.add(f"{before} {SPELLINGS[written](value)} {after}")
    assert one.contains(value)
    plain = SPELLINGS[sent] if sent in ("capitals", "percent", "full width", "look-alikes", "zero width") else str
    assert one.contains(plain(value))


@given(st.text(LETTERS, min_size=4, max_size=10), st.text(LETTERS, min_size=1, max_size=6), addresses.map(str))
def test_an_address_tag_does_not_hide_an_address(tag: str, other: str, value: str) -> None:
    local, _, domain = value.partition("@")
    one = UntrustedText()
    one.add(f"write to {local}+{tag}@{domain}")
    assert one.contains(value)
    assert one.contains(f"{local}+{other}@{domain}")


@given(names.filter(lambda name: len(name) > 4))
def test_punycode_does_not_hide_a_host(name: str) -> None:
    label = f"b\u00fccher{name}"
    international, ascii_name = f"{label}.example", f"xn--{label.encode('punycode').decode()}.example"
    for written, sent in ((international, ascii_name), (ascii_name, international)):
        one = UntrustedText()
        one.add(f"see https://{written}/page")
        assert one.contains(f"https://{sent}/other")


@given(st.integers(1000, 10**9), st.sampled_from(["{:,}", "{}", "{:,}.00", "{}.0", "'", " ", "."]))
def test_a_number_is_found_in_every_format(number: int, form: str) -> None:
    written = form.format(number) if "{" in form else f"{number:,}".replace(",", form)
    one = UntrustedText()
    one.add(f"Please pay {written} euros.")
    assert one.contains(number)
    assert one.contains(float(number))
    assert one.contains(f"{number:,}")


@settings(max_examples=examples(100))
@given(st.lists(st.text(max_size=400), max_size=12), st.integers(100, 5000))
def test_stored_size_is_bounded_by_the_input_and_by_the_limit(results: list[str], limit: int) -> None:
    one = UntrustedText(limit)
    for text in results:
        one.add(text)
        one.contains("x")
    assert one.size <= min(limit, 2 * one.seen + 4096)
    assert one.blind or all(one.contains(word) for text in results for word in text.split() if word.isascii() and
                            word.isalnum() and word not in ("at", "dot"))  # fmt: skip


def test_a_repeated_long_text_is_stored_once_until_it_is_cleared() -> None:
    text = " ".join(f"word{number} host{number}.example" for number in range(500))
    trace = FlowTrace()
    for _ in range(3):
        for number in range(40):
            trace.saw(text, [Label.UNTRUSTED], tool="page", call=f"c{number}")
        one = trace._untrusted
        assert one.contains("host77.example") and not one.contains("host777.example") and not one.blind
        assert one.size <= 3 * len(text)
        origin = one.find_origin("host77.example")
        assert origin is not None and origin.call == "c0"
        trace.clear(Label.UNTRUSTED)
        assert not trace._untrusted.contains("host77.example")


@pytest.mark.ci("slow")
@given(st.text(max_size=300))
def test_any_text_can_be_added_and_searched(text: str) -> None:
    trace = FlowTrace()
    trace.saw({text[:50]: [text]}, {Label.UNTRUSTED, Label.PRIVATE})
    trace.user_said(text)
    flow = trace.flow("send", find_outgoing({}, {"to": text, "url": text, "path": text, "id": text, "amount": text}))
    finding = decide_flow((flow_policy("careful"),), flow, frozenset(Effect), automation=True)
    assert finding is not None
    assert finding.refused
    assert finding.sentence.startswith("flows.")
    json.dumps([str(trace.origin(each.destination)) for each in flow.destinations])
