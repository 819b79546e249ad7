"""The base of every capability: the operations that the file, the merge, amendments and sentences need from it.

A capability is a frozen value. Its class declares its section of the file, and each operation on it is a method, so
that nothing outside its module depends on which capabilities there are.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

from wasmrt.capabilities._fields import Problems, Property, child
from wasmrt.capabilities._phrases import format_number
from wasmrt.capabilities.services import Service
from wasmrt.core.effects import Effect
from wasmrt.core.errors import ConfigurationError, WasmrtError
from wasmrt.core.limits import MAX_CAPABILITY_ENTRIES
from wasmrt.core.model import Addition, GrantList
from wasmrt.core.url import Network

E = TypeVar("E")
T = TypeVar("T")
WIDER = "is wider than the component's capabilities; a tool can have a part of them only"
_ABOUT = {
    "max_request_bytes": "a request's size",
    "max_response_bytes": "a response's size",
    "timeout_seconds": "time",
    "requests_per_minute": "times a minute",
    "requests_per_hour": "times an hour",
    "max_file_bytes": "a file's size",
    "max_bytes": "total size of a call's writes",
    "max_files": "files that a call writes",
    "memory_bytes": "memory",
    "fuel": "units of fuel",
    "output_bytes": "a result's size",
    "table_elements": "elements in a table",
    "instances": "core instances",
}


class Change(NamedTuple):
    """One thing that only one of two sets of capabilities allows."""

    section: str
    """`http.allowlist`, `limits.fuel`, ..."""
    sentence: str


class FileWarning(NamedTuple):
    """One entry of a valid capability file that deserves a review."""

    path: str
    message: str

    def as_dict(self) -> dict[str, str]:
        """Return path and message as JSON data."""
        return {"path": self.path, "message": self.message}


class Flow(NamedTuple):
    """The data that a tool can read by a capability, and the places that it can send it to."""

    reads: str = ""
    """The part of the workspace that it reads, in words."""
    private: tuple[str, ...] = ()
    """Hosts that answer with what the user's secrets open."""
    out: tuple[str, ...] = ()
    """Hosts and tools that it can send something to."""


class Numbers(NamedTuple):
    """Compares numbers, and describes a change from the older value to the newer one."""

    narrower: bool
    """The first value is the newer one."""

    def larger(self, section: str, before: Mapping[str, float], after: Mapping[str, float]) -> Iterator[Change]:
        """Yield each number that is larger in `after`."""
        for name, larger in after.items():
            smaller = before[name]
            if larger <= smaller:
                continue
            key = name.rpartition(".")[2]
            old, new = (larger, smaller) if self.narrower else (smaller, larger)
            was, now = format_number(key, old), format_number(key, new)
            if was == now:  # too near to each other for rounded numbers
                was, now = f"{old:,}", f"{new:,}"
            yield Change(f"{section}.{name}", f"{_ABOUT.get(key, key)}: {now} instead of {was}")


