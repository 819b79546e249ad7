"""Read the definitions that determine how often the parts of a component are instantiated.

Components and instances are tracked individually; definitions of other sorts are only counted.

Source: component-model, design/mvp/Binary.md: `core:instance`, `instance`, `alias`, `canon`, `import`, `export`.
"""

from __future__ import annotations

from typing import NamedTuple

from wasmrt.core.errors import InvalidComponentError
from wasmrt.core.limits import (
    MAX_COMPONENT_DEFINITIONS,
    MAX_COMPONENT_DEPTH,
    MAX_COMPONENT_SECTIONS,
    MAX_COMPONENT_TYPE_BYTES,
)
from wasmrt.sandbox.component._binary import (
    COMPONENT,
    CORE_MODULE,
    CUSTOM,
    EXPORT,
    HEADER,
    IMPORT,
    SORTS,
    Reader,
    read_extern_type,
    read_flag,
    read_name,
    read_sort,
)
from wasmrt.sandbox.component.counts._module import ModuleCounts, hold

_CORE_INSTANCE, _CORE_TYPE, _INSTANCE, _ALIAS, _TYPE, _CANON, _START = 2, 3, 5, 6, 7, 8, 9
_CORE_SORT, _COMPONENT_SORT, _INSTANCE_SORT = 0x00, 0x04, 0x05
_FOLLOWED = {_COMPONENT_SORT: SORTS[_COMPONENT_SORT], _INSTANCE_SORT: SORTS[_INSTANCE_SORT]}
_OF_EXPORT, _OF_CORE_EXPORT, _OUTER = range(3)
_WORK = "use fewer instances, functions and aliases, or move some of its tools to other components"


class Item(NamedTuple):
    """A named component or instance, identified by its index."""

    name: str
    is_component: bool
    number: int


class Nested(NamedTuple):
    """The step that defines a nested component."""

    definition: Definition


class Instantiate(NamedTuple):
    """The step that instantiates a component by index. `given` lists the arguments that are components or instances."""

    component: int
    given: tuple[Item, ...]


class Bundle(NamedTuple):
    """The step that composes an instance from existing items."""

    items: tuple[Item, ...]


class Imported(NamedTuple):
    """The step that imports a component or instance."""

    name: str
    is_component: bool


class TakenOut(NamedTuple):
    """The step that aliases an exported component or instance of an instance."""

    instance: int
    name: str
    is_component: bool


class Outer(NamedTuple):
    """The step that aliases a component of an enclosing component, `levels` levels above."""

    levels: int
    number: int


class Exported(NamedTuple):
    """The step that exports a component or instance, which also gives it a second index."""

    item: Item


Step = Nested | Instantiate | Bundle | Imported | TakenOut | Outer | Exported


class Definition:
    """The definition of a component: its steps in order, and the counts of all other parts."""

    __slots__ = ("canons", "core_instances", "definitions", "steps")

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.definitions = 0
        """The number of entries in all sections and of names in instances, without those of nested components."""
        self.core_instances = 0
        self.canons = 0
        """The number of lifted functions, lowered functions and built-ins."""


