"""Base classes of all capabilities: operations for capability files, merges, amendments and sentences.

Capabilities are frozen values. Each class declares its section of a capability file, and implements each operation as a
method. Code outside of the modules for the classes therefore works with every kind of capability.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

from wasmrt.capabilities._fields import Problems, Property, join_path
from wasmrt.capabilities._phrases import format_number
from wasmrt.capabilities.model import remove_covered
from wasmrt.capabilities.services import Service
from wasmrt.core.effects import Effect
from wasmrt.core.errors import ConfigurationError, WasmrtError
from wasmrt.core.model import Addition, Decision, GrantList
from wasmrt.core.url import Network

E = TypeVar("E")
T = TypeVar("T")
WIDER = "is wider than the component's capabilities; a tool can only have a part of them"


class Change(NamedTuple):
    """A permission that only one of two sets of capabilities has."""

    section: str
    """The path of the section or list, such as `http.allowlist` or `limits.fuel`."""
    sentence: str


class FileWarning(NamedTuple):
    """A warning about one entry of a valid capability file that the user should review."""

    path: str
    message: str

    def as_dict(self) -> dict[str, str]:
        """Return path and message as JSON data."""
        return {"path": self.path, "message": self.message}


class Flow(NamedTuple):
    """The data that a tool can read through a capability, and its possible destinations."""

    reads: str = ""
    """A phrase for the part of the workspace that the tool can read, such as `under notes/`."""
    private: tuple[str, ...] = ()
    """Hosts whose responses depend on the user's secrets."""
    out: tuple[str, ...] = ()
    """Hosts and tools that can receive data."""


class Numbers(NamedTuple):
    """Compares the numeric limits of two versions of a capability, and describes each change."""

    narrower: bool
    """True if `before` is the new version and `after` is the old version. The changes are then lowered limits."""

    def larger(
        self, section: str, before: Mapping[str, float], after: Mapping[str, float], names: Mapping[str, str]
    ) -> Iterator[Change]:
        """Yield a change for each number that is larger in `after` than in `before`. `names` has plain names."""
        for name, larger in after.items():
            smaller = before[name]
            if larger <= smaller:
                continue
            key = name.rpartition(".")[2]
            old, new = (larger, smaller) if self.narrower else (smaller, larger)
            was, now = format_number(key, old), format_number(key, new)
            if was == now:  # rounding hides the difference
                was, now = f"{old:,}", f"{new:,}"
            yield Change(f"{section}.{name}", f"{names[key]}: {now} instead of {was}")


