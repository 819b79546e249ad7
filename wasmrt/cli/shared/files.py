"""Text files that a person names on the command line."""

from __future__ import annotations

from pathlib import Path

from wasmrt.core.errors import ConfigurationError
from wasmrt.core.files import read_file, replace_file
from wasmrt.core.limits import MAX_FLOW_BYTES


def read_named(path: Path) -> str:
    """Return the text of a file.

    Raises:
        ConfigurationError: it cannot be read, or is too large.
    """
    try:
        return read_file(path, max_bytes=MAX_FLOW_BYTES, follow_link=True).decode("utf-8", "replace")
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} cannot be read ({error})", hint="name a text file") from error


def write_named(path: Path, text: str) -> None:
    """Write a file, in place of one that is there.

    Raises:
        ConfigurationError: it cannot be written.
    """
    try:
        replace_file(path, text.encode(), mode=0o644)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigurationError(
            f"{path} cannot be written ({reason})", hint="name a file in a folder of yours"
        ) from error
