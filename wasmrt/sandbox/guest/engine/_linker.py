"""Link a component's imports to host functions. All calls of host functions by guests pass through this module.

SECURITY: the trampoline catches every exception of a host function, including every `BaseException`, records it in the
call, and stops that guest. No exception propagates into another call or into the engine, and no guest sees a traceback.
The call's deadline is checked before and after every host function, because neither fuel nor epochs limit its time.
"""

from __future__ import annotations

import ctypes
import itertools
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from wasmrt.core.errors import InternalError, UnknownImportError
from wasmrt.core.limits import MAX_HOST_TEXT_BYTES
from wasmrt.sandbox.component import FuncType, InterfaceType
from wasmrt.sandbox.guest.engine import _ffi
from wasmrt.sandbox.guest.engine._arena import OwnedArena
from wasmrt.sandbox.guest.engine._engine import Component
from wasmrt.sandbox.guest.engine._lift import Lifter, calls, lifter
from wasmrt.sandbox.guest.engine._lower import Lowerer, lowerer, resource_number
from wasmrt.sandbox.guest.engine._reflect import resource_key
from wasmrt.sandbox.guest.engine._signals import resume, resume_quietly, suspend
from wasmrt.sandbox.guest.engine._traps import fault

HostFunction = Callable[..., Any]


class HostInterface(NamedTuple):
    """An interface that the host offers. Its functions take `(ctx, *values)` and return the value of the WIT result.

    `functions` contains methods and constructors too, under their WIT names, such as `[method]output-stream.write`,
    `[constructor]fields` or `[static]fields.from-list`. `resources` maps the name of each resource to its destructor,
    which takes `(ctx, rep)`. `signatures` contains the WIT types of some functions. A component that imports such a
    function with a different type is rejected before anything runs.
    """

    name: str
    functions: Mapping[str, HostFunction]
    resources: Mapping[str, Callable[[Any, int], None]] = MappingProxyType({})
    signatures: Mapping[str, str] = MappingProxyType({})


class Import(NamedTuple):
    function: HostFunction
    lifters: tuple[Lifter, ...]
    lower: Lowerer | None


_SIZE = _ffi.VALUE_SIZE
# Entries are removed when their linker is deleted. IDs are never reused, so a late callback finds no entry, and never
# the function of another component.
_imports: dict[int, Import] = {}
_destructors: dict[int, Callable[[Any, int], None]] = {}
_ids = itertools.count(1)


def _call_host_function(
    import_id: int, context: int, _type: int, args: int, count: int, results: int, _results: int
) -> int | None:
    call = calls.get(_ffi.context_get_data(context) or 0)
    if call is None:
        return _stop()
    try:
        call.enter_host()
        entry = _imports[import_id]
        values = [lift(args + index * _SIZE, context) for index, lift in enumerate(entry.lifters[:count])]
        suspended = suspend()
        try:
            answer = entry.function(call, *values)
        finally:
            if suspended:
                resume()
        call.leave_host()
        if entry.lower is not None:
            entry.lower(answer, results, OwnedArena(context))
        return None
    except BaseException as error:
        resume_quietly()
        call.fail(error)
        return _stop()


def _call_destructor(destructor_id: int, context: int, rep: int) -> int | None:
    call = calls.get(_ffi.context_get_data(context) or 0)
    if call is None:
        return _stop()
    try:
        _destructors[destructor_id](call, rep)
        return None
    except BaseException as error:
        call.fail(error)
        return _stop()


def _stop() -> int:
    return int(_ffi.error_new(b"stopped by the host"))


class Suspended:
    """A guest on a fiber that waits for the host. `pending` is the call of a host function that the guest waits for.

    The engine polls `flag`, which is an empty C string until the host function has returned. `dropped` has the
    destructors to run, with their arguments.
    """

    __slots__ = ("dropped", "flag", "flag_at", "pending")

    def __init__(self) -> None:
        self.flag = ctypes.create_string_buffer(2)
        self.flag_at = ctypes.addressof(self.flag)
        self.pending: tuple[Import, list[Any], int] | None = None
        self.dropped: list[tuple[Callable[[Any, int], None], int]] = []


suspended: dict[int, Suspended] = {}
"""The guests that run on fibers, by the number in the data slot of their store."""
_IS_SET = ctypes.cast(ctypes.CDLL(None).strlen, ctypes.c_void_p).value


def _note(
    import_id: int, context: int, _type: int, args: int, count: int, results: int, _results: int, error_at: int,
    continuation_at: int,
) -> None:  # fmt: skip
    """Note a call of a host function, to make it later: the fiber's stack is too small for the function."""
    handle = _ffi.context_get_data(context) or 0
    call = calls.get(handle)
    if call is None:
        _pointer_at(error_at).value = _stop()
        return
    try:
        call.enter_host()
        entry = _imports[import_id]
        values = [lift(args + index * _SIZE, context) for index, lift in enumerate(entry.lifters[:count])]
        guest = suspended[handle]
        guest.pending = (entry, values, results)
        guest.flag[0] = b"\0"
        continuation = _ffi.Continuation.from_address(continuation_at)
        continuation.callback, continuation.env = _IS_SET, guest.flag_at
    except BaseException as error:
        call.fail(error)
        _pointer_at(error_at).value = _stop()


def _note_drop(destructor_id: int, context: int, rep: int) -> int | None:
    guest = suspended.get(_ffi.context_get_data(context) or 0)
    if guest is None:
        return _stop()
    guest.dropped.append((_destructors[destructor_id], rep))
    return None


