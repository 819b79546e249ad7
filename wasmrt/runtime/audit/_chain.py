"""The chain: each line contains the keyed hash of the previous hash and its own bytes; a small head stores the end.

A line is one JSON object whose last member is the hash: BLAKE3, with the installation's key, of the previous hash and
the line's bytes before that member. Bytes are hashed, not values, so no canonical JSON form is needed.
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
from wasmrt.core.files import open_file, private_key
from wasmrt.core.limits import MAX_RECEIPT_BYTES

HASH_BYTES = 32
GENESIS = bytes(HASH_BYTES)
"""The hash that the first line follows."""
HEAD_FILE = "head"
HEAD_BYTES = 384
"""A head is overwritten in place, within one page: a killed process leaves either the old or the new head."""
LINE_OVERHEAD_BYTES = 128
"""Bytes of a line in addition to its content: number, braces, hash."""
_NAME = re.compile(r"receipts-([0-9]{6,12})\.jsonl")
_HEX = re.compile(rb"[0-9a-f]{64}")  # only one spelling of each hash, so that any change to a line is detected
_MARK, _END = b',"hash":"', b'"}\n'
_TAIL_BYTES = len(_MARK) + 2 * HASH_BYTES + len(_END)


class Keys(NamedTuple):
    """The keys of one installation's receipts, each for one use, as hashers initialized with the key."""

    chain: blake3
    head: blake3
    content: blake3
    id: str
    """An identifier of the key that reveals nothing about it."""

    def hashed(self, text: str) -> str:
        """Return the keyed hash of a call's params or result, in hex."""
        return keyed_hash(self.content, text.encode("utf-8", "surrogatepass")).hex()


def keyed_hash(key: blake3, *parts: bytes) -> bytes:
    """Return the keyed hash of `parts`; `key` is one of `Keys`."""
    hasher = key.copy()  # takes half the time of initializing a new one
    for part in parts:
        hasher.update(part)
    return hasher.digest()


def read_keys(path: Path) -> Keys:
    """Read the installation's key; create it on first use.

    Raises:
        OSError: it cannot be created or read, or is not a valid key.
    """
    return keys_of(private_key(path))


def existing_keys(path: Path) -> Keys:
    """Return the installation's keys without creating them, for verification.

    Raises:
        ConfigurationError: there is no key, or it cannot be used.
    """
    if not path.exists():
        raise ConfigurationError(f"no receipts key at {path}", hint="restore the installation's key file")
    try:
        return read_keys(path)
    except OSError as error:
        raise ConfigurationError(
            f"cannot use the receipts key ({error.strerror})", hint="fix its owner and permissions"
        ) from error


def keys_of(secret: bytes) -> Keys:
    """Derive the keys from the installation's secret."""
    chain, head, content = (
        blake3(key=blake3(f"wasmrt receipts {use}".encode(), key=secret).digest())
        for use in ("chain", "head", "content")
    )
    return Keys(chain, head, content, blake3(b"wasmrt receipts id", key=secret).hexdigest()[:16])


def seal_record(keys: Keys, previous: bytes, number: int, content: bytes) -> tuple[bytes, bytes]:
    """Return a record's line and hash; `content` is the members of a JSON object."""
    body = b'{"n":%d,%b' % (number, content)
    digest = keyed_hash(keys.chain, previous, body)
    return b'%b,"hash":"%b"}\n' % (body, digest.hex().encode()), digest


class Line(NamedTuple):
    """A parsed line of a segment, not verified yet."""

    body: bytes
    hash: bytes

    def follows(self, keys: Keys, previous: bytes) -> bool:
        """Return whether these keys wrote this exact line after the line with the hash `previous`."""
        return compare_digest(self.hash, keyed_hash(keys.chain, previous, self.body))

    def record(self) -> dict[str, object]:
        """Return the record, or an empty dict if the line contains none."""
        try:
            record = json.loads(self.body + b"}")
        except (ValueError, RecursionError):
            return {}
        return record if isinstance(record, dict) else {}

    def is_of_type(self, name: str) -> bool:
        """Return whether the record has this type, which is its second member."""
        return self.body.startswith(b'"type":"%b"' % name.encode(), self.body.find(b",") + 1)

    @property
    def number(self) -> int:
        """The record's number, or 0 if it has none."""
        number = self.record().get("n")
        return number if isinstance(number, int) and number > 0 else 0


def split_line(line: bytes) -> Line | None:
    """Parse a line; return None if it does not have the format of the chain."""
    body, tail = line[:-_TAIL_BYTES], line[-_TAIL_BYTES:]
    if not (tail.startswith(_MARK) and tail.endswith(_END)):
        return None
    text = tail[len(_MARK) : -len(_END)]
    return Line(body, bytes.fromhex(str(text, "ascii"))) if _HEX.fullmatch(text) else None


