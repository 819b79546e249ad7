"""A store for one call. Its limits, fuel and epoch deadline are set before the first instruction of the guest runs."""

from __future__ import annotations

import ctypes
import itertools
import time
from types import TracebackType
from typing import Any

from wasmrt.core.errors import InternalError
from wasmrt.sandbox.component import FuncType, has_unbounded_lift
from wasmrt.sandbox.guest.call import GuestBudgets
from wasmrt.sandbox.guest.engine import _ffi, _fiber
from wasmrt.sandbox.guest.engine._arena import CallArena
from wasmrt.sandbox.guest.engine._lift import Lifter, calls, lifter
from wasmrt.sandbox.guest.engine._linker import Linker, Suspended, suspended
from wasmrt.sandbox.guest.engine._lower import Lowerer, LowerError, lowerer
from wasmrt.sandbox.guest.engine._signals import defer, deliver, restore
from wasmrt.sandbox.guest.engine._traps import fault

_SIZE = _ffi.VALUE_SIZE
_FUEL_OFF = 2**63
_EMPTY = bytes(_SIZE)
_QUICK_SECONDS = 0.002
_now = time.monotonic
_pointer = ctypes.c_void_p
_handles = itertools.count(1)
_arenas: list[CallArena] = []  # each is used by one call at a time; list.pop and list.append are atomic


class StoreLimits:
    """The limits of a store. `memory_bytes` limits each linear memory, because the engine measures them separately."""

    __slots__ = ("fuel", "native")

    def __init__(
        self, *, memory_bytes: int, memories: int, table_elements: int, tables: int, instances: int, fuel: int | None
    ) -> None:
        self.fuel = fuel
        self.native = tuple(map(ctypes.c_int64, (memory_bytes, table_elements, instances, tables, memories)))


class Export:
    """An exported function of a component. Its index and the codecs of its values are looked up only once."""

    def __init__(self, linker: Linker, path: tuple[str, ...], kind: FuncType) -> None:
        self.path = path
        self.type = kind
        self._component = linker.component  # a reference that keeps the component alive: the index points into it
        self.index = _export_index(linker.component.pointer, path)
        self.lowerers: tuple[Lowerer, ...] = tuple(lowerer(param) for _, param in kind.params)
        self.lift: Lifter | None = None if kind.result is None else lifter(kind.result)
        self.large = kind.result is not None and has_unbounded_lift(kind.result)
        """True if the engine may need a long time to drop a result."""


def _export_index(component: int, path: tuple[str, ...]) -> int:
    parent: int | None = None
    for name in path:
        encoded = name.encode()
        parent = _ffi.component_get_export_index(component, parent, encoded, len(encoded))
        if not parent:
            raise InternalError(f"the component has no export {'/'.join(path)}")
    return parent or 0


def _on_epoch(_context: int, handle: int, delta: Any, kind: Any) -> int | None:
    call = calls.get(handle or 0)
    if call is None:
        return int(_ffi.error_new(b"interrupted by the host"))
    try:
        deliver()
        error = call.interruption()
    except BaseException as raised:
        error = raised
    if error is None:
        delta[0] = 1
        kind[0] = 0  # continue until the next tick
        return None
    call.fail(error)
    return int(_ffi.error_new(b"interrupted by the host"))


_ON_EPOCH = _ffi.EPOCH_CALLBACK(_on_epoch)
_ON_EPOCH_AT = ctypes.cast(_ON_EPOCH, ctypes.c_void_p).value


