"""Checks a component by its bytes alone: size, kind, world, imports. Nothing is compiled or run for it.

It comes before the compiler sees a byte; the engine's own type information has the last word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wasmrt.core.errors import (
    ComponentError,
    ConfigurationError,
    InvalidComponentError,
    UnknownImportError,
    UnknownWorldError,
)
from wasmrt.core.limits import COMPONENT_MAX_BYTES, COMPONENT_WARN_BYTES, MIB
from wasmrt.sandbox.component import Surface, check_header, read_surface, worlds

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """The result of a check. `problems` are the refusals, `errors` the same in sentences."""

    problems: tuple[ComponentError, ...]
    warnings: tuple[str, ...]
    imports: tuple[str, ...]
    exports: tuple[str, ...]
    size_bytes: int
    world: str | None
    """The interface that names a tool world, or a program's; `worlds.GENERIC_WORLD` for others.

    None where nothing can run.
    """

    @property
    def is_valid(self) -> bool:
        """True where nothing was refused."""
        return not self.problems

    @property
    def errors(self) -> tuple[str, ...]:
        """The refusals as sentences."""
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
        """Check `data`. It never raises for what the bytes hold."""
        surface = Surface((), ())
        refusal = None
        try:
            check_header(data, max_bytes=self.max_bytes)
            surface = read_surface(data)
        except ComponentError as error:
            refusal = error
        problems = [refusal] if refusal is not None else _check_surface(surface)
        return ValidationResult(
            problems=tuple(problems),
            warnings=tuple(self._warnings(data)),
            imports=tuple(item.name for item in surface.imports),
            exports=tuple(item.name for item in surface.exports),
            size_bytes=len(data),
            world=world_of(surface),
        )

    def _warnings(self, data: bytes) -> list[str]:
        if len(data) <= self.warn_bytes:
            return []
        over = f"{len(data) / MIB:.1f} MiB, over {self.warn_bytes / MIB:g}"
        return [f"the component is large ({over}); its first start is slow"]


def world_of(surface: Surface) -> str | None:
    """Name the world by what is exported: ours or near:agent's before any other.

    An interface of another package may hold plain functions: whether it does is for the engine to say.
    """
    world = worlds.exported_world(item.name for item in surface.exports if item.kind == "instance")
    if world is not None:
        return world.export
    program = worlds.exported_program(item.name for item in surface.exports)
    if program is not None:
        return program
    # Of the packages of the tool worlds only the listed versions are known: another one is no plain interface.
    others = [
        item
        for item in surface.exports
        if item.kind == "func" or (item.kind == "instance" and not worlds.is_tool_package(item.name))
    ]
    return worlds.GENERIC_WORLD if others else None


def _check_surface(surface: Surface) -> list[ComponentError]:
    problems: list[ComponentError] = []
    unknown = [
        item.name
        for item in surface.imports
        if item.kind != "type" and not (item.kind == "instance" and worlds.is_offered(item.name))
    ]
    if world_of(surface) is None:
        shown = _list([item.name for item in surface.exports]) or "nothing"
        problems.append(
            UnknownWorldError(
                f"the component is of no world that can be run here; it exports {shown}",
                hint=f"export {', '.join(world.export for world in worlds.ALL_WORLDS)} or functions",
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


def refuse_broken_schemas(problems: Sequence[str]) -> None:
    """Refuse a component of which a prepared tool says that its schema could not be taken; see `PreparedTool`.

    Raises:
        InvalidComponentError: there is such a problem. A model would be offered the tool without its params.
    """
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise InvalidComponentError(
            f"no model would be told the tool's params: {problems[0]}{more}",
            code="broken-schema",
            hint="mend the JSON Schema in the tool's source; https://json-schema.org has its rules",
        )
