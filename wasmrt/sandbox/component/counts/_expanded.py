"""Compute the counts that a component would have if all instantiations were expanded, without expanding them.

Each component is processed once for each set of arguments. Every further instantiation with the same arguments only
adds the known counts, because the engine would process the component again. Components can be passed as arguments and
exported by instances.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from wasmrt.core.limits import (
    MAX_CANONICAL_FUNCTIONS,
    MAX_COMPONENT_DEFINITIONS,
    MAX_COMPONENT_DEPTH,
    MAX_CORE_INSTANCES,
)
from wasmrt.sandbox.component._binary import Reader
from wasmrt.sandbox.component.counts._definitions import (
    Bundle,
    Definition,
    DefinitionReader,
    Exported,
    Imported,
    Instantiate,
    Item,
    Nested,
    Outer,
    TakenOut,
    make_unknown_error,
)
from wasmrt.sandbox.component.counts._module import hold

_HINT = "instantiate fewer components, and avoid components that instantiate others repeatedly"


class Totals(NamedTuple):
    """The counts of one instantiation of a component, including nested instantiations."""

    definitions: int
    core_instances: int
    canons: int


class _Instance(dict[str, "_Value"]):
    """The exports of an instance: components, and instances that export components. Other exports are left out."""


class _Closure(NamedTuple):
    """A component's definition, and the frame of the component in which it was defined."""

    definition: Definition
    around: _Frame


_T = TypeVar("_T")
_Value = _Closure | _Instance | None
"""A component or an instance. None is used if an instance exports no component, or if only the host has the value."""


class _Frame:
    """The index spaces of an instantiation that is being processed."""

    __slots__ = ("around", "components", "exports", "instances")

    def __init__(self, around: _Frame | None) -> None:
        self.around = around
        self.components: list[_Closure | None] = []
        self.instances: list[_Instance | None] = []
        self.exports = _Instance()


class Expansion:
    """Counts the definitions of a component. Those of a nested component count once for each of its instances.

    Raises:
        InvalidComponentError: a definition refers to a missing definition, or instantiates an imported component.
        ComponentTooLargeError: instances are nested too deeply, or more definitions must be processed than allowed.
    """

    def __init__(self, root: Definition) -> None:
        self._known: dict[tuple[object, ...], tuple[Totals, _Instance | None, object]] = {}
        self._walked = 0
        self.totals = self._instantiate(_Closure(root, _Frame(None)), {}, 0)[0]

    def _instantiate(
        self, component: _Closure, given: Mapping[str, _Value], depth: int
    ) -> tuple[Totals, _Instance | None]:
        hold(depth, MAX_COMPONENT_DEPTH, "levels of instances inside each other", hint=_HINT)
        held = sorted((name, id(value)) for name, value in given.items() if value is not None)
        key = (id(component.definition), id(component.around), *held)
        known = self._known.get(key)
        if known is None:
            totals, exports = self._walk(component, given, depth)
            # The objects are stored too: the key contains their IDs, which must not be reused for other objects.
            known = self._known[key] = totals, exports, (component, given)
        return known[0], known[1]

    def _walk(self, component: _Closure, given: Mapping[str, _Value], depth: int) -> tuple[Totals, _Instance | None]:
        own = component.definition
        self._walked += own.definitions
        # The expanded count is at least this number, so this check refuses nothing that the final check would allow.
        hold(self._walked, MAX_COMPONENT_DEFINITIONS, "definitions once expanded", hint=_HINT)
        frame, inner = _Frame(component.around), [Totals(own.definitions, own.core_instances, own.canons)]
        for step in own.steps:
            match step:
                case Nested(definition):
                    frame.components.append(_Closure(definition, frame))
                case Instantiate(index, items):
                    chosen = _get_or_fail(frame.components, index)
                    if chosen is None:
                        raise make_unknown_error("instantiates an imported component, which is not supported")
                    totals, instance = self._instantiate(chosen, _resolve(frame, items), depth + 1)
                    inner.append(totals)
                    frame.instances.append(instance)
                case Bundle(items):
                    frame.instances.append(_without_empty(_Instance(_resolve(frame, items))))
                case Imported(name, is_component):
                    _put(frame, given.get(name), is_component)
                case TakenOut(index, name, is_component):
                    instance = _get_or_fail(frame.instances, index)
                    _put(frame, None if instance is None else instance.get(name), is_component)
                case Outer(levels, index):
                    frame.components.append(_get_or_fail(_find_enclosing(frame, levels).components, index))
                case Exported(item):
                    value = _find_value(frame, item)
                    frame.exports[item.name] = value
                    _put(frame, value, item.is_component)
        return Totals(*(sum(column) for column in zip(*inner, strict=True))), _without_empty(frame.exports)


def _put(frame: _Frame, value: _Value, is_component: bool) -> None:
    if is_component:
        frame.components.append(value if isinstance(value, _Closure) else None)
    else:
        frame.instances.append(value if isinstance(value, _Instance) else None)


def _resolve(frame: _Frame, items: tuple[Item, ...]) -> dict[str, _Value]:
    return {item.name: _find_value(frame, item) for item in items}


def _find_value(frame: _Frame, item: Item) -> _Value:
    return (
        _get_or_fail(frame.components, item.number) if item.is_component else _get_or_fail(frame.instances, item.number)
    )


def _without_empty(instance: _Instance) -> _Instance | None:
    kept = _Instance({name: value for name, value in instance.items() if value is not None})
    return kept or None


def _get_or_fail(values: list[_T], index: int) -> _T:
    if index >= len(values):
        raise make_unknown_error(f"refers to a missing component or instance {index}")
    return values[index]


def _find_enclosing(frame: _Frame, levels: int) -> _Frame:
    for _ in range(min(levels, MAX_COMPONENT_DEPTH + 1)):
        if frame.around is None:
            raise make_unknown_error("refers to a missing enclosing component")
        frame = frame.around
    return frame


def check_counts(component: bytes) -> None:
    """Refuse a component whose compilation would take too much time or memory; its header must be valid.

    SECURITY: every limit is far above the counts of real components, and below the counts with which a compiler needs
    minutes or gigabytes. Unknown forms are refused, because their parts cannot be counted.

    Raises:
        ComponentTooLargeError: the component has more of something than allowed; the message has the count and limit.
        InvalidComponentError: the bytes are malformed, or use a feature that is disabled in the engine.
    """
    totals = Expansion(DefinitionReader().read(Reader(component))).totals
    for count, bound, what in (
        (totals.core_instances, MAX_CORE_INSTANCES, "core instances once expanded"),
        (totals.canons, MAX_CANONICAL_FUNCTIONS, "lifted and lowered functions once expanded"),
        (totals.definitions, MAX_COMPONENT_DEFINITIONS, "definitions once expanded"),
    ):
        hold(count, bound, what, hint=_HINT)
