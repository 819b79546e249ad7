"""Random WIT types, and random values of a type."""

import struct

from hypothesis import strategies as st

from wasmrt.sandbox.component import (
    Case,
    EnumType,
    Err,
    FlagsType,
    FuncType,
    ListType,
    Ok,
    OptionType,
    Primitive,
    RecordType,
    ResultType,
    Some,
    TupleType,
    VariantType,
)
from wasmrt.sandbox.schema.wit import explain_unsupported

PRIMITIVES = ["bool", "s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64", "f32", "f64", "char", "string"]
labels = st.from_regex(r"[a-z]{1,6}(-[a-z0-9]{1,4}){0,2}", fullmatch=True)
some_labels = st.lists(labels, min_size=1, max_size=4, unique=True).map(tuple)
primitives = st.sampled_from(PRIMITIVES).map(Primitive)


def _named(inner):
    return st.lists(st.tuples(labels, inner), min_size=1, max_size=4, unique_by=lambda pair: pair[0]).map(tuple)


def _compound(inner):
    maybe = st.none() | inner
    return st.one_of(
        inner.map(ListType),
        inner.map(OptionType),
        inner.map(OptionType).map(OptionType),
        _named(inner).map(RecordType),
        _named(maybe).map(VariantType),
        st.lists(inner, min_size=1, max_size=3).map(tuple).map(TupleType),
        st.builds(ResultType, maybe, maybe),
        st.just(ListType(Primitive("u8"))),
        some_labels.map(EnumType),
        some_labels.map(FlagsType),
    )


wit_types = st.recursive(primitives, _compound, max_leaves=8)
functions = st.builds(FuncType, _named(wit_types), st.none() | wit_types)

_f32 = st.floats(width=32) | st.sampled_from([float("nan"), float("inf"), float("-inf"), -0.0])
_f64 = st.floats() | st.sampled_from([float("nan"), float("inf"), float("-inf"), -0.0, 5e-324, 1.7976931348623157e308])


def _primitive(name):
    if name[0] in "su" and name[1:].isdigit():
        bits = int(name[1:])
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if name[0] == "s" else (0, 2**bits - 1)
        return st.integers(low, high) | st.sampled_from([low, high])
    return {
        "bool": st.booleans(),
        "f32": _f32,
        "f64": _f64,
        "char": st.characters(exclude_categories=["Cs"]),
        "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    }[name]


def values(kind):
    match kind:
        case Primitive(name):
            return _primitive(name)
        case ListType(Primitive("u8")):
            return st.binary(max_size=8)
        case ListType(element):
            return st.lists(values(element), max_size=3)
        case RecordType(fields):
            return st.fixed_dictionaries({name: values(inner) for name, inner in fields})
        case TupleType(elements):
            return st.tuples(*map(values, elements))
        case VariantType(cases):
            return st.one_of(*(_case(name, inner) for name, inner in cases))
        case EnumType(names):
            return st.sampled_from(names)
        case FlagsType(names):
            return st.frozensets(st.sampled_from(names))
        case OptionType(OptionType() as inner):
            return st.none() | values(inner).map(Some)
        case OptionType(inner):
            return st.none() | values(inner)
        case ResultType(ok, err):
            return _side(Ok, ok) | _side(Err, err)


def _case(name, inner):
    return st.just(Case(name)) if inner is None else values(inner).map(lambda value: Case(name, value))


def _side(make, inner):
    return st.just(make()) if inner is None else values(inner).map(make)


@st.composite
def calls(draw):
    """A function that can be a tool, and a value for each of its params."""
    func = draw(functions.filter(lambda func: explain_unsupported(func) is None))
    return func, [draw(values(kind)) for _, kind in func.params]


def same(left, right):
    """Equality that tells -0.0 from 0.0, True from 1, and takes NaN for itself."""
    if isinstance(left, float) and isinstance(right, float):
        return struct.pack("d", left) == struct.pack("d", right) or (left != left and right != right)
    if type(left) is not type(right):
        return False
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, (Ok, Err, Some)):
        return same(left.value, right.value)
    if isinstance(left, Case):
        return left.name == right.name and same(left.value, right.value)
    return left == right
