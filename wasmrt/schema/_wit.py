"""A component's imports and exports as WIT text, for people.

The engine's type information keeps a record's shape but not its name, so names are made from where a type is first
used; everything else is the component's own.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from wasmrt.component import (
    ComponentType,
    EnumType,
    FlagsType,
    FuncType,
    InterfaceType,
    ListType,
    OptionType,
    RecordType,
    ResourceRef,
    ResultType,
    TupleType,
    VariantType,
    WitType,
)
from wasmrt.component._docs import Docs, doc_of

_KEYWORDS = frozenset({
    "as", "async", "bool", "borrow", "char", "constructor", "enum", "error-context", "export", "f32", "f64", "flags",
    "from", "func", "future", "import", "include", "interface", "list", "map", "option", "own", "package", "record",
    "resource", "result", "s16", "s32", "s64", "s8", "static", "stream", "string", "tuple", "type", "u16", "u32",
    "u64", "u8", "use", "variant", "with", "world",
})  # fmt: skip
_INDENT = "  "
Named = RecordType | VariantType | EnumType | FlagsType


def wit_text(component: ComponentType, docs: Docs | None = None) -> str:
    """The world of a component, then each interface by package, as WIT (component model, "WIT" sections 3 to 8).

    `docs` as `doc_comments` finds them stand before their functions. What is neither an interface nor a function is
    listed in a comment.
    """
    interfaces = _merged(component)
    homes = {f"{i.name.partition('@')[0]}#{resource}": i.name for i in interfaces for resource in i.resources}
    said = docs or {}
    lines = ["package root:component;", "", *_world(component, homes, said)]
    for package, members in _packages(interfaces).items():
        lines += ["", f"package {package} {{"]
        for interface in members:
            lines += [_INDENT + line for line in _interface(interface, homes, said)]
        lines.append("}")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _merged(component: ComponentType) -> list[InterfaceType]:
    """Each interface once: one that is both imported and exported has the functions of both."""
    found: dict[str, InterfaceType] = {}
    for interface in (*component.imports, *component.exports):
        other = found.get(interface.name, interface)
        found[interface.name] = InterfaceType(
            interface.name,
            tuple(dict([*other.functions, *interface.functions]).items()),
            tuple(dict.fromkeys([*other.resources, *interface.resources])),
        )
    return list(found.values())


def _packages(interfaces: Iterable[InterfaceType]) -> dict[str, list[InterfaceType]]:
    packages: dict[str, list[InterfaceType]] = {}
    for interface in interfaces:
        if package := _package(interface.name):
            packages.setdefault(package, []).append(interface)
    return packages


def _package(interface: str) -> str:
    """`wasi:io@0.2.6` of `wasi:io/poll@0.2.6`; empty for an interface without a package."""
    path, at, version = interface.partition("@")
    package = path.rpartition("/")[0]
    return package and package + at + version


def _world(component: ComponentType, homes: dict[str, str], docs: Docs) -> list[str]:
    names = _Names(homes, "", [name for name, _ in (*component.import_functions, *component.functions)])
    body: list[str] = []
    for verb, interfaces, functions, other in (
        ("import", component.imports, component.import_functions, component.import_other),
        ("export", component.exports, component.functions, component.export_other),
    ):
        for interface in interfaces:
            if "/" in interface.name:
                body.append(f"{verb} {interface.name};")
            else:
                inner = _interface(interface, homes, docs)
                body += [f"{verb} {_id(interface.name)}: interface {{", *inner[1:]]
        for name, kind in functions:
            body += [*_doc(docs, "", name), f"{verb} {_id(name)}: {names.func(name, kind)};"]
        body += [f"// {verb} {' '.join(name.split())}: a module or component" for name in other]
    return ["world root {", *(_INDENT + line for line in [*names.declarations(), *body]), "}"]


def _interface(interface: InterfaceType, homes: dict[str, str], docs: Docs) -> list[str]:
    free = [(name, kind) for name, kind in interface.functions if not name.startswith("[")]
    names = _Names(homes, interface.name, [*interface.resources, *(name for name, _ in free)])
    methods: dict[str, list[str]] = {resource: [] for resource in interface.resources}
    for name, kind in interface.functions:
        if name.startswith("["):
            owner, line = _method(name, kind, names)
            methods.setdefault(owner, []).append(line)
    functions = [
        line
        for name, kind in free
        for line in (*_doc(docs, interface.name, name), f"{_id(name)}: {names.func(name, kind)};")
    ]
    resources: list[str] = []
    for owner, lines in methods.items():
        resources += (
            [f"resource {_id(owner)} {{", *(_INDENT + line for line in lines), "}"]
            if lines
            else [f"resource {_id(owner)};"]
        )
    body = [*names.declarations(), *resources, *functions]
    simple = interface.name.partition("@")[0].rpartition("/")[2]
    return [f"interface {_id(simple)} {{", *(_INDENT + line for line in body), "}"]


def _doc(docs: Docs, interface: str, function: str) -> list[str]:
    text = doc_of(docs, interface, function)
    return [f"/// {text}"] if text else []


def _method(name: str, kind: FuncType, names: _Names) -> tuple[str, str]:
    role, _, path = name[1:].partition("]")
    owner, _, method = path.partition(".")
    if role == "constructor":
        return owner, f"constructor({names.params(kind.params)});"
    if role == "static":
        return owner, f"{_id(method)}: static {names.func(method, kind)};"
    return owner, f"{_id(method)}: {names.func(method, FuncType(kind.params[1:], kind.result, kind.is_async))};"


def _id(name: str) -> str:
    return f"%{name}" if name in _KEYWORDS else name


class _Names:
    """Gives each record, variant, enum and flags type of one interface a name, once for one shape."""

    def __init__(self, homes: dict[str, str], interface: str, taken: Iterable[str]) -> None:
        self._homes = homes
        self._interface = interface
        self._taken = {name.lower() for name in taken}
        self._named: dict[Named, str] = {}
        self._used: dict[tuple[str, str], str] = {}
        self._lines: list[str] = []

    def declarations(self) -> list[str]:
        uses: dict[str, list[str]] = {}
        for (home, name), local in self._used.items():
            uses.setdefault(home, []).append(_id(name) if name == local else f"{_id(name)} as {_id(local)}")
        lines = [f"use {self._local(home)}.{{{', '.join(names)}}};" for home, names in uses.items()]
        return [*lines, *self._lines]

    def _local(self, home: str) -> str:
        """How this interface names another one: within one package, without the package."""
        if _package(home) and _package(home) == _package(self._interface):
            return _id(home.partition("@")[0].rpartition("/")[2])
        return home

    def func(self, name: str, kind: FuncType) -> str:
        params = self.params(kind.params)  # first, so that a type has a param's name rather than the result's
        arrow = "" if kind.result is None else f" -> {self.type(kind.result, f'{name}-result')}"
        return f"{'async ' if kind.is_async else ''}func({params}){arrow}"

    def params(self, params: tuple[tuple[str, WitType], ...]) -> str:
        return ", ".join(f"{_id(name)}: {self.type(kind, name)}" for name, kind in params)

    def type(self, kind: WitType, near: str) -> str:
        """The type as WIT writes it in place; `near` is the name of what is of this type."""
        match kind:
            case ListType(element):
                return f"list<{self.type(element, near)}>"
            case OptionType(part):
                return f"option<{self.type(part, near)}>"
            case TupleType(elements):
                return f"tuple<{', '.join(self.type(element, near) for element in elements)}>"
            case ResultType(ok, err):
                return str(ResultType(None, None)) if ok is None and err is None else self._result(ok, err, near)
            case ResourceRef(resource, owned):
                name = self._resource(resource)
                return name if owned else f"borrow<{name}>"
            case RecordType() | VariantType() | EnumType() | FlagsType():
                return _id(self._named.get(kind) or self._declare(kind, near))
            case _:
                return str(kind)

    def _result(self, ok: WitType | None, err: WitType | None, near: str) -> str:
        good = "_" if ok is None else self.type(ok, near)
        return f"result<{good}>" if err is None else f"result<{good}, {self.type(err, 'error')}>"

    def _resource(self, key: str) -> str:
        path, _, name = key.partition("#")
        if not name:
            return "resource-of-its-own"
        home = self._homes.get(key, path)
        if home == self._interface:
            return _id(name)
        if (home, name) not in self._used:
            self._used[home, name] = self._free(name)
        return _id(self._used[home, name])

    def _declare(self, kind: Named, near: str) -> str:
        word = {RecordType: "record", VariantType: "variant", EnumType: "enum", FlagsType: "flags"}[type(kind)]
        match kind:
            case RecordType(fields):
                body = [f"{_id(name)}: {self.type(part, name)}" for name, part in fields]
            case VariantType(cases):
                body = [_id(n) if part is None else f"{_id(n)}({self.type(part, n)})" for n, part in cases]
            case EnumType(names) | FlagsType(names):
                body = [_id(name) for name in names]
        name = self._named[kind] = self._free(near)
        self._lines += [f"{word} {_id(name)} {{", *(f"{_INDENT}{line}," for line in body), "}"]
        return name

    def _free(self, near: str) -> str:
        tries = (near if number == 1 else f"{near}-type{number if number > 2 else ''}" for number in count(1))
        name = next(name for name in tries if name.lower() not in self._taken)
        self._taken.add(name.lower())
        return name
