"""WIT types as immutable values, and the representation of WIT values in Python.

Types are compared by structure. `str` of a type is its WIT syntax, in which every type name is replaced by the type.
The terms are those of the component model's WIT document, section "Types".

Values: bool, integers, floats and strings are themselves; `char` is a string of one character; `list<u8>` is bytes,
other lists are lists; records are dicts with WIT field names as keys; tuples are tuples; enums are strings; flags are
frozensets; an option is the value or None (`Some` for nested options); results are `Ok` or `Err`; variants are `Case`;
a resource handle is the host's integer representation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

PRIMITIVES = (
    "bool", "s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64", "f32", "f64", "char", "string",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Primitive:
    """A WIT primitive; `name` is one of `PRIMITIVES`."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class ListType:
    """The type `list<T>`, where T is `element`."""

    element: WitType

    def __str__(self) -> str:
        return f"list<{self.element}>"


@dataclass(frozen=True, slots=True)
class RecordType:
    """A record type: pairs of a field's name and its type, in order."""

    fields: tuple[tuple[str, WitType], ...]

    def __str__(self) -> str:
        return "record { " + ", ".join(f"{name}: {kind}" for name, kind in self.fields) + " }"


@dataclass(frozen=True, slots=True)
class TupleType:
    """The type `tuple<...>`, with the types of its elements in order."""

    elements: tuple[WitType, ...]

    def __str__(self) -> str:
        return "tuple<" + ", ".join(map(str, self.elements)) + ">"


@dataclass(frozen=True, slots=True)
class VariantType:
    """A variant type: pairs of a case's name and the type of its payload, or None for a case without payload."""

    cases: tuple[tuple[str, WitType | None], ...]

    def __str__(self) -> str:
        cases = (name if kind is None else f"{name}({kind})" for name, kind in self.cases)
        return "variant { " + ", ".join(cases) + " }"


@dataclass(frozen=True, slots=True)
class EnumType:
    """An enum type: the names of its cases, in order."""

    names: tuple[str, ...]

    def __str__(self) -> str:
        return "enum { " + ", ".join(self.names) + " }"


@dataclass(frozen=True, slots=True)
class FlagsType:
    """A flags type: the names of its flags, in order."""

    names: tuple[str, ...]

    def __str__(self) -> str:
        return "flags { " + ", ".join(self.names) + " }"


@dataclass(frozen=True, slots=True)
class OptionType:
    """The type `option<T>`, where T is `inner`."""

    inner: WitType

    def __str__(self) -> str:
        return f"option<{self.inner}>"


@dataclass(frozen=True, slots=True)
class ResultType:
    """The type `result<ok, err>`. `ok` or `err` is None if that side carries no value."""

    ok: WitType | None
    err: WitType | None

    def __str__(self) -> str:
        if self.err is None:
            return "result" if self.ok is None else f"result<{self.ok}>"
        return f"result<{'_' if self.ok is None else self.ok}, {self.err}>"


@dataclass(frozen=True, slots=True)
class ResourceRef:
    """The type of a handle: `own<T>`, or `borrow<T>` if `owned` is False.

    `resource` has the form `package:name/interface#resource`; it is empty for a resource that the guest defines.
    """

    resource: str
    owned: bool

    def __str__(self) -> str:
        name = self.resource.partition("#")[2] or "resource"
        return name if self.owned else f"borrow<{name}>"


WitType = (
    Primitive
    | ListType
    | RecordType
    | TupleType
    | VariantType
    | EnumType
    | FlagsType
    | OptionType
    | ResultType
    | ResourceRef
)


class FuncType(NamedTuple):
    """The type of a function: pairs of a param's name and type, in order, and the type of the result or None."""

    params: tuple[tuple[str, WitType], ...]
    result: WitType | None
    is_async: bool = False

    def __str__(self) -> str:
        params = ", ".join(f"{name}: {kind}" for name, kind in self.params)
        arrow = "" if self.result is None else f" -> {self.result}"
        return f"{'async ' if self.is_async else ''}func({params}){arrow}"


class InterfaceType(NamedTuple):
    """An imported or exported interface: its functions and the resources it defines."""

    name: str
    functions: tuple[tuple[str, FuncType], ...]
    resources: tuple[str, ...]

    def function(self, name: str) -> FuncType | None:
        """Return the function of that name, or None."""
        return next((kind for known, kind in self.functions if known == name), None)


class ComponentType(NamedTuple):
    """Imports and exports of a component, as reported by the engine.

    `functions` and `import_functions` are functions at the top level. `export_other` and `import_other` are the names
    of items that are neither interfaces nor functions.
    """

    imports: tuple[InterfaceType, ...]
    import_functions: tuple[tuple[str, FuncType], ...]
    import_other: tuple[str, ...]
    exports: tuple[InterfaceType, ...]
    functions: tuple[tuple[str, FuncType], ...]
    export_other: tuple[str, ...]

    def export(self, name: str) -> InterfaceType | None:
        """Return the exported interface of that name, or None."""
        return next((e for e in self.exports if e.name == name), None)


def walk(kind: WitType) -> Iterator[WitType]:
    """Yield `kind` and every type inside it, depth first."""
    yield kind
    for inner in _list_children(kind):
        yield from walk(inner)


def has_unbounded_lift(kind: WitType) -> bool:
    """Return whether `kind` contains a list whose elements the engine allocates one by one when it lifts the list."""
    elements = [inner.element for inner in walk(kind) if isinstance(inner, ListType)]
    return any(not isinstance(element, Primitive) or element.name == "string" for element in elements)


def _list_children(kind: WitType) -> tuple[WitType, ...]:
    match kind:
        case ListType(element):
            return (element,)
        case RecordType(fields):
            return tuple(inner for _, inner in fields)
        case TupleType(elements):
            return elements
        case VariantType(cases):
            return tuple(inner for _, inner in cases if inner is not None)
        case OptionType(inner):
            return (inner,)
        case ResultType(ok, err):
            return tuple(inner for inner in (ok, err) if inner is not None)
        case _:
            return ()


@dataclass(frozen=True, slots=True)
class Ok:
    """The ok side of a result; `value` is None if the side has no value."""

    value: Any = None


@dataclass(frozen=True, slots=True)
class Err:
    """The err side of a result; `value` is None if the side has no value."""

    value: Any = None


@dataclass(frozen=True, slots=True)
class Case:
    """A case of a variant; `value` is None if the case has no payload."""

    name: str
    value: Any = None


@dataclass(frozen=True, slots=True)
class Some:
    """A value, other than None, of an option whose inner type is also an option."""

    value: Any


def is_nested_option(kind: WitType) -> bool:
    """Return whether values of `kind` are wrapped in `Some`, because None would be ambiguous."""
    return isinstance(kind, OptionType) and isinstance(kind.inner, OptionType)


def functions_by_interface(
    interfaces: Iterable[InterfaceType], functions: Iterable[tuple[str, FuncType]]
) -> dict[str, list[str]]:
    """Return the names of all functions by the name of their interface.

    `functions` are outside of interfaces; they are listed under an empty interface name.
    """
    found = {interface.name: [name for name, _ in interface.functions] for interface in interfaces}
    if outside := [name for name, _ in functions]:
        found[""] = outside
    return found


def qualified_names(by_interface: Mapping[str, Iterable[str]]) -> list[str]:
    """Return `interface#function` for each function, and the bare interface name if an interface has no functions."""
    names: list[str] = []
    for interface, functions in by_interface.items():
        names += [f"{interface}#{name}" if interface else name for name in functions] or [interface]
    return names