_pointer_at = ctypes.c_uint64.from_address
_NOTE = _ffi.ASYNC_FUNC_CALLBACK(_note)
_NOTE_DROP = _ffi.RESOURCE_CALLBACK(_note_drop)
_TRAMPOLINE = _ffi.FUNC_CALLBACK(_call_host_function)
_DESTROY = _ffi.RESOURCE_CALLBACK(_call_destructor)


class Linker:
    """Binds a component's imports to host functions. With `fibers`, guests run on fibers: see `_fiber.py`.

    Raises:
        UnknownImportError: the component imports something that `interfaces` does not contain.
    """

    def __init__(self, component: Component, interfaces: Sequence[HostInterface], *, fibers: bool = False) -> None:
        self.component = component
        self.fibers = fibers
        pairs = resolve(component.type.imports, interfaces)
        _refuse_loose_imports(component)
        self._ids: list[int] = []
        self.pointer: int = _ffi.linker_new(component.engine.pointer)
        weakref.finalize(self, _unlink, self.pointer, self._ids).atexit = False
        root = _ffi.linker_root(self.pointer)
        try:
            for wanted, offered in pairs:
                self._interface(root, wanted, offered)
        finally:
            _ffi.linker_instance_delete(root)

    def _interface(self, root: int, wanted: InterfaceType, offered: HostInterface) -> None:
        instance = ctypes.c_void_p()
        name = wanted.name.encode()
        _check(_ffi.linker_add_instance(root, name, len(name), ctypes.addressof(instance)))
        try:
            for resource in wanted.resources:
                self._resource(instance, wanted.name, resource, offered.resources[resource])
            for function, kind in wanted.functions:
                self._function(instance, function, kind, offered.functions[function])
        finally:
            _ffi.linker_instance_delete(instance)

    def _function(self, instance: ctypes.c_void_p, name: str, kind: FuncType, function: HostFunction) -> None:
        key = next(_ids)
        _imports[key] = Import(
            function,
            tuple(lifter(param, max_text_bytes=MAX_HOST_TEXT_BYTES) for _, param in kind.params),
            None if kind.result is None else lowerer(kind.result),
        )
        self._ids.append(key)
        encoded = name.encode()
        if self.fibers:
            _check(_ffi.linker_add_func_async(instance, encoded, len(encoded), _NOTE, key, None))
        else:
            _check(_ffi.linker_add_func(instance, encoded, len(encoded), _TRAMPOLINE, key, None))

    def _resource(self, instance: ctypes.c_void_p, interface: str, name: str, drop: Callable[[Any, int], None]) -> None:
        key = next(_ids)
        _destructors[key] = drop
        self._ids.append(key)
        encoded = name.encode()
        destroy = _NOTE_DROP if self.fibers else _DESTROY
        kind = _ffi.resource_type_new_host(resource_number(resource_key(interface, name)))
        try:
            _check(_ffi.linker_add_resource(instance, encoded, len(encoded), kind, destroy, key, None))
        finally:
            _ffi.resource_type_delete(kind)


def resolve(
    imports: Sequence[InterfaceType], interfaces: Sequence[HostInterface]
) -> list[tuple[InterfaceType, HostInterface]]:
    """Pair every imported interface with the host's interface of a compatible version.

    Raises:
        UnknownImportError: the host lacks an imported interface or function, or the function has a different type.
    """
    offered = {get_compatible_name(interface.name): interface for interface in interfaces}
    pairs, missing = [], []
    for wanted in imports:
        host = offered.get(get_compatible_name(wanted.name))
        if host is None:
            if wanted.functions or wanted.resources:
                missing.append(wanted.name)
            continue
        missing += [f"{wanted.name}#{name}" for name, _ in wanted.functions if name not in host.functions]
        missing += [f"{wanted.name}#{name}" for name in wanted.resources if name not in host.resources]
        for name, kind in wanted.functions:
            expected = host.signatures.get(name)
            if expected is not None and expected != str(kind):
                raise UnknownImportError(
                    f"the component imports {wanted.name}#{name} with a type that differs from the host's",
                    hint=f"the type should be {name}: {expected}",
                )
        pairs.append((wanted, host))
    if missing:
        shown = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        raise UnknownImportError(
            f"the component imports {shown}, which this host does not have",
            hint="build it against wasmrt:tool, near:agent or wasi 0.2",
        )
    return pairs


def get_compatible_name(name: str) -> str:
    """Return the part of an interface's name that two compatible versions have in common.

    As in wasmtime, that is the package, the interface and the major version. The minor version is included if the major
    version is 0, and the patch version if both are 0.
    """
    base, at, version = name.partition("@")
    if not at:
        return base
    major, _, rest = version.partition(".")
    minor, _, patch = rest.partition(".")
    if major != "0":
        return f"{base}@{major}"
    return f"{base}@0.{minor}" if minor != "0" else f"{base}@0.0.{patch}"


def _refuse_loose_imports(component: Component) -> None:
    loose = [name for name, _ in component.type.import_functions] + list(component.type.import_other)
    if loose:
        raise UnknownImportError(
            f"the component imports {loose[0]} at its top level, but only interfaces can be granted",
            hint="put the imported functions into a WIT interface that the host has",
        )


def _check(error: int | None) -> None:
    if error:
        raise InternalError("the host's functions could not be linked") from fault(error)


def _unlink(pointer: int, ids: list[int]) -> None:
    # The garbage collector may call this function on any thread, so it takes no lock. Dict operations are atomic.
    _ffi.linker_delete(pointer)
    for key in ids:
        _imports.pop(key, None)
        _destructors.pop(key, None)
