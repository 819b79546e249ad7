"""Write the component round a core module as WebAssembly text, with an empty module in the core module's place.

The shape is the usual one: the host's functions are lowered with the module's own memory, which exists only once the
module does, so the module is given a table of stand-ins that is filled afterwards.
"""

from __future__ import annotations

from wasmrt.componentizer import _wasi
from wasmrt.componentizer._module import Module, Signature
from wasmrt.componentizer._wit import PRIMITIVES, Definition, Function, Interface, Package, Type, World
from wasmrt.errors import ComponentError, UnknownImportError

_CONSTRUCTORS = frozenset(("list", "option", "tuple", "result"))


def component_text(package: Package, world: World, module: Module) -> str:
    """Raises: ComponentError where the module does not fit the world."""
    return _Writer(package, world, module).text()


class _Writer:
    def __init__(self, package: Package, world: World, module: Module) -> None:
        self._package = package
        self._module = module
        self._imported = [self._interface(name) for name in world.imports]
        self._exported = [self._interface(name) for name in world.exports]
        self._functions = world.functions
        self._placed: set[str] = set()
        self._lines: list[str] = []
        self._host: list[tuple[str, str, Signature]] = []
        self._from_wasi: dict[str, Signature] = {}

    def text(self) -> str:
        self._sort_imports()
        needed = {module for module, _, _ in self._host}
        for interface in self._imported:
            if self._package.qualified(interface.name) in needed:
                self._place(interface)
        for interface in self._exported:
            for source, _ in interface.uses.values():
                self._place(self._interface(source))
        self._core()
        for interface in self._exported:
            self._export(interface)
        for function in self._functions:
            self._lines.append(self._lifted(function.name, "", function, {}))
            self._lines.append(f'(export "{function.name}" (func ${function.name}))')
        return "(component\n" + "\n".join(self._lines) + "\n)"

    def _interface(self, name: str) -> Interface:
        try:
            return self._package.interfaces[name]
        except KeyError:
            raise ComponentError(f"the package has no interface {name!r}") from None

    def _sort_imports(self) -> None:
        offered = {self._package.qualified(interface.name): interface for interface in self._imported}
        for module, name, signature in self._module.imports:
            if module == _wasi.MODULE:
                self._from_wasi[name] = signature
                continue
            interface = offered.get(module)
            if interface is None or all(function.name != name for function in interface.functions):
                hint = f"it may import from {', '.join(sorted(offered))}"
                raise UnknownImportError(f"the core module imports {module} {name}, which the world lacks", hint=hint)
            self._host.append((module, name, signature))

    # types and imports

    def _place(self, interface: Interface) -> None:
        """Import an interface, with the functions that are used and every type."""
        if interface.name in self._placed:
            return
        self._placed.add(interface.name)
        for source, _ in interface.uses.values():
            self._place(self._interface(source))
        qualified = self._package.qualified(interface.name)
        used = {name for module, name, _ in self._host if module == qualified}
        body = [
            f'(export "{local}" (type ${local} (eq ${source}.{name})))'
            for local, (source, name) in interface.uses.items()
        ]
        for definition in interface.types:
            body.append(f"(type ${definition.name}' {_definition(definition)})")
            body.append(f'(export "{definition.name}" (type ${definition.name} (eq ${definition.name}\')))')
        body += [
            f'(export "{function.name}" {_function(function)})'
            for function in interface.functions
            if function.name in used
        ]
        self._lines.append(f'(import "{qualified}" (instance ${interface.name} {" ".join(body)}))')
        names = [*interface.uses, *(definition.name for definition in interface.types)]
        self._lines += [f'(alias export ${interface.name} "{name}" (type ${interface.name}.{name}))' for name in names]

    # the core module and what it is wired to

    def _core(self) -> None:
        if self._module.exports.get("memory") != "memory":
            raise ComponentError("the core module exports no memory")
        stand_ins = [*self._host, *((_wasi.MODULE, name, signature) for name, signature in self._from_wasi.items())]
        lines = ["(core module $main)", _shim(stand_ins), "(core instance $shim (instantiate $shim))"]
        arguments = ""
        for number, module in enumerate(dict.fromkeys(module for module, _, _ in stand_ins)):
            given = [
                f'(export "{name}" (func $shim "{index}"))'
                for index, (where, name, _) in enumerate(stand_ins)
                if where == module
            ]
            lines.append(f"(core instance $given{number} {' '.join(given)})")
            arguments += f' (with "{module}" (instance $given{number}))'
        lines.append(f"(core instance $main (instantiate $main{arguments}))")
        lines.append('(alias core export $main "memory" (core memory $memory))')
        lines += [*self._lowered(), *self._stubbed(), *self._fix(stand_ins)]
        self._lines += lines

    def _options(self) -> str:
        realloc = ' (realloc (core func $main "cabi_realloc"))' if "cabi_realloc" in self._module.exports else ""
        return f"(memory $memory){realloc} string-encoding=utf8"

    def _lowered(self) -> list[str]:
        names = {self._package.qualified(interface.name): interface.name for interface in self._imported}
        return [
            f'(core func $f{index} (canon lower (func ${names[module]} "{name}") {self._options()}))'
            for index, (module, name, _) in enumerate(self._host)
        ]

    def _stubbed(self) -> list[str]:
        if not self._from_wasi:
            return []
        start = len(self._host)
        aliases = [
            f'(alias core export $wasi "{name}" (core func $f{start + index}))'
            for index, name in enumerate(self._from_wasi)
        ]
        given = '(with "" (instance (export "memory" (memory $memory))))'
        return [_wasi.stub(self._from_wasi), f"(core instance $wasi (instantiate $wasi {given}))", *aliases]

    def _fix(self, stand_ins: list[tuple[str, str, Signature]]) -> list[str]:
        """Fill the table, then run the module's initialiser, which may already call the host."""
        starts = self._module.exports.get("_initialize") == "func"
        count = len(stand_ins)
        imports = [f'(import "" "{index}" (func {entry[2].text()}))' for index, entry in enumerate(stand_ins)]
        if starts:
            imports.append('(import "" "_initialize" (func $initialize))')
        elements = f"(elem (i32.const 0) func {' '.join(map(str, range(count)))})" if count else ""
        given = ['(export "table" (table $shim "table"))']
        given += [f'(export "{index}" (func $f{index}))' for index in range(count)]
        if starts:
            self_start = '(alias core export $main "_initialize" (core func $initialize))'
            given.append('(export "_initialize" (func $initialize))')
        return [
            *([self_start] if starts else []),
            f'(core module $fix (import "" "table" (table {count} {count} funcref)) {" ".join(imports)} {elements}'
            f"{' (start $initialize)' if starts else ''})",
            f'(core instance (instantiate $fix (with "" (instance {" ".join(given)}))))',
        ]

    # exports

    def _export(self, interface: Interface) -> None:
        """An interface with named types is exported by an inner component: only there do the types get their names."""
        qualified = self._package.qualified(interface.name)
        prefix = f"{interface.name}."
        scope = {local: f"${source}.{name}" for local, (source, name) in interface.uses.items()}
        for definition in interface.types:
            scope[definition.name] = f"${prefix}{definition.name}'"
            self._lines.append(f"(type {scope[definition.name]} {_definition(definition, scope)})")
        for function in interface.functions:
            self._lines.append(self._lifted(f"{qualified}#{function.name}", prefix, function, scope))
        borrowed = self._borrowed(interface)
        inner = _inner(interface, borrowed)
        given = [f'(with "type-{source}-{of.name}" (type ${source}.{of.name}))' for source, of, _ in borrowed]
        given += [f'(with "type-{of.name}" (type {scope[of.name]}))' for of in interface.types]
        given += [f'(with "func-{function.name}" (func ${prefix}{function.name}))' for function in interface.functions]
        self._lines.append(f"(component ${prefix}shape {' '.join(inner)})")
        self._lines.append(f"(instance ${prefix}made (instantiate ${prefix}shape {' '.join(given)}))")
        self._lines.append(f'(export "{qualified}" (instance ${prefix}made))')

    def _lifted(self, core: str, prefix: str, function: Function, scope: dict[str, str]) -> str:
        if self._module.exports.get(core) != "func":
            raise ComponentError(f"the core module does not export {core}")
        post = f"cabi_post_{core}"
        after = f' (post-return (core func $main "{post}"))' if post in self._module.exports else ""
        return (
            f"(func ${prefix}{function.name} {_signature(function, scope)}"
            f' (canon lift (core func $main "{core}") {self._options()}{after}))'
        )

    def _borrowed(self, interface: Interface) -> list[_Borrowed]:
        """Types of other interfaces that this one uses, each after those it is made of."""
        found: dict[tuple[str, str], _Borrowed] = {}

        def borrow(source: str, name: str) -> str:
            place = self._interface(source)
            if name in place.uses:
                return borrow(*place.uses[name])
            definition = next((of for of in place.types if of.name == name), None)
            if definition is None:
                raise ComponentError(f"interface {source!r} has no type {name!r}")
            if (source, name) not in found:
                scope = {part: borrow(source, part) for part in _names(definition)}
                found[source, name] = (source, definition, scope)
            return f"$in-{source}.{name}"

        for source, name in interface.uses.values():
            borrow(source, name)
        return list(found.values())


