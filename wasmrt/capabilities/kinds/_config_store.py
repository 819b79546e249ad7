"""The capability to read configuration values, which the grant contains."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar, Self

from wasmrt.capabilities._fields import ListOf, ObjectSchema, Problems, Property, Text, join_path
from wasmrt.capabilities._phrases import join_words
from wasmrt.capabilities.kinds._capability import FileWarning, PatternCapability, attempt
from wasmrt.capabilities.model import set_checked_tuple
from wasmrt.capabilities.services import Service
from wasmrt.core.effects import Effect
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.model import Addition, Decision, GrantList, Reason
from wasmrt.core.url import Network

_KEY = r"[A-Za-z0-9_.-]{1,128}"
_SECRET = re.compile(r"(?i)key|token|secret|passw")
_MAX_ENTRY_CHARS = 4096


def _read_entry(text: str) -> str:
    if re.fullmatch(_KEY, text.partition("=")[0]) is None or not text.isprintable() or len(text) > _MAX_ENTRY_CHARS:
        raise ConfigurationError(
            f"{text!r:.80} must be a key of letters, digits, '_', '-' and '.', or KEY=VALUE of at most "
            f"{_MAX_ENTRY_CHARS} printable characters",
            hint="example: units=metric",
        )
    return text


@dataclass(frozen=True, slots=True)
class ConfigStoreCapability(PatternCapability):
    """The configuration values that a guest may read: `KEY=VALUE`, or `KEY` alone for a key that has no value.

    A request with the key alone can be granted with any value.
    """

    values: tuple[str, ...] = ()

    section: ClassVar = "config_store"
    attribute: ClassVar = "config_store"
    grant_list: ClassVar = GrantList("config_store.values")
    amendments: ClassVar = ("config_store",)
    use: ClassVar = ("config", "reading the configuration value with this key")
    act: ClassVar = ("read", "configuration values")
    imports: ClassVar = ("wasi:config/store",)
    file_section: ClassVar = Property(
        field=ObjectSchema(
            {
                "values": Property(
                    field=ListOf(item=Text(_MAX_ENTRY_CHARS, check=_read_entry, pattern=f"^{_KEY}(=.*)?$")),
                    about="Entries KEY=VALUE; KEY alone requests a value, which the grant can set.",
                    required=True,
                )
            }
        ),
        about="Configuration values that the tool may read. They are not secret.",
    )

    def __post_init__(self) -> None:
        set_checked_tuple(self, "values", str)
        object.__setattr__(self, "values", tuple(dict.fromkeys(_read_entry(entry) for entry in self.values)))
        valued = [entry.partition("=")[0] for entry in self.values if "=" in entry]
        if len(set(valued)) < len(valued):
            raise ConfigurationError("config_store.values has two values for the same key", hint="keep one of them")

    @property
    def by_key(self) -> Mapping[str, str | None]:
        """The value of each key, or None for a key without value."""
        pairs = [entry.partition("=") for entry in sorted(self.values)]  # sorted: KEY comes before KEY=VALUE
        return {key: value if mark else None for key, mark, value in pairs}

    @classmethod
    def build(cls, tree: Any, outer: Self | None, place: str, problems: Problems) -> Self | None:
        return attempt(place, problems, lambda: cls(tree["values"]))

    def as_json(self, outer: Self | None) -> Any:
        return {"values": list(self.values)}

    @property
    def entries(self) -> tuple[str, ...]:
        return self.values

    def with_entries(self, entries: Iterable[str]) -> Self:
        return type(self)(tuple(entries))

    @staticmethod
    def within(inner: str, outer: str) -> bool:
        return inner == outer or inner.partition("=")[0] == outer

    def extend(self, other: Self) -> Self:
        """Append the entries of `other`. A value replaces the previous value of its key."""
        replaced = {entry.partition("=")[0] for entry in other.values if "=" in entry}
        kept = (entry for entry in self.values if "=" not in entry or entry.partition("=")[0] not in replaced)
        return self.with_entries((*kept, *other.values))

    @classmethod
    def condense(cls, parts: Sequence[Self]) -> Self:
        return reduce(lambda whole, part: whole.extend(part), parts)

    def intersect(self, other: Self) -> Self:
        """Return the entries that both cover. If both set a key, the value of `other` counts."""
        mine = (entry for entry in self.values if any(self.within(entry, theirs) for theirs in other.values))
        theirs = (entry for entry in other.values if any(self.within(entry, mine) for mine in self.values))
        return self.with_entries(mine).extend(self.with_entries(theirs))

    def effects(self) -> frozenset[Effect]:
        return frozenset()

    def within_effects(self, effects: frozenset[Effect]) -> Self:
        return self

    def describe(self, entry: str) -> str:
        key, mark, value = entry.partition("=")
        return f"may read the configuration value {key}={value}" if mark else f"may read the configuration value {key}"

    def sentences(self, services: Sequence[Service], networks: Sequence[Network]) -> Iterator[str]:
        if self.values:
            yield f"may read these configuration values: {join_words(self.values)}"

    def warnings(self) -> Iterator[FileWarning]:
        for index, entry in enumerate(self.values):
            key, has_value, _ = entry.partition("=")
            if has_value and _SECRET.search(key):
                yield FileWarning(
                    join_path(self.grant_list, index), "the tool can read this value; use a credential instead"
                )

    @classmethod
    def decide(cls, granted: Self | None, use: str) -> Decision:
        if re.fullmatch(_KEY, use) is None:
            rule = "the key is not a valid key of a configuration value"
            hint = "use letters, digits, '_', '-' and '.'"
            return Decision(False, Reason.NOT_GRANTED, rule, hint, cls.section)
        if granted is None or use not in granted.by_key:
            rule = "no config_store section" if granted is None else "no entry of config_store.values has this key"
            addition = Addition(cls.grant_list, json.dumps(use), new_section=granted is None)
            return Decision(False, Reason.NOT_GRANTED, rule, addition, cls.section, use)
        return Decision(True, Reason.ALLOWED, str(cls.grant_list), capability=cls.section, subject=use)
