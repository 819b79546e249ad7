"""Append receipts to a chain, from any number of threads of one process, before their calls return.

Each writer holds one chain: it takes the lowest free one by a lock on its head, and keeps it until it ends. It writes
the line, and then the head. If the process is killed between the two writes, the next writer of the chain adds the line
to the head. If the process is killed during the first write, the next writer stores the incomplete line in a separate
record. Receipts are not synced one by one: they survive the end of the process, but not a power cut.

When a writer begins, and every few seconds while it writes, it records the heads of the other chains, so that `verify`
notices if one of them is missing or was rolled back.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import threading
import time
from contextlib import suppress
from pathlib import Path
from weakref import WeakSet

from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import DEFAULT_SEGMENT_BYTES, MAX_RECEIPT_CHAINS, MAX_TORN_BYTES, MIN_SEGMENT_BYTES
from wasmrt.core.setting_commands import set_command
from wasmrt.runtime.audit._chain import (
    GENESIS,
    HEAD_BYTES,
    LINE_OVERHEAD_BYTES,
    Head,
    Keys,
    link_content,
    read_keys,
    seal_record,
)
from wasmrt.runtime.audit._files import (
    HEAD_FILE,
    Cut,
    chain_folder,
    chains,
    current_head,
    find_tail,
    list_segments,
    lock_file,
    refuse_link,
    segment_path,
)
from wasmrt.runtime.audit._receipt import Receipt
from wasmrt.runtime.audit._recording import Recorder

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
LOOK_SECONDS = 0.05
"""Minimum time between two checks of a writer that its files still exist."""
LINK_SECONDS = 10.0
"""Minimum time between two records of the other chains' heads."""
_CLOSED = -1
_NOTHING = Head(0, 0, 0, GENESIS)


