"""Labels of what a trace has seen, and those that the result of a call gets from its effects."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from wasmrt.core.effects import NETWORKING, Effect
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.labels import Label


class Provenance(StrEnum):
    """Origin of a value that a call sends something to, or changes something by; the worst stands last."""

    SAID = "said"
    """The person said it in this trace."""
    KNOWN = "known"
    """The operator vouches for it, or a person approved it in this trace."""
    UNSAID = "unsaid"
    """Nobody said it, and no text that a stranger could write holds it."""
    UNTRUSTED = "untrusted"
    """It stands in text that a stranger could write, and nobody else said it."""

    @property
    def vouched(self) -> bool:
        """True where the person or the operator stands for it."""
        return self in (Provenance.SAID, Provenance.KNOWN)


_KEPT = frozenset({Effect.READ_FILESYSTEM, Effect.READ_MEMORY})
"""Effects by which a tool reads what was written down before; whoever did may have been told to by a stranger."""
_READS = _KEPT | NETWORKING | {Effect.READ_DESKTOP}
"""Effects of a tool whose results come from somewhere else than its params."""


def labels_of(
    effects: frozenset[Effect], seen: frozenset[Label], *, foreign: bool, files_untrusted: bool
) -> frozenset[Label]:
    """Return the labels of a result from the effects of its call.

    `foreign` says that a stranger wrote the tool itself; `seen` are the labels of the trace, which a tool hands on that
    makes its result of its params. `files_untrusted` is about files, and a memory that does not say.
    """
    labels = set() if effects & _READS else set(seen) - {Label.TRUSTED}
    if foreign or effects & NETWORKING:
        labels.add(Label.UNTRUSTED)
    if effects & {Effect.USE_SECRET, *_KEPT}:
        labels.add(Label.PRIVATE)
    if effects & _KEPT and files_untrusted:
        labels.add(Label.UNTRUSTED)
    if effects & {Effect.EXECUTE_CODE, Effect.SPAWN_PROCESS, Effect.READ_DESKTOP}:
        labels |= {Label.PRIVATE, Label.UNTRUSTED}
    return frozenset(labels)


def read_labels(names: Iterable[Label | str]) -> frozenset[Label]:
    """Return labels by their names.

    Raises:
        ConfigurationError: a name is none of them, or the labels contradict each other.
    """
    found = set()
    for name in (names,) if isinstance(names, str) else names:
        try:
            found.add(Label(name))
        except ValueError:
            known = ", ".join(Label)
            raise ConfigurationError(f"{name!r:.40} is not a label", hint=f"labels are {known}") from None
    if {Label.TRUSTED, Label.UNTRUSTED} <= found:
        raise ConfigurationError("a result cannot be trusted and untrusted", hint="leave one of the two out")
    return frozenset(found)