class Head(NamedTuple):
    """The end of the chain: the number of records, and the position and hash of the last one."""

    number: int
    segment: int
    size: int
    """Bytes of the segment up to the end of the last record; 0 if the segment has not been started."""
    hash: bytes
    why: str = ""
    """The reason for starting the segment, if it has not been started."""

    def pack(self, keys: Keys) -> bytes:
        """Return the head as stored in its file, authenticated."""
        body = b'{"n":%d,"segment":%d,"bytes":%d,"hash":"%b","why":"%b","key":"%b"' % (
            self.number, self.segment, self.size, self.hash.hex().encode(), self.why.encode(), keys.id.encode(),
        )  # fmt: skip
        mac = keyed_hash(keys.head, body).hex().encode()
        return (b'%b,"mac":"%b"}' % (body, mac)).ljust(HEAD_BYTES - 1) + b"\n"


def read_head(keys: Keys, raw: bytes) -> Head | None:
    """Read a head; return None if these keys did not write it, or if it was changed."""
    body, mark, rest = raw.rstrip().rpartition(b',"mac":"')
    if not mark or not compare_digest(rest, keyed_hash(keys.head, body).hex().encode() + b'"}'):
        return None
    held = json.loads(body + b"}")
    return Head(held["n"], held["segment"], held["bytes"], bytes.fromhex(held["hash"]), held["why"])


def has_key_id(raw: bytes, keys: Keys) -> bool:
    """Return whether a head contains the ID of these keys."""
    return b'"key":"%b"' % keys.id.encode() in raw


@contextmanager
def reading() -> Iterator[None]:
    """Convert errors of the operating system.

    Raises:
        ConfigurationError: a file of the chain cannot be read, or is not a regular file.
    """
    try:
        yield
    except OSError as error:
        raise ConfigurationError(
            f"cannot read the receipts ({error.strerror})", hint="check the owner and the contents of the folder"
        ) from error


def segment_path(folder: Path, segment: int) -> Path:
    """Return the path of a segment's file."""
    return folder / f"receipts-{segment:06d}.jsonl"


def segments(folder: Path) -> list[int]:
    """Return the numbers of the existing segments, in order; empty if the folder is missing."""
    try:
        found = [_NAME.fullmatch(path.name) for path in folder.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(int(name[1]) for name in found if name)


MAX_LINE_BYTES = MAX_RECEIPT_BYTES + 16 * LINE_OVERHEAD_BYTES
_MAX_EXTRA_BYTES = 8 * MAX_LINE_BYTES
"""There is at most one line after the head for each process that was killed at the wrong moment."""


class Tail(NamedTuple):
    """The end of the chain."""

    at: Head
    why: str = ""
    """The reason to start a new segment; empty if the current one can be continued."""
    torn: bytes = b""
    """The start of an incomplete line."""


def find_tail(folder: Path, keys: Keys, raw: bytes) -> Tail:
    """Find the end of the chain; `raw` is the content of the head's file.

    If something is wrong, a new segment with the reason is started, so no receipt is lost: the chain continues after
    the last record known to the head or, without a head, to the file. `verify` reports the problem.

    Raises:
        OSError: a file cannot be read.
    """
    if not raw.strip(b" \n\0"):
        known = segments(folder)
        return _tail_without_head(folder, known, "head-missing") if known else Tail(Head(0, 0, 0, GENESIS), "first")
    head = read_head(keys, raw)
    if head is None:
        why = "head-changed" if has_key_id(raw, keys) else "other-key"
        return _tail_without_head(folder, segments(folder), why)
    try:
        with open_file(segment_path(folder, head.segment), follow_link=False) as (file, status):
            if status.st_size < head.size:
                return Tail(head, "truncated")
            file.seek(head.size)
            return _count_extra_lines(head, keys, file.read(_MAX_EXTRA_BYTES))
    except FileNotFoundError:
        return Tail(head, "segment-missing" if head.size else "")


def _count_extra_lines(head: Head, keys: Keys, extra: bytes) -> Tail:
    """Include lines that were written but not yet counted when a process was killed."""
    if len(extra) == _MAX_EXTRA_BYTES:
        return Tail(head, "foreign-lines")
    *lines, torn = extra.split(b"\n")
    for text in lines:
        line = split_line(text + b"\n")
        if line is None or not line.follows(keys, head.hash):
            return Tail(head, "foreign-lines")
        head = Head(head.number + 1, head.segment, head.size + len(text) + 1, line.hash)
    return Tail(head, "foreign-lines" if len(torn) > MAX_LINE_BYTES else "", torn)


def _tail_without_head(folder: Path, known: list[int], why: str) -> Tail:
    """Continue after the last line of the newest segment.

    That line is not verified: any tampering breaks the chain before the new segment, whose hash covers the line.
    """
    if not known:
        return Tail(Head(0, 0, 0, GENESIS), why)
    with open_file(segment_path(folder, known[-1]), follow_link=False) as (file, status):
        file.seek(max(0, status.st_size - 2 * MAX_LINE_BYTES))
        lines = file.read(2 * MAX_LINE_BYTES).split(b"\n")[:-1]
    last = next((line for text in reversed(lines) if (line := split_line(text + b"\n"))), Line(b"", GENESIS))
    return Tail(Head(last.number, known[-1], status.st_size, last.hash), why)
