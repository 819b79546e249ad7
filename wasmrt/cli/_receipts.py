"""Options and lines of the commands about receipts."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Any

import click

from wasmrt.audit import Keys, read_keys
from wasmrt.audit.reading import Filter, Record, denials
from wasmrt.config_file import AuditSettings, read_config_file
from wasmrt.errors import ConfigurationError
from wasmrt.places import find_places

_SPAN = re.compile(r"([0-9]{1,6})([smhdw])\Z")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}

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


def moment(text: str) -> int:
    """Read a moment: a time before now, or a date and time in UTC; Unix milliseconds.

    Raises:
        ConfigurationError: it is neither.
    """
    if span := _SPAN.match(text):
        return int((datetime.now(UTC).timestamp() - int(span[1]) * _UNITS[span[2]]) * 1000)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(f"{text!r:.80} is not a time", hint="write 2h, 7d, or 2026-01-31T12:00") from None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


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
    path = find_places().receipts_key
    if not path.exists():
        raise ConfigurationError(f"there is no key of receipts ({path})", hint="put the installation's own key there")
    try:
        return read_keys(path)
    except OSError as error:
        raise ConfigurationError(
            f"the key of the receipts cannot be used ({error.strerror})", hint="mend its owner and permissions"
        ) from error


def in_words(milliseconds: int | None) -> str:
    """Format Unix milliseconds as a time in UTC."""
    if milliseconds is None:
        return "-"
    try:
        return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return "-"


def row(record: Record) -> tuple[str, ...]:
    """Return a receipt as a row of a table."""
    seconds = (record.get("usage") or {}).get("wall_seconds", 0.0)
    return (
        in_words(record.get("ended_ms")),
        str(record.get("tool")),
        str(record.get("user")),
        str(record.get("outcome")),
        str(len(denials(record))),
        f"{seconds:.3f}",
        str(record.get("call_id")),
    )


HEADER = ("ENDED (UTC)", "TOOL", "USER", "OUTCOME", "DENIED", "SECONDS", "CALL")


def described(record: Record) -> list[str]:
    """Return a receipt in lines for people; what is empty is left out."""
    lines = [f"{name}: {in_words(record.get(name))} UTC" for name in ("started_ms", "ended_ms")]
    for name, value in record.items():
        if name in ("type", "started_ms", "ended_ms", "decisions", "usage", "approval") or value in ("", None, [], 0):
            continue
        lines.append(f"{name}: {' > '.join(map(str, value)) if isinstance(value, list) else value}")
    if approval := record.get("approval"):
        lines.append("approval: " + ", ".join(f"{name} {value}" for name, value in approval.items() if value))
    used = {name: value for name, value in (record.get("usage") or {}).items() if value}
    lines.append("usage: " + (", ".join(f"{name} {value}" for name, value in used.items()) or "nothing"))
    lines += [
        f"{'allowed' if each.get('allowed') else 'denied'}: {each.get('subject') or each.get('capability')} "
        f"({each.get('reason')}: {each.get('rule')})"
        for each in record.get("decisions") or ()
    ]
    return lines