_Borrowed = tuple[str, Definition, dict[str, str]]


def _names(definition: Definition) -> list[str]:
    """The named types that a definition mentions."""
    pending = [of for _, of in definition.cases]
    names = []
    while pending:
        of = pending.pop()
        if of is None:
            continue
        if of.name not in PRIMITIVES and of.name not in _CONSTRUCTORS:
            names.append(of.name)
        pending += of.of
    return names


def _shim(stand_ins: list[tuple[str, str, Signature]]) -> str:
    parts = [f'(table (export "table") {len(stand_ins)} {len(stand_ins)} funcref)']
    for index, (_, _, signature) in enumerate(stand_ins):
        gets = " ".join(f"local.get {number}" for number in range(len(signature.params)))
        call = f"{gets} i32.const {index} call_indirect {signature.text()}"
        parts.append(f'(func (export "{index}") {signature.text()} {call})')
    return f"(core module $shim {' '.join(parts)})"


def _inner(interface: Interface, borrowed: list[_Borrowed]) -> list[str]:
    """Types in as `type-...`, functions in as `func-NAME`, both out under their own names."""
    lines: list[str] = []
    for source, of, scope in borrowed:
        key = f"{source}.{of.name}"
        lines.append(f"(type $of-{key} {_definition(of, scope)})")
        lines.append(f'(import "type-{source}-{of.name}" (type $in-{key} (eq $of-{key})))')
    taken = {local: f"$in-{source}.{name}" for local, (source, name) in interface.uses.items()}
    for definition in interface.types:
        lines.append(f"(type $of-{definition.name} {_definition(definition, taken)})")
        lines.append(f'(import "type-{definition.name}" (type $in-{definition.name} (eq $of-{definition.name})))')
        taken[definition.name] = f"$in-{definition.name}"
    for function in interface.functions:
        lines.append(f'(import "func-{function.name}" (func $in-func-{function.name} {_signature(function, taken)}))')
    out: dict[str, str] = {}
    for local in interface.uses:
        lines.append(f'(export $out-{local} "{local}" (type {taken[local]}))')
        out[local] = f"$out-{local}"
    # Written again in terms of the exported names: an exported type may mention no other.
    for definition in interface.types:
        lines.append(f"(type $as-{definition.name} {_definition(definition, out)})")
        lines.append(f'(export $out-{definition.name} "{definition.name}" (type $as-{definition.name}))')
        out[definition.name] = f"$out-{definition.name}"
    for function in interface.functions:
        ascribed = f"(func {_signature(function, out)})"
        lines.append(f'(export "{function.name}" (func $in-func-{function.name}) {ascribed})')
    return lines