class Capability(ABC):
    """One capability of a tool. Immutable; `Capabilities` holds at most one of each class."""

    __slots__ = ()
    section: ClassVar[str]
    """Its section of a capability file."""
    attribute: ClassVar[str]
    """Its field of `Capabilities`."""
    file_section: ClassVar[Property]
    """Reads the section, and writes its JSON Schema."""
    grant_list: ClassVar[GrantList]
    """The list of the section that can take one more entry."""
    example: ClassVar[Any] = "..."
    """The JSON of an entry, for the line that would allow an import."""
    amendments: ClassVar[tuple[str, ...]]
    """The names that `wasmrt grant` takes for parts of it, the section's first."""
    imports: ClassVar[tuple[str, ...]]
    """Imports that need it: an interface, or `interface#function`."""
    usable_imports: ClassVar[tuple[str, ...]] = ()
    """Imports that can use it, and need another capability only."""
    replaces: ClassVar[str] = ""
    """A section that is not needed beside this one by imports that can use this one."""
    act: ClassVar[tuple[str, str]]
    """Verb and object of what it allows, for the sentence that lists what is not allowed."""

    @classmethod
    @abstractmethod
    def build(cls, tree: Any, outer: Self | None, place: str, problems: Problems) -> Self | None:
        """Return the capability of a checked section; None if problems were added.

        Args:
            tree: The section as `file_section` reads it.
            outer: The component's, for the section of one tool: it gives the numbers that are left out.
            place: The section's JSON path.
            problems: Takes the errors.
        """

    @abstractmethod
    def as_json(self, outer: Self | None) -> Any:
        """Return the section as JSON data, without what is the same in `outer`, by default in an empty capability."""

    @classmethod
    def addition_tree(cls, entry: Any) -> Any:
        """Return the JSON of a section that has this entry only."""
        return {cls.grant_list.partition(".")[2]: [entry]}

    @classmethod
    def example_line(cls) -> str:
        """Return an example of the section."""
        return f'"{cls.section}": {json.dumps(cls.addition_tree(cls.example))}'

    @classmethod
    def amendment_value(cls, entry: str) -> str | None:
        """Return the JSON of an entry as an amendment names it; None for the whole section."""
        value = json.loads(entry)
        return str(value) if value else None

    @abstractmethod
    def is_empty(self) -> bool:
        """Return whether it allows nothing."""

    @abstractmethod
    def beyond(self, outer: Self | None) -> Iterator[tuple[str, str]]:
        """Yield each entry that `outer`, the component's, does not cover: its JSON path and a sentence."""

    @abstractmethod
    def intersect(self, other: Self) -> Self:
        """Return what both allow."""

    @abstractmethod
    def extend(self, other: Self) -> Self:
        """Return this with the entries of `other` at the end of its own; its numbers stay."""

    @abstractmethod
    def replace_entries(self, other: Self) -> Self:
        """Return the entries of `other`, with the numbers of this one and nothing else."""

    @abstractmethod
    def unite(self, other: Self) -> Self:
        """Return all entries of both, each once, with the numbers of this one."""

    @classmethod
    @abstractmethod
    def condense(cls, parts: Sequence[Self]) -> Self:
        """Return the fewest entries that allow all that `parts` do."""

    @abstractmethod
    def additions(self) -> Iterator[Addition]:
        """Yield each entry as an addition to a capability file."""

    @abstractmethod
    def covers_entries(self, other: Self) -> bool:
        """Return whether the entries here cover those of `other`."""

    @abstractmethod
    def covers_value(self, name: str, value: str) -> bool:
        """Return whether the entries here cover all that an amendment names, and not only a part of it."""

    @abstractmethod
    def part(self, name: str, value: str | None) -> Self | None:
        """Return the part that an amendment names, or None; a None value names the whole section."""

    @abstractmethod
    def without(self, name: str, value: str | None) -> Self | None:
        """Return the rest without the entries that an amendment covers; None if nothing is left."""

    @abstractmethod
    def effects(self) -> frozenset[Effect]:
        """Return every effect that a use of it can have."""

    @abstractmethod
    def within_effects(self, effects: frozenset[Effect]) -> Self | None:
        """Return the part whose uses can have no other effects than these."""

    @abstractmethod
    def sentences(self, services: Sequence[Service], networks: Sequence[Network]) -> Iterator[str]:
        """Yield what it allows, as sentences without a subject."""

    def flow(self, networks: Sequence[Network]) -> Flow:
        """Return what a tool reads by it, and where it can send that."""
        return Flow()

    @abstractmethod
    def added(self, before: Self | None, numbers: Numbers) -> Iterator[Change]:
        """Yield what this allows beyond `before`."""

    @abstractmethod
    def warnings(self) -> Iterator[FileWarning]:
        """Yield the entries of a file that deserve a review."""


