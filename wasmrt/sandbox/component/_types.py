"""WIT types as immutable values, compared by structure; `str` of each is WIT's own spelling with every name resolved.

Source of the vocabulary: the component model's WIT, section "Types".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

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
    """`list<T>`."""

    element: WitType

    def __str__(self) -> str:
        return f"list<{self.element}>"


@dataclass(frozen=True, slots=True)
class RecordType:
    """A record: field names and their types, in order."""

    fields: tuple[tuple[str, WitType], ...]

    def __str__(self) -> str:
        return "record { " + ", ".join(f"{name}: {kind}" for name, kind in self.fields) + " }"


@dataclass(frozen=True, slots=True)
class TupleType:
    """`tuple<...>`."""

    elements: tuple[WitType, ...]

    def __str__(self) -> str:
        return "tuple<" + ", ".join(map(str, self.elements)) + ">"


@dataclass(frozen=True, slots=True)
class VariantType:
    """A variant: case names, each with the type of its payload or None."""

    cases: tuple[tuple[str, WitType | None], ...]

    def __str__(self) -> str:
        cases = (name if kind is None else f"{name}({kind})" for name, kind in self.cases)
        return "variant { " + ", ".join(cases) + " }"


@dataclass(frozen=True, slots=True)
class EnumType:
    """An enum: case names, in order."""

    names: tuple[str, ...]

    def __str__(self) -> str:
        return "enum { " + ", ".join(self.names) + " }"


@dataclass(frozen=True, slots=True)
class FlagsType:
    """A flags type: flag names, in order."""

    names: tuple[str, ...]

    def __str__(self) -> str:
        return "flags { " + ", ".join(self.names) + " }"


@dataclass(frozen=True, slots=True)
class OptionType:
    """`option<T>`."""

    inner: WitType

    def __str__(self) -> str:
        return f"option<{self.inner}>"


@dataclass(frozen=True, slots=True)
class ResultType:
    """`result<ok, err>`; None on a side that carries nothing."""

    ok: WitType | None
    err: WitType | None

    def __str__(self) -> str:
        if self.err is None:
            return "result" if self.ok is None else f"result<{self.ok}>"
        return f"result<{'_' if self.ok is None else self.ok}, {self.err}>"


@dataclass(frozen=True, slots=True)
class ResourceRef:
    """A handle, `own<T>` or `borrow<T>`; `resource` is `package:name/interface#resource`, empty for the guest's own."""

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
    """A function: named params in order, and its result or None."""

    params: tuple[tuple[str, WitType], ...]
    result: WitType | None
    is_async: bool = False

    def __str__(self) -> str:
        params = ", ".join(f"{name}: {kind}" for name, kind in self.params)
        arrow = "" if self.result is None else f" -> {self.result}"
        return f"{'async ' if self.is_async else ''}func({params}){arrow}"


class InterfaceType(NamedTuple):
    """One imported or exported interface: its functions by name, and the resources it defines."""

    name: str
    functions: tuple[tuple[str, FuncType], ...]
    resources: tuple[str, ...]

    def function(self, name: str) -> FuncType | None:
        """Return the function of that name, or None."""
        return next((kind for known, kind in self.functions if known == name), None)


class ComponentType(NamedTuple):
    """Imports and exports of a component, as the engine's type information has them.

    `functions` and `import_functions` stand at the top level; `export_other` and `import_other` are the names of items
    that are neither an interface nor a function.
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
    for inner in _children(kind):
        yield from walk(inner)


def has_unbounded_lift(kind: WitType) -> bool:
    """Return whether `kind` holds a list whose elements the engine allocates one by one when it lifts them."""
    elements = [inner.element for inner in walk(kind) if isinstance(inner, ListType)]
    return any(not isinstance(element, Primitive) or element.name == "string" for element in elements)


def _children(kind: WitType) -> tuple[WitType, ...]:
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
