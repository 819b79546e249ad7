"""The engine, which compiles components. Runtimes of this process with the same configuration share one engine."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Mapping

from wasmrt.core.errors import ConfigurationError, InternalError, InvalidComponentError
from wasmrt.core.lifetime import Lifetime
from wasmrt.sandbox.component import ComponentType, printable_line
from wasmrt.sandbox.component.counts import check_counts
from wasmrt.sandbox.guest.engine import _ffi
from wasmrt.sandbox.guest.engine._reflect import reflect
from wasmrt.sandbox.guest.engine._ticker import Ticker
from wasmrt.sandbox.guest.engine._traps import fault
from wasmrt.sandbox.guest.settings import (
    FEATURES_OFF,
    FEATURES_ON,
    MAX_WASM_STACK_BYTES,
    POOL,
    Allocator,
    EngineConfig,
    OptLevel,
)


def native_config(config: EngineConfig, sizes: Mapping[str, int]) -> int:
    """Create a wasm_config_t for `config` and a pool of these sizes.

    `wasm_engine_new_with_config` takes ownership of the returned pointer.
    """
    native = _ffi.config_new()
    for name in FEATURES_ON:
        _ffi.config_setter(name, ctypes.c_bool)(native, name != "consume_fuel" or config.consume_fuel)
    for name in FEATURES_OFF:
        _ffi.config_setter(name, ctypes.c_bool)(native, False)
    _ffi.config_setter("max_wasm_stack", ctypes.c_size_t)(native, MAX_WASM_STACK_BYTES)
    # SECURITY: strategy 1 is Cranelift. Winch is never used: the sandbox escapes of 2026 affected only Winch.
    _ffi.config_setter("strategy", ctypes.c_uint8)(native, 1)
    level = list(OptLevel).index(config.optimization_level)
    _ffi.config_setter("cranelift_opt_level", ctypes.c_uint8)(native, level)
    if config.allocator == Allocator.POOLING:
        pool = _ffi.pooling_new()
        for name, value in sizes.items():
            _ffi.pooling_setter(name)(pool, value)
        _ffi.pooling_strategy_set(native, pool)
        _ffi.pooling_delete(pool)
    return int(native)


class Engine:
    """A wasmtime engine with its epoch ticker."""

    def __init__(self, config: EngineConfig, pool: Mapping[str, int] = POOL) -> None:
        self.config = config
        self.pointer: int = _ffi.engine_new_with_config(native_config(config, pool))
        if not self.pointer:
            raise InternalError("the engine could not be created")
        self._finalizer = weakref.finalize(self, _ffi.engine_delete, self.pointer)
        self._finalizer.atexit = False
        self._ticker: Ticker | None = None
        self._users = 0
        self._users_lock = threading.Lock()
        self._room = threading.Condition()
        self._guests = self._ended = self._waiting = 0

    @property
    def ticker(self) -> Ticker:
        ticker = self._ticker
        if ticker is None:
            with self._users_lock:
                ticker = self._ticker = self._ticker or Ticker(self)
        return ticker

    def add_user(self) -> None:
        """Count a user of this engine."""
        with self._users_lock:
            self._users += 1

    def remove_user(self) -> None:
        """Remove a user of this engine. When the last user is removed, the ticker stops."""
        with self._users_lock:
            self._users -= 1
            ticker = self._ticker if self._users == 0 else None
            if ticker is not None:
                self._ticker = None
        if ticker is not None:
            ticker.stop()

    @property
    def ended(self) -> int:
        """The number of guests that have ended."""
        return self._ended

    def count_started_guest(self) -> None:
        """Count a guest that takes up room in the pool."""
        with self._room:
            self._guests += 1

    def count_ended_guest(self) -> None:
        """Count a guest that has ended, so that its room in the pool is free."""
        with self._room:
            self._guests -= 1
            self._ended += 1
            if self._waiting:
                self._room.notify()

    def wait_for_room(self, ended: int, lifetime: Lifetime) -> bool:
        """Wait until more than `ended` guests have ended, or until the lifetime ends.

        Return False if the wait is useless, because no guest is running whose end would free room.
        """
        with lifetime.cancelled.waking(self._wake_waiting), self._room:
            self._waiting += 1
            try:
                while self._ended == ended and self._guests and not lifetime.is_over:
                    self._room.wait(lifetime.remaining())
                return self._ended != ended or lifetime.is_over
            finally:
                self._waiting -= 1
                if lifetime.is_over:
                    self._room.notify()  # another call takes the room that this one was woken for

    def _wake_waiting(self) -> None:
        with self._room:
            self._room.notify_all()

    def increment_epoch(self) -> None:
        _ffi.engine_increment_epoch(self.pointer)

    def compile(self, data: bytes) -> Component:
        """Check a component's counts, and compile the component.

        Raises:
            ComponentTooLargeError: the component has more functions, instances or other parts than allowed.
            InvalidComponentError: the component is malformed, or the engine rejects it.
        """
        check_counts(data)
        return self._component(_ffi.component_new, data)

    def deserialize(self, artifact: bytes) -> Component:
        """Load the machine code of a component.

        SECURITY: the artifact must have been written by this installation and authenticated just before the call.
        """
        return self._component(_ffi.component_deserialize, artifact)

    def deserialize_file(self, path: str) -> Component:
        """Map the machine code of a component from a file, which stays open. Processes that map a file share its pages.

        SECURITY: this does not authenticate the file, so only a process without access to anything of value may use it.
        """
        pointer = ctypes.c_void_p()
        error = _ffi.component_deserialize_file(self.pointer, path.encode(), ctypes.addressof(pointer))
        return self._checked(error, pointer)

    def _component(self, make: ctypes._FuncPointer, data: bytes) -> Component:
        pointer = ctypes.c_void_p()
        error = make(self.pointer, data, len(data), ctypes.addressof(pointer))
        return self._checked(error, pointer)

    def _checked(self, error: int | None, pointer: ctypes.c_void_p) -> Component:
        if error:
            problem = fault(error)
            raise InvalidComponentError(
                f"the engine rejects the component: {printable_line(problem.message)}",
                hint="build it again with a current toolchain, or check that the file is complete",
            ) from problem
        return Component(self, pointer.value or 0)


class Component:
    """A compiled component and its type. The machine code is freed when this object is garbage-collected."""

    def __init__(self, engine: Engine, pointer: int) -> None:
        self.engine = engine
        self.pointer = pointer
        weakref.finalize(self, _ffi.component_delete, pointer).atexit = False
        self._type: ComponentType | None = None
        self._lock = threading.Lock()

    @property
    def type(self) -> ComponentType:
        with self._lock:
            if self._type is None:
                self._type = reflect(self.engine.pointer, self.pointer)
            return self._type

    def serialize(self) -> bytes:
        vector = _ffi.Vector()
        error = _ffi.component_serialize(self.pointer, ctypes.addressof(vector))
        if error:
            raise InternalError("the compiled component could not be serialized") from fault(error)
        try:
            return ctypes.string_at(vector.data, vector.size)
        finally:
            _ffi.byte_vec_delete(ctypes.addressof(vector))


_engines: weakref.WeakValueDictionary[str, Engine] = weakref.WeakValueDictionary()
_engines_lock = threading.Lock()
_process: int | None = None
"""The ID of the process that owns the engines."""


def shared_engine(config: EngineConfig) -> Engine:
    """Return this process's engine for `config`, creating it on first use.

    A pooling engine reserves terabytes of address space, so runtimes with the same configuration share one engine.

    Raises:
        ConfigurationError: this process was forked from a process that had used an engine.
    """
    global _process
    with _engines_lock:
        if _process not in (None, os.getpid()):
            # The ticker's thread exists only in the parent process, so guests in this process could not be interrupted.
            raise ConfigurationError(
                "this process was forked from a process that had used the engine",
                hint="create the first WasmToolRuntime after forking, or start processes with spawn",
            )
        _process = os.getpid()
        engine = _engines.get(config.key)
        if engine is None:
            engine = _engines[config.key] = Engine(config)
        return engine


def wat2wasm(text: str) -> bytes:
    """Assemble WebAssembly text to a module or component. Only tests and the bundled attacks use this.

    Raises:
        InvalidComponentError: the text is not valid.
    """
    encoded = text.encode()
    vector = _ffi.Vector()
    error = _ffi.wat2wasm(encoded, len(encoded), ctypes.addressof(vector))
    if error:
        raise InvalidComponentError(f"invalid WebAssembly text: {printable_line(fault(error).message)}")
    try:
        return ctypes.string_at(vector.data, vector.size)
    finally:
        _ffi.byte_vec_delete(ctypes.addressof(vector))
