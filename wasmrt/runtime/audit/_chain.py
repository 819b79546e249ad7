"""The chain of receipts: every line contains a hash that depends on the previous line. A small head stores the end.

A line is one JSON object. Its last member is the keyed BLAKE3 hash, with the installation's key, of the previous line's
hash and of the line's bytes before that member. Bytes are hashed, not values, so no canonical JSON form is needed.
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
"""The value that the first line uses as the previous hash."""
HEAD_FILE = "head"
HEAD_BYTES = 384
"""Size of the head. It is overwritten in place, within one page: a killed process leaves the old or the new head."""
LINE_OVERHEAD_BYTES = 128
"""Maximum size of the parts of a line that are not its content: number, braces, hash."""
_NAME = re.compile(r"receipts-([0-9]{6,12})\.jsonl")
_HEX = re.compile(rb"[0-9a-f]{64}")  # accept only one spelling of a hash, so that any change to a line is detected
_MARK, _END = b',"hash":"', b'"}\n'
_TAIL_BYTES = len(_MARK) + 2 * HASH_BYTES + len(_END)


class Keys(NamedTuple):
    """The keys for the receipts of one installation, one key for each use. Each is a hasher that contains its key."""

    chain: blake3
    head: blake3
    content: blake3
    id: str
    """An identifier of the installation's key that reveals nothing about the key."""

    def hashed(self, text: str) -> str:
        """Return the keyed hash of a call's params or result, in hex."""
        return keyed_hash(self.content, text.encode("utf-8", "surrogatepass")).hex()


def keyed_hash(key: blake3, *parts: bytes) -> bytes:
    """Return the keyed hash of `parts`; `key` is one of `Keys`."""
    hasher = key.copy()  # a copy takes half the time of a new hasher
    for part in parts:
        hasher.update(part)
    return hasher.digest()


def read_keys(path: Path) -> Keys:
    """Read the installation's key, and create the key on first use. Return the derived keys.

    Raises:
        OSError: the key cannot be created or read, or is invalid.
    """
    return keys_of(private_key(path))


def existing_keys(path: Path) -> Keys:
    """Return the installation's keys without creating them, for verification.

    Raises:
        ConfigurationError: the key file is missing, or cannot be used.
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
    """Return the line of a record, and the line's hash. `content` is JSON text: members without braces."""
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
        """Return the line as a dict, or an empty dict if the line is not a JSON object."""
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
        """The number of the record, or 0 if the record has no valid number."""
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
    """The reason for starting the segment; empty if the segment has been started."""

    def pack(self, keys: Keys) -> bytes:
        """Return the content of the head file: this head, with a message authentication code."""
        body = b'{"n":%d,"segment":%d,"bytes":%d,"hash":"%b","why":"%b","key":"%b"' % (
            self.number, self.segment, self.size, self.hash.hex().encode(), self.why.encode(), keys.id.encode(),
        )  # fmt: skip
        mac = keyed_hash(keys.head, body).hex().encode()
        return (b'%b,"mac":"%b"}' % (body, mac)).ljust(HEAD_BYTES - 1) + b"\n"


def read_head(keys: Keys, raw: bytes) -> Head | None:
    """Parse the content of a head file; return None if the head was changed or was not written with these keys."""
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
    """Convert errors of the operating system that are raised in the `with` block.

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
    """Return the numbers of the existing segments in ascending order, or an empty list if the folder is missing."""
    try:
        found = [_NAME.fullmatch(path.name) for path in folder.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(int(name[1]) for name in found if name)


MAX_LINE_BYTES = MAX_RECEIPT_BYTES + 16 * LINE_OVERHEAD_BYTES
_MAX_EXTRA_BYTES = 8 * MAX_LINE_BYTES
"""Maximum size of lines that the head does not count. A process that is killed between two writes leaves one line."""


class Tail(NamedTuple):
    """The end of the chain as found in the files."""

    at: Head
    why: str = ""
    """The reason to start a new segment; empty if the current segment can be continued."""
    torn: bytes = b""
    """The bytes of an incomplete line at the end."""


def find_tail(folder: Path, keys: Keys, raw: bytes) -> Tail:
    """Find the end of the chain; `raw` is the content of the head's file.

    If the head and the files do not match, the result contains a reason to start a new segment, so no receipt is lost.
    The chain then continues after the last record that the head counts or, without a valid head, after the last line of
    the newest segment. `verify` reports the problem.

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
    """Advance the head past lines that a process wrote, but did not count in the head before it was killed."""
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

    That line is not verified here. If it was changed, `verify` finds a break there, because the hash of the new
    segment's first record depends on the line.
    """
    if not known:
        return Tail(Head(0, 0, 0, GENESIS), why)
    with open_file(segment_path(folder, known[-1]), follow_link=False) as (file, status):
        file.seek(max(0, status.st_size - 2 * MAX_LINE_BYTES))
        lines = file.read(2 * MAX_LINE_BYTES).split(b"\n")[:-1]
    last = next((line for text in reversed(lines) if (line := split_line(text + b"\n"))), Line(b"", GENESIS))
    return Tail(Head(last.number, known[-1], status.st_size, last.hash), why)
