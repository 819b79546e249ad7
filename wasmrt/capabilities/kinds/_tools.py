"""The capability to call other tools by aliases."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from wasmrt.capabilities._fields import MapOf, ObjectSchema, Problems, Property, Text, join_path
from wasmrt.capabilities._phrases import join_words
from wasmrt.capabilities.kinds._capability import WIDER, FileWarning, Flow, ListedCapability, attempt
from wasmrt.capabilities.kinds._limits import RATE, RATE_NAMES, RateLimitConfig
from wasmrt.capabilities.model import read_alias, read_tool_name, set_checked_tuple
from wasmrt.capabilities.services import Service
from wasmrt.core.effects import Effect
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.model import Addition, Decision, GrantList, Reason
from wasmrt.core.url import Network

SOME_TOOL = "NAME-OF-THE-TOOL"
"""The placeholder for the tool's name in a suggested entry. Only the user knows which tool an alias means."""
_ALIAS = Text(max_length=64, check=read_alias, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")
_TOOL = Text(max_length=256, check=read_tool_name, pattern=r"^[!-~]+$")


@dataclass(frozen=True, slots=True)
class ToolInvokeCapability(ListedCapability[tuple[str, str]]):
    """The tools that a guest may call by alias. The guest does not learn the tools' names.

    Examples:
        >>> from wasmrt import ToolInvokeCapability
        >>> ToolInvokeCapability((("parse", "json"),)).resolve("parse")
        'json'
    """

    aliases: tuple[tuple[str, str], ...] = ()
    """Sorted pairs of an alias and a tool name. The constructor also accepts a mapping."""
    rate_limit: RateLimitConfig = field(default_factory=RateLimitConfig)

    section: ClassVar = "tool_invoke"
    attribute: ClassVar = "tool_invoke"
    grant_list: ClassVar = GrantList("tool_invoke.aliases", is_map=True)
    amendments: ClassVar = ("tool_invoke",)
    example: ClassVar = {"...": "..."}
    number_names: ClassVar = RATE_NAMES
    use: ClassVar = ("alias", "a call of the tool with this alias")
    act: ClassVar = ("call", "other tools")
    imports: ClassVar = ("wasmrt:tool/tools", "near:agent/host#tool-invoke")
    file_section: ClassVar = Property(
        field=ObjectSchema(
            {
                "aliases": Property(
                    field=MapOf(item=_TOOL, key=_ALIAS), about="Name of the tool for each alias.", required=True
                ),
                "rate_limit": RATE,
            }
        ),
        about="Tools that may be called, by alias.",
    )

    def __post_init__(self) -> None:
        pairs = self.aliases.items() if isinstance(self.aliases, Mapping) else self.aliases
        try:
            object.__setattr__(self, "aliases", tuple(sorted((str(a), str(t)) for a, t in pairs)))
        except (TypeError, ValueError):
            raise ConfigurationError("aliases must map each alias to the name of a tool") from None
        set_checked_tuple(self, "aliases", tuple)
        if len(dict(self.aliases)) < len(self.aliases):
            raise ConfigurationError("an alias is listed with two tools", hint="keep one tool for each alias")
        for alias, tool in self.aliases:
            read_alias(alias)
            read_tool_name(tool)

    def resolve(self, alias: str) -> str | None:
        """Return the name of the tool for an alias, or None."""
        return dict(self.aliases).get(alias)

    @classmethod
    def build(cls, tree: Any, outer: Self | None, place: str, problems: Problems) -> Self | None:
        rate = RateLimitConfig(**tree.get("rate_limit", {}))
        return attempt(place, problems, lambda: cls(tuple(tree["aliases"].items()), rate))

    def as_json(self, outer: Self | None) -> Any:
        return {"aliases": dict(self.aliases)} | self.rate_limit.as_json(RateLimitConfig())

    @classmethod
    def addition_tree(cls, entry: Any) -> Any:
        return {"aliases": entry}

    @classmethod
    def read_entry(cls, text: str, asked: str) -> str:
        alias, given, tool = text.partition("=")
        return json.dumps({alias: tool} if given else dict.fromkeys(json.loads(asked), text))

    @classmethod
    def amendment_value(cls, entry: str) -> str:
        return str(next(iter(json.loads(entry))))

    @property
    def entries(self) -> tuple[tuple[str, str], ...]:
        return self.aliases

    def with_entries(self, entries: Iterable[tuple[str, str]]) -> Self:
        return replace(self, aliases=tuple(entries))

    @staticmethod
    def within(inner: tuple[str, str], outer: tuple[str, str]) -> bool:
        return inner == outer

    def numbers(self) -> dict[str, float]:
        return self.rate_limit.numbers()

    def beyond(self, outer: Self | None) -> Iterator[tuple[str, str]]:
        known = () if outer is None else outer.aliases
        return (
            (join_path(self.grant_list, alias), WIDER) for alias, tool in self.aliases if (alias, tool) not in known
        )

    def intersect(self, other: Self) -> Self:
        both = tuple(pair for pair in self.aliases if pair in other.aliases)
        return replace(self, aliases=both, rate_limit=self.rate_limit.intersect(other.rate_limit))

    def unite(self, other: Self) -> Self:
        return self.with_entries((dict(other.aliases) | dict(self.aliases)).items())

    @classmethod
    def condense(cls, parts: Sequence[Self]) -> Self:
        return parts[0].with_entries({alias: tool for part in parts for alias, tool in part.aliases}.items())

    def additions(self) -> Iterator[Addition]:
        return (Addition(self.grant_list, json.dumps({alias: tool})) for alias, tool in self.aliases)

    def check_complete(self) -> None:
        if any(tool == SOME_TOOL for _, tool in self.aliases):
            raise ConfigurationError(
                "the entry does not say which tool the alias means", hint="pass the tool's name: --narrower TOOL"
            )

    def may_be_narrowed_to(self, answer: Self) -> bool:
        asked, given = dict(self.aliases), dict(answer.aliases)
        return asked.keys() == given.keys() and all(asked[alias] in (SOME_TOOL, given[alias]) for alias in asked)

    def covers_entries(self, other: Self) -> bool:
        # A suggested entry contains the placeholder SOME_TOOL instead of a name, which every tool can replace.
        return all((own := self.resolve(alias)) and tool in (SOME_TOOL, own) for alias, tool in other.aliases)

    def covers_value(self, name: str, value: str) -> bool:
        return True

    def part(self, name: str, value: str | None) -> Self | None:
        pairs = tuple(pair for pair in self.aliases if value is None or value in pair)
        return self.with_entries(pairs) if pairs else None

    def without(self, name: str, value: str | None) -> Self | None:
        left = () if value is None else tuple(pair for pair in self.aliases if value not in pair)
        return self.with_entries(left) if left else None

    def effects(self) -> frozenset[Effect]:
        return frozenset({Effect.INVOKE_TOOL} if self.aliases else ())

    def within_effects(self, effects: frozenset[Effect]) -> Self | None:
        return self if Effect.INVOKE_TOOL in effects else None

    def describe(self, entry: tuple[str, str]) -> str:
        return f"may call the tool {entry[1]} as {entry[0]}"

    def sentences(self, services: Sequence[Service], networks: Sequence[Network]) -> Iterator[str]:
        if self.aliases:
            pairs = join_words(f"{tool} (as {alias})" for alias, tool in self.aliases)
            yield f"may call the tools {pairs}, {self.rate_limit.describe()}"

    def flow(self, networks: Sequence[Network]) -> Flow:
        return Flow(out=tuple(dict.fromkeys(f"the tool {tool}" for _, tool in self.aliases)))

    def warnings(self) -> Iterator[FileWarning]:
        return iter(())

    @classmethod
    def decide(cls, granted: Self | None, use: str) -> Decision:
        try:
            spelled = read_alias(use)
        except ConfigurationError as problem:
            rule = "the alias is not a valid tool alias"
            return Decision(False, Reason.ALIAS_NOT_ALLOWED, rule, problem.message, cls.section)
        if granted is None:
            addition = Addition(cls.grant_list, json.dumps({spelled: SOME_TOOL}), new_section=True)
            return Decision(False, Reason.NOT_GRANTED, "no tool_invoke section", addition, cls.section, spelled)
        if granted.resolve(spelled) is None:
            rule = "tool_invoke.aliases has no such alias"
            addition = Addition(cls.grant_list, json.dumps({spelled: SOME_TOOL}))
            return Decision(False, Reason.ALIAS_NOT_ALLOWED, rule, addition, cls.section, spelled)
        return Decision(True, Reason.ALLOWED, f"tool_invoke.aliases.{spelled}", capability=cls.section, subject=spelled)
