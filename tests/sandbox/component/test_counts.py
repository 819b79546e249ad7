"""The counts of a component before compilation: exact for expanded instances, in linear time, for arbitrary bytes."""

from __future__ import annotations

from pathlib import Path

import pytest
import wasmtime
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from wasmrt.testing.attacks import Body, tool

import wasmrt
from tests.tiers import examples
from wasmrt.core.errors import ComponentError, ComponentTooLargeError, InvalidComponentError
from wasmrt.core.limits import (
    MAX_COMPONENT_DEFINITIONS,
    MAX_COMPONENT_DEPTH,
    MAX_COMPONENT_FUNCTIONS,
    MAX_COMPONENT_SECTIONS,
    MAX_COMPONENT_TYPE_BYTES,
    MAX_CORE_INSTANCES,
    MAX_CORE_TYPES,
    MAX_FUNCTION_BYTES,
)
from wasmrt.sandbox.component import COMPONENT, CORE_MODULE, HEADER, encode_section, encode_u32
from wasmrt.sandbox.component.counts import check_counts

MODULE = b"\0asm\1\0\0\0"
NOTHING = b"\x60\0\0"
TOOLS = sorted((Path(wasmrt.__file__).parent / "catalog/shipped").glob("*.wasm"))
_BUILT = sorted((Path(__file__).parents[1] / "guests" / ".built").glob("*.wasm"))
BUILT = [path for path in _BUILT if not path.read_bytes().startswith(MODULE)]  # some are made of core modules


def vector(items: list[bytes]) -> bytes:
    return encode_u32(len(items)) + b"".join(items)


def nested(*components: bytes) -> bytes:
    return b"".join(encode_section(COMPONENT, component) for component in components)


def instances(*components: int) -> bytes:
    """A section of an instance of each of these components, without arguments."""
    return encode_section(5, vector([b"\0" + encode_u32(index) + b"\0" for index in components]))


def core_instances(count: int) -> bytes:
    return encode_section(CORE_MODULE, MODULE) + encode_section(2, vector([b"\0\0\0"] * count))


def core_module(*sections: tuple[int, bytes]) -> bytes:
    return HEADER + encode_section(CORE_MODULE, MODULE + b"".join(encode_section(*section) for section in sections))


def function(code: bytes, *, declared: bytes = b"\0") -> bytes:
    body = declared + code + b"\x0b"
    return core_module((1, vector([NOTHING])), (3, vector([b"\0"])), (10, vector([encode_u32(len(body)) + body])))


def refusal(component: bytes) -> str:
    with pytest.raises(ComponentTooLargeError) as caught:
        check_counts(component)
    assert caught.value.hint
    assert caught.value.message.isprintable()
    return caught.value.message


def read(path: Path) -> bytes:
    if not path.exists():
        pytest.skip(f"{path.stem} was built anew since the tests were collected")
    return path.read_bytes()


@pytest.mark.parametrize("path", [*TOOLS, *BUILT], ids=lambda path: path.stem)
def test_real_components_are_within_all_limits(path: Path) -> None:
    check_counts(read(path))


