"""The places of the stores that several hosts can share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from wasmrt.catalog import Catalog
from wasmrt.core.places import find_places

if TYPE_CHECKING:
    from wasmrt.core.postgres import Postgres
    from wasmrt.runtime.config_file import FileSettings


def store_place(file: Path) -> Path | Postgres:
    """Return where a store of this installation is: in the configured database, or else in `file`.

    Raises:
        ConfigurationError: the configuration file is invalid, or the extra `postgres` is missing.
    """
    path = find_places().config
    return _read_settings(path).store_place(file) if path.exists() else file


def open_catalog(data: Path) -> Catalog:
    """Return the catalog in a data directory, or the one that hosts share, with copies in the directory.

    Raises:
        ConfigurationError: see `store_place`, or the shared catalog lacks a key.
    """
    path = find_places().config
    try:
        may_be_shared = b"catalog" in path.read_bytes()
    except OSError:
        may_be_shared = False
    # Reading all settings takes longer than listing the tools.
    return Catalog(data, _read_settings(path).shared_catalog() if may_be_shared else None)


def _read_settings(path: Path) -> FileSettings:
    from wasmrt.runtime.config_file import read_file_settings

    return read_file_settings(path)
