"""One store for one call: limits, fuel and epoch armed before the first guest instruction, dropped at the end."""

from __future__ import annotations

import ctypes
import itertools
from types import TracebackType
from typing import Any

from wasmrt.engine import _ffi
from wasmrt.engine._inflight import GuestCall, calls
from wasmrt.engine._lift import Lifter, lifter
from wasmrt.engine._linker import Linker
from wasmrt.engine._lower import CallArena, Lowerer, LowerError, lowerer
from wasmrt.engine._signals import deliver, shielded
from wasmrt.engine._traps import EngineFault, fault
from wasmrt.engine._types import FuncType
from wasmrt.errors import InternalError

_SIZE = _ffi.VALUE_SIZE
_FUEL_OFF = 2**63
_EMPTY = bytes(_SIZE)
_FUNC_SIZE = ctypes.sizeof(_ffi.Func)
_handles = itertools.count(1)
_arenas: list[CallArena] = []  # used by one call at a time; taking and giving back are atomic


class StoreLimits:
    """The store's own limits; memory is per linear memory, because that is what the engine counts."""

    __slots__ = ("fuel", "native")

    def __init__(
        self,
        *,
        memory_bytes: int,
        memories: int,
        table_elements: int,
        tables: int,
        instances: int,
        fuel: int | None,
    ) -> None:
        self.fuel = fuel
        self.native = tuple(map(ctypes.c_int64, (memory_bytes, table_elements, instances, tables, memories)))


class Export:
    """An exported function of one component, resolved once: where it is and how its values are made."""

    def __init__(self, linker: Linker, path: tuple[str, ...], kind: FuncType) -> None:
        self.path = path
        self.type = kind
        self._component = linker.component  # export indexes point into it
        self.index = _export_index(linker.component.pointer, path)
        self.lowerers: tuple[Lowerer, ...] = tuple(lowerer(param) for _, param in kind.params)
        self.lift: Lifter | None = None if kind.result is None else lifter(kind.result)


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
        kind[0] = 0  # continue, look again at the next tick
        return None
    call.fail(error)
    return int(_ffi.error_new(b"interrupted by the host"))


_ON_EPOCH = _ffi.EPOCH_CALLBACK(_on_epoch)
_ON_EPOCH_AT = ctypes.cast(_ON_EPOCH, ctypes.c_void_p).value


class Sandbox:
    """A fresh store for one instance of a component. Made, used and closed on one thread."""

    __slots__ = (
        "_context",
        "_fuel",
        "_handle",
        "_instance",
        "_linker",
        "_place",
        "_spent",
        "_store",
        "_ticker",
        "closed",
        "started",
    )

    def __init__(self, linker: Linker, limits: StoreLimits, call: GuestCall) -> None:
        engine = linker.component.engine
        self._linker = linker
        self._handle = next(_handles)
        self._fuel = limits.fuel
        self._spent = 0
        self.started = False
        self.closed = False
        calls[self._handle] = call
        self._ticker = engine.ticker
        self._ticker.enter()
        self._store: int = _ffi.store_new(engine.pointer, self._handle, None)
        self._context: int = _ffi.store_context(self._store)
        self._place = _ffi.Instance()
        self._instance = ctypes.addressof(self._place)
        _ffi.store_limiter(ctypes.c_void_p(self._store), *limits.native)
        # Start functions and realloc run guest code: everything is armed before instantiation.
        if engine.config.consume_fuel:
            _ffi.context_set_fuel(self._context, _FUEL_OFF if limits.fuel is None else limits.fuel)
        _ffi.store_epoch_callback(self._store, _ON_EPOCH_AT, self._handle, None)
        _ffi.context_set_epoch_deadline(self._context, 1)

    def instantiate(self) -> None:
        """Instantiate the component; start functions run here.

        Raises:
            EngineFault: instantiation trapped, was stopped, or is over the store's limits.
        """
        error = shielded(
            _ffi.linker_instantiate,
            self._linker.pointer,
            self._context,
            self._linker.component.pointer,
            self._instance,
        )
        if error:
            raise fault(error)
        self.started = True

    def call(self, export: Export, *values: Any) -> Any:
        """Lower `values`, run the export, lift its result.

        Its post-return is not run: it could only free memory of a store that is about to be dropped whole.

        Raises:
            EngineFault: the guest trapped or was stopped.
            LowerError: a value does not fit the parameter's type.
        """
        if not self.started or self.closed:
            # The library would abort the process over an instance that is not there.
            raise InternalError("the sandbox has no instance to call")
        if len(values) != len(export.lowerers):
            raise LowerError(f"the export takes {len(export.lowerers)} values, not {len(values)}")
        arena = _arenas.pop() if _arenas else CallArena()
        arena.reset(self._context)
        try:
            return self._call(export, values, arena)
        finally:
            _arenas.append(arena)

    def _call(self, export: Export, values: tuple[Any, ...], arena: CallArena) -> Any:
        context = self._context
        func = arena.take(_FUNC_SIZE)
        if not _ffi.instance_get_func(self._instance, context, export.index, func):
            raise InternalError(f"the instance has no export {'/'.join(export.path)}")
        count = len(values)
        args = arena.values(count)
        at = args
        for lower, value in zip(export.lowerers, values, strict=True):
            lower(value, at, arena)
            at += _SIZE
        if export.lift is None:
            error = shielded(_ffi.func_call, func, context, args, count, None, 0)
            if error:
                raise fault(error)
            return None
        result = arena.values(1)
        ctypes.memmove(result, _EMPTY, _SIZE)  # the engine drops what was there before
        error = shielded(_ffi.func_call, func, context, args, count, result, 1)
        if error:
            raise fault(error)
        try:
            return export.lift(result, context)
        finally:
            _ffi.val_delete(result)

    @property
    def fuel_used(self) -> int:
        """Fuel burnt since instantiation began; 0 where fuel is not metered."""
        if self._fuel is None:
            return 0
        if not self.closed:
            left = ctypes.c_uint64()
            error = _ffi.context_get_fuel(self._context, ctypes.addressof(left))
            if error:
                raise InternalError("the engine does not tell the fuel left") from fault(error)
            self._spent = self._fuel - left.value
        return self._spent

    def close(self) -> None:
        """Drop the store and everything in it. Safe to call twice."""
        if self.closed:
            return
        _ = self.fuel_used
        self.closed = True
        calls.pop(self._handle, None)
        self._ticker.leave()
        _ffi.store_delete(self._store)

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


__all__ = ["EngineFault", "Export", "Sandbox", "StoreLimits"]
