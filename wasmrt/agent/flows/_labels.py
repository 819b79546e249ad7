"""The provenance of values, and the labels of a result, which follow from the effects of the call."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from wasmrt.core.effects import NETWORKING, Effect
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.labels import Label


class Provenance(StrEnum):
    """Origin of a destination, from most to least trusted."""

    SAID = "said"
    """Named by the user in this trace."""
    KNOWN = "known"
    """Trusted by the operator, or approved in this trace."""
    UNSAID = "unsaid"
    """Found neither in messages of the user nor in untrusted content."""
    UNTRUSTED = "untrusted"
    """Found only in untrusted content."""

    @property
    def vouched(self) -> bool:
        """True if the user or the operator trusts the value."""
        return self in (Provenance.SAID, Provenance.KNOWN)


_KEPT = frozenset({Effect.READ_FILESYSTEM, Effect.READ_MEMORY})
"""Effects of reading stored text, which may have been written at the request of untrusted content."""
_READS = _KEPT | NETWORKING | {Effect.READ_DESKTOP}
"""Effects of a tool whose results depend on more than its params."""


def derive_labels(
    effects: frozenset[Effect], seen: frozenset[Label], *, foreign: bool, files_untrusted: bool
) -> frozenset[Label]:
    """Return the labels of a result according to the effects of the call.

    `seen` are the labels of the trace; they apply to the result of a tool that only transforms its params. `foreign` is
    true if the tool is from an untrusted source. `files_untrusted` is true if files, and memory without labels, may
    contain untrusted text.
    """
    labels = set(seen) - {Label.TRUSTED} if only_transforms(effects) else set()
    if foreign or effects & NETWORKING:
        labels.add(Label.UNTRUSTED)
    if effects & {Effect.USE_SECRET, *_KEPT}:
        labels.add(Label.PRIVATE)
    if effects & _KEPT and files_untrusted:
        labels.add(Label.UNTRUSTED)
    if effects & {Effect.EXECUTE_CODE, Effect.SPAWN_PROCESS, Effect.READ_DESKTOP}:
        labels |= {Label.PRIVATE, Label.UNTRUSTED}
    return frozenset(labels)


def only_transforms(effects: frozenset[Effect]) -> bool:
    """Return whether the results of a tool with these effects depend only on its params."""
    return not effects & _READS


def read_labels(names: Iterable[Label | str]) -> frozenset[Label]:
    """Return labels by their names.

    Raises:
        ConfigurationError: a name is not a label, or the labels contradict each other.
    """
    found = set()
    for name in (names,) if isinstance(names, str) else names:
        try:
            found.add(Label(name))
        except ValueError:
            known = ", ".join(Label)
            raise ConfigurationError(f"{name!r:.40} is not a label", hint=f"known labels: {known}") from None
    if {Label.TRUSTED, Label.UNTRUSTED} <= found:
        raise ConfigurationError("a result cannot be both trusted and untrusted", hint="remove one of the two labels")
    return frozenset(found)
