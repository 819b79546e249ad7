"""The chain: each line holds the keyed hash of the line before and of itself, and a small head says how far it goes.

A line is one JSON object, whose last member is the hash: BLAKE3, keyed by the installation, of the hash before and of
the line's bytes in front of that member. Bytes are hashed, never values, so that nothing has to be written twice alike.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from hmac import compare_digest
from pathlib import Path
from typing import NamedTuple

from blake3 import blake3

from wasmrt.core.errors import ConfigurationError
from wasmrt.core.files import opened_file, private_key
from wasmrt.core.limits import MAX_RECEIPT_BYTES

HASH_BYTES = 32
GENESIS = bytes(HASH_BYTES)
"""Stands for the line before the first."""
HEAD_FILE = "head"
HEAD_BYTES = 384
"""A head is written in place, in one page: a process that is killed leaves the old one or the new one."""
LINE_OVERHEAD_BYTES = 128
"""Of a line over its content: number, braces, hash."""
_NAME = re.compile(r"receipts-([0-9]{6,12})\.jsonl")
_HEX = re.compile(rb"[0-9a-f]{64}")  # one spelling of each hash: no line can be changed and still hold
_MARK, _END = b',"hash":"', b'"}\n'
_TAIL_BYTES = len(_MARK) + 2 * HASH_BYTES + len(_END)


class Keys(NamedTuple):
    """The keys of one installation's receipts, each for one use, and each a hash that was begun with it."""

    chain: blake3
    head: blake3
    content: blake3
    id: str
    """A name of the key that gives nothing of it away."""

    def hashed(self, text: str) -> str:
        """Return the keyed hash of a call's params or result, in hex."""
        return keyed(self.content, text.encode("utf-8", "surrogatepass")).hex()


def keyed(key: blake3, *parts: bytes) -> bytes:
    """Return the hash of `parts` by a key of `Keys`."""
    hasher = key.copy()  # half of what beginning one anew takes
    for part in parts:
        hasher.update(part)
    return hasher.digest()


def read_keys(path: Path) -> Keys:
    """Read the installation's key, made on first use.

    Raises:
        OSError: it cannot be made or read, or is no key.
    """
    return keys_of(private_key(path))


def existing_keys(path: Path) -> Keys:
    """Return the installation's keys; unlike a call, a check makes none.

    Raises:
        ConfigurationError: there is no key, or it cannot be used.
    """
    if not path.exists():
        raise ConfigurationError(f"there is no key of receipts ({path})", hint="put the installation's own key there")
    try:
        return read_keys(path)
    except OSError as error:
        raise ConfigurationError(
            f"the key of the receipts cannot be used ({error.strerror})", hint="mend its owner and permissions"
        ) from error


def keys_of(secret: bytes) -> Keys:
    """Derive the keys from the installation's secret."""
    chain, head, content = (
        blake3(key=blake3(f"wasmrt receipts {use}".encode(), key=secret).digest())
        for use in ("chain", "head", "content")
    )
    return Keys(chain, head, content, blake3(b"wasmrt receipts id", key=secret).hexdigest()[:16])


def sealed(keys: Keys, previous: bytes, number: int, content: bytes) -> tuple[bytes, bytes]:
    """Return the line of a record, and its hash; `content` is the members of a JSON object."""
    body = b'{"n":%d,%b' % (number, content)
    digest = keyed(keys.chain, previous, body)
    return b'%b,"hash":"%b"}\n' % (body, digest.hex().encode()), digest


class Line(NamedTuple):
    """A line of a segment, taken apart; nothing of it is checked yet."""

    body: bytes
    hash: bytes

    def follows(self, keys: Keys, previous: bytes) -> bool:
        """Tell whether the line was written behind the one of hash `previous`, with these keys, as it is."""
        return compare_digest(self.hash, keyed(keys.chain, previous, self.body))

    def record(self) -> dict[str, object]:
        """Return the record; empty where the line holds none."""
        try:
            record = json.loads(self.body + b"}")
        except (ValueError, RecursionError):
            return {}
        return record if isinstance(record, dict) else {}

    @property
    def number(self) -> int:
        """The record's number; 0 where it has none."""
        number = self.record().get("n")
        return number if isinstance(number, int) and number > 0 else 0


def split_line(line: bytes) -> Line | None:
    """Take a line apart; None where it is not one of ours."""
    body, tail = line[:-_TAIL_BYTES], line[-_TAIL_BYTES:]
    if not (tail.startswith(_MARK) and tail.endswith(_END)):
        return None
    text = tail[len(_MARK) : -len(_END)]
    return Line(body, bytes.fromhex(str(text, "ascii"))) if _HEX.fullmatch(text) else None


class Head(NamedTuple):
    """The end of the chain: how many records there are, and the place and hash of the last one."""

    number: int
    segment: int
    size: int
    """Bytes of the segment up to the end of that record; 0 where the segment is still to be begun."""
    hash: bytes
    why: str = ""
    """The reason of a segment that is still to be begun."""

    def pack(self, keys: Keys) -> bytes:
        """Return the head as it stands in its file, authenticated."""
        body = b'{"n":%d,"segment":%d,"bytes":%d,"hash":"%b","why":"%b","key":"%b"' % (
            self.number, self.segment, self.size, self.hash.hex().encode(), self.why.encode(), keys.id.encode(),
        )  # fmt: skip
        mac = keyed(keys.head, body).hex().encode()
        return (b'%b,"mac":"%b"}' % (body, mac)).ljust(HEAD_BYTES - 1) + b"\n"


def read_head(keys: Keys, raw: bytes) -> Head | None:
    """Read a head; None where it was not written with these keys, or not like this."""
    body, mark, rest = raw.rstrip().rpartition(b',"mac":"')
    if not mark or not compare_digest(rest, keyed(keys.head, body).hex().encode() + b'"}'):
        return None
    held = json.loads(body + b"}")
    return Head(held["n"], held["segment"], held["bytes"], bytes.fromhex(held["hash"]), held["why"])


def names_key(raw: bytes, keys: Keys) -> bool:
    """Tell whether a head says that it was written with these keys."""
    return b'"key":"%b"' % keys.id.encode() in raw


@contextmanager
def reading() -> Iterator[None]:
    """Make what the system refuses a typed error.

    Raises:
        ConfigurationError: a file of the chain cannot be read, or is none of ours.
    """
    try:
        yield
    except OSError as error:
        raise ConfigurationError(
            f"the receipts cannot be read ({error.strerror})", hint="check who owns the folder and what lies in it"
        ) from error


def segment_path(folder: Path, segment: int) -> Path:
    """Return the file of a segment."""
    return folder / f"receipts-{segment:06d}.jsonl"


def segments(folder: Path) -> list[int]:
    """Return the numbers of the segments that are there, in order; none where the folder is missing."""
    try:
        found = [_NAME.fullmatch(path.name) for path in folder.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(int(name[1]) for name in found if name)


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
