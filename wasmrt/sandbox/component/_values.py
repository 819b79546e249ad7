"""WIT values in Python.

bool, integers, floats and strings are themselves; `char` is a string of one; `list<u8>` is bytes, other lists are
lists; records are dicts keyed by WIT field names; tuples are tuples; enums are strings; flags are frozensets; an
option is the value or None (`Some` where options are nested); results are `Ok` or `Err`; variants are `Case`; a
resource handle is the host's integer representation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wasmrt.sandbox.component._types import OptionType, WitType


@dataclass(frozen=True, slots=True)
class Ok:
    """The ok side of a result; None where it carries nothing."""

    value: Any = None


@dataclass(frozen=True, slots=True)
class Err:
    """The err side of a result; None where it carries nothing."""

    value: Any = None


@dataclass(frozen=True, slots=True)
class Case:
    """One case of a variant; `value` is None where the case has no payload."""

    name: str
    value: Any = None


@dataclass(frozen=True, slots=True)
class Some:
    """The present value of an option whose inner type is an option too."""

    value: Any


def is_nested_option(kind: WitType) -> bool:
    """Return whether a present value of `kind` is wrapped in `Some`, as None alone would be ambiguous."""
    return isinstance(kind, OptionType) and isinstance(kind.inner, OptionType)