class Capability(ABC):
    """One capability of a tool. Capabilities are immutable; `Capabilities` contains at most one of each class."""

    __slots__ = ()
    section: ClassVar[str]
    """The name of the capability's section in a capability file."""
    attribute: ClassVar[str]
    """The name of the capability's field in `Capabilities`."""
    file_section: ClassVar[Property]
    """The declaration of the section, for reading it and for its JSON Schema."""
    grant_list: ClassVar[GrantList]
    """The list in the section to which entries can be added."""
    example: ClassVar[Any] = "..."
    """An example entry as JSON data, for hints about missing sections."""
    number_names: ClassVar[Mapping[str, str]] = {}
    """A name in plain words for each number of the section."""
    amendments: ClassVar[tuple[str, ...]]
    """The names that `wasmrt grant` accepts for parts of the capability. The first name is the section."""
    imports: ClassVar[tuple[str, ...]]
    """Imports that need this capability: an interface, or `interface#function`."""
    usable_imports: ClassVar[tuple[str, ...]] = ()
    """Imports that can use this capability, but do not require it. They require a different capability."""
    replaces: ClassVar[str] = ""
    """A section that a component does not require if this capability is granted and its imports can use it."""
    use: ClassVar[tuple[str, str]]
    """The option of `wasmrt caps explain` for one use, without dashes, and a phrase for the use."""
    act: ClassVar[tuple[str, str]]
    """The verb and the object of the permission, for the sentence that lists missing permissions."""

    @classmethod
    @abstractmethod
    def build(cls, tree: Any, outer: Self | None, place: str, problems: Problems) -> Self | None:
        """Build the capability from a validated section. If this fails, add the errors to `problems` and return None.

        Args:
            tree: The section as read by `file_section`.
            outer: The component's capability if the section belongs to a single tool. It provides missing numbers.
            place: The JSON path of the section.
            problems: Collects the errors.
        """

    @abstractmethod
    def as_json(self, outer: Self | None) -> Any:
        """Return the section as JSON data. Numbers and credentials that are equal in `outer` are omitted.

        None for `outer` means a capability with default values.
        """

    @classmethod
    def addition_tree(cls, entry: Any) -> Any:
        """Return the JSON data of a section that contains only this entry."""
        return {cls.grant_list.partition(".")[2]: [entry]}

    @classmethod
    def format_example(cls) -> str:
        """Return an example of the section as a line of JSON."""
        return f'"{cls.section}": {json.dumps(cls.addition_tree(cls.example))}'

    @classmethod
    def amendment_value(cls, entry: str) -> str | None:
        """Return the value that names an entry in an amendment, or None if the entry is the whole section.

        `entry` is the JSON of the entry.
        """
        value = json.loads(entry)
        return str(value) if value else None

    @classmethod
    def read_entry(cls, text: str, asked: str) -> str:
        """Return, as JSON, the entry that a user typed in its short form to replace the requested entry `asked`.

        Raises:
            ConfigurationError: the text is not a valid entry.
        """
        return json.dumps(text, ensure_ascii=False)

    @classmethod
    @abstractmethod
    def decide(cls, granted: Self | None, use: str) -> Decision:
        """Decide whether the granted capability allows one use, such as a path. None if nothing is granted."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Return whether the capability allows nothing."""

    def check_complete(self) -> None:  # noqa: B027 - most kinds have no placeholders
        """Check that no entry contains a placeholder that a user has to replace.

        Raises:
            ConfigurationError: an entry has a placeholder.
        """

    def may_be_narrowed_to(self, answer: Self) -> bool:
        """Return whether a user who is asked for these entries may grant the entries of `answer` instead."""
        return self.covers_entries(answer)

    @abstractmethod
    def beyond(self, outer: Self | None) -> Iterator[tuple[str, str]]:
        """Yield the JSON path and an error message for each entry or number that is wider than in `outer`.

        `outer` is the capability of the component, or None if the component does not have the capability.
        """

    @abstractmethod
    def intersect(self, other: Self) -> Self:
        """Return the capability for the uses that both `self` and `other` allow."""

    @abstractmethod
    def extend(self, other: Self) -> Self:
        """Append the entries of `other`. The numeric limits of `self` stay unchanged."""

    @abstractmethod
    def replace_entries(self, other: Self) -> Self:
        """Return a capability with the entries of `other` and the numeric limits of this capability."""

    @abstractmethod
    def unite(self, other: Self) -> Self:
        """Add the entries of `other` that this capability does not have yet. Its numeric limits stay unchanged."""

    @classmethod
    @abstractmethod
    def condense(cls, parts: Sequence[Self]) -> Self:
        """Return the capability with the fewest entries that covers all `parts`."""

    @abstractmethod
    def additions(self) -> Iterator[Addition]:
        """Yield each entry as an addition to a capability file."""

    @abstractmethod
    def covers_entries(self, other: Self) -> bool:
        """Return whether the entries of this capability cover all entries of `other`."""

    @abstractmethod
    def covers_value(self, name: str, value: str) -> bool:
        """Return whether the entries cover everything that an amendment names, not only a part of it."""

    @abstractmethod
    def part(self, name: str, value: str | None) -> Self | None:
        """Return the part of this capability that an amendment names, or None. With None, it is the whole section."""

    @abstractmethod
    def without(self, name: str, value: str | None) -> Self | None:
        """Remove everything that an amendment covers. Return None if no entry is left.

        Raises:
            ConfigurationError: no entries can express the rest.
        """

    @abstractmethod
    def effects(self) -> frozenset[Effect]:
        """Return all effects that uses of this capability can have."""

    @abstractmethod
    def within_effects(self, effects: frozenset[Effect]) -> Self | None:
        """Return the part of this capability whose uses have only these effects, or None if there is no such part."""

    @abstractmethod
    def sentences(self, services: Sequence[Service], networks: Sequence[Network]) -> Iterator[str]:
        """Yield a sentence for each permission, without the subject (the tool): `may read files under notes/`."""

    def flow(self, networks: Sequence[Network]) -> Flow:
        """Return the data that a tool can read through this capability, and the places where it can send data."""
        return Flow()

    @abstractmethod
    def added(self, before: Self | None, numbers: Numbers) -> Iterator[Change]:
        """Yield a change for each permission that `before`, the capability of the other version, does not have."""

    @abstractmethod
    def warnings(self) -> Iterator[FileWarning]:
        """Yield warnings about entries that the user should review."""


