"""The bytes of a component together with their digest, so that a component is hashed only once."""

from __future__ import annotations

from dataclasses import dataclass, field

from blake3 import blake3


@dataclass(frozen=True, slots=True)
class ComponentBytes:
    """The bytes of a component file and their digest."""

    data: bytes = field(repr=False)
    # SECURITY: compiled code is looked up by this digest, so callers cannot set it: it is computed from `data`.
    digest: str = field(init=False)
    """The BLAKE3 digest of `data`, as 64 hexadecimal digits."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "data", bytes(self.data))  # returns the same object if it is immutable already
        object.__setattr__(self, "digest", digest_of(self.data))


def digest_of(data: bytes) -> str:
    """Return the BLAKE3 digest of `data` as 64 hexadecimal digits."""
    return blake3(data).hexdigest()