class DefinitionReader:
    """Reads a component, including nested components, and counts its parts.

    Raises:
        InvalidComponentError: the component is malformed, or uses a feature that is disabled in the engine.
        ComponentTooLargeError: the component has more sections, definitions or other parts than allowed.
    """

    def __init__(self) -> None:
        self._modules = ModuleCounts()
        self._sections = self._definitions = self._type_bytes = 0

    def read(self, component: Reader, depth: int = 0) -> Definition:
        """Read a component, starting at its header."""
        hold(depth, MAX_COMPONENT_DEPTH, "levels of nested components", hint="nest them less deeply")
        if component.take(len(HEADER)) != HEADER:
            raise component.malformed("a nested component of an unknown version")
        found = Definition()
        while component.left:
            kind, content = component.section()
            self._count_sections(1)
            self._read_section(kind, content, found, depth)
        return found

    def _count_sections(self, more: int) -> None:
        self._sections += more
        hold(self._sections, MAX_COMPONENT_SECTIONS, "sections", hint="build it with a current toolchain")

    def _read_section(self, kind: int, content: Reader, found: Definition, depth: int) -> None:
        if kind in (CUSTOM, _START):
            return  # a start section needs a feature that is disabled in the engine
        if kind == CORE_MODULE:
            self._count_sections(self._modules.add(content))
            self._add(found, 1)
        elif kind == COMPONENT:
            self._add(found, 1)
            found.steps.append(Nested(self.read(content, depth + 1)))
        elif kind in (_CORE_TYPE, _TYPE):
            self._type_bytes += content.left
            hold(self._type_bytes, MAX_COMPONENT_TYPE_BYTES, "bytes of types", hint="use fewer or smaller types")
            self._add(found, content.u32())
        elif kind in (_CORE_INSTANCE, _CANON):
            count = content.u32()
            self._add(found, count)
            found.core_instances += count * (kind == _CORE_INSTANCE)
            found.canons += count * (kind == _CANON)
        else:
            self._read_entries(kind, content, found)

    def _add(self, found: Definition, count: int) -> None:
        found.definitions += count
        self._definitions += count
        hold(self._definitions, MAX_COMPONENT_DEFINITIONS, "definitions", hint=_WORK)

    def _read_entries(self, kind: int, content: Reader, found: Definition) -> None:
        read = {_INSTANCE: self._read_instance, _ALIAS: _read_alias, IMPORT: _read_import, EXPORT: _read_export}.get(
            kind
        )
        if read is None:
            raise content.malformed(f"a section of unknown kind {kind}")
        count = content.u32()
        self._add(found, count)
        for _ in range(count):
            step = read(content, found)
            if step is not None:
                found.steps.append(step)
        if content.left:
            raise content.malformed("bytes that belong to no definition")

    def _read_instance(self, content: Reader, found: Definition) -> Step:
        form = content.byte()
        if form > 1:
            raise content.malformed("an instance of an unknown form")
        component = content.u32() if form == 0 else 0
        count = content.u32()
        self._add(found, count)
        items = []
        for _ in range(count):
            name = read_name(content) if form else content.name()
            item = _read_item(name, content)
            if item is not None:
                items.append(item)
        return Bundle(tuple(items)) if form else Instantiate(component, tuple(items))


def _read_item(name: str, content: Reader) -> Item | None:
    sort = _read_definition_sort(content)
    index = content.u32()
    return Item(name, sort == _COMPONENT_SORT, index) if sort in _FOLLOWED else None


def _read_definition_sort(content: Reader) -> int:
    sort = content.byte()
    if sort > _INSTANCE_SORT:
        raise content.malformed("a definition of an unknown sort")
    if sort == _CORE_SORT:
        content.byte()
    return sort


def _read_alias(content: Reader, _found: Definition) -> Step | None:
    sort = _read_definition_sort(content)
    match content.byte():
        case 0:
            step = TakenOut(content.u32(), content.name(), sort == _COMPONENT_SORT)
            return step if sort in _FOLLOWED else None
        case 1:
            content.u32()
            content.name()
            return None
        case 2:
            outer = Outer(content.u32(), content.u32())
            if sort == _INSTANCE_SORT:
                raise content.malformed("an alias of an outer instance")
            return outer if sort == _COMPONENT_SORT else None
    raise content.malformed("an alias of an unknown form")


def _read_import(content: Reader, _found: Definition) -> Step | None:
    name, sort = read_name(content), read_extern_type(content)
    return Imported(name, sort == "component") if sort in _FOLLOWED.values() else None


def _read_export(content: Reader, _found: Definition) -> Step | None:
    name, sort, index = read_name(content), read_sort(content), content.u32()
    if read_flag(content):  # an ascribed type follows
        read_extern_type(content)
    return Exported(Item(name, sort == "component", index)) if sort in _FOLLOWED.values() else None


def make_unknown_error(what: str) -> InvalidComponentError:
    """Return the error for a step with an invalid reference; `what` completes the sentence "the component ..."."""
    return InvalidComponentError(f"the component {what}", hint="build it again with a current toolchain")
