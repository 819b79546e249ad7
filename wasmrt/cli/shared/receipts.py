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
from wasmrt.runtime.audit import Keys, Receipt, ReceiptWriter, existing_keys
from wasmrt.runtime.audit.reading import Filter
from wasmrt.runtime.audit.report import moment
from wasmrt.runtime.config_values import AuditSettings

folder_option = click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="The folder of the receipts; by default that of the configuration file, else of the data folder.",
)


def filter_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose receipts; the command gets them as one `Filter` in `wanted`."""

    @wraps(command)
    def chosen(
        tool: str | None, user: str | None, trace: str | None, outcome: str | None, since: str | None, **rest: Any
    ) -> Any:
        return command(wanted=Filter(tool, user, trace, outcome, None if since is None else moment(since)), **rest)

    for name, metavar, text in (
        ("--since", "TIME", "Ended after: 2h, 7d, or a time like 2026-01-31T12:00 (UTC)."),
        ("--outcome", "CODE", "How it ended: ok, a code, or failed for all but ok."),
        ("--trace", "ID", "What it was part of."),
        ("--user", "NAME", "For whom."),
        ("--tool", "NAME", "Which tool, or the component that holds it."),
    ):
        chosen = click.option(name, metavar=metavar, help=text)(chosen)
    return chosen


def audit_settings() -> AuditSettings:
    """Return the section [audit] of the configuration file."""
    return read_config_file(find_places().config).audit


def receipts_folder(chosen: Path | None) -> Path:
    """Return the folder that a command is about."""
    return chosen or audit_settings().path or find_places().receipts


def installation_keys() -> Keys:
    """Return the keys of the receipts; unlike a call, a check makes none.

    Raises:
        ConfigurationError: there is no key, or it cannot be used.
    """
    return existing_keys(find_places().receipts_key)


@contextmanager
def receipt_writer() -> Iterator[Callable[[Receipt], None] | None]:
    """Open the receipt chain for actions of people; yields None if receipts are disabled."""
    if not audit_settings().enabled:
        yield None
        return
    writer = ReceiptWriter(receipts_folder(None), find_places().receipts_key)
    try:
        yield writer
    finally:
        writer.close()
