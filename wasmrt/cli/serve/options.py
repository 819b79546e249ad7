"""The options of `wasmrt serve` that say which tools it offers, and to whom."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import MAX_USER_BYTES


class ServeOptions(NamedTuple):
    """The tools that are served, and whose calls are made."""

    patterns: tuple[str, ...] = ()
    preset: str | None = None
    read_only: bool = False
    user: str = "local"
    workspace: Path | None = None

    def as_arguments(self) -> list[str]:
        """Return the options as another start of the command takes them, wherever it is started."""
        arguments = [part for pattern in self.patterns for part in ("--tool", pattern)]
        arguments += ["--preset", self.preset] if self.preset is not None else []
        arguments += ["--read-only"] if self.read_only else []
        arguments += ["--user", self.user] if self.user != "local" else []
        return arguments + (["--workspace", str(self.workspace.absolute())] if self.workspace is not None else [])


def check_user(user: str, option: str) -> None:
    """Refuse what cannot be a user.

    Raises:
        ConfigurationError: it cannot.
    """
    if not 0 < len(user) <= MAX_USER_BYTES or not user.isprintable():
        raise ConfigurationError(
            f"a user is 1 to {MAX_USER_BYTES} printable characters", hint=f"write it like {option} alice"
        )