class ListedCapability(Capability, Generic[E]):
    """A capability that is one list of entries with some numbers."""

    __slots__ = ()

    @property
    @abstractmethod
    def entries(self) -> tuple[E, ...]:
        """The list."""

    @abstractmethod
    def with_entries(self, entries: Iterable[E]) -> Self:
        """Return this with other entries."""

    @staticmethod
    @abstractmethod
    def within(inner: E, outer: E) -> bool:
        """Return whether one entry covers all that another one does."""

    @abstractmethod
    def describe(self, entry: E) -> str:
        """Return an entry as a sentence without a subject."""

    def numbers(self) -> dict[str, float]:
        """Return its numbers by their paths in the section: a larger one allows more."""
        return {}

    def added_settings(self, before: Self | None) -> Iterator[Change]:
        """Yield what this allows beyond `before` by neither its entries nor its numbers."""
        return iter(())

    def is_empty(self) -> bool:
        return not self.entries

    def beyond(self, outer: Self | None) -> Iterator[tuple[str, str]]:
        known, most = (outer.entries, outer.numbers()) if outer is not None else ((), type(self)().numbers())
        for index, entry in enumerate(self.entries):
            if not any(self.within(entry, other) for other in known):
                yield child(self.grant_list, index), WIDER
        for name, number in self.numbers().items():
            if number > most[name]:
                yield f"{self.section}.{name}", WIDER

    def extend(self, other: Self) -> Self:
        return self.with_entries((*self.entries, *other.entries))

    def replace_entries(self, other: Self) -> Self:
        return self.with_entries(other.entries)

    def unite(self, other: Self) -> Self:
        return self.extend(other)

    @classmethod
    def condense(cls, parts: Sequence[Self]) -> Self:
        return parts[0].with_entries(widest((entry for part in parts for entry in part.entries), cls.within))

    def additions(self) -> Iterator[Addition]:
        return (Addition(self.grant_list, json.dumps(entry)) for entry in self.entries)

    def covers_entries(self, other: Self) -> bool:
        return all(any(self.within(entry, mine) for mine in self.entries) for entry in other.entries)

    def added(self, before: Self | None, numbers: Numbers) -> Iterator[Change]:
        known = () if before is None else before.entries
        for entry in self.entries:
            if not any(self.within(entry, other) for other in known):
                yield Change(str(self.grant_list), self.describe(entry))
        yield from self.added_settings(before)
        if before is not None:
            yield from numbers.larger(self.section, before.numbers(), self.numbers())


class PatternCapability(ListedCapability[str]):
    """A capability whose entries are texts, each of which may cover others."""

    __slots__ = ()

    def covers_value(self, name: str, value: str) -> bool:
        return any(self.within(value, entry) for entry in self.entries)

    def part(self, name: str, value: str | None) -> Self | None:
        if value is None:
            return self if self.entries else None
        found = [common for entry in self.entries if (common := narrower(entry, value, self.within)) is not None]
        return self.with_entries(dict.fromkeys(found)) if found else None

    def without(self, name: str, value: str | None) -> Self | None:
        left = () if value is None else tuple(entry for entry in self.entries if not self.within(entry, value))
        return self.with_entries(left) if left else None


def narrower(one: E, other: E, within: Callable[[E, E], bool]) -> E | None:
    """Return the entry that lies within the other one, or None."""
    return one if within(one, other) else other if within(other, one) else None


def common_entries(one: Iterable[E], other: Iterable[E], within: Callable[[E, E], bool]) -> list[E]:
    """Return the entries that both lists cover."""
    pairs = (narrower(a, b, within) for a, b in product(one, other))
    return widest((entry for entry in pairs if entry is not None), within)


def widest(items: Iterable[E], within: Callable[[E, E], bool]) -> list[E]:
    """Return the items that no other one covers.

    Raises:
        ConfigurationError: more are left than a capability file may hold.
    """
    kept: list[E] = []
    for item in items:
        if not any(within(item, other) for other in kept):
            kept = [other for other in kept if not within(other, item)]
            kept.append(item)
        if len(kept) > 4 * MAX_CAPABILITY_ENTRIES:
            break
    if len(kept) > MAX_CAPABILITY_ENTRIES:
        raise ConfigurationError(
            f"request and grant have more than {MAX_CAPABILITY_ENTRIES} entries in common",
            hint="write the grant with fewer, wider entries",
        )
    return kept


def attempt(place: str, problems: Problems, make: Callable[[], T]) -> T | None:
    """Return the result of `make`; if it fails, add its error as a problem at `place` and return None."""
    try:
        return make()
    except WasmrtError as error:
        problems.add(place, f"{error.message}{f' ({error.hint})' if error.hint else ''}")
        return None
