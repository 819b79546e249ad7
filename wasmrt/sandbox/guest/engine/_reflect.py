"""Read a compiled component's types from the engine.

Links and codecs are always built from the engine's types, never from those of another parser.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from wasmrt.core.errors import InvalidComponentError
from wasmrt.sandbox import component as wit
from wasmrt.sandbox.guest.engine import _ffi

MAX_TYPE_DEPTH = 32
MAX_TYPE_NODES = 20_000
"""The maximum number of parts of all types of a component, including the names in its interfaces."""
MAX_RESOURCES = 256
"""The maximum number of resources. It is limited because each use of a resource is compared with all resources. A WASI
guest has 30."""
_ITEM_INSTANCE, _ITEM_FUNC, _ITEM_RESOURCE, _ITEM_TYPE = 1, 3, 4, 6
_LIST, _RECORD, _TUPLE, _VARIANT, _ENUM, _OPTION, _RESULT, _FLAGS, _OWN, _BORROW = range(13, 23)


def reflect(engine: int, component: int) -> wit.ComponentType:
    """Return the imports and exports of a compiled component.

    Raises:
        InvalidComponentError: a type is nested too deeply, has too many parts, or is not supported.
    """
    pointer = _ffi.component_type(component)
    try:
        return _Reflection(engine).component(pointer)
    finally:
        _ffi.component_type_delete(pointer)


class _Reflection:
    def __init__(self, engine: int) -> None:
        self._engine = engine
        self._resources: list[tuple[int, str]] = []
        self._nodes = 0

    def component(self, pointer: int) -> wit.ComponentType:
        try:
            imports, import_functions, import_other = self._side(
                pointer, _ffi.component_type_import_count, _ffi.component_type_import_nth
            )
            exports, functions, export_other = self._side(
                pointer, _ffi.component_type_export_count, _ffi.component_type_export_nth
            )
        finally:
            for resource, _ in self._resources:
                _ffi.resource_type_delete(resource)
        return wit.ComponentType(imports, import_functions, import_other, exports, functions, export_other)

    def _side(self, pointer: int, count: Any, nth: Any) -> tuple[Any, Any, Any]:
        interfaces, functions, other = [], [], []
        for name, item in self._items(pointer, count, nth):
            if item.kind == _ITEM_INSTANCE:
                interfaces.append(self._interface(name, item.of))
            elif item.kind == _ITEM_FUNC:
                functions.append((name, self._read_function(item.of)))
            elif item.kind != _ITEM_TYPE:
                other.append(name)
        return tuple(interfaces), tuple(functions), tuple(other)

    def _items(self, pointer: int, count: Any, nth: Any) -> Iterator[tuple[str, _ffi.Item]]:
        for index in range(count(pointer, self._engine)):
            self._count()
            text, size, extern = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_void_p()
            nth(pointer, self._engine, index, *_refs(text, size, extern))
            item = _ffi.Item()
            _ffi.extern_type(extern, ctypes.addressof(item))
            try:
                yield _read_name(text, size), item
            finally:
                _ffi.item_delete(ctypes.addressof(item))
                _ffi.extern_delete(extern)

    def _interface(self, name: str, pointer: int) -> wit.InterfaceType:
        functions, resources = [], []
        for member, item in self._items(pointer, _ffi.instance_type_export_count, _ffi.instance_type_export_nth):
            if item.kind == _ITEM_FUNC:
                functions.append((member, self._read_function(item.of)))
            elif item.kind == _ITEM_RESOURCE and not self._find_resource(item.of):
                if len(self._resources) == MAX_RESOURCES:
                    raise InvalidComponentError(f"the component has over {MAX_RESOURCES} resources")
                resources.append(member)
                self._resources.append((_ffi.resource_type_clone(item.of), resource_key(name, member)))
        return wit.InterfaceType(name, tuple(functions), tuple(resources))

    def _find_resource(self, pointer: int) -> str:
        # An interface that imports a resource with `use` lists it again; the first interface that lists it defines it.
        return next((key for known, key in self._resources if _ffi.resource_type_equal(known, pointer)), "")

    def _read_function(self, pointer: int) -> wit.FuncType:
        params = []
        for index in range(_ffi.func_type_param_count(pointer)):
            text, size, kind = ctypes.c_void_p(), ctypes.c_size_t(), _ffi.TypeRef()
            _ffi.func_type_param_nth(pointer, index, *_refs(text, size, kind))
            params.append((_read_name(text, size), self._take(kind, 0)))
        result = _ffi.TypeRef()
        has_result = _ffi.func_type_result(pointer, ctypes.addressof(result))
        return wit.FuncType(
            tuple(params), self._take(result, 0) if has_result else None, bool(_ffi.func_type_async(pointer))
        )

    def _take(self, ref: _ffi.TypeRef, depth: int) -> wit.WitType:
        with _release_at_end(ref):
            return self._type(ref, depth)

    def _type(self, ref: _ffi.TypeRef, depth: int) -> wit.WitType:
        self._count()
        if depth > MAX_TYPE_DEPTH:
            raise InvalidComponentError(f"the component's types are nested over {MAX_TYPE_DEPTH} deep")
        kind, of = ref.kind, ref.of
        if kind < len(wit.PRIMITIVES):
            return wit.Primitive(wit.PRIMITIVES[kind])
        if kind in (_OWN, _BORROW):
            return wit.ResourceRef(self._find_resource(of), kind == _OWN)
        build: Callable[[int, int], wit.WitType] | None = {
            _LIST: self._list,
            _RECORD: self._record,
            _TUPLE: self._tuple,
            _VARIANT: self._variant,
            _ENUM: lambda p, _: wit.EnumType(_read_names(p, _ffi.enum_type_names_count, _ffi.enum_type_names_nth)),
            _FLAGS: lambda p, _: wit.FlagsType(_read_names(p, _ffi.flags_type_names_count, _ffi.flags_type_names_nth)),
            _OPTION: self._option,
            _RESULT: self._result,
        }.get(kind)
        if build is None:
            raise InvalidComponentError(
                "the component's types contain a future, a stream, a map or an error context",
                hint="build the tool without component-model async",
            )
        return build(of, depth + 1)

    def _count(self) -> None:
        self._nodes += 1
        if self._nodes > MAX_TYPE_NODES:
            raise InvalidComponentError(f"the component's types have over {MAX_TYPE_NODES} parts")

    def _list(self, pointer: int, depth: int) -> wit.WitType:
        element = _ffi.TypeRef()
        _ffi.list_type_element(pointer, ctypes.addressof(element))
        return wit.ListType(self._take(element, depth))

    def _option(self, pointer: int, depth: int) -> wit.WitType:
        inner = _ffi.TypeRef()
        _ffi.option_type_ty(pointer, ctypes.addressof(inner))
        return wit.OptionType(self._take(inner, depth))

    def _record(self, pointer: int, depth: int) -> wit.WitType:
        fields = []
        for index in range(_ffi.record_type_field_count(pointer)):
            text, size, kind = ctypes.c_void_p(), ctypes.c_size_t(), _ffi.TypeRef()
            _ffi.record_type_field_nth(pointer, index, *_refs(text, size, kind))
            fields.append((_read_name(text, size), self._take(kind, depth)))
        return wit.RecordType(tuple(fields))

    def _tuple(self, pointer: int, depth: int) -> wit.WitType:
        elements = []
        for index in range(_ffi.tuple_type_types_count(pointer)):
            kind = _ffi.TypeRef()
            _ffi.tuple_type_types_nth(pointer, index, ctypes.addressof(kind))
            elements.append(self._take(kind, depth))
        return wit.TupleType(tuple(elements))

    def _variant(self, pointer: int, depth: int) -> wit.WitType:
        cases = []
        for index in range(_ffi.variant_type_case_count(pointer)):
            text, size, has, kind = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_bool(), _ffi.TypeRef()
            _ffi.variant_type_case_nth(pointer, index, *_refs(text, size, has, kind))
            cases.append((_read_name(text, size), self._take(kind, depth) if has.value else None))
        return wit.VariantType(tuple(cases))

    def _result(self, pointer: int, depth: int) -> wit.WitType:
        sides = []
        for accessor in (_ffi.result_type_ok, _ffi.result_type_err):
            kind = _ffi.TypeRef()
            sides.append(self._take(kind, depth) if accessor(pointer, ctypes.addressof(kind)) else None)
        return wit.ResultType(*sides)


def resource_key(interface: str, resource: str) -> str:
    """Return a resource's key without version, such as `wasi:io/streams#output-stream`."""
    return f"{interface.partition('@')[0]}#{resource}"


@contextmanager
def _release_at_end(ref: _ffi.TypeRef) -> Iterator[None]:
    try:
        yield
    finally:
        _ffi.valtype_delete(ctypes.addressof(ref))


def _refs(*values: Any) -> tuple[int, ...]:
    return tuple(ctypes.addressof(value) for value in values)


def _read_name(text: ctypes.c_void_p, size: ctypes.c_size_t) -> str:
    return ctypes.string_at(text.value or 0, size.value).decode("utf-8") if size.value else ""


def _read_names(pointer: int, count: Any, nth: Any) -> tuple[str, ...]:
    names = []
    for index in range(count(pointer)):
        text, size = ctypes.c_void_p(), ctypes.c_size_t()
        nth(pointer, index, *_refs(text, size))
        names.append(_read_name(text, size))
    return tuple(names)
