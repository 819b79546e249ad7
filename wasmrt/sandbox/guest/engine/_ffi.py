"""The C functions and layouts of wasmtime that this package uses.

The Python classes of wasmtime's wheel rebuild type objects on every call, and importing them takes longer than a run of
a cached tool. This module therefore loads the wheel's shared library without them. It resolves every name at import, so
a wheel that lacks a function, or whose major version was not audited, causes an error instead of a crash.

SECURITY: the C layout is defined only in this file. Functions that may run guest code or take long release the GIL
(`CDLL`). Short accessors hold the GIL (`PyDLL`), which is faster and avoids switching threads.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from ctypes import CFUNCTYPE, POINTER, c_bool, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from wasmrt.core.errors import ConfigurationError

SUPPORTED_MAJOR = 50
_LIBRARY = {"linux": "_libwasmtime.so", "darwin": "_libwasmtime.dylib", "win32": "_wasmtime.dll"}
_MACHINE = {"AMD64": "x86_64", "arm64": "aarch64", "ARM64": "aarch64"}


def _locate() -> tuple[Path, str]:
    spec = importlib.util.find_spec("wasmtime")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigurationError("the wasmtime package is not installed", hint="pip install wasmtime")
    package = Path(spec.submodule_search_locations[0])
    machine = _get_machine()
    machine = _MACHINE.get(machine, machine)
    library = package / f"{sys.platform}-{machine}" / _LIBRARY.get(sys.platform, "")
    if not library.is_file():
        raise ConfigurationError(f"wasmtime has no library for {sys.platform} on {machine}")
    return library, _find_installed_version(package)


def _get_machine() -> str:
    if hasattr(os, "uname"):
        return os.uname().machine
    import platform  # slow to import, and only needed without os.uname

    return platform.machine()


def _find_installed_version(package: Path) -> str:
    # The metadata folder's name contains the version. Importing importlib.metadata takes longer than all other imports.
    found = sorted(p.name for p in package.parent.glob("wasmtime-*.dist-info"))
    if len(found) == 1:
        return found[0].removeprefix("wasmtime-").removesuffix(".dist-info")
    from importlib.metadata import version

    return version("wasmtime")


_path, VERSION = _locate()
if VERSION.split(".")[0] != str(SUPPORTED_MAJOR):
    raise ConfigurationError(
        f"wasmtime {VERSION} was not audited for wasmrt",
        hint=f"install wasmtime>={SUPPORTED_MAJOR},<{SUPPORTED_MAJOR + 1}",
    )
_blocking = ctypes.CDLL(str(_path))
_quick = ctypes.PyDLL(str(_path))


def _bind_function(library: ctypes.CDLL, name: str, result: Any, *arguments: Any) -> Any:
    try:
        function = library[name]
    except AttributeError as error:
        raise ConfigurationError(f"wasmtime {VERSION} has no {name}") from error
    function.restype = result
    function.argtypes = list(arguments)
    return function


P, N, B = c_void_p, c_size_t, c_bool

# The sizes of C structures. A value has 32 bytes: its kind (u8) at offset 0, and its payload at offset 8. A record
# entry has 48 bytes: a name (size and pointer), then a value.
VALUE_SIZE = 32
ENTRY_SIZE = 48
NAME_SIZE = ENTRY_SIZE - VALUE_SIZE
PAYLOAD = 8
"""The offset of a value's payload, in bytes."""

# The kinds of values, as defined in wasmtime's C header component/val.h.
KIND = {
    "bool": 0, "s8": 1, "u8": 2, "s16": 3, "u16": 4, "s32": 5, "u32": 6, "s64": 7, "u64": 8, "f32": 9, "f64": 10,
    "char": 11, "string": 12,
}  # fmt: skip
"""The constant WASMTIME_COMPONENT_<kind> of each primitive type."""
LIST, RECORD, TUPLE, VARIANT, ENUM, OPTION, RESULT, FLAGS, RESOURCE = range(13, 22)
FORMAT = {
    "bool": ("?", 1), "s8": ("b", 1), "u8": ("B", 1), "s16": ("h", 2), "u16": ("H", 2), "s32": ("i", 4),
    "u32": ("I", 4), "s64": ("q", 8), "u64": ("Q", 8), "f32": ("f", 4), "f64": ("d", 8),
}  # fmt: skip
"""For each type of number: its format character in `struct` and `memoryview`, and its width in bytes."""