class Sandbox:
    """A fresh store for one instance of a component. Used by one thread at a time."""

    __slots__ = (
        "_arena",
        "_call",
        "_context",
        "_deferring",
        "_fuel",
        "_guest",
        "_handle",
        "_linker",
        "_made",
        "_spent",
        "_store",
        "_ticker",
        "closed",
        "started",
    )

    def __init__(self, linker: Linker, limits: StoreLimits, call: GuestBudgets) -> None:
        self._deferring = defer()  # this comes first, so that no signal can interrupt the code before the cleanup
        engine = linker.component.engine
        self._linker = linker
        self._handle = handle = next(_handles)
        self._fuel = limits.fuel
        self._spent = 0
        self.started = False
        self.closed = False
        self._made = _now()
        calls[handle] = call
        self._call = call
        self._guest: Suspended | None = None
        if linker.fibers:
            self._guest = suspended[handle] = Suspended()
        self._ticker = engine.ticker
        self._ticker.enter()
        self._arena = _arenas.pop() if _arenas else CallArena()
        self._store: int = _ffi.store_new(engine.pointer, handle, None)
        self._context: int = _ffi.store_context(self._store)
        _ffi.store_limiter(_pointer(self._store), *limits.native)
        # Instantiation already runs guest code (start functions and realloc), so all limits are set before it.
        if engine.config.consume_fuel:
            _ffi.context_set_fuel(self._context, _FUEL_OFF if limits.fuel is None else limits.fuel)
        _ffi.context_set_epoch_deadline(self._context, 1)
        if linker.fibers:
            _ffi.store_epoch_yield(self._context, 1)
        else:
            _ffi.store_epoch_callback(self._store, _ON_EPOCH_AT, handle, None)

    def instantiate(self) -> None:
        """Instantiate the component. This runs its start functions.

        Raises:
            EngineFault: the instantiation trapped, was stopped, or exceeded the store's limits.
        """
        linker = self._linker
        at, component = self._arena.instance, linker.component.pointer
        if self._guest is None:
            error = _ffi.linker_instantiate(linker.pointer, self._context, component, at)
        else:
            found = ctypes.c_uint64()
            error_at = ctypes.addressof(found)
            self._run(_ffi.linker_instantiate_async(linker.pointer, self._context, component, at, error_at))
            error = found.value
        if error:
            raise fault(error)
        self.started = True
        linker.component.engine.count_started_guest()

    def call(self, export: Export, *values: Any) -> Any:
        """Call an export with `values`, and return its result, both as Python values.

        The export's post-return function is not run: it could only free memory, and the store is dropped anyway.

        Raises:
            EngineFault: the guest trapped or was stopped.
            LowerError: a value does not fit the type of its parameter, or the number of values is wrong.
        """
        if not self.started or self.closed:
            # Without this check, the library would abort the process.
            raise InternalError("the sandbox has no instance to call")
        lowerers = export.lowerers
        count = len(values)
        if count != len(lowerers):
            raise LowerError(f"the export takes {len(lowerers)} values, not {count}")
        context, arena = self._context, self._arena
        arena.reset(context)
        func = arena.func
        if not _ffi.instance_get_func(arena.instance, context, export.index, func):
            raise InternalError(f"the instance has no export {'/'.join(export.path)}")
        at = args = arena.take((count + 1) * _SIZE)
        for lower, value in zip(lowerers, values, strict=True):
            lower(value, at, arena)
            at += _SIZE
        if export.lift is None:
            self._invoke(func, args, count, None, 0)
            return None
        # The result's place comes after the arguments. The engine drops the old value there, so the place is cleared.
        arena.put(at, _EMPTY)
        self._invoke(func, args, count, at, 1)
        try:
            return export.lift(at, context)
        finally:
            (_ffi.val_delete_slow if export.large else _ffi.val_delete)(at)

    def _invoke(self, func: int, args: int, count: int, results: int | None, result_count: int) -> None:
        if self._guest is None:
            error = _ffi.func_call(func, self._context, args, count, results, result_count)
        else:
            found = ctypes.c_uint64()
            error_at = ctypes.addressof(found)
            self._run(_ffi.func_call_async(func, self._context, args, count, results, result_count, error_at))
            error = found.value
        if error:
            raise fault(error)

    def _run(self, future: int) -> None:
        assert self._guest is not None
        _fiber.run(future, self._guest, self._call, self._context)

    @property
    def fuel_used(self) -> int:
        """The fuel used since the instantiation began, or 0 if fuel is not metered."""
        if self._fuel is None or self.closed:
            return self._spent
        left = self._arena.number
        error = _ffi.context_get_fuel(self._context, left)
        if error:
            raise InternalError("the engine did not return the remaining fuel") from fault(error)
        return self._fuel - int(left.value)

    def finish(self) -> None:
        """End the guest: none of its code runs afterwards. Calling this twice is safe.

        The caller must still call `drop`. Signals stay deferred until `release_signals`.
        """
        if self.closed:
            return
        self._spent = self.fuel_used
        self.closed = True
        calls.pop(self._handle, None)
        suspended.pop(self._handle, None)
        self._ticker.leave()

    def release_signals(self) -> None:
        """Stop deferring signals. Call this after `finish`, on the thread that created the sandbox.

        Calling this twice is safe.

        Raises:
            BaseException: any exception that the handler of a deferred signal raised.
        """
        if self._deferring:
            self._deferring = False
            restore()

    def drop(self) -> None:
        """Drop the store and its content. Call this after `finish`, on any thread. Calling this twice is safe."""
        store, self._store = self._store, 0
        if not store:
            return
        self.closed = True
        # If the guest ran too briefly to use much memory, its store is dropped in microseconds. Releasing the GIL to
        # another thread would take longer.
        quick = _now() - self._made < _QUICK_SECONDS
        (_ffi.store_delete_quick if quick else _ffi.store_delete)(store)
        _arenas.append(self._arena)
        if self.started:
            self._linker.component.engine.count_ended_guest()

    def close(self) -> None:
        """Call `finish`, `drop` and `release_signals`.

        Raises:
            BaseException: any exception that the handler of a deferred signal raised.
        """
        try:
            self.finish()
        finally:
            self.drop()
            self.release_signals()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
