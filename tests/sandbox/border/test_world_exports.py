"""The exports of each world: descriptions, results and failures of tools, and invalid descriptions."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable

import pytest

from tests.sandbox.border.conftest import Start
from tests.sandbox.border.relays import KINDS
from tests.sandbox.border.worlds import Failure, Memory, Offer, agent_tool, failing_function, provider
from wasmrt import PreparedTool, ResourceLimits, ToolErrorKind
from wasmrt.core.errors import GuestError, InvalidComponentError, MemoryLimitError
from wasmrt.core.limits import MAX_DESCRIPTION_BYTES, MAX_TOOLS_PER_COMPONENT, MIB

OF_KIND = {
    "auth-required": ToolErrorKind.NOT_AUTHORIZED,
    "input": ToolErrorKind.INVALID_PARAMETERS,
    "output-too-large": ToolErrorKind.SANDBOX,
    "executor": ToolErrorKind.SANDBOX,
    "network-denied": ToolErrorKind.NOT_AUTHORIZED,
    "client": ToolErrorKind.EXTERNAL_SERVICE,
    "operation-failed": ToolErrorKind.EXECUTION_FAILED,
}


def failure_of(tool: PreparedTool) -> GuestError:
    with pytest.raises(GuestError) as caught:
        tool.execute({})
    return caught.value


@pytest.mark.parametrize("version", ["", "@0.2.0", "@0.3.0", "@0.4.1"])
def test_tools_of_every_world_version_are_described_and_run(start: Start, version: str) -> None:
    tool = start().prepare("tool", agent_tool(version, '{"a": 1}', description="counts", schema='{"maxProperties": 0}'))
    assert (tool.world, tool.description, tool.problems) == (f"near:agent/tool{version}", "counts", ())
    assert tool.schema == {"maxProperties": 0}
    assert tool.execute({}).result == {"a": 1}


@pytest.mark.parametrize("version", ["", "@0.2.0", "@0.3.0"])
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((None, "no such city"), "no such city"),
        (("{}", "it has both"), "it has both"),
        ((None, ""), "the tool failed without an error message"),
        ((None, None), "the tool returned neither an output nor an error"),
    ],
)
def test_string_failures_become_the_error_message(
    start: Start, version: str, answer: tuple[str | None, str | None], message: str
) -> None:
    error = failure_of(start().prepare("tool", agent_tool(version, answer)))
    assert (error.message, error.kind, error.code) == (message, ToolErrorKind.EXECUTION_FAILED, "guest-error")


@pytest.mark.parametrize("kind", KINDS)
def test_a_typed_failure_keeps_its_kind_code_and_message(start: Start, kind: str) -> None:
    runtime = start()
    failing = Failure(kind, "quota", "no more today")
    for component in (agent_tool("@0.4.1", failing), provider([Offer("tool")], failing)):
        error = failure_of(runtime.prepare("tool", component))
        assert (error.kind, error.code, error.message) == (OF_KIND[kind], "tool:quota", "no more today")


def test_a_typed_failure_without_message_uses_its_code_or_kind(start: Start) -> None:
    runtime = start()
    for failing, code, message in (
        (Failure("client"), "client", "client"),
        (Failure("client", "gone"), "tool:gone", "gone"),
        (Failure("client", "ok"), "tool:ok", "ok"),
        (Failure("client", "a\x1b[2J" + "b" * 58), "client", "a [2J" + "b" * 58),
        (Failure("client", "T0ken-" + "aB3dE5"), "client", "T0ken-" + "aB3dE5"),
        (Failure("client", "a" * 48), f"tool:{'a' * 48}", "a" * 48),
        (Failure("client", "a" * 49), "client", "a" * 49),
    ):
        error = failure_of(runtime.prepare("tool", agent_tool("@0.4.1", failing)))
        assert (error.code, error.message) == (code, message)


@pytest.mark.parametrize(("limit", "told"), [(3 * MIB, "3 MiB"), (3 * MIB + 65536, "3,211,264 bytes")])
def test_a_tool_can_report_refused_memory(start: Start, limit: int, told: str) -> None:
    runtime = start()
    short = Failure("executor", "out-of-memory", "no room for the index")
    for component in (agent_tool("@0.4.1", short), provider([Offer("tool")], short)):
        tool = runtime.prepare("tool", component, limits=ResourceLimits(memory_bytes=limit))
        with pytest.raises(MemoryLimitError, match=f"its memory limit of {told}: no room for the index") as caught:
            tool.execute({})
        assert (caught.value.limit, caught.value.setting) == (limit, "limits.memory_bytes")


def of_texts(*texts: str) -> Callable[[Memory], bytes]:
    return lambda memory: b"".join(map(memory.string, texts))


@pytest.mark.parametrize(
    ("fields", "words", "code", "message"),
    [
        ('(field "kind" string) (field "message" string)', of_texts("input", "bad"), "input", "bad"),
        (
            '(field "kind" string) (field "code" string) (field "message" string)',
            of_texts("client", "gone", "it is gone"), "tool:gone", "it is gone",
        ),
        (
            '(field "kind" string) (field "code" (option string)) (field "message" string)',
            lambda memory: memory.string("client") + memory.optional(None) + memory.string("it is gone"),
            "client", "it is gone",
        ),
        (
            '(field "kind" string) (field "message" string)', of_texts("mishap", "bad"),
            "guest-error", '{"kind": "mishap", "message": "bad"}',
        ),
        ('(field "kind" string)', of_texts("input"), "guest-error", '{"kind": "input"}'),
        (
            '(field "kind" string) (field "message" string) (field "more" string)', of_texts("input", "bad", "x"),
            "guest-error", '{"kind": "input", "message": "bad", "more": "x"}',
        ),
        (
            '(field "kind" (list string)) (field "message" string)',
            lambda memory: struct.pack("<II", memory.put(memory.string("input")), 1) + memory.string("bad"),
            "guest-error", '{"kind": ["input"], "message": "bad"}',
        ),
        (
            '(field "kind" string) (field "message" u32)', lambda memory: memory.string("input") + struct.pack("<I", 7),
            "guest-error", '{"kind": "input", "message": 7}',
        ),
        (
            '(field "kind" string) (field "code" u32) (field "message" string)',
            lambda memory: memory.string("input") + struct.pack("<I", 7) + memory.string("bad"),
            "guest-error", '{"kind": "input", "code": 7, "message": "bad"}',
        ),
    ],
)  # fmt: skip
def test_failures_of_plain_functions_are_typed_if_they_have_the_form(
    start: Start, fields: str, words: Callable[[Memory], bytes], code: str, message: str
) -> None:
    error = failure_of(start().prepare("tool", failing_function(f"(record {fields})", words)))
    assert (error.code, error.message) == (code, message)


def test_a_provider_lists_each_tool_with_its_name(start: Start) -> None:
    offers = [
        Offer("read", "reads", '{"maxProperties": 0}', (True, False, False)),
        Offer("wipe", "wipes", '{"minProperties": 1}', (False, True, True)),
    ]
    component = start().prepare("disk", provider(offers, '"done"'))
    assert [(spec.name, spec.description, spec.schema) for spec in component.tools] == [
        ("read", "reads", {"maxProperties": 0}),
        ("wipe", "wipes", {"minProperties": 1}),
    ]
    assert [(spec.read_only, spec.destructive, spec.network) for spec in component.tools] == [
        (True, False, False),
        (False, True, True),
    ]
    assert component.tool("wipe").name == "disk.wipe"
    assert component.tool("wipe").execute({"all": True}).result == "done"


def test_tools_with_unprintable_or_duplicate_names_are_skipped(start: Start) -> None:
    names = ["good", "", "good", "ba\x00d", "x" * 65, "also-good"]
    component = start().prepare("tools", provider([Offer(name, description=name) for name in names]))
    assert [spec.name for spec in component.tools] == ["good", "also-good"]


def test_only_the_first_tools_up_to_the_limit_are_used(start: Start) -> None:
    offers = [Offer(f"tool-{n}") for n in range(MAX_TOOLS_PER_COMPONENT + 1)]
    component = start().prepare("many", provider(offers))
    assert [spec.name for spec in component.tools] == [offer.name for offer in offers[:MAX_TOOLS_PER_COMPONENT]]


@pytest.mark.parametrize("over", [0, 1])
def test_long_descriptions_are_truncated_and_reported(start: Start, over: int) -> None:
    text = "ü" * (MAX_DESCRIPTION_BYTES // 2) + "x" * over
    for component in (agent_tool("", "{}", description=text), provider([Offer("tool", description=text)])):
        tool = start().prepare("tool", component)
        assert tool.description.removesuffix("…") == "ü" * (len(tool.description) - over)
        assert len(tool.description.encode()) <= MAX_DESCRIPTION_BYTES + len("…".encode())
        assert len(tool.problems) == over
        assert all("over 4096 bytes and was truncated" in problem for problem in tool.problems)


@pytest.mark.parametrize("schema", ["{", '{"type": "nonsense"}', "[]"])
def test_an_invalid_schema_is_reported_and_replaced(start: Start, schema: str) -> None:
    for component in (agent_tool("@0.3.0", "1", schema=schema), provider([Offer("tool", schema=schema)], "1")):
        tool = start().prepare("tool", component)
        assert len(tool.problems) == 1
        assert tool.schema["type"] == "object"
        assert tool.execute({"anything": [1]}).result == 1


def test_a_schema_with_unchecked_parts_is_used_and_reported(start: Start) -> None:
    schema = '{"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}}'
    tool = start().prepare("tool", provider([Offer("tool", schema=schema)]))
    assert tool.schema == json.loads(schema)
    assert [problem.startswith("the schema ") for problem in tool.problems] == [True]


def test_a_known_interface_with_wrong_types_is_refused(start: Start) -> None:
    with pytest.raises(InvalidComponentError) as caught:
        start().prepare("tool", provider([], annotations="u8"))
    assert caught.value.message == "wasmrt:tool/provider@0.1.0#describe does not have the type defined by its world"
    assert "read-only: bool" in (caught.value.hint or "")
    with pytest.raises(InvalidComponentError) as caught:
        start().prepare("tool", agent_tool("@0.2.0", "{}", leave_out="schema"))
    assert caught.value.message == "near:agent/tool@0.2.0 has no function schema"
    assert caught.value.hint == "export schema: func() -> string"
