"""Append receipts to the chain, from any number of threads and processes, before their calls return.

A writer takes an advisory lock on the head, finds the end of the chain, writes the line, and then writes the head. If
the process is killed between the two writes, the next writer adds the line to the head. If the process is killed during
the first write, the next writer stores the incomplete line in a separate record. Receipts are not synced one by one:
they survive the end of the process, but not a power cut.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import threading
import time
from pathlib import Path

from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import DEFAULT_SEGMENT_BYTES, MAX_TORN_BYTES, MIN_SEGMENT_BYTES, RECEIPT_LOCK_SECONDS
from wasmrt.core.setting_commands import set_command
from wasmrt.runtime.audit._chain import (
    HEAD_BYTES,
    HEAD_FILE,
    LINE_OVERHEAD_BYTES,
    Head,
    find_tail,
    read_keys,
    seal_record,
    segment_path,
    segments,
)
from wasmrt.runtime.audit._receipt import Receipt
from wasmrt.runtime.audit._recording import Recorder

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_RETRY_SECONDS = 0.000_2
LOOK_SECONDS = 0.05
"""Minimum time between two checks of a writer that its files still exist."""
_CLOSED = -1


class ReceiptWriter:
    """Appends receipts to the chain in a folder, and creates the folder if needed. `close` it after use.

    Raises:
        ConfigurationError: the folder or the key file cannot be used.
    """

    def __init__(self, folder: Path, key_file: Path, *, max_segment_bytes: int = DEFAULT_SEGMENT_BYTES) -> None:
        self._head = self._segment = _CLOSED
        self._closed = False
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._folder = folder
        self._max_bytes = max(max_segment_bytes, MIN_SEGMENT_BYTES)
        self._look_at = 0.0
        self._at = Head(0, 0, 0, b"")
        self._raw: bytes | None = None
        """The head that this writer wrote last; None if it must be read again."""
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._keys = read_keys(key_file)
            self._head = _open_file(folder / HEAD_FILE)
        except OSError as error:
            raise ConfigurationError(
                f"cannot use the receipts folder ({error.strerror})",
                hint=f"fix its permissions, or choose another folder: {set_command('audit.path', 'FOLDER')}",
            ) from error
        self.hashed = self._keys.hashed
        """Return the keyed hash of a text, in hex."""

    def __call__(self, receipt: Receipt) -> None:
        """Append a receipt.

        Raises:
            ConfigurationError: the receipt cannot be written, or the writer is closed or was created before a fork.
        """
        self._write(receipt.content())

    def acknowledge(self, segment: int, by: str, note: str = "") -> None:
        """Record that an operator knows that receipts may be missing before a segment; `verify` then accepts it.

        Raises:
            ConfigurationError: see `__call__`.
        """
        more = json.dumps({"segment": segment, "by": by, "note": note, "at_ms": time.time_ns() // 1_000_000})
        self._write(b'"type":"acknowledged",%b' % more[1:-1].encode())

    def _write(self, content: bytes) -> None:
        if self._process != os.getpid():  # both locks belong to the parent
            raise ConfigurationError(
                "the receipts were opened before this process was forked", hint="create the runtime after forking"
            )
        with self._lock:
            if self._closed:
                raise ConfigurationError("the receipts are closed", hint="close the runtime after its last call")
            try:
                self._acquire()
                try:
                    self._append(content)
                finally:
                    fcntl.flock(self._head, fcntl.LOCK_UN)
            except OSError as error:
                self._raw = None
                raise ConfigurationError(
                    f"cannot write the receipt ({error.strerror})", hint="free disk space for the receipts"
                ) from error

    def recorder(self) -> Recorder:
        """Return a recorder that writes recordings of calls below the same folder."""
        return Recorder(self._folder, self._keys)

    def close(self) -> None:
        """Close the files. Do nothing if they are already closed, or in a forked child."""
        if self._process != os.getpid():
            return  # a thread of the parent may hold the lock forever in this process
        with self._lock:
            self._closed = True
            for file in (self._head, self._segment):
                if file != _CLOSED:
                    os.close(file)
            self._head = self._segment = _CLOSED

    def __del__(self) -> None:
        if getattr(self, "_process", None) is not None:
            self.close()

    def _acquire(self) -> None:
        """Take the advisory lock on the current head file."""
        while True:
            if self._head == _CLOSED:  # the head file was removed
                self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._head = _open_file(self._folder / HEAD_FILE)
            _lock_file(self._head)
            if (now := time.monotonic()) < self._look_at:
                return
            if os.fstat(self._head).st_nlink:
                self._look_at = now + LOOK_SECONDS
                if self._segment != _CLOSED and not os.fstat(self._segment).st_nlink:
                    self._raw = None  # the segment was removed; `find_tail` reports it
                return
            os.close(self._head)  # the head was removed; other processes lock the new file
            self._head, self._raw = _CLOSED, None

    def _append(self, content: bytes) -> None:
        at = self._end()
        if at.size + len(content) + LINE_OVERHEAD_BYTES > self._max_bytes:
            at = self._begin_segment(at, "size")
        self._put(at, content)

    def _end(self) -> Head:
        """Return the end of the chain. If the last write was interrupted or a file is wrong, repair the chain first."""
        raw = os.pread(self._head, HEAD_BYTES, 0)
        if raw == self._raw and os.lseek(self._segment, 0, os.SEEK_END) == self._at.size:
            return self._at
        at, why, torn = find_tail(self._folder, self._keys, raw)
        if at.number < self._at.number:
            why = "records-missing"  # all files were removed, or replaced by older ones
        if why:
            return self._begin_segment(at, why)
        self._open_segment(at)
        if at.size == 0:  # a process was killed before it started this segment
            return self._put(at, self._opening(at, at.why))
        if torn:
            return self._keep_torn(at, torn)
        self._store(at)
        return at

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

    def _begin_segment(self, at: Head, why: str) -> Head:
        """Start the next segment. The head is written first, so that another process can start the segment instead."""
        if self._segment != _CLOSED:
            os.fsync(self._segment)
        at = Head(at.number, max([at.segment, *segments(self._folder)]) + 1, 0, at.hash, why)
        self._store(at)
        self._open_segment(at)
        return self._put(at, self._opening(at, why))

    def _opening(self, at: Head, why: str) -> bytes:
        return b'"type":"segment","segment":%d,"version":1,"key":"%b","previous":"%b","started_ms":%d,"why":"%b"' % (
            at.segment, self._keys.id.encode(), at.hash.hex().encode(), time.time_ns() // 1_000_000, why.encode(),
        )  # fmt: skip

    def _open_segment(self, at: Head) -> None:
        before, self._segment = self._segment, _CLOSED
        if before != _CLOSED:
            os.close(before)
        self._segment = _open_file(segment_path(self._folder, at.segment))

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


def _lock_file(file: int) -> None:
    """Take the advisory lock on an open file.

    Raises:
        OSError: another process, possibly a suspended one, has held the lock for too long.
    """
    deadline = 0.0
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            now = time.monotonic()
            deadline = deadline or now + RECEIPT_LOCK_SECONDS
            if now > deadline:
                raise OSError(errno.EAGAIN, "another process holds the lock") from None
            time.sleep(_RETRY_SECONDS)
        else:
            return
