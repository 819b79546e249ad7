"""From a refusal to a grant: the entries that refusals stand for, a person's narrower one, and a grant with them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from wasmrt.capabilities._amend import asks_for
from wasmrt.capabilities._capabilities import Capabilities, ToolGrant
from wasmrt.capabilities._merge import section_of
from wasmrt.capabilities.kinds import KINDS
from wasmrt.capabilities.kinds._tools import SOME_TOOL
from wasmrt.capabilities.kinds.http import read_endpoint
from wasmrt.core.errors import CapabilityFileError, ConfigurationError
from wasmrt.core.model import Addition, Decision, GrantList, Withheld


def wanted(decisions: Iterable[Decision]) -> dict[Addition, Decision]:
    """Return the entries that would have allowed what was refused, each with the first refusal that needs it.

    What no entry can allow, such as a private address, is left out.
    """
    found: dict[Addition, Decision] = {}
    for decision in decisions:
        suggestion = decision.suggestion
        addition = suggestion.addition if isinstance(suggestion, Withheld) else suggestion
        if not decision.allowed and isinstance(addition, Addition):
            found.setdefault(addition, decision)
    return found


def covers(outer: Addition, inner: Addition) -> bool:
    """Tell whether one entry allows all that another one does. An alias whose tool nobody named covers itself alone."""
    if outer.to is not inner.to:
        return False
    if outer.to is GrantList.TOOLS:
        return _aliases(outer) == _aliases(inner)
    return asks_for(Capabilities.none().with_addition(outer), inner)


def narrowed(asked: Addition, text: str) -> Addition:
    """Return the entry that a person wrote in place of one that was asked for: as JSON, or as `wasmrt grant` takes it.

    SECURITY: it allows no more than what was asked for. Of an alias it says which tool is meant.

    Raises:
        ConfigurationError: it cannot be an entry, or is wider.
    """
    entry = asked._replace(entry=_entry(asked, text.strip()))
    try:
        Capabilities.none().with_addition(entry)
        fits = _fits(asked, entry)
    except CapabilityFileError as error:
        raise ConfigurationError(f"this is no entry of {asked.to}: {error.message}", hint=error.hint) from None
    if not fits:
        raise ConfigurationError(
            f"{text!r:.200} is not within what was asked for, {asked.entry:.200}", code="wider",
            hint="grant what lies within it; more is for a capability file that asks for it",
        )  # fmt: skip
    return entry


def grown(grant: Capabilities, additions: Sequence[Addition], tool: str | None = None) -> Capabilities:
    """Return a grant with entries added; nothing else of it changes.

    Args:
        grant: Of a component.
        additions: The entries.
        tool: Where the grant tells tools apart, the one that gets them. The others get nothing.

    Raises:
        ConfigurationError: a list is full, or an entry stands for no tool.
    """
    if any(SOME_TOOL in _aliases(each).values() for each in additions):
        raise ConfigurationError("the entry does not say which tool is meant", hint="name it: --narrower TOOL")
    try:
        whole = extended(grant, additions)
        if grant.tools is None:
            return whole
        # SECURITY: what the component has more, the section of another tool might allow already. It is cut to what
        # that tool had.
        parts = {each.name: (section_of(grant, each.name), each.effects) for each in grant.tools}
        if tool is not None:
            part, effects = parts.get(tool, (Capabilities.none(), None))
            parts[tool] = extended(part, additions), effects
    except CapabilityFileError as error:
        raise ConfigurationError(f"this cannot be added to a grant: {error.message}", hint=error.hint) from None
    return whole.with_tools(ToolGrant(name, part, effects) for name, (part, effects) in parts.items())


def extended(base: Capabilities, additions: Iterable[Addition]) -> Capabilities:
    """Return capabilities with entries added, as few as allow the same; existing entries stay unchanged."""
    requested = [Capabilities.none().with_addition(addition) for addition in additions]
    for kind in KINDS:
        parts = [part for each in requested if (part := each.get(kind)) is not None]
        for addition in kind.condense(parts).additions() if parts else ():
            base = base.with_addition(addition)
    return base


def _fits(asked: Addition, entry: Addition) -> bool:
    if asked.to is not GrantList.TOOLS:
        return covers(asked, entry)
    was, now = _aliases(asked), _aliases(entry)
    return was.keys() == now.keys() and all(was[alias] in (SOME_TOOL, now[alias]) for alias in was)


def _aliases(addition: Addition) -> dict[str, str]:
    if addition.to is not GrantList.TOOLS:
        return {}
    found = json.loads(addition.entry)
    return found if isinstance(found, dict) else {}


def _entry(asked: Addition, text: str) -> str:
    """Return what a person wrote as the JSON of an entry."""
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        read = None
    if isinstance(read, dict | str) and text[:1] in '{"':
        return json.dumps(read, ensure_ascii=False)
    if asked.to is GrantList.HTTP:
        return read_endpoint(text).as_line()
    if asked.to is GrantList.TOOLS:
        alias, given, tool = text.partition("=")
        return json.dumps({alias: tool} if given else dict.fromkeys(_aliases(asked), text))
    return json.dumps(text, ensure_ascii=False)
