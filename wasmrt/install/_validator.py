"""Judges a component by its bytes alone: size, kind, world, imports. Nothing is compiled or run for it.

After seed 001, section 7, with a real component's rules in place of its core module's. The engine's own type
information stays the last word; this one comes before the compiler sees a byte.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from wasmrt.errors import (
    ComponentError,
    ComponentTooLargeError,
    ConfigurationError,
    CoreModuleError,
    InvalidComponentError,
    NotWasmError,
    UnknownImportError,
    UnknownWorldError,
)
from wasmrt.install._surface import Surface, read_surface
from wasmrt.limits import COMPONENT_MAX_BYTES, COMPONENT_WARN_BYTES, MIB

ANY_WORLD = "plain functions"
_MAGIC = b"\0asm"
_AGENT = r"near:agent/{}(@0\.2\.0|@0\.3\.0|@0\.4\.1)?"
_WORLD = re.compile(rf"{_AGENT.format('tool')}|wasmrt:tool/provider@0\.1\.0")
_OFFERED = re.compile(
    rf"{_AGENT.format('host')}"
    r"|wasmrt:tool/(types|http|workspace|secrets|tools|log|clock|progress)@0\.1\.0"
    r"|wasi:(cli|io|clocks|random|filesystem|sockets|http)/[a-z0-9-]+@0\.2\.[0-9]+"
)
_VERSIONED = ("near:agent/", "wasmrt:tool/")
"""Packages of which only the worlds above are known: another version is no plain interface."""
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """What was found. `problems` are the refusals, `errors` the same in sentences."""

    problems: tuple[ComponentError, ...]
    warnings: tuple[str, ...]
    imports: tuple[str, ...]
    exports: tuple[str, ...]
    size_bytes: int
    world: str | None
    """`near:agent/tool@0.3.0` and the like; `plain functions` for any other world; None where nothing can run."""

    @property
    def is_valid(self) -> bool:
        return not self.problems

    @property
    def errors(self) -> tuple[str, ...]:
        return tuple(problem.message for problem in self.problems)

    def raise_first(self) -> None:
        """Raise the first refusal, if there is one."""
        if self.problems:
            raise self.problems[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class WasmValidator:
    """The rules, with their two settings.

    Raises:
        ConfigurationError: a size is not positive, or the warning comes after the refusal.
    """

    warn_bytes: int = COMPONENT_WARN_BYTES
    max_bytes: int = COMPONENT_MAX_BYTES

    def __post_init__(self) -> None:
        if not 0 < self.max_bytes < 2**31 or self.warn_bytes <= 0:
            raise ConfigurationError(
                "a component's size limits must be positive and under 2 GiB",
                hint=f"the limit is {COMPONENT_MAX_BYTES} bytes unless set",
            )

    def validate(self, data: bytes) -> ValidationResult:
        """Judge `data`. It never raises for what the bytes hold."""
        refusal = self._refuse_preamble(data)
        surface = Surface((), ())
        if refusal is None:
            try:
                surface = read_surface(data)
            except InvalidComponentError as error:
                refusal = error
        problems = [refusal] if refusal is not None else _judge(surface)
        return ValidationResult(
            problems=tuple(problems),
            warnings=tuple(self._warnings(data)),
            imports=tuple(item.name for item in surface.imports),
            exports=tuple(item.name for item in surface.exports),
            size_bytes=len(data),
            world=world_of(surface),
        )

    def _refuse_preamble(self, data: bytes) -> ComponentError | None:
        if len(data) > self.max_bytes:
            return ComponentTooLargeError(f"the component has {len(data)} bytes, over the limit of {self.max_bytes}")
        if not data:
            return NotWasmError("the file is empty", hint="build or download the component again")
        if data[:4] != _MAGIC:
            return NotWasmError("this is not WebAssembly", hint=_guess(data))
        if len(data) < 8:
            return InvalidComponentError("the component is cut off in its first 8 bytes", hint="download it again")
        version, layer = int.from_bytes(data[4:6], "little"), int.from_bytes(data[6:8], "little")
        if layer == 0:
            return CoreModuleError(
                "this is a core module, not a component",
                hint="build for wasm32-wasip2, or wrap it: wasm-tools component new module.wasm -o tool.wasm",
            )
        if (version, layer) != (13, 1):
            return InvalidComponentError(
                f"this is a component of binary version {version}, layer {layer}; only version 13, layer 1 is known",
                hint="build it with a current toolchain",
            )
        return None

    def _warnings(self, data: bytes) -> list[str]:
        if len(data) <= self.warn_bytes:
            return []
        over = f"{len(data) / MIB:.1f} MiB, over {self.warn_bytes / MIB:g}"
        return [f"the component is large ({over}); its first start is slow"]


def world_of(surface: Surface) -> str | None:
    """Name the world by what is exported: ours or near:agent's before any other.

    An interface of another package may hold plain functions: whether it does is for the engine to say.
    """
    known = [item.name for item in surface.exports if item.kind == "instance" and _WORLD.fullmatch(item.name)]
    if known:
        return known[0]
    others = [
        item
        for item in surface.exports
        if item.kind == "func" or (item.kind == "instance" and not item.name.startswith(_VERSIONED))
    ]
    return ANY_WORLD if others else None


def _judge(surface: Surface) -> list[ComponentError]:
    problems: list[ComponentError] = []
    unknown = [
        item.name
        for item in surface.imports
        if item.kind != "type" and not (item.kind == "instance" and _OFFERED.fullmatch(item.name))
    ]
    if world_of(surface) is None:
        shown = _list([item.name for item in surface.exports]) or "nothing"
        problems.append(
            UnknownWorldError(
                f"the component is of no world that can be run here; it exports {shown}",
                hint="export wasmrt:tool/provider@0.1.0, near:agent/tool (none, 0.2.0, 0.3.0, 0.4.1) or functions",
            )
        )
    if unknown:
        problems.append(
            UnknownImportError(
                f"the component imports what nothing here offers: {_list(unknown)}",
                hint="wasi:*@0.2, near:agent/host and wasmrt:tool@0.1.0 are offered; remove the others from its world",
            )
        )
    return problems


def _list(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _guess(data: bytes) -> str:
    """Say what it looks like, and the step to take."""
    start = data[:64].lstrip()
    if start.startswith((b"(module", b"(component", b";;")):
        return "it looks like WebAssembly text; encode it first: wasm-tools parse tool.wat -o tool.wasm"
    if start.startswith((b"\x1f\x8b", b"PK\x03\x04", b"\x28\xb5\x2f\xfd")):
        return "it looks like an archive; unpack it first"
    if start[:1] == b"<":
        return "it looks like a web page; download the file itself"
    return "a component starts with the bytes 00 61 73 6d"
