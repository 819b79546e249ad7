"""The chain of receipts: every line contains a hash that depends on the previous line. A small head stores the end.

A line is one JSON object. Its last member is the keyed BLAKE3 hash, with a key of the chain, of the previous line's
hash and of the line's bytes before that member. Bytes are hashed, not values, so no canonical JSON form is needed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from hmac import compare_digest
from pathlib import Path
from typing import NamedTuple

from blake3 import blake3

from wasmrt.core.errors import ConfigurationError
from wasmrt.core.files import private_key

HASH_BYTES = 32
GENESIS = bytes(HASH_BYTES)
"""The value that the first line uses as the previous hash."""
HEAD_BYTES = 384
"""Size of the head. It is overwritten in place, within one page: a killed process leaves the old or the new head."""
LINE_OVERHEAD_BYTES = 128
"""Maximum size of the parts of a line that are not its content: number, braces, hash."""
_HEX = re.compile(rb"[0-9a-f]{64}")  # accept only one spelling of a hash, so that any change to a line is detected
_MARK, _END = b',"hash":"', b'"}\n'
TAIL_BYTES = len(_MARK) + 2 * HASH_BYTES + len(_END)


class Keys(NamedTuple):
    """The keys for the receipts of one installation, one key for each use. Each is a hasher that contains its key."""

    chain: blake3
    head: blake3
    content: blake3
    id: str
    """An identifier of the installation's key that reveals nothing about the key."""

    def derive_chain_keys(self, number: int) -> Keys:
        """Return the keys of a chain. Every chain has different keys, so that no chain can replace another."""
        if number == 0:
            return self
        chain, head = (blake3(key=keyed_hash(key, b"chain %d" % number)) for key in (self.chain, self.head))
        return self._replace(chain=chain, head=head)

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
    return derive_keys(private_key(path))


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


def derive_keys(secret: bytes) -> Keys:
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
    body, tail = line[:-TAIL_BYTES], line[-TAIL_BYTES:]
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
    reason: str = ""
    """The reason for starting the segment; empty if the segment has been started."""
    sealed: bool = False
    """True if the writer has ended; a killed writer leaves its head unsealed."""

    def pack(self, keys: Keys) -> bytes:
        """Return the content of the head file: this head, with a message authentication code."""
        body = b'{"n":%d,"segment":%d,"bytes":%d,"hash":"%b","why":"%b","key":"%b","sealed":%b' % (
            self.number, self.segment, self.size, self.hash.hex().encode(), self.reason.encode(), keys.id.encode(),
            b"true" if self.sealed else b"false",
        )  # fmt: skip
        mac = keyed_hash(keys.head, body).hex().encode()
        return (b'%b,"mac":"%b"}' % (body, mac)).ljust(HEAD_BYTES - 1) + b"\n"


def read_head(keys: Keys, raw: bytes) -> Head | None:
    """Parse the content of a head file; return None if the head was changed or was not written with these keys."""
    body, mark, rest = raw.rstrip().rpartition(b',"mac":"')
    if not mark or not compare_digest(rest, keyed_hash(keys.head, body).hex().encode() + b'"}'):
        return None
    held = json.loads(body + b"}")
    sealed = held.get("sealed", True)  # heads did not have this member once
    return Head(held["n"], held["segment"], held["bytes"], bytes.fromhex(held["hash"]), held["why"], sealed)


def has_key_id(raw: bytes, keys: Keys) -> bool:
    """Return whether a head contains the ID of these keys."""
    return b'"key":"%b"' % keys.id.encode() in raw


class Link(NamedTuple):
    """The position and the hash of the last record of another chain, as recorded by a writer."""

    chain: int
    number: int
    segment: int
    size: int
    hash: str


def link_content(heads: Iterable[tuple[int, Head]]) -> bytes:
    """Return the content of a record that links other chains."""
    parts = (
        b'{"chain":%d,"n":%d,"segment":%d,"bytes":%d,"hash":"%b"}'
        % (chain, head.number, head.segment, head.size, head.hash.hex().encode())
        for chain, head in heads
    )
    return b'"type":"link","heads":[%b]' % b",".join(parts)


def read_links(record: dict[str, object]) -> list[Link] | None:
    """Return the links in a record, or None if they are invalid."""
    try:
        names = ("chain", "n", "segment", "bytes", "hash")
        links = [Link(*(head[name] for name in names)) for head in record["heads"]]  # type: ignore[attr-defined]
    except (KeyError, TypeError):
        return None
    sound = all(all(isinstance(part, int) for part in link[:-1]) and isinstance(link.hash, str) for link in links)
    return links if sound else None