@pytest.mark.parametrize("path", [*TOOLS, *BUILT], ids=lambda path: path.stem)
def test_real_components_are_below_a_tenth_of_the_limits(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("_definitions", "_expanded", "_module"):
        code = __import__(f"wasmrt.sandbox.component.counts.{module}", fromlist=[module])
        for name in [name for name in vars(code) if name.startswith("MAX_")]:
            monkeypatch.setattr(code, name, getattr(code, name) // 10)
        if hasattr(code, "_BOUNDS"):
            monkeypatch.setattr(code, "_BOUNDS", tuple(bound // 10 for bound in code._BOUNDS))
    check_counts(read(path))


# -- instances ---------------------------------------------------------------------------------------------------------


def test_instances_that_double_forty_times_are_counted_exactly() -> None:
    component = HEADER + core_instances(1)
    for _ in range(40):
        component = HEADER + nested(component) + instances(0, 0)
    assert f"{2**40:,} core instances once expanded, over the limit of {MAX_CORE_INSTANCES:,}" in refusal(component)


@st.composite
def trees(draw: st.DrawFn, depth: int = 4) -> tuple[bytes, int]:
    """A component, and the core instances that one instance of it has in all."""
    own = draw(st.integers(0, 3))
    inner = draw(st.lists(trees(depth=depth - 1), max_size=2)) if depth else []
    chosen = draw(st.lists(st.integers(0, len(inner) - 1), max_size=4)) if inner else []
    component = HEADER + core_instances(own) + nested(*(each for each, _ in inner)) + instances(*chosen)
    return component, own + sum(inner[index][1] for index in chosen)


@settings(max_examples=examples(200), deadline=None)
@given(trees(), st.integers(1, 3000))
def test_the_count_of_instances_equals_their_expansion(tree: tuple[bytes, int], times: int) -> None:
    component, count = tree
    assume(count)
    whole = HEADER + nested(component) + instances(*[0] * times)
    if count * times <= MAX_CORE_INSTANCES:
        check_counts(whole)
    else:
        assert f"{count * times:,} core instances" in refusal(whole)


def text(source: str) -> bytes:
    return bytes(wasmtime.wat2wasm(source))


DOUBLER = """(component $double
  (import "c" (component $c))
  (component $twice (alias outer $double $c (component $c)) (instance (instantiate $c)) (instance (instantiate $c)))
  (export "c" (component $twice)))"""
LEAF = "(component $leaf (core module $m) (core instance (instantiate $m)))"


@pytest.mark.parametrize("levels", [3, 40])
def test_components_passed_as_arguments_and_exports_are_counted(levels: int) -> None:
    steps = "".join(
        f'(instance $i{n} (instantiate $double (with "c" (component {f"$c{n - 1}" if n else "$leaf"}))))'
        f'(alias export $i{n} "c" (component $c{n}))'
        for n in range(levels)
    )
    component = text(f"(component {DOUBLER} {LEAF} {steps} (instance (instantiate $c{levels - 1})))")
    if 2**levels <= MAX_CORE_INSTANCES:
        check_counts(component)
    else:
        assert f"{2**levels:,} core instances" in refusal(component)


def test_components_exported_by_instances_are_counted() -> None:
    wanted = '(import "i" (instance $i (export "c" (component))))'
    many = "(instance (instantiate $c))" * (MAX_CORE_INSTANCES + 1)
    component = text(
        f"""(component {LEAF} (instance $bundle (export "c" (component $leaf)))
        (component $user {wanted} (alias export $i "c" (component $c)) {many})
        (instance (instantiate $user (with "i" (instance $bundle)))))"""
    )
    assert f"{MAX_CORE_INSTANCES + 1:,} core instances" in refusal(component)


@pytest.mark.ci("slow")
def test_the_processing_of_distinct_instantiations_is_limited() -> None:
    # Each level creates two new components from its argument, so that no instantiation can be reused.
    inner = '(component $k0 (import "c" (component $c)) (instance (instantiate $c)))'
    for level in range(1, 20):
        inner += f"""(component $k{level} (import "c" (component $c)) (alias outer $all $k{level - 1} (component $next))
        (component $a (alias outer $k{level} $c (component $c)) (instance (instantiate $c)))
        (component $b (alias outer $k{level} $c (component $c)) (instance (instantiate $c)))
        (instance (instantiate $next (with "c" (component $a))))
        (instance (instantiate $next (with "c" (component $b)))))"""
    component = text(f'(component $all {LEAF} {inner} (instance (instantiate $k19 (with "c" (component $leaf)))))')
    assert "definitions once expanded" in refusal(component)


@pytest.mark.parametrize(
    ("tail", "said"),
    [
        (instances(0), "missing component or instance 0"),
        (encode_section(6, vector([b"\4\2\5\0"])), "a missing enclosing component"),
        (encode_section(6, vector([b"\4\0\0\0"])), "missing component or instance 0"),
        (encode_section(10, vector([b"\0\1c\4\0"])) + instances(0), "instantiates an imported component"),
        (encode_section(6, vector([b"\5\2\0\0"])), "an alias of an outer instance"),
        (encode_section(6, vector([b"\4\3\0\0"])), "an alias of an unknown form"),
        (encode_section(6, vector([b"\6\0\0\0"])), "a definition of an unknown sort"),
        (encode_section(5, vector([b"\2\0\0"])), "an instance of an unknown form"),
        (encode_section(5, vector([]) + b"\0"), "bytes that belong to no definition"),
        (encode_section(13, b"\0"), "a section of unknown kind 13"),
        (encode_section(CORE_MODULE, HEADER), "a core module of an unknown version"),
        (nested(MODULE), "a nested component of an unknown version"),
    ],
)
def test_invalid_references_and_unknown_forms_are_refused(tail: bytes, said: str) -> None:
    with pytest.raises(InvalidComponentError, match=said):
        check_counts(HEADER + tail)


# -- sections, types, functions ----------------------------------------------------------------------------------------


def deep(levels: int) -> bytes:
    component = HEADER
    for _ in range(levels):
        component = HEADER + nested(component)
    return component


@pytest.mark.parametrize(
    ("of", "bound", "what"),
    [
        (deep, MAX_COMPONENT_DEPTH, "levels of nested components"),
        (lambda n: HEADER + b"\0\1\0" * n, MAX_COMPONENT_SECTIONS, "sections"),
        (lambda n: HEADER + nested(HEADER + b"\0\1\0" * (n - 1)), MAX_COMPONENT_SECTIONS, "sections"),
        (lambda n: core_module(*[(0, b"\0")] * (n - 1)), MAX_COMPONENT_SECTIONS, "sections"),
        (lambda n: HEADER + encode_section(7, bytes(n)), MAX_COMPONENT_TYPE_BYTES, "bytes of types"),
        (lambda n: HEADER + encode_section(7, encode_u32(n)), MAX_COMPONENT_DEFINITIONS, "definitions"),
        (lambda n: core_module((1, vector([NOTHING] * n))), MAX_CORE_TYPES, "core types"),
        (lambda n: core_module((3, vector([b"\0"] * n))), MAX_COMPONENT_FUNCTIONS, "functions"),
        (lambda n: function(b"\1" * (n - 1)), MAX_FUNCTION_BYTES, "bytes of code in one function"),
    ],
)
def test_a_count_at_its_limit_passes_and_one_more_is_refused(of: object, bound: int, what: str) -> None:
    assert callable(of)
    check_counts(of(bound))
    assert f"{bound + 1:,} {what}, over the limit of {bound:,}" in refusal(of(bound + 1))


@pytest.mark.parametrize(
    ("code", "declared", "what"),
    [
        (b"\x02\x40" * 6_001 + b"\x0b" * 6_001, vector([encode_u32(2_000) + b"\x7f"]), "locals times blocks"),
        (b"\x10\0" * 450_001, b"\0", "blocks and calls"),
        (b"\x03\x40" * 45_000 + b"\x0b" * 45_000, b"\0", "times loops in one function"),
        (b"\x03\x40" * 200 + b"\x0b" * 200, vector([encode_u32(9_999) + b"\x7f"]), "times loops in one function"),
    ],
)
def test_a_product_of_two_counts_over_its_limit_is_refused(code: bytes, declared: bytes, what: str) -> None:
    assert what in refusal(function(code, declared=declared))


def test_only_blocks_and_loops_that_can_end_are_counted() -> None:
    many = vector([encode_u32(9_999) + b"\x7f"])
    for begins in (b"\x02\x40", b"\x03\x40", b"\x04\x40"):
        check_counts(function(begins * 2_000, declared=many))
        assert "(9,999 locals, 1,201 blocks)" in refusal(function(begins * 2_000 + b"\x0b" * 1_200, declared=many))
        assert "blocks that begin in one function" in refusal(function(begins * 4_001, declared=many))
    assert "200 loops" in refusal(function(b"\x03\x40" * 200 + b"\x0b" * 199, declared=many))


def test_loops_add_up_over_all_functions() -> None:
    body = b"\0" + b"\x03\x40" * 30_000 + b"\x0b" * 30_000 + b"\x0b"
    bodies = [encode_u32(len(body)) + body] * 12
    component = core_module((1, vector([NOTHING])), (3, vector([b"\0"] * 12)), (10, vector(bodies)))
    assert "times loops in all functions" in refusal(component)


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ([(1, vector([b"\x5f\0"]))], "a core type that is not a function type"),
        ([(1, vector([b"\x60\1\x63\0"]))], "a value type of an unknown form"),
        ([(1, vector([NOTHING])), (3, vector([b"\1"])), (10, vector([b"\2\0\x0b"]))], "a function with a missing type"),
        ([(3, vector([b"\0"])), (10, vector([]))], "different numbers of functions"),
        ([(1, vector([NOTHING])), (3, vector([b"\0"])), (10, vector([b"\4\1\1\x63\x0b"]))], "a local of an unknown"),
    ],
)
def test_unsupported_code_is_refused(sections: list[tuple[int, bytes]], said: str) -> None:
    with pytest.raises(InvalidComponentError, match=said):
        check_counts(core_module(*sections))


# -- any bytes ---------------------------------------------------------------------------------------------------------

HONEST = text(tool(Body(imports=("http-request",))))


@settings(max_examples=examples(400), deadline=None)
@example([])
@given(st.lists(st.tuples(st.integers(8, len(HONEST) - 1), st.integers(0, 9), st.binary(max_size=6)), max_size=4))
def test_components_with_changed_bytes_raise_only_component_errors(
    changes: list[tuple[int, int, bytes]],
) -> None:
    data = bytearray(HONEST)
    for at, taken, put in changes:
        data[min(at, len(data)) : at + taken] = put
    try:
        check_counts(HEADER + bytes(data[8:]))
    except ComponentError as error:
        assert error.message.isprintable()


@settings(max_examples=examples(300))
@given(st.lists(st.tuples(st.integers(0, 12), st.binary(max_size=40)), max_size=6))
def test_arbitrary_sections_raise_only_component_errors(sections: list[tuple[int, bytes]]) -> None:
    tail = b"".join(encode_section(*section) for section in sections)
    for whole in (HEADER + tail, HEADER + nested(HEADER + tail), HEADER + encode_section(1, MODULE + tail)):
        try:
            check_counts(whole)
        except ComponentError as error:
            assert error.message.isprintable()
