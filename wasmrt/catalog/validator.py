"""Check the size, kind, world and imports of a component before it is compiled. Nothing is compiled or run.

After compiling, the types that the engine reports are checked, too.
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
    """The result of validating a component. `problems` has the errors, and `errors` their messages."""

    problems: tuple[ComponentError, ...]
    warnings: tuple[str, ...]
    imports: tuple[str, ...]
    exports: tuple[str, ...]
    size_bytes: int
    world: str | None
    """The exported interface that identifies the world of a tool or a program. `worlds.GENERIC_WORLD` if the component
    exports other functions or interfaces, and None if it has no supported export."""

    @property
    def is_valid(self) -> bool:
        """True if there is no error."""
        return not self.problems

    @property
    def errors(self) -> tuple[str, ...]:
        """The messages of the errors."""
        return tuple(problem.message for problem in self.problems)

    def raise_first(self) -> None:
        """Raise the first error, if there is one."""
        if self.problems:
            raise self.problems[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class WasmValidator:
    """Validates components. A component over `max_bytes` is an error, and one over `warn_bytes` causes a warning.

    Raises:
        ConfigurationError: a size is not positive, or `max_bytes` is 2 GiB or more.
    """

    warn_bytes: int = COMPONENT_WARN_BYTES
    max_bytes: int = COMPONENT_MAX_BYTES

    def __post_init__(self) -> None:
        if not 0 < self.max_bytes < 2**31 or self.warn_bytes <= 0:
            raise ConfigurationError(
                "a component's size limits must be positive and under 2 GiB",
                hint=f"the default limit is {COMPONENT_MAX_BYTES} bytes",
            )

    def validate(self, data: bytes) -> ValidationResult:
        """Validate the bytes of a component. Errors are in the result; none is raised."""
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
            world=find_world(surface),
        )

    def _warnings(self, data: bytes) -> list[str]:
        if len(data) <= self.warn_bytes:
            return []
        over = f"{len(data) / MIB:.1f} MiB, over {self.warn_bytes / MIB:g} MiB"
        return [f"the component is large ({over}); its first start is slow"]


def find_world(surface: Surface) -> str | None:
    """Return the world of a component by its exports, as for `ValidationResult.world`.

    Worlds of wasmrt and near:agent take precedence. `worlds.GENERIC_WORLD` is also returned for an interface of another
    package: only the engine can determine whether this interface has functions.
    """
    world = worlds.exported_world(item.name for item in surface.exports if item.kind == "instance")
    if world is not None:
        return world.export
    names = [item.name for item in surface.exports]
    program = worlds.exported_program(names) or worlds.exported_handler(names)
    if program is not None:
        return program
    # An unknown version of a tool world is not treated as an interface of another package.
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
    if find_world(surface) is None:
        shown = _list([item.name for item in surface.exports]) or "nothing"
        problems.append(
            UnknownWorldError(
                f"the component has no supported world; it exports {shown}",
                hint=f"export one of {', '.join(world.export for world in worlds.ALL_WORLDS)}, or functions",
            )
        )
    if unknown:
        problems.append(
            UnknownImportError(
                f"the component has unsupported imports: {_list(unknown)}",
                hint="use only wasi:*@0.2, near:agent/host and wasmrt:tool@0.1.0 in its world",
            )
        )
    return problems


def _list(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def refuse_broken_schemas(problems: Sequence[str]) -> None:
    """Refuse a component if one of its tools has an invalid schema: models would get the tool without parameters.

    Raises:
        InvalidComponentError: `problems` contains a sentence about an invalid schema.
    """
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise InvalidComponentError(
            f"invalid parameter schema: {problems[0]}{more}",
            code="broken-schema",
            hint="fix the JSON Schema in the source of the tool; see https://json-schema.org",
        )
