"""Validation helpers for the values of this package."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import MAX_CAPABILITY_ENTRIES

E = TypeVar("E")
_MAX_NUMBER = 2**53 - 1  # the largest integer that all JSON readers represent exactly (RFC 8259, 6)


def check_numbers(owner: object, *names: str, maximum: int = _MAX_NUMBER) -> None:
    """Check that each named attribute is a number from 0 (exclusive) to `maximum`. Only seconds may have a fraction.

    Raises:
        ConfigurationError: an attribute is not a number, is not positive, or is too large.
    """
    for name in names:
        value = getattr(owner, name)
        kind = (int, float) if name.endswith("_seconds") else int
        if isinstance(value, bool) or not isinstance(value, kind) or not 0 < value <= maximum:
            wanted = "whole number" if kind is int else "number"
            raise ConfigurationError(f"{name} must be a positive {wanted} of at most {maximum}")


def set_checked_tuple(owner: object, name: str, kind: type) -> None:
    """Convert an attribute of a frozen value from an iterable to a tuple.

    Raises:
        ConfigurationError: the attribute is not a list, contains items that are not of type `kind`, or is too long.
    """
    value = getattr(owner, name)
    if isinstance(value, (str, Mapping)) or not isinstance(value, Iterable):
        raise ConfigurationError(f"{name} must be a list")
    items = tuple(value)
    if len(items) > MAX_CAPABILITY_ENTRIES:
        raise ConfigurationError(f"{name} must have at most {MAX_CAPABILITY_ENTRIES} entries, not {len(items)}")
    if not all(isinstance(item, kind) for item in items):
        raise ConfigurationError(f"{name} must contain only {kind.__name__} values")
    object.__setattr__(owner, name, items)


def remove_duplicates(read: Callable[[str], str], items: Iterable[str]) -> tuple[str, ...]:
    """Return the canonical spelling of each item, without duplicates, in the given order."""
    return tuple(dict.fromkeys(map(read, items)))


def remove_covered(items: Iterable[E], within: Callable[[E, E], bool]) -> list[E]:
    """Omit every item that another item covers, and return the rest.

    Raises:
        ConfigurationError: more items are left than a capability file may contain.
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
            f"the merged list would have more than {MAX_CAPABILITY_ENTRIES} entries",
            hint="write the grant with fewer, wider entries",
        )
    return kept
