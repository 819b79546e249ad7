"""The end of the chain as the files have it: where the next receipt goes, and what a crash or a stranger left there."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from wasmrt.core.files import opened_file
from wasmrt.core.limits import MAX_RECEIPT_BYTES
from wasmrt.runtime.audit._chain import (
    GENESIS,
    LINE_OVERHEAD_BYTES,
    Head,
    Keys,
    Line,
    names_key,
    read_head,
    segment_path,
    segments,
    split_line,
)

MAX_LINE_BYTES = MAX_RECEIPT_BYTES + 16 * LINE_OVERHEAD_BYTES
_MAX_EXTRA_BYTES = 8 * MAX_LINE_BYTES
"""Behind the head there is one line for each process that was killed at the wrong moment."""


class Tail(NamedTuple):
    """The end of the chain."""

    at: Head
    why: str = ""
    """The reason to begin another segment instead of going on; empty where the chain goes on."""
    torn: bytes = b""
    """The beginning of a line that was never finished."""


def find_tail(folder: Path, keys: Keys, raw: bytes) -> Tail:
    """Find the end of the chain; `raw` is the head as it stands in its file.

    Whatever is wrong costs a new segment that says so, and never a receipt: the chain goes on behind the last record
    that the head, or without one the file, knows of. `verify` names what is wrong.

    Raises:
        OSError: a file cannot be read.
    """
    if not raw.strip(b" \n\0"):
        known = segments(folder)
        return _without_head(folder, known, "head-missing") if known else Tail(Head(0, 0, 0, GENESIS), "first")
    head = read_head(keys, raw)
    if head is None:
        why = "head-changed" if names_key(raw, keys) else "other-key"
        return _without_head(folder, segments(folder), why)
    try:
        with opened_file(segment_path(folder, head.segment), follow_link=False) as (file, status):
            if status.st_size < head.size:
                return Tail(head, "truncated")
            file.seek(head.size)
            return _behind(head, keys, file.read(_MAX_EXTRA_BYTES))
    except FileNotFoundError:
        return Tail(head, "segment-missing" if head.size else "")


def _behind(head: Head, keys: Keys, extra: bytes) -> Tail:
    """Take over the lines that were written, and not yet counted, when a process was killed."""
    if len(extra) == _MAX_EXTRA_BYTES:
        return Tail(head, "foreign-lines")
    *lines, torn = extra.split(b"\n")
    for text in lines:
        line = split_line(text + b"\n")
        if line is None or not line.follows(keys, head.hash):
            return Tail(head, "foreign-lines")
        head = Head(head.number + 1, head.segment, head.size + len(text) + 1, line.hash)
    return Tail(head, "foreign-lines" if len(torn) > MAX_LINE_BYTES else "", torn)


def _without_head(folder: Path, known: list[int], why: str) -> Tail:
    """Go on behind the last line that the newest segment shows.

    It is not checked: what somebody did to it breaks the chain in front of the new segment, whose hash covers it.
    """
    if not known:
        return Tail(Head(0, 0, 0, GENESIS), why)
    with opened_file(segment_path(folder, known[-1]), follow_link=False) as (file, status):
        file.seek(max(0, status.st_size - 2 * MAX_LINE_BYTES))
        lines = file.read(2 * MAX_LINE_BYTES).split(b"\n")[:-1]
    last = next((line for text in reversed(lines) if (line := split_line(text + b"\n"))), Line(b"", GENESIS))
    return Tail(Head(last.number, known[-1], status.st_size, last.hash), why)