def _definition(definition: Definition, scope: dict[str, str] | None = None) -> str:
    if definition.kind == "type":
        return _type(definition.cases[0][1], scope)
    parts = []
    for name, of in definition.cases:
        if definition.kind == "record":
            parts.append(f'(field "{name}" {_type(of, scope)})')
        elif definition.kind == "variant":
            parts.append(f'(case "{name}" {_type(of, scope)})' if of else f'(case "{name}")')
        else:
            parts.append(f'"{name}"')
    return f"({definition.kind} {' '.join(parts)})"


def _function(function: Function) -> str:
    return f"(func {_signature(function)})"


def _signature(function: Function, scope: dict[str, str] | None = None) -> str:
    params = [f'(param "{name}" {_type(of, scope)})' for name, of in function.params]
    result = [f"(result {_type(function.result, scope)})"] if function.result else []
    return " ".join([*params, *result])


def _type(of: Type | None, scope: dict[str, str] | None = None) -> str:
    if of is None:
        raise ComponentError("the WIT names no type where one is needed")
    if of.name in PRIMITIVES:
        return of.name
    if of.name == "result":
        ok, error = (*of.of, None, None)[:2]
        parts = [_type(ok, scope)] if ok else []
        return f"(result {' '.join([*parts, *([f'(error {_type(error, scope)})'] if error else [])])})"
    if of.name in _CONSTRUCTORS:
        return f"({of.name} {' '.join(_type(part, scope) for part in of.of)})"
    if scope is None:
        return f"${of.name}"
    try:
        return scope[of.name]
    except KeyError:
        raise ComponentError(f"the WIT uses {of.name!r}, which the interface does not define") from None
