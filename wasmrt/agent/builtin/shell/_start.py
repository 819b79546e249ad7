"""Start: the directory and the variables that a command line begins with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from blake3 import blake3

from wasmrt.agent.builtin.shell._paths import FoundPath, resolved


class Start(NamedTuple):
    """The state of a session between two commands, which is data and nothing that runs."""

    folder: str = ""
    """From the workspace, or from the root; empty for the workspace itself."""
    variables: tuple[tuple[str, str], ...] = ()
    """Names and values, sorted; all of them plain texts."""
    exported: frozenset[str] = frozenset()
    """Names of those that programs see."""

    @property
    def digest(self) -> str:
        """BLAKE3 of all of it, in hex."""
        parts = [self.folder, self.variables, sorted(self.exported)]
        return blake3(json.dumps(parts).encode()).hexdigest()

    def folders(self) -> Iterator[FoundPath]:
        """Yield the folder that words of a command line count from, where it is not the workspace."""
        if self.folder not in ("", "."):
            yield resolved(self.folder)


WORKSPACE = Start()
