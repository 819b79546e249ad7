"""The counts of a component once every instantiation in it is expanded, without expanding any.

Each component is gone through once for each set of components that it is given, and its counts are then added wherever
it is instantiated again, as the engine would go through it again. Components travel: they are given as arguments, and
exported by instances.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from wasmrt.core.limits import MAX_COMPONENT_DEFINITIONS, MAX_COMPONENT_DEPTH
from wasmrt.sandbox.component.counts._bound import hold
from wasmrt.sandbox.component.counts._definitions import (
    Bundle,
    Definition,
    Exported,
    Imported,
    Instantiate,
    Item,
    Nested,
    Outer,
    TakenOut,
    unknown,
)

EXPANDED_HINT = "instantiate fewer components, and none that instantiates others again and again"


class Totals(NamedTuple):
    """Counts of one instantiation, with those of all that it instantiates itself."""

    definitions: int
    core_instances: int
    canons: int


class _Instance(dict[str, "_Value"]):
    """The components, and the instances that have some, that an instance exports; others have no part in a count."""


class _Closure(NamedTuple):
    """A component in the place where it is defined."""

    definition: Definition
    around: _Frame


_T = TypeVar("_T")
_Value = _Closure | _Instance | None
"""None for an instance that exports no component, and for what only the host could give."""


class _Frame:
    """One instantiation while it is gone through: what its indices stand for."""

    __slots__ = ("around", "components", "exports", "instances")

    def __init__(self, around: _Frame | None) -> None:
        self.around = around
        self.components: list[_Closure | None] = []
        self.instances: list[_Instance | None] = []
        self.exports = _Instance()


class Expansion:
    """Counts of a whole component, once expanded.

    Raises:
        InvalidComponentError: a definition refers to one that is not there.
        ComponentTooLargeError: going through it takes more steps than it may have definitions.
    """

    def __init__(self, root: Definition) -> None:
        self._known: dict[tuple[object, ...], tuple[Totals, _Instance | None, object]] = {}
        self._walked = 0
        self.totals = self._instantiate(_Closure(root, _Frame(None)), {}, 0)[0]

    def _instantiate(
        self, component: _Closure, given: Mapping[str, _Value], depth: int
    ) -> tuple[Totals, _Instance | None]:
        hold(depth, MAX_COMPONENT_DEPTH, "levels of instances inside each other", hint=EXPANDED_HINT)
        held = sorted((name, id(value)) for name, value in given.items() if value is not None)
        key = (id(component.definition), id(component.around), *held)
        known = self._known.get(key)
        if known is None:
            totals, exports = self._walk(component, given, depth)
            # The objects are kept with the key, so that nothing else gets their ids.
            known = self._known[key] = totals, exports, (component, given)
        return known[0], known[1]

    def _walk(self, component: _Closure, given: Mapping[str, _Value], depth: int) -> tuple[Totals, _Instance | None]:
        own = component.definition
        self._walked += own.definitions
        # What is gone through is at most what there is once it is expanded.
        hold(self._walked, MAX_COMPONENT_DEFINITIONS, "definitions once expanded", hint=EXPANDED_HINT)
        frame, inner = _Frame(component.around), [Totals(own.definitions, own.core_instances, own.canons)]
        for step in own.steps:
            match step:
                case Nested(definition):
                    frame.components.append(_Closure(definition, frame))
                case Instantiate(index, items):
                    chosen = _at(frame.components, index)
                    if chosen is None:
                        raise unknown("instantiates a component that only its host could give")
                    totals, instance = self._instantiate(chosen, _resolved(frame, items), depth + 1)
                    inner.append(totals)
                    frame.instances.append(instance)
                case Bundle(items):
                    frame.instances.append(_some(_Instance(_resolved(frame, items))))
                case Imported(name, is_component):
                    _put(frame, given.get(name), is_component)
                case TakenOut(index, name, is_component):
                    instance = _at(frame.instances, index)
                    _put(frame, None if instance is None else instance.get(name), is_component)
                case Outer(levels, index):
                    frame.components.append(_at(_enclosing(frame, levels).components, index))
                case Exported(item):
                    value = _value(frame, item)
                    frame.exports[item.name] = value
                    _put(frame, value, item.is_component)
        return Totals(*(sum(column) for column in zip(*inner, strict=True))), _some(frame.exports)


def _put(frame: _Frame, value: _Value, is_component: bool) -> None:
    if is_component:
        frame.components.append(value if isinstance(value, _Closure) else None)
    else:
        frame.instances.append(value if isinstance(value, _Instance) else None)


def _resolved(frame: _Frame, items: tuple[Item, ...]) -> dict[str, _Value]:
    return {item.name: _value(frame, item) for item in items}


def _value(frame: _Frame, item: Item) -> _Value:
    return _at(frame.components, item.number) if item.is_component else _at(frame.instances, item.number)


def _some(instance: _Instance) -> _Instance | None:
    kept = _Instance({name: value for name, value in instance.items() if value is not None})
    return kept or None


def _at(values: list[_T], index: int) -> _T:
    if index >= len(values):
        raise unknown(f"refers to a component or instance {index} that is not there")
    return values[index]


def _enclosing(frame: _Frame, levels: int) -> _Frame:
    for _ in range(min(levels, MAX_COMPONENT_DEPTH + 1)):
        if frame.around is None:
            raise unknown("refers to a component around it that is not there")
        frame = frame.around
    return frame
