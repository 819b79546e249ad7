"""The capability to check whether secrets with certain names are set. It never gives access to their values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from wasmrt.capabilities._fields import ListOf, ObjectSchema, Problems, Property, Text
from wasmrt.capabilities._phrases import join_words
from wasmrt.capabilities.kinds._capability import FileWarning, PatternCapability, intersect_entries
from wasmrt.capabilities.model import (
    glob_covers,
    read_secret_glob,
    read_secret_name,
    remove_duplicates,
    set_checked_tuple,
)
from wasmrt.capabilities.services import Service
from wasmrt.core.effects import Effect
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.model import Addition, Decision, GrantList, Reason
from wasmrt.core.url import Network


@dataclass(frozen=True, slots=True)
class SecretsCapability(PatternCapability):
    """The secrets whose existence a guest may check: exact names, or prefixes of names followed by `*`.

    Examples:
        >>> from wasmrt import SecretsCapability
        >>> SecretsCapability(("github_*",)).allows("github_token")
        True
    """

    allowed_names: tuple[str, ...] = ()

    section: ClassVar = "secrets"
    attribute: ClassVar = "secrets"
    grant_list: ClassVar = GrantList("secrets.allowed_names")
    amendments: ClassVar = ("secrets",)
    use: ClassVar = ("secret", "a check whether this secret is set")
    act: ClassVar = ("ask", "which secrets are set")
    imports: ClassVar = ("wasmrt:tool/secrets", "near:agent/host#secret-exists")
    file_section: ClassVar = Property(
        field=ObjectSchema(
            {
                "allowed_names": Property(
                    field=ListOf(item=Text(max_length=128, check=read_secret_glob, pattern=r"^[A-Za-z0-9_.-]*\*?$")),
                    about="Names of these secrets; a final '*' matches every name with that prefix.",
                    required=True,
                    aliases=("allowed",),
                )
            }
        ),
        about="Secrets whose existence, not value, the tool may check.",
    )

    def __post_init__(self) -> None:
        set_checked_tuple(self, "allowed_names", str)
        object.__setattr__(self, "allowed_names", remove_duplicates(read_secret_glob, self.allowed_names))

    def allows(self, name: str) -> bool:
        """Return whether a guest may check the existence of the secret `name`. Case is ignored."""
        return any(glob_covers(pattern, name.lower()) for pattern in self.allowed_names)

    @classmethod
    def build(cls, tree: Any, outer: Self | None, place: str, problems: Problems) -> Self:
        return cls(tree["allowed_names"])

    def as_json(self, outer: Self | None) -> Any:
        return {"allowed_names": list(self.allowed_names)}

    @property
    def entries(self) -> tuple[str, ...]:
        return self.allowed_names

    def with_entries(self, entries: Iterable[str]) -> Self:
        return type(self)(tuple(entries))

    @staticmethod
    def within(inner: str, outer: str) -> bool:
        return inner == outer or (glob_covers(outer, inner.removesuffix("*")) and outer.endswith("*"))

    def without(self, name: str, value: str | None) -> Self | None:
        return PatternCapability.without(self, name, None if value is None else value.lower())

    def intersect(self, other: Self) -> Self:
        return self.with_entries(intersect_entries(self.entries, other.entries, self.within))

    def effects(self) -> frozenset[Effect]:
        return frozenset({Effect.USE_SECRET} if self.allowed_names else ())

    def within_effects(self, effects: frozenset[Effect]) -> Self | None:
        return self if Effect.USE_SECRET in effects else None

    def describe(self, entry: str) -> str:
        return f"may ask whether secret {entry} is set"

    def sentences(self, services: Sequence[Service], networks: Sequence[Network]) -> Iterator[str]:
        if self.allowed_names:
            yield f"may ask whether these secrets are set, never what they are: {join_words(self.allowed_names)}"

    def warnings(self) -> Iterator[FileWarning]:
        if "*" in self.allowed_names:
            yield FileWarning(str(self.grant_list), "'*' lets the tool check the existence of every secret")

    @classmethod
    def decide(cls, granted: Self | None, use: str) -> Decision:
        try:
            spelled = read_secret_name(use)
        except ConfigurationError as problem:
            rule = "the name is not a valid secret name"
            return Decision(False, Reason.SECRET_NOT_ALLOWED, rule, problem.message, cls.section)
        if granted is None:
            addition = Addition(cls.grant_list, json.dumps(spelled), new_section=True)
            return Decision(False, Reason.NOT_GRANTED, "no secrets section", addition, cls.section, spelled)
        if not granted.allows(spelled):
            rule = "no entry of secrets.allowed_names covers this name"
            addition = Addition(cls.grant_list, json.dumps(spelled))
            return Decision(False, Reason.SECRET_NOT_ALLOWED, rule, addition, cls.section, spelled)
        return Decision(True, Reason.ALLOWED, "secrets.allowed_names", capability=cls.section, subject=spelled)
