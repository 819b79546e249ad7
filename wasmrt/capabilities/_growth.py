"""Extend a grant after denials: find the entries that would allow the denied uses, and add them to the grant."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, cast

from wasmrt.capabilities._capabilities import Capabilities, ToolGrant, find_kind
from wasmrt.capabilities._merge import section_of
from wasmrt.capabilities.kinds import KINDS, Capability, HttpCapability
from wasmrt.capabilities.kinds.http import generalize
from wasmrt.core.errors import CapabilityFileError, ConfigurationError
from wasmrt.core.model import Addition, Decision, Withheld


def find_missing_entries(decisions: Iterable[Decision]) -> dict[Addition, Decision]:
    """Return the entries that would have allowed the denied uses, each with the first denial that the entry avoids.

    Denials that no entry could have avoided, for example of a private address, are omitted.
    """
    found: dict[Addition, Decision] = {}
    for decision in decisions:
        suggestion = decision.suggestion
        addition = suggestion.addition if isinstance(suggestion, Withheld) else suggestion
        if not decision.allowed and isinstance(addition, Addition):
            found.setdefault(addition, decision)
    return found


def covers(outer: Addition, inner: Addition) -> bool:
    """Return whether `outer` allows everything that `inner` allows."""
    return outer.to == inner.to and _read_capability(outer).covers_entries(_read_capability(inner))


def read_narrower_entry(asked: Addition, text: str) -> Addition:
    """Parse the entry that a user wrote instead of the requested entry, as JSON or as an argument of `wasmrt grant`.

    SECURITY: the entry must not be wider than the requested entry. For an alias, the user's text is the tool's name.

    Raises:
        ConfigurationError: the text is not a valid entry, or is wider than the requested entry.
    """
    entry = asked._replace(entry=_read_entry(asked, text.strip()))
    try:
        fits = _read_capability(asked).may_be_narrowed_to(_read_capability(entry))
    except CapabilityFileError as error:
        raise ConfigurationError(f"invalid entry for {asked.to}: {error.message}", hint=error.hint) from None
    if not fits:
        raise ConfigurationError(
            f"{text!r:.200} is wider than the requested entry {asked.entry:.200}", code="wider",
            hint="write a narrower entry; a wider one must be requested in the capability file",
        )  # fmt: skip
    return entry


def with_added_entries(grant: Capabilities, additions: Sequence[Addition], tool: str | None = None) -> Capabilities:
    """Add entries to a grant. The rest of the grant stays unchanged.

    Args:
        grant: The grant of a component.
        additions: The entries to add.
        tool: The only tool that gets the entries, if the grant has sections for tools.

    Raises:
        ConfigurationError: a list of the grant is full, or an alias has a placeholder instead of a tool's name.
    """
    try:
        for addition in additions:
            _read_capability(addition).check_complete()
        whole = with_fewest_entries(grant, additions)
        if grant.tools is None:
            return whole
        # SECURITY: another tool's section may already allow the entries that the component gains. Each section is
        # therefore narrowed to the capabilities that its tool had before.
        parts = {each.name: (section_of(grant, each.name), each.effects) for each in grant.tools}
        if tool is not None:
            part, effects = parts.get(tool, (Capabilities.none(), None))
            parts[tool] = with_fewest_entries(part, additions), effects
    except CapabilityFileError as error:
        raise ConfigurationError(f"cannot add the entry to the grant: {error.message}", hint=error.hint) from None
    return whole.with_tools(ToolGrant(name, part, effects) for name, (part, effects) in parts.items())


def with_fewest_entries(base: Capabilities, additions: Iterable[Addition]) -> Capabilities:
    """Add the fewest entries that allow all `additions` to the capabilities `base`. Existing entries stay unchanged."""
    requested = [Capabilities.none().with_addition(addition) for addition in additions]
    for kind in KINDS:
        parts = [part for each in requested if (part := each.get(kind)) is not None]
        for addition in kind.condense(parts).additions() if parts else ():
            base = base.with_addition(addition)
    return base


class PatternProposal(NamedTuple):
    """An entry with a path pattern that covers several suggested entries."""

    entry: Addition
    seen: tuple[Addition, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the entry and the entries that it covers as JSON data."""
        return {"entry": json.loads(self.entry.entry), "seen": [json.loads(each.entry) for each in self.seen]}


def propose_patterns(additions: Iterable[Addition]) -> list[PatternProposal]:
    """Return a proposal for each group of suggested requests whose paths are similar. Other entries are left out."""
    entries = {
        entry: addition
        for addition in additions
        if addition.to == HttpCapability.grant_list
        for entry in cast("HttpCapability", _read_capability(addition)).allowlist
    }
    return [
        PatternProposal(
            Addition(HttpCapability.grant_list, found.entry.as_line()), tuple(entries[each] for each in found.seen)
        )
        for found in generalize(entries)
        if len(found.seen) > 1
    ]


def _read_capability(addition: Addition) -> Capability:
    """Parse an addition, and return a capability that has only this entry.

    Raises:
        CapabilityFileError: the addition is not one valid entry of a capability file.
    """
    (part,) = Capabilities.none().with_addition(addition).parts
    return part


def _read_entry(asked: Addition, text: str) -> str:
    """Convert text that a user entered to the JSON of the requested entry."""
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        read = None
    if isinstance(read, dict | str) and text[:1] in '{"':
        return json.dumps(read, ensure_ascii=False)
    return find_kind(asked.to).read_entry(text, asked.entry)
