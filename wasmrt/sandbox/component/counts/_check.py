"""The check of a component's counts: read once, expanded on paper, held against the bounds of `wasmrt.core.limits`."""

from __future__ import annotations

from wasmrt.core.limits import MAX_CANONICAL_FUNCTIONS, MAX_COMPONENT_DEFINITIONS, MAX_CORE_INSTANCES
from wasmrt.sandbox.component._binary import Reader
from wasmrt.sandbox.component.counts._bound import hold
from wasmrt.sandbox.component.counts._definitions import DefinitionReader
from wasmrt.sandbox.component.counts._expanded import EXPANDED_HINT, Expansion


def check_counts(component: bytes) -> None:
    """Refuse a component that makes the compiler work out of all proportion; its header is sound.

    SECURITY: every bound is far over what real components have, and under what takes a compiler minutes or gigabytes.
    What cannot be read is refused: a form that is unknown here would not have been counted.

    Raises:
        ComponentTooLargeError: a count is over its bound; the message says which, its value and the bound.
        InvalidComponentError: the bytes are malformed, or of a feature that the engine has off.
    """
    totals = Expansion(DefinitionReader().read(Reader(component))).totals
    for count, bound, what in (
        (totals.core_instances, MAX_CORE_INSTANCES, "core instances once expanded"),
        (totals.canons, MAX_CANONICAL_FUNCTIONS, "lifted and lowered functions once expanded"),
        (totals.definitions, MAX_COMPONENT_DEFINITIONS, "definitions once expanded"),
    ):
        hold(count, bound, what, hint=EXPANDED_HINT)
