"""What each process gives up before it reads what it was given."""

from __future__ import annotations

from wasmrt.limits import ResourceLimits


class Sealed:
    """A confinement made ready before a fork."""

    def apply(self) -> None:
        """Seal this process."""


def template(keep: tuple[int, ...]) -> None:
    """Seal a template: it may load machine code from memory and fork, and do nothing else."""


def compile_worker(keep: tuple[int, ...]) -> None:
    """Seal a compile worker."""


def prepare_worker(limits: ResourceLimits) -> Sealed:
    """Make the seal of a run worker ready."""
    return Sealed()
