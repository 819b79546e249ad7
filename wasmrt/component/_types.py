"""WIT types as plain values: what the engine's own type information says of a component, without pointers.

Source of the vocabulary: the component model's WIT, section "Types".
"""

from __future__ import annotations

from collections.abc import Iterator

from wasmrt.component._plain_value import PlainValue

PRIMITIVES = (
    "bool", "s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64", "f32", "f64", "char", "string",
)  # fmt: skip


class Primitive(PlainValue):
    __slots__ = ("name",)
    __match_args__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name


class ListType(PlainValue):
    __slots__ = ("element",)
    __match_args__ = ("element",)

    def __init__(self, element: WitType) -> None:
        self.element = element

    def __str__(self) -> str:
        return f"list<{self.element}>"


class RecordType(PlainValue):
    __slots__ = ("fields",)
    __match_args__ = ("fields",)

    def __init__(self, fields: tuple[tuple[str, WitType], ...]) -> None:
        self.fields = fields

    def __str__(self) -> str:
        return "record { " + ", ".join(f"{name}: {kind}" for name, kind in self.fields) + " }"


class TupleType(PlainValue):
    __slots__ = ("elements",)
    __match_args__ = ("elements",)

    def __init__(self, elements: tuple[WitType, ...]) -> None:
        self.elements = elements

    def __str__(self) -> str:
        return "tuple<" + ", ".join(map(str, self.elements)) + ">"


class VariantType(PlainValue):
    __slots__ = ("cases",)
    __match_args__ = ("cases",)

    def __init__(self, cases: tuple[tuple[str, WitType | None], ...]) -> None:
        self.cases = cases

    def __str__(self) -> str:
        cases = (name if kind is None else f"{name}({kind})" for name, kind in self.cases)
        return "variant { " + ", ".join(cases) + " }"


class EnumType(PlainValue):
    __slots__ = ("names",)
    __match_args__ = ("names",)

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def __str__(self) -> str:
        return "enum { " + ", ".join(self.names) + " }"


class FlagsType(PlainValue):
    __slots__ = ("names",)
    __match_args__ = ("names",)

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def __str__(self) -> str:
        return "flags { " + ", ".join(self.names) + " }"


class OptionType(PlainValue):
    __slots__ = ("inner",)
    __match_args__ = ("inner",)

    def __init__(self, inner: WitType) -> None:
        self.inner = inner

    def __str__(self) -> str:
        return f"option<{self.inner}>"


class ResultType(PlainValue):
    __slots__ = ("err", "ok")
    __match_args__ = ("ok", "err")

    def __init__(self, ok: WitType | None, err: WitType | None) -> None:
        self.ok = ok
        self.err = err

    def __str__(self) -> str:
        if self.err is None:
            return "result" if self.ok is None else f"result<{self.ok}>"
        return f"result<{'_' if self.ok is None else self.ok}, {self.err}>"


class ResourceRef(PlainValue):
    """`own<T>` or `borrow<T>`; `resource` is `package:name/interface#resource`, or empty for a guest's own."""

    __slots__ = ("owned", "resource")
    __match_args__ = ("resource", "owned")

    def __init__(self, resource: str, owned: bool) -> None:
        self.resource = resource
        self.owned = owned

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


class FuncType(PlainValue):
    __slots__ = ("is_async", "params", "result")
    __match_args__ = ("params", "result", "is_async")

    def __init__(self, params: tuple[tuple[str, WitType], ...], result: WitType | None, is_async: bool = False) -> None:
        self.params = params
        self.result = result
        self.is_async = is_async

    def __str__(self) -> str:
        params = ", ".join(f"{name}: {kind}" for name, kind in self.params)
        arrow = "" if self.result is None else f" -> {self.result}"
        return f"{'async ' if self.is_async else ''}func({params}){arrow}"


class InterfaceType(PlainValue):
    """One imported or exported interface: its functions and the resources it defines."""

    __slots__ = ("functions", "name", "resources")
    __match_args__ = ("name", "functions", "resources")

    def __init__(self, name: str, functions: tuple[tuple[str, FuncType], ...], resources: tuple[str, ...]) -> None:
        self.name = name
        self.functions = functions
        self.resources = resources

    def function(self, name: str) -> FuncType | None:
        return next((kind for known, kind in self.functions if known == name), None)


class ComponentType(PlainValue):
    """What a component asks for and offers, in the engine's own words.

    `functions` are exported at the top level, `other` names what is neither an interface nor a function.
    """

    __slots__ = ("export_other", "exports", "functions", "import_functions", "import_other", "imports")
    __match_args__ = ("imports", "import_functions", "import_other", "exports", "functions", "export_other")

    def __init__(
        self,
        imports: tuple[InterfaceType, ...],
        import_functions: tuple[tuple[str, FuncType], ...],
        import_other: tuple[str, ...],
        exports: tuple[InterfaceType, ...],
        functions: tuple[tuple[str, FuncType], ...],
        export_other: tuple[str, ...],
    ) -> None:
        self.imports = imports
        self.import_functions = import_functions
        self.import_other = import_other
        self.exports = exports
        self.functions = functions
        self.export_other = export_other

    def export(self, name: str) -> InterfaceType | None:
        return next((e for e in self.exports if e.name == name), None)


def walk(kind: WitType) -> Iterator[WitType]:
    """Every type inside `kind`, itself first."""
    yield kind
    for inner in _children(kind):
        yield from walk(inner)


def unbounded_lift(kind: WitType) -> bool:
    """Whether the engine makes a value of its own, with memory of its own, for each of many elements."""
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
