"""Options of the commands about receipts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import click

from wasmrt.agent.config import read_config_file
from wasmrt.core.places import find_places
from wasmrt.runtime.audit import Keys, ReceiptWriter, existing_keys
from wasmrt.runtime.audit.reading import Filter
from wasmrt.runtime.audit.report import parse_moment
from wasmrt.runtime.config_values import AuditSettings

folder_option = click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Folder of the receipts. Default: the configured folder, else the one in the data folder.",
)


def filter_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that select receipts; the command receives a `Filter` as `wanted`."""

    @wraps(command)
    def wrapper(
        tool: str | None, user: str | None, trace: str | None, outcome: str | None, since: str | None, **rest: Any
    ) -> Any:
        return command(
            wanted=Filter(tool, user, trace, outcome, None if since is None else parse_moment(since)), **rest
        )

    for name, metavar, text in (
        ("--since", "TIME", "Only calls that ended since TIME: 2h, 7d, or 2026-01-31T12:00 (UTC)."),
        ("--outcome", "CODE", "Only calls with this outcome: ok, an error code, or failed for all except ok."),
        ("--trace", "ID", "Only calls of this conversation or job."),
        ("--user", "NAME", "Only calls of this user."),
        ("--tool", "NAME", "Only calls of this tool, or of a component's tools."),
    ):
        wrapper = click.option(name, metavar=metavar, help=text)(wrapper)
    return wrapper


def audit_settings() -> AuditSettings:
    """Return the section [audit] of the configuration file."""
    return read_config_file(find_places().config).audit


def receipts_folder(chosen: Path | None) -> Path:
    """Return the chosen folder, else the configured one, else the default."""
    return chosen or audit_settings().path or find_places().receipts


def installation_keys() -> Keys:
    """Return the existing keys of the receipts. Unlike a call, this function creates no keys.

    Raises:
        ConfigurationError: there is no key, or the key cannot be used.
    """
    return existing_keys(find_places().receipts_key)


@contextmanager
def receipt_writer() -> Iterator[ReceiptWriter | None]:
    """Open the receipt chain to record actions of users; yield None if receipts are disabled."""
    if not audit_settings().enabled:
        yield None
        return
    writer = ReceiptWriter(receipts_folder(None), find_places().receipts_key)
    try:
        yield writer
    finally:
        writer.close()
