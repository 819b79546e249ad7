"""Read the WIT of a tool world: packages without dependencies, interfaces of plain values, no resources."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from wasmrt.errors import ComponentError

PRIMITIVES = frozenset(("bool", "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "f32", "f64", "char", "string"))
MAX_WIT_BYTES = 256 * 1024
MAX_TYPE_DEPTH = 32

_TOKEN = re.compile(
    r"\s+|//[^\n]*|/\*.*?\*/"  # space and comments
    r"|(?P<word>%?[A-Za-z_][A-Za-z0-9-]*)|(?P<version>@[0-9][0-9A-Za-z.+-]*)|(?P<mark>->|[{}()<>,:;=./])",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Type:
    """A type expression: a primitive or a name of the interface, or `list`, `option`, `result`, `tuple` of others."""

    name: str
    of: tuple[Type | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Definition:
    """A named type: `kind` is record, variant, enum, flags or type."""

    kind: str
    name: str
    cases: tuple[tuple[str, Type | None], ...] = ()


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    params: tuple[tuple[str, Type], ...]
    result: Type | None


@dataclass(slots=True)
class Interface:
    name: str
    uses: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Local name -> (interface, name there)."""
    types: list[Definition] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)


@dataclass(slots=True)
class World:
    name: str
    imports: list[str] = field(default_factory=list)
    exports: list[str] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    """Those that it exports itself; their types have no names."""


@dataclass(slots=True)
class Package:
    namespace: str
    version: str
    interfaces: dict[str, Interface] = field(default_factory=dict)
    worlds: dict[str, World] = field(default_factory=dict)

    def qualified(self, interface: str) -> str:
        """The name a component imports or exports an interface by: `near:agent/host@0.3.0`."""
        return f"{self.namespace}/{interface}{self.version}"


def parse(text: str) -> Package:
    """Read one package.

    Raises:
        ComponentError: the text is not WIT, or uses what this reader leaves out (resources, async, other packages).
    """
    if len(text.encode()) > MAX_WIT_BYTES:
        raise ComponentError(f"the WIT is over {MAX_WIT_BYTES} bytes")
    return _Reader(_tokens(text)).package()


def _tokens(text: str) -> list[tuple[str, int]]:
    tokens: list[tuple[str, int]] = []
    position, line = 0, 1
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ComponentError(f"WIT line {line}: {text[position]!r} is not expected here")
        if match.lastgroup is not None:
            tokens.append((match[0], line))
        line += match[0].count("\n")
        position = match.end()
    return tokens


class _Reader:
    def __init__(self, tokens: list[tuple[str, int]]) -> None:
        self._tokens = tokens
        self._at = 0

    def package(self) -> Package:
        self._expect("package")
        namespace = f"{self._word()}{self._expect(':')}{self._word()}"
        version = self._take() if self._peek().startswith("@") else ""
        self._expect(";")
        package = Package(namespace, version)
        while self._at < len(self._tokens):
            if self._try("interface"):
                interface = self._interface()
                package.interfaces[interface.name] = interface
            else:
                self._expect("world")
                world = self._world()
                package.worlds[world.name] = world
        return package

    def _world(self) -> World:
        world = World(self._word())
        self._expect("{")
        while not self._try("}"):
            if self._try("import"):
                world.imports.append(self._word())
                self._expect(";")
                continue
            self._expect("export")
            if self._peek(ahead=1) == ":":
                world.functions.append(self._function())
            else:
                world.exports.append(self._word())
                self._expect(";")
        return world

    def _interface(self) -> Interface:
        interface = Interface(self._word())
        self._expect("{")
        while not self._try("}"):
            if self._try("use"):
                self._use(interface)
            elif self._peek() in {"record", "variant", "enum", "flags"}:
                interface.types.append(self._cases(self._take()))
            elif self._try("type"):
                name = self._word()
                self._expect("=")
                interface.types.append(Definition("type", name, (("", self._type()),)))
                self._expect(";")
            else:
                interface.functions.append(self._function())
        return interface

    def _use(self, interface: Interface) -> None:
        source = self._word()
        self._expect(".")
        self._expect("{")
        while not self._try("}"):
            name = self._word()
            local = self._word() if self._try("as") else name
            interface.uses[local] = (source, name)
            self._try(",")
        self._expect(";")

    def _cases(self, kind: str) -> Definition:
        name = self._word()
        self._expect("{")
        cases: list[tuple[str, Type | None]] = []
        while not self._try("}"):
            case, of = self._word(), None
            if kind == "record":
                self._expect(":")
                of = self._type()
            elif kind == "variant" and self._try("("):
                of = self._type()
                self._expect(")")
            cases.append((case, of))
            if not self._try(","):
                self._expect("}")
                break
        return Definition(kind, name, tuple(cases))

    def _function(self) -> Function:
        name = self._word()
        self._expect(":")
        self._expect("func")
        self._expect("(")
        params: list[tuple[str, Type]] = []
        while not self._try(")"):
            param = self._word()
            self._expect(":")
            params.append((param, self._type()))
            self._try(",")
        result = self._type() if self._try("->") else None
        self._expect(";")
        return Function(name, tuple(params), result)

    def _type(self, depth: int = 0) -> Type:
        if depth > MAX_TYPE_DEPTH:
            raise ComponentError(f"WIT line {self._line()}: types are nested deeper than {MAX_TYPE_DEPTH}")
        name = self._word()
        if not self._try("<"):
            return Type(name, (None, None) if name == "result" else ())
        of: list[Type | None] = []
        while not self._try(">"):
            of.append(None if self._try("_") else self._type(depth + 1))
            self._try(",")
        return Type(name, tuple([*of, None][:2]) if name == "result" else tuple(of))

    def _peek(self, ahead: int = 0) -> str:
        at = self._at + ahead
        return self._tokens[at][0] if at < len(self._tokens) else ""

    def _line(self) -> int:
        return self._tokens[min(self._at, len(self._tokens) - 1)][1] if self._tokens else 1

    def _take(self) -> str:
        token = self._peek()
        self._at += 1
        return token

    def _try(self, wanted: str) -> bool:
        if self._peek() != wanted:
            return False
        self._at += 1
        return True

    def _expect(self, wanted: str) -> str:
        if not self._try(wanted):
            found = self._peek() or "the end"
            raise ComponentError(f"WIT line {self._line()}: {wanted!r} is expected, not {found!r}")
        return wanted

    def _word(self) -> str:
        token = self._peek()
        if not re.fullmatch(r"%?[A-Za-z_][A-Za-z0-9-]*", token):
            raise ComponentError(f"WIT line {self._line()}: a name is expected, not {token or 'the end'!r}")
        self._at += 1
        return token.removeprefix("%")
