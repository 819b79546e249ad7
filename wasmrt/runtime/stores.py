"""The places of the stores that several hosts can share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from wasmrt.core.places import find_places

if TYPE_CHECKING:
    from wasmrt.core.postgres import Postgres


def store_place(file: Path) -> Path | Postgres:
    """Return where a store of this installation is: in the configured database, or else in `file`.

    Raises:
        ConfigurationError: the configuration file is invalid, or the extra `postgres` is missing.
    """
    path = find_places().config
    if not path.exists():
        return file
    from wasmrt.runtime.config_file import read_file_settings

    return read_file_settings(path).store_place(file)
