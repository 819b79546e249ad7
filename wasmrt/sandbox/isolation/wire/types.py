"""Encode a component's type as JSON data: a table of types that refer to each other by index.

SECURITY: `read_type` reads a worker's data. Every index refers to an earlier type, so types cannot be circular. The
table is bounded, and so is its expansion, since n entries can represent a type of size 2^n.
"""

from __future__ import annotations

from typing import Any

from wasmrt.sandbox.component import (
    PRIMITIVES,
    ComponentType,
    EnumType,
    FlagsType,
    FuncType,
    InterfaceType,
    ListType,
    OptionType,
    Primitive,
    RecordType,
    ResourceRef,
    ResultType,
    TupleType,
    VariantType,
    WitType,
)
from wasmrt.sandbox.isolation.wire._head import Head, ProtocolError

MAX_TYPES = 20_000
MAX_SPELLED = 200_000
"""Maximum number of types in all functions after expansion."""
_MAX_NAMES = 20_000


def type_fields(kind: ComponentType) -> dict[str, Any]:
    """Return a component's type as the head of a frame."""
    table = _Table()
    return {
        "imports": [_write_interface(each, table) for each in kind.imports],
        "exports": [_write_interface(each, table) for each in kind.exports],
        "import_functions": [table.function(*each) for each in kind.import_functions],
        "functions": [table.function(*each) for each in kind.functions],
        "import_other": list(kind.import_other),
        "export_other": list(kind.export_other),
        "types": table.rows,
    }


def read_type(head: Head) -> ComponentType:
    """Read a component's type.

    Raises:
        ProtocolError: the type is malformed or exceeds a bound.
    """
    try:
        types = _Types(head.items("types", MAX_TYPES))
        return ComponentType(
            tuple(types.interface(each) for each in head.items("imports", _MAX_NAMES)),
            tuple(types.function(each) for each in head.items("import_functions", _MAX_NAMES)),
            tuple(map(_check_text, head.items("import_other", _MAX_NAMES))),
            tuple(types.interface(each) for each in head.items("exports", _MAX_NAMES)),
            tuple(types.function(each) for each in head.items("functions", _MAX_NAMES)),
            tuple(map(_check_text, head.items("export_other", _MAX_NAMES))),
        )
    except (TypeError, ValueError, IndexError, KeyError) as error:
        raise ProtocolError("the worker sent malformed types") from error


def _write_interface(kind: InterfaceType, table: _Table) -> list[Any]:
    return [kind.name, [table.function(*each) for each in kind.functions], list(kind.resources)]


class _Table:
    def __init__(self) -> None:
        self.rows: list[Any] = []
        self._known: dict[WitType, int] = {}

    def function(self, name: str, kind: FuncType) -> list[Any]:
        params = [[param, self.add(each)] for param, each in kind.params]
        return [name, params, self._optional(kind.result), kind.is_async]

    def add(self, kind: WitType) -> int:
        known = self._known.get(kind)
        if known is None:
            row = self._row(kind)
            known = self._known[kind] = len(self.rows)
            self.rows.append(row)
        return known

    def _optional(self, kind: WitType | None) -> int | None:
        return None if kind is None else self.add(kind)

    def _row(self, kind: WitType) -> list[Any]:
        match kind:
            case Primitive(name):
                return ["primitive", name]
            case ListType(element):
                return ["list", self.add(element)]
            case RecordType(fields):
                return ["record", [[name, self.add(each)] for name, each in fields]]
            case TupleType(elements):
                return ["tuple", [self.add(each) for each in elements]]
            case VariantType(cases):
                return ["variant", [[name, self._optional(each)] for name, each in cases]]
            case EnumType(names):
                return ["enum", list(names)]
            case FlagsType(names):
                return ["flags", list(names)]
            case OptionType(inner):
                return ["option", self.add(inner)]
            case ResultType(ok, err):
                return ["result", self._optional(ok), self._optional(err)]
            case ResourceRef(resource, owned):
                return ["resource", resource, owned]


class _Types:
    def __init__(self, rows: list[Any]) -> None:
        self._types: list[WitType] = []
        self._sizes: list[int] = []
        self._spelled = 0
        for row in rows:
            self._size = 1
            self._types.append(self._read(row))
            self._sizes.append(min(self._size, MAX_SPELLED + 1))

    def interface(self, row: Any) -> InterfaceType:
        name, functions, resources = row
        return InterfaceType(
            _check_text(name), tuple(map(self.function, functions)), tuple(map(_check_text, resources))
        )

    def function(self, row: Any) -> tuple[str, FuncType]:
        name, params, result, is_async = row
        self._size = 1
        kind = FuncType(
            tuple((_check_text(param), self._at(each)) for param, each in params),
            self._optional(result),
            bool(is_async),
        )
        self._spelled += self._size
        if self._spelled > MAX_SPELLED:
            raise ProtocolError("a component's types are too large when expanded")
        return _check_text(name), kind

    def _at(self, number: Any) -> WitType:
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < len(self._types):
            raise ProtocolError("a type refers to one that is not earlier in the table")
        self._size += self._sizes[number]
        return self._types[number]

    def _optional(self, number: Any) -> WitType | None:
        return None if number is None else self._at(number)

    def _read(self, row: Any) -> WitType:
        match row:
            case ["primitive", name] if name in PRIMITIVES:
                return Primitive(name)
            case ["list", element]:
                return ListType(self._at(element))
            case ["record", list() as fields]:
                return RecordType(tuple((_check_text(name), self._at(each)) for name, each in fields))
            case ["tuple", list() as elements]:
                return TupleType(tuple(map(self._at, elements)))
            case ["variant", list() as cases]:
                return VariantType(tuple((_check_text(name), self._optional(each)) for name, each in cases))
            case ["enum", list() as names]:
                return EnumType(tuple(map(_check_text, names)))
            case ["flags", list() as names]:
                return FlagsType(tuple(map(_check_text, names)))
            case ["option", inner]:
                return OptionType(self._at(inner))
            case ["result", ok, err]:
                return ResultType(self._optional(ok), self._optional(err))
            case ["resource", str() as name, bool() as owned]:
                return ResourceRef(_check_text(name), owned)
        raise ProtocolError("unknown type")


def _check_text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > 4096 or not value.isprintable():
        raise ProtocolError("malformed name in a type")
    return value