class Vector(ctypes.Structure):
    """The C structure of wasm_byte_vec_t and of every val*_t vector: a size and a pointer."""

    _fields_ = [("size", c_size_t), ("data", c_void_p)]


class Instance(ctypes.Structure):
    _fields_ = [("store_id", c_uint64), ("private", c_uint32)]


class _FuncHead(ctypes.Structure):
    _fields_ = [("store_id", c_uint64), ("private1", c_uint32)]


class Func(ctypes.Structure):
    """The C structure wasmtime_component_func_t. It has 32 bytes: its first two fields are a padded inner structure."""

    _fields_ = [("head", _FuncHead), ("private2", c_uint32), ("private3", c_void_p)]


class TypeRef(ctypes.Structure):
    """The C structure wasmtime_component_valtype_t: a kind and, for compound kinds, a pointer."""

    _fields_ = [("kind", c_uint8), ("of", c_void_p)]


class Item(ctypes.Structure):
    """The C structure wasmtime_component_item_t: a kind, and either a pointer or an embedded `TypeRef`."""

    _fields_ = [("kind", c_uint8), ("of", c_void_p), ("of_type", c_void_p)]


# The types of callbacks. A callback returns a pointer to a wasmtime_error_t, or NULL.
FUNC_CALLBACK = CFUNCTYPE(P, P, P, P, P, N, P, N)
RESOURCE_CALLBACK = CFUNCTYPE(P, P, P, c_uint32)
EPOCH_CALLBACK = CFUNCTYPE(P, P, P, POINTER(c_uint64), POINTER(c_uint8))

ASYNC_FUNC_CALLBACK = CFUNCTYPE(None, P, P, P, P, N, P, N, P, P)


class Continuation(ctypes.Structure):
    """The C structure wasmtime_async_continuation_t: the engine polls `callback(env)` until it returns true."""

    _fields_ = [("callback", c_void_p), ("env", c_void_p), ("finalizer", c_void_p)]


# Errors and traps.
error_new = _bind_function(_quick, "wasmtime_error_new", P, ctypes.c_char_p)
error_delete = _bind_function(_quick, "wasmtime_error_delete", None, P)
error_message = _bind_function(_quick, "wasmtime_error_message", None, P, P)
trap_code = _bind_function(_quick, "wasmtime_trap_code", B, P, P)
byte_vec_delete = _bind_function(_quick, "wasm_byte_vec_delete", None, P)
byte_vec_new = _bind_function(_quick, "wasm_byte_vec_new", None, P, N, P)

# Configuration and engine.
config_new = _bind_function(_quick, "wasm_config_new", P)
engine_new_with_config = _bind_function(_blocking, "wasm_engine_new_with_config", P, P)
engine_delete = _bind_function(_blocking, "wasm_engine_delete", None, P)
engine_increment_epoch = _bind_function(_quick, "wasmtime_engine_increment_epoch", None, P)
pooling_new = _bind_function(_quick, "wasmtime_pooling_allocation_config_new", P)
pooling_delete = _bind_function(_quick, "wasmtime_pooling_allocation_config_delete", None, P)
pooling_strategy_set = _bind_function(_quick, "wasmtime_pooling_allocation_strategy_set", None, P, P)


def config_setter(name: str, kind: Any) -> Any:
    """Return the setter `wasmtime_config_<name>_set` for a value of the ctypes type `kind`."""
    return _bind_function(_quick, f"wasmtime_config_{name}_set", None, P, kind)


def pooling_setter(name: str) -> Any:
    return _bind_function(_quick, f"wasmtime_pooling_allocation_config_{name}_set", None, P, N)


