"""Read the imports and exports of a core module: what it needs from outside, and what it offers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from wasmrt.errors import ComponentError, CoreModuleError, NotWasmError

_VALUES = {0x7F: "i32", 0x7E: "i64", 0x7D: "f32", 0x7C: "f64"}
_KINDS = ("func", "table", "memory", "global")
MAX_ENTRIES = 100_000


@dataclass(frozen=True, slots=True)
class Signature:
    params: tuple[str, ...]
    results: tuple[str, ...]

    def text(self) -> str:
        """The signature as WebAssembly text."""
        return " ".join([*(f"(param {kind})" for kind in self.params), *(f"(result {kind})" for kind in self.results)])


@dataclass(frozen=True, slots=True)
class Module:
    imports: tuple[tuple[str, str, Signature], ...]
    """Imported functions: module, name, signature. Nothing else may be imported."""
    exports: dict[str, str]
    """Export name -> func, table, memory or global."""
    code: bytes
    """The module itself. Imports that come twice (Go's runtime does that) have got names of their own."""


def read(data: bytes) -> Module:
    """Read a core module.

    Raises:
        NotWasmError, CoreModuleError, ComponentError: it is no core module, or imports what cannot be given.
    """
    if data[:4] != b"\0asm":
        raise NotWasmError("these bytes are not WebAssembly")
    if data[4:8] != b"\x01\0\0\0":
        raise CoreModuleError("this is not a core module", hint="a component needs no further step")
    try:
        return _read(_Bytes(data, 8))
    except IndexError:
        raise ComponentError("the core module is cut short or damaged") from None


def _read(source: _Bytes) -> Module:
    types: list[Signature | None] = []
    imports: list[_Import] = []
    exports: dict[str, str] = {}
    code = source.data
    while not source.done():
        start, section, size = source.at, source.byte(), source.number()
        end = source.at + size
        if section == 1:
            types = [source.signature() for _ in range(source.count())]
        elif section == 2:
            imports = _distinct([_import(source, types) for _ in range(source.count())])
            code = b"".join([code[:start], _import_section(imports), code[end:]])
        elif section == 7:
            for _ in range(source.count()):
                name, kind = source.text(), source.byte()
                exports[name] = _KINDS[kind]
                source.number()
        source.at = end
    return Module(tuple((entry.module, entry.name, entry.signature) for entry in imports), exports, code)


@dataclass(frozen=True, slots=True)
class _Import:
    module: str
    name: str
    type_index: int
    signature: Signature


def _import(source: _Bytes, types: list[Signature | None]) -> _Import:
    module, name, kind = source.text(), source.text(), source.byte()
    index = source.number()
    signature = types[index] if kind == 0 else None
    if signature is None:
        what = _KINDS[kind] if kind < len(_KINDS) else "tag"
        raise ComponentError(
            f"the core module imports the {what} {module}.{name}, and only plain functions can be given"
        )
    return _Import(module, name, index, signature)


def _distinct(imports: list[_Import]) -> list[_Import]:
    """A component refuses a module that imports one name twice: the second becomes `name [2]`."""
    seen: Counter[tuple[str, str]] = Counter()
    distinct = []
    for entry in imports:
        seen[entry.module, entry.name] += 1
        count = seen[entry.module, entry.name]
        distinct.append(replace(entry, name=f"{entry.name} [{count}]") if count > 1 else entry)
    return distinct


def _import_section(imports: list[_Import]) -> bytes:
    body = bytearray(leb(len(imports)))
    for entry in imports:
        for text in (entry.module.encode(), entry.name.encode()):
            body += leb(len(text)) + text
        body += b"\0" + leb(entry.type_index)
    return b"\x02" + leb(len(body)) + bytes(body)


def leb(value: int) -> bytes:
    """An unsigned number as WebAssembly writes it."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class _Bytes:
    """A cursor; reading past the end is an IndexError."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at

    def done(self) -> bool:
        return self.at >= len(self.data)

    def byte(self) -> int:
        value = self.data[self.at]
        self.at += 1
        return value

    def number(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            part = self.byte()
            value |= (part & 0x7F) << shift
            if part < 0x80:
                return value
        raise ComponentError("the core module holds a number that is too long")

    def count(self) -> int:
        value = self.number()
        if value > MAX_ENTRIES:
            raise ComponentError(f"the core module has more than {MAX_ENTRIES} entries in a section")
        return value

    def text(self) -> str:
        size = self.number()
        if self.at + size > len(self.data):
            raise IndexError
        raw = self.data[self.at : self.at + size]
        self.at += size
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise ComponentError("the core module has a name that is not UTF-8") from None

    def signature(self) -> Signature | None:
        """A function type; None where it uses types that the component model's plain values never become."""
        if self.byte() != 0x60:
            raise ComponentError("the core module uses types beyond plain functions")
        params = tuple(_VALUES.get(self.byte(), "") for _ in range(self.count()))
        results = tuple(_VALUES.get(self.byte(), "") for _ in range(self.count()))
        return Signature(params, results) if all([*params, *results]) else None