class ListedCapability(Capability, Generic[E]):
    """A capability that consists of one list of entries and some numeric limits."""

    __slots__ = ()

    @property
    @abstractmethod
    def entries(self) -> tuple[E, ...]:
        """The entries of the list."""

    @abstractmethod
    def with_entries(self, entries: Iterable[E]) -> Self:
        """Replace all entries. The numeric limits stay unchanged."""

    @staticmethod
    @abstractmethod
    def within(inner: E, outer: E) -> bool:
        """Return whether `outer` covers everything that `inner` covers."""

    @abstractmethod
    def describe(self, entry: E) -> str:
        """Describe an entry in a sentence without the subject: `may read files under notes/`."""

    def numbers(self) -> dict[str, float]:
        """Return the numeric limits, by their paths in the section. A larger number allows more."""
        return {}

    def added_settings(self, before: Self | None) -> Iterator[Change]:
        """Yield a change for each added permission that is neither an entry nor a number. `before` lacks it."""
        return iter(())

    def is_empty(self) -> bool:
        return not self.entries

    def beyond(self, outer: Self | None) -> Iterator[tuple[str, str]]:
        known, most = (outer.entries, outer.numbers()) if outer is not None else ((), type(self)().numbers())
        for index, entry in enumerate(self.entries):
            if not any(self.within(entry, other) for other in known):
                yield join_path(self.grant_list, index), WIDER
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
        return parts[0].with_entries(remove_covered((entry for part in parts for entry in part.entries), cls.within))

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
            yield from numbers.larger(self.section, before.numbers(), self.numbers(), self.number_names)


class PatternCapability(ListedCapability[str]):
    """A capability whose entries are strings that can cover each other."""

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
        for entry in left:
            # SECURITY: the entry would still allow what is revoked.
            if value is not None and self.within(value, entry):
                raise ConfigurationError(
                    f"{name}={value} is only a part of the wider entry {entry!r}",
                    hint=f"revoke '{name}={entry}' and add the rest again, or use --edit"
                    if entry
                    else f"revoke '{name}' and add the rest again, or use --edit",
                )
        return self.with_entries(left) if left else None


def narrower(one: E, other: E, within: Callable[[E, E], bool]) -> E | None:
    """Return `one` if `other` covers it, `other` if `one` covers it, and otherwise None."""
    return one if within(one, other) else other if within(other, one) else None


def intersect_entries(one: Iterable[E], other: Iterable[E], within: Callable[[E, E], bool]) -> list[E]:
    """Return the entries for everything that both lists of entries cover."""
    pairs = (narrower(a, b, within) for a, b in product(one, other))
    return remove_covered((entry for entry in pairs if entry is not None), within)


def attempt(place: str, problems: Problems, make: Callable[[], T]) -> T | None:
    """Return the result of `make`. If `make` raises a `WasmrtError`, add a problem at `place` and return None."""
    try:
        return make()
    except WasmrtError as error:
        problems.add(place, f"{error.message}{f' ({error.hint})' if error.hint else ''}")
        return None
