"""Read, filter and export receipts. This module does not verify the chain."""

from __future__ import annotations

import csv
import heapq
import io
import json
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from wasmrt.core.files import open_file
from wasmrt.runtime.audit._files import MAX_LINE_BYTES, chain_folder, chains, list_segments, reading, segment_path

Record = dict[str, Any]
"""A receipt, as stored in the file."""
_COLUMNS = (
    *("n", "started_ms", "ended_ms", "trace_id", "call_id", "parent_id", "tool", "kind", "source", "digest", "user"),
    *(
        "client",
        "chain",
        "args_hash",
        "output_hash",
        "effects",
        "policy",
        "approval_how",
        "approval_by",
        "approval_scope",
    ),
    *("outcome", "fuel", "wall_seconds", "http_requests", "denied", "decisions_dropped", "recording"),
)
_BLOCK_BYTES = 1 << 16
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class Filter(NamedTuple):
    """Selects receipts; None matches every value."""

    tool: str | None = None
    """A tool, or the component that contains it."""
    user: str | None = None
    trace: str | None = None
    outcome: str | None = None
    """An outcome code; `failed` matches every code except `ok`."""
    since_ms: int | None = None
    """Unix milliseconds: the earliest time at which a call ended."""
    text: str | None = None
    """Text that must occur in a tool, user, trace, call ID or outcome, or in the subject of a decision, such as a host.

    Upper and lower case are not distinguished.
    """

    def matches(self, record: Record) -> bool:
        """Return whether a receipt matches every condition."""
        tool, outcome = str(record.get("tool")), record.get("outcome")
        return (
            (self.tool is None or self.tool in (tool, tool.partition(".")[0]))
            and (self.user is None or self.user == record.get("user"))
            and (self.trace is None or self.trace == record.get("trace_id"))
            and (self.outcome in (None, outcome) or (self.outcome == "failed" and outcome != "ok"))
            and (self.since_ms is None or record["ended_ms"] >= self.since_ms)
            and (self.text is None or self.text.lower() in _get_searched_text(record))
        )


def _get_searched_text(record: Record) -> str:
    names = ("tool", "user", "trace_id", "call_id", "outcome")
    subjects = [decision.get("subject") for decision in record.get("decisions") or ()]
    return "\n".join(str(part) for part in (*(record.get(name) for name in names), *subjects)).lower()


EVERY = Filter()


def read_receipts(folder: Path, wanted: Filter = EVERY) -> Iterator[Record]:
    """Yield the receipts of all chains, oldest first. Lines that are not receipts are skipped; `verify` reports them.

    Raises:
        ConfigurationError: a segment cannot be read.
    """
    return _merge([_read_chain(each, wanted) for each in _list_chain_folders(folder)])


def last_receipts(folder: Path, count: int, wanted: Filter = EVERY) -> list[Record]:
    """Return the newest `count` receipts, oldest first; older parts of the chains are read only if needed.

    Raises:
        ConfigurationError: a segment cannot be read.
    """
    newest = [[*islice(_read_backward(each, wanted), count)][::-1] for each in _list_chain_folders(folder)]
    return [*deque(_merge([_with_times(records) for records in newest]), maxlen=count)]


def _list_chain_folders(folder: Path) -> list[Path]:
    with reading():
        return [chain_folder(folder, chain) for chain in chains(folder)]


def _merge(chains: Iterable[Iterator[tuple[int, Record]]]) -> Iterator[Record]:
    return (record for _, record in heapq.merge(*chains, key=itemgetter(0)))


def _with_times(records: Iterable[Record]) -> Iterator[tuple[int, Record]]:
    """Yield each record of a chain with the latest time so far. This keeps the order if the clock was set back."""
    latest = 0
    for record in records:
        latest = max(latest, record["ended_ms"])
        yield latest, record


def _read_chain(folder: Path, wanted: Filter) -> Iterator[tuple[int, Record]]:
    with reading():
        known = list_segments(folder)
    records = (record for segment in known for record in _read_segment(folder, segment))
    return ((latest, record) for latest, record in _with_times(records) if wanted.matches(record))


def _read_segment(folder: Path, segment: int) -> Iterator[Record]:
    with reading(), open_file(segment_path(folder, segment), follow_link=False) as (file, _):
        while line := file.readline(MAX_LINE_BYTES):
            if record := _parse_record(line):
                yield record


def _read_backward(folder: Path, wanted: Filter) -> Iterator[Record]:
    """Yield the receipts of a chain, newest first."""
    with reading():
        for segment in reversed(list_segments(folder)):
            with open_file(segment_path(folder, segment), follow_link=False) as (file, status):
                for line in _iter_lines_backward(file, status.st_size):
                    if (record := _parse_record(line)) and wanted.matches(record):
                        yield record


def _iter_lines_backward(file: BinaryIO, end: int) -> Iterator[bytes]:
    rest = b""
    while end > 0:
        start = max(0, end - _BLOCK_BYTES)
        file.seek(start)
        rest, *lines = (file.read(end - start) + rest).split(b"\n")
        yield from reversed(lines)
        rest, end = rest if len(rest) <= MAX_LINE_BYTES else b"", start
    yield rest


def find_receipt(folder: Path, call_id: str) -> Record | None:
    """Return the receipt of a call, or None.

    Raises:
        ConfigurationError: a segment cannot be read.
    """
    return next((record for record in read_receipts(folder) if record.get("call_id") == call_id), None)


def as_csv(records: Iterable[Record]) -> Iterator[str]:
    """Yield receipts as lines of CSV (RFC 4180), starting with the column names.

    SECURITY: names of users and tools may look like formulas. Such a cell starts with an apostrophe, so that a
    spreadsheet does not evaluate it.
    """
    yield _format_row(_COLUMNS)
    for record in records:
        approval = record.get("approval") or {}
        usage = record.get("usage") or {}
        flat = record | {f"approval_{part}": approval.get(part, "") for part in ("how", "by", "scope")}
        flat |= {name: usage.get(name, "") for name in ("fuel", "wall_seconds", "http_requests")}
        flat["denied"] = " ".join(str(decision.get("reason")) for decision in list_denials(record))
        flat |= {name: " > ".join(record.get(name) or ()) for name in ("chain", "effects")}
        yield _format_row(flat.get(name, "") for name in _COLUMNS)


def list_denials(record: Record) -> list[dict[str, Any]]:
    """Return the denials among a receipt's decisions."""
    return [decision for decision in record.get("decisions") or () if not decision.get("allowed")]


def _format_row(cells: Iterable[object]) -> str:
    line = io.StringIO()
    csv.writer(line).writerow(
        f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell for cell in cells
    )
    return line.getvalue().removesuffix("\r\n")


def _parse_record(line: bytes) -> Record | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and record.get("type") == "receipt" and _is_sound(record) else None


def _is_sound(record: Record) -> bool:
    """Return whether the members have the expected types, because the line has not been verified."""
    usage, approval, decisions = (record.get(name) for name in ("usage", "approval", "decisions"))
    return (
        all(isinstance(record.get(name), int) for name in ("n", "started_ms", "ended_ms"))
        and isinstance(usage, dict)
        and all(isinstance(count, int | float) for count in usage.values())
        and (approval is None or isinstance(approval, dict))
        and isinstance(decisions, list)
        and all(isinstance(decision, dict) for decision in decisions)
        and all(
            isinstance(names := record.get(member), list) and all(isinstance(name, str) for name in names)
            for member in ("chain", "effects")
        )
    )