# Components.
component_new = _bind_function(_blocking, "wasmtime_component_new", P, P, c_void_p, N, P)
component_serialize = _bind_function(_blocking, "wasmtime_component_serialize", P, P, P)
component_deserialize = _bind_function(_blocking, "wasmtime_component_deserialize", P, P, c_void_p, N, P)
component_deserialize_file = _bind_function(_blocking, "wasmtime_component_deserialize_file", P, P, ctypes.c_char_p, P)
wat2wasm = _bind_function(_blocking, "wasmtime_wat2wasm", P, ctypes.c_char_p, N, P)
component_delete = _bind_function(_blocking, "wasmtime_component_delete", None, P)
component_type = _bind_function(_quick, "wasmtime_component_type", P, P)
component_get_export_index = _bind_function(_quick, "wasmtime_component_get_export_index", P, P, P, ctypes.c_char_p, N)

# Type reflection.
component_type_delete = _bind_function(_quick, "wasmtime_component_type_delete", None, P)
component_type_import_count = _bind_function(_quick, "wasmtime_component_type_import_count", N, P, P)
component_type_import_nth = _bind_function(_quick, "wasmtime_component_type_import_nth", B, P, P, N, P, P, P)
component_type_export_count = _bind_function(_quick, "wasmtime_component_type_export_count", N, P, P)
component_type_export_nth = _bind_function(_quick, "wasmtime_component_type_export_nth", B, P, P, N, P, P, P)
instance_type_export_count = _bind_function(_quick, "wasmtime_component_instance_type_export_count", N, P, P)
instance_type_export_nth = _bind_function(_quick, "wasmtime_component_instance_type_export_nth", B, P, P, N, P, P, P)
extern_type = _bind_function(_quick, "wasmtime_component_extern_type", None, P, P)
extern_delete = _bind_function(_quick, "wasmtime_component_extern_delete", None, P)
item_delete = _bind_function(_quick, "wasmtime_component_item_delete", None, P)
valtype_delete = _bind_function(_quick, "wasmtime_component_valtype_delete", None, P)
func_type_async = _bind_function(_quick, "wasmtime_component_func_type_async", B, P)
func_type_param_count = _bind_function(_quick, "wasmtime_component_func_type_param_count", N, P)
func_type_param_nth = _bind_function(_quick, "wasmtime_component_func_type_param_nth", B, P, N, P, P, P)
func_type_result = _bind_function(_quick, "wasmtime_component_func_type_result", B, P, P)
list_type_element = _bind_function(_quick, "wasmtime_component_list_type_element", None, P, P)
record_type_field_count = _bind_function(_quick, "wasmtime_component_record_type_field_count", N, P)
record_type_field_nth = _bind_function(_quick, "wasmtime_component_record_type_field_nth", B, P, N, P, P, P)
tuple_type_types_count = _bind_function(_quick, "wasmtime_component_tuple_type_types_count", N, P)
tuple_type_types_nth = _bind_function(_quick, "wasmtime_component_tuple_type_types_nth", B, P, N, P)
variant_type_case_count = _bind_function(_quick, "wasmtime_component_variant_type_case_count", N, P)
variant_type_case_nth = _bind_function(_quick, "wasmtime_component_variant_type_case_nth", B, P, N, P, P, P, P)
enum_type_names_count = _bind_function(_quick, "wasmtime_component_enum_type_names_count", N, P)
enum_type_names_nth = _bind_function(_quick, "wasmtime_component_enum_type_names_nth", B, P, N, P, P)
flags_type_names_count = _bind_function(_quick, "wasmtime_component_flags_type_names_count", N, P)
flags_type_names_nth = _bind_function(_quick, "wasmtime_component_flags_type_names_nth", B, P, N, P, P)
option_type_ty = _bind_function(_quick, "wasmtime_component_option_type_ty", None, P, P)
result_type_ok = _bind_function(_quick, "wasmtime_component_result_type_ok", B, P, P)
result_type_err = _bind_function(_quick, "wasmtime_component_result_type_err", B, P, P)
resource_type_new_host = _bind_function(_quick, "wasmtime_component_resource_type_new_host", P, c_uint32)
resource_type_clone = _bind_function(_quick, "wasmtime_component_resource_type_clone", P, P)
resource_type_equal = _bind_function(_quick, "wasmtime_component_resource_type_equal", B, P, P)
resource_type_delete = _bind_function(_quick, "wasmtime_component_resource_type_delete", None, P)