class ReceiptWriter:
    """Appends receipts to a chain in a folder, and creates the folder if needed. `close` it after use.

    In a forked child, the writer continues with another chain.

    Raises:
        ConfigurationError: the folder or the key file cannot be used, or too many writers use the folder.
    """

    def __init__(self, folder: Path, key_file: Path, *, max_segment_bytes: int = DEFAULT_SEGMENT_BYTES) -> None:
        self._folder = folder
        self._max_bytes = max(max_segment_bytes, MIN_SEGMENT_BYTES)
        self._closed = False
        self._head = self._segment = _CLOSED
        self._reset()
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._installation_keys = read_keys(key_file)
            self._take_chain()
        except OSError as error:
            raise ConfigurationError(
                f"cannot use the receipts folder ({error.strerror})",
                hint=f"fix its permissions, or choose another folder: {set_command('audit.path', 'FOLDER')}",
            ) from error
        self.hashed = self._installation_keys.hashed
        """Return the keyed hash of a text, in hex."""
        _writers.add(self)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._chain = 0
        self._at = _NOTHING
        self._raw: bytes | None = None
        """The head that this writer wrote last; None if the end of the chain must be found again."""
        self._lost = False
        """True if the head of the chain was removed, so that another writer may have used the chain since."""
        self._linked: dict[int, bytes] | None = None
        """The hashes of the other chains' heads as recorded last."""
        self._look_at = self._link_at = 0.0

    def __call__(self, receipt: Receipt) -> None:
        """Append a receipt.

        Raises:
            ConfigurationError: the receipt cannot be written, or the writer is closed.
        """
        self._write(receipt.content())

    def acknowledge(self, cut: Cut, by: str, note: str = "") -> None:
        """Record that an operator knows that receipts may be missing before a segment; `verify` then accepts it.

        Raises:
            ConfigurationError: see `__call__`.
        """
        more = json.dumps({**cut._asdict(), "by": by, "note": note, "at_ms": time.time_ns() // 1_000_000})
        self._write(b'"type":"acknowledged",%b' % more[1:-1].encode())

    def recorder(self) -> Recorder:
        """Return a recorder that writes recordings of calls below the same folder."""
        return Recorder(self._folder, self._installation_keys)

    def close(self) -> None:
        """Seal the head and close the files. Do nothing if they are already closed."""
        with self._lock:
            self._closed = True
            if self._raw is not None:
                with suppress(OSError):
                    self._store(self._at._replace(sealed=True))
            self._close_files()

    def _close_files(self) -> None:
        for file in (self._head, self._segment):
            if file != _CLOSED:
                os.close(file)
        self._head = self._segment = _CLOSED
        self._raw = None

    def leave(self) -> None:
        """Close the parent's files in a forked child, without sealing or unlocking them."""
        self._close_files()
        self._reset()

    def __del__(self) -> None:
        if hasattr(self, "_lock"):
            self.close()

    def _write(self, content: bytes) -> None:
        with self._lock:
            if self._closed:
                raise ConfigurationError("the receipts are closed", hint="close the runtime after its last call")
            try:
                if time.monotonic() >= self._look_at or os.lseek(self._segment, 0, os.SEEK_END) != self._at.size:
                    self._look()
                self._append(content)
            except OSError as error:
                self._raw, self._look_at = None, 0.0
                raise ConfigurationError(
                    f"cannot write the receipt ({error.strerror})", hint="free disk space for the receipts"
                ) from error

    def _append(self, content: bytes) -> None:
        at = self._at
        if at.size + len(content) + LINE_OVERHEAD_BYTES > self._max_bytes:
            at = self._begin_segment(at, "size")
        self._put(at, content)

    # -- the chain -------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Repair the chain if its files were changed or removed. Record the heads of other chains if that is due."""
        if self._head == _CLOSED or not os.fstat(self._head).st_nlink:
            self._take_chain()
        if (
            self._raw is None
            or os.pread(self._head, HEAD_BYTES, 0) != self._raw
            or not os.fstat(self._segment).st_nlink
            or os.lseek(self._segment, 0, os.SEEK_END) != self._at.size
        ):
            self._resume()
        now = time.monotonic()
        if now >= self._link_at:
            self._link_chains()
            self._link_at = now + LINK_SECONDS
        self._look_at = now + LOOK_SECONDS

    def _take_chain(self) -> None:
        """Lock a chain's head: this writer's earlier chain if it has one, otherwise the lowest free chain."""
        self._close_files()
        for chain in (self._chain, *range(MAX_RECEIPT_CHAINS)):
            folder = chain_folder(self._folder, chain)
            for each in (folder.parent, folder) if chain else (folder,):
                each.mkdir(parents=not chain, exist_ok=True, mode=0o700)
                if chain:
                    refuse_link(each)
            head = _open_file(folder / HEAD_FILE)
            if lock_file(head, fcntl.LOCK_EX) and os.fstat(head).st_nlink:
                self._head, self._chain, self._chain_folder = head, chain, folder
                self._keys: Keys = self._installation_keys.derive_chain_keys(chain)
                self._lost = bool(self._at.number)
                return
            os.close(head)
        raise ConfigurationError(
            f"the receipts folder already has {MAX_RECEIPT_CHAINS} writers, the maximum",
            hint=f"close some runtimes, or choose another folder: {set_command('audit.path', 'FOLDER')}",
        )

    def _link_chains(self) -> None:
        """Record the heads of the other chains that have changed since the last such record."""
        heads = {}
        for chain in chains(self._folder):
            if chain != self._chain:
                with suppress(OSError):  # `verify` reports it
                    head = current_head(
                        chain_folder(self._folder, chain), self._installation_keys.derive_chain_keys(chain)
                    )
                    if head is not None and head.size:
                        heads[chain] = head
        known = self._linked or {}
        changed = [(chain, head) for chain, head in heads.items() if known.get(chain) != head.hash]
        if changed or (self._linked is None and self._chain):
            self._append(link_content(changed))
        self._linked = {chain: head.hash for chain, head in heads.items()}

    def _resume(self) -> None:
        """Find the end of the chain and repair an interrupted write. If files are damaged, start a new segment."""
        raw = os.pread(self._head, HEAD_BYTES, 0)
        at, reason, torn = find_tail(self._chain_folder, self._keys, raw)
        if at.number < self._at.number or (self._lost and not reason and at.hash != self._at.hash):
            reason = "records-missing"  # all files were removed, or replaced by others
        self._lost = False
        if at.number == 0:
            self._linked, self._link_at = None, 0.0
        if reason:
            self._begin_segment(at, reason)
            return
        self._open_segment(at)
        if at.size == 0:  # a process was killed before it started this segment
            self._put(at, self._write_opening(at, at.reason))
        elif torn:
            self._keep_torn(at, torn)
        else:
            self._store(at)

    def _put(self, at: Head, content: bytes) -> Head:
        """Write a record after `at`, then the head. If the record cannot be written completely, remove its bytes."""
        line, digest = seal_record(self._keys, at.hash, at.number + 1, content)
        written = os.pwrite(self._segment, line, at.size)
        if written < len(line):
            os.ftruncate(self._segment, at.size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        at = Head(at.number + 1, at.segment, at.size + len(line), digest)
        self._store(at)
        return at

    def _store(self, at: Head) -> None:
        raw = at.pack(self._keys)
        if os.pwrite(self._head, raw, 0) < len(raw):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._at, self._raw = at, raw

    def _begin_segment(self, at: Head, reason: str) -> Head:
        """Start the next segment. The head is written first, so that the next writer can start the segment instead."""
        if self._segment != _CLOSED:
            os.fsync(self._segment)
        at = Head(at.number, max([at.segment, *list_segments(self._chain_folder)]) + 1, 0, at.hash, reason)
        self._store(at)
        self._open_segment(at)
        return self._put(at, self._write_opening(at, reason))

    def _write_opening(self, at: Head, reason: str) -> bytes:
        return (
            b'"type":"segment","segment":%d,"chain":%d,"version":1,"key":"%b","previous":"%b","started_ms":%d,"why":"%b"'
        ) % (
            at.segment, self._chain, self._keys.id.encode(), at.hash.hex().encode(), time.time_ns() // 1_000_000,
            reason.encode(),
        )  # fmt: skip

    def _open_segment(self, at: Head) -> None:
        before, self._segment = self._segment, _CLOSED
        if before != _CLOSED:
            os.close(before)
        self._segment = _open_file(segment_path(self._chain_folder, at.segment))

    def _keep_torn(self, at: Head, torn: bytes) -> Head:
        """Replace an incomplete line by a record that contains its text. The call of that line never returned."""
        text = json.dumps(torn[:MAX_TORN_BYTES].decode("utf-8", "replace"))
        at = self._put(at, b'"type":"torn","bytes":%d,"text":%b' % (len(torn), text.encode()))
        os.ftruncate(self._segment, at.size)
        return at


def _open_file(path: Path) -> int:
    """Open a regular file for reading and writing.

    Raises:
        OSError: the file cannot be opened, or is not a regular file.
    """
    file = os.open(path, _FLAGS, 0o600)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "not a regular file")
    return file


_writers: WeakSet[ReceiptWriter] = WeakSet()


def _leave_chains() -> None:
    for writer in list(_writers):
        writer.leave()


os.register_at_fork(after_in_child=_leave_chains)