# Stores.
store_new = _bind_function(_quick, "wasmtime_store_new", P, P, P, P)
store_context = _bind_function(_quick, "wasmtime_store_context", P, P)
# This function has no argument types: its arguments are ctypes objects, which are created once for each tool.
store_limiter = _quick["wasmtime_store_limiter"]
store_limiter.restype = None
store_delete = _bind_function(_blocking, "wasmtime_store_delete", None, P)
store_delete_quick = _bind_function(_quick, "wasmtime_store_delete", None, P)
store_epoch_callback = _bind_function(_quick, "wasmtime_store_epoch_deadline_callback", None, P, P, P, P)
context_get_data = _bind_function(_quick, "wasmtime_context_get_data", P, P)
context_set_fuel = _bind_function(_quick, "wasmtime_context_set_fuel", P, P, c_uint64)
context_get_fuel = _bind_function(_quick, "wasmtime_context_get_fuel", P, P, POINTER(c_uint64))
context_set_epoch_deadline = _bind_function(_quick, "wasmtime_context_set_epoch_deadline", None, P, c_uint64)

# Linking and calling.
linker_new = _bind_function(_quick, "wasmtime_component_linker_new", P, P)
linker_delete = _bind_function(_quick, "wasmtime_component_linker_delete", None, P)
linker_root = _bind_function(_quick, "wasmtime_component_linker_root", P, P)
linker_instantiate = _bind_function(_blocking, "wasmtime_component_linker_instantiate", P, P, P, P, P)
linker_instance_delete = _bind_function(_quick, "wasmtime_component_linker_instance_delete", None, P)
linker_add_instance = _bind_function(
    _quick, "wasmtime_component_linker_instance_add_instance", P, P, ctypes.c_char_p, N, P
)
linker_add_func = _bind_function(
    _quick, "wasmtime_component_linker_instance_add_func", P, P, ctypes.c_char_p, N, FUNC_CALLBACK, P, P
)
linker_add_resource = _bind_function(
    _quick,
    "wasmtime_component_linker_instance_add_resource",
    P, P, ctypes.c_char_p, N, P, RESOURCE_CALLBACK, P, P,
)  # fmt: skip
instance_get_func = _bind_function(_quick, "wasmtime_component_instance_get_func", B, P, P, P, P)
func_call = _bind_function(_blocking, "wasmtime_component_func_call", P, P, P, P, N, P, N)

# Calls on a fiber: a future that is polled until it is complete.
store_epoch_yield = _bind_function(_quick, "wasmtime_context_epoch_deadline_async_yield_and_update", None, P, c_uint64)
linker_add_func_async = _bind_function(
    _quick, "wasmtime_component_linker_instance_add_func_async", P, P, ctypes.c_char_p, N, ASYNC_FUNC_CALLBACK, P, P
)
linker_instantiate_async = _bind_function(_quick, "wasmtime_component_linker_instantiate_async", P, P, P, P, P, P)
func_call_async = _bind_function(_quick, "wasmtime_component_func_call_async", P, P, P, P, N, P, N, P)
future_poll = _bind_function(_blocking, "wasmtime_call_future_poll", B, P)
future_delete = _bind_function(_quick, "wasmtime_call_future_delete", None, P)

# Values.
vallist_new_uninit = _bind_function(_quick, "wasmtime_component_vallist_new_uninit", None, P, N)
valrecord_new_uninit = _bind_function(_quick, "wasmtime_component_valrecord_new_uninit", None, P, N)
valflags_new_uninit = _bind_function(_quick, "wasmtime_component_valflags_new_uninit", None, P, N)
val_new = _bind_function(_quick, "wasmtime_component_val_new", P, P)
val_delete = _bind_function(_quick, "wasmtime_component_val_delete", None, P)
val_delete_slow = _bind_function(_blocking, "wasmtime_component_val_delete", None, P)
resource_host_new = _bind_function(_quick, "wasmtime_component_resource_host_new", P, B, c_uint32, c_uint32)
resource_host_rep = _bind_function(_quick, "wasmtime_component_resource_host_rep", c_uint32, P)
resource_host_delete = _bind_function(_quick, "wasmtime_component_resource_host_delete", None, P)
resource_any_to_host = _bind_function(_quick, "wasmtime_component_resource_any_to_host", P, P, P, P)
resource_host_to_any = _bind_function(_quick, "wasmtime_component_resource_host_to_any", P, P, P, P)
