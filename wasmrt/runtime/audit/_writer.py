"""Writes receipts: one line each behind the last, by any number of threads and processes, before the call is answered.

Under an advisory lock on the head: look where the chain ends, write the line, then the head. A process that is killed
between the two leaves a line that the next one counts; one killed inside the first leaves the beginning of a line,
which is kept in a record of its own. Nothing is synced for each receipt: what the system has taken survives the
process, and not a power cut.
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
from wasmrt.runtime.audit._chain import (
    HEAD_BYTES,
    HEAD_FILE,
    LINE_OVERHEAD_BYTES,
    Head,
    find_tail,
    read_keys,
    sealed,
    segment_path,
    segments,
)
from wasmrt.runtime.audit._receipt import Receipt
from wasmrt.runtime.audit._recording import Recorder

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_RETRY_SECONDS = 0.000_2
LOOK_SECONDS = 0.05
"""Interval at which a writer looks whether its files are still in their place."""
_CLOSED = -1


class ReceiptWriter:
    """Appends receipts to the chain of a folder, which is made where it is missing. `close` it.

    Raises:
        ConfigurationError: the folder or the key cannot be used.
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
        """The head that this writer has written last; None where it has to look."""
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._keys = read_keys(key_file)
            self._head = _opened(folder / HEAD_FILE)
        except OSError as error:
            raise ConfigurationError(
                f"the folder of the receipts cannot be used ({error.strerror})",
                hint="mend its permissions; or write path or enabled = false below [audit] in config.toml",
            ) from error
        self.hashed = self._keys.hashed
        """Return the keyed hash of a text, in hex."""

    def __call__(self, receipt: Receipt) -> None:
        """Append one receipt.

        Raises:
            ConfigurationError: it cannot be written, or the writer was closed or made before a fork.
        """
        content = receipt.content()
        if self._process != os.getpid():  # the lock is the parent's, and so is the advisory one
            raise ConfigurationError("the receipts were opened before this process was forked", hint="fork first")
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
                    f"the receipt cannot be written ({error.strerror})", hint="make room for the receipts"
                ) from error

    def recorder(self) -> Recorder:
        """Return what records calls into the same folder."""
        return Recorder(self._folder, self._keys)

    def close(self) -> None:
        """Let go of the files; a second time does nothing, and so does a child that was forked meanwhile."""
        if self._process != os.getpid():
            return  # a thread of the parent may hold the lock for ever here
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
        """Take the advisory lock on the head that is in place now."""
        while True:
            if self._head == _CLOSED:  # the folder was gone when it was last looked for
                self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._head = _opened(self._folder / HEAD_FILE)
            _locked(self._head)
            if (now := time.monotonic()) < self._look_at:
                return
            if os.fstat(self._head).st_nlink:
                self._look_at = now + LOOK_SECONDS
                if self._segment != _CLOSED and not os.fstat(self._segment).st_nlink:
                    self._raw = None  # somebody removed it: `find_tail` says so
                return
            os.close(self._head)  # somebody removed it; others lock the one that is there now
            self._head, self._raw = _CLOSED, None

    def _append(self, content: bytes) -> None:
        at = self._end()
        if at.size + len(content) + LINE_OVERHEAD_BYTES > self._max_bytes:
            at = self._begin_segment(at, "size")
        self._put(at, content)

    def _end(self) -> Head:
        """Return where the chain ends, mended where that was needed."""
        raw = os.pread(self._head, HEAD_BYTES, 0)
        if raw == self._raw and os.lseek(self._segment, 0, os.SEEK_END) == self._at.size:
            return self._at
        at, why, torn = find_tail(self._folder, self._keys, raw)
        if why:
            return self._begin_segment(at, why)
        self._open_segment(at)
        if at.size == 0:  # a process was killed before it had begun this segment
            return self._put(at, self._opening(at, at.why))
        if torn:
            return self._keep_torn(at, torn)
        self._store(at)
        return at

    def _put(self, at: Head, content: bytes) -> Head:
        """Write a record behind `at`, all of it or nothing, and then the head."""
        line, digest = sealed(self._keys, at.hash, at.number + 1, content)
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
        """Begin the next segment: the head says so first, so that whoever comes next would finish it."""
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
        self._segment = _opened(segment_path(self._folder, at.segment))

    def _keep_torn(self, at: Head, torn: bytes) -> Head:
        """Put a record of an unfinished line in its place; it was of a call that nobody got an answer to."""
        text = json.dumps(torn[:MAX_TORN_BYTES].decode("utf-8", "replace"))
        at = self._put(at, b'"type":"torn","bytes":%d,"text":%b' % (len(torn), text.encode()))
        os.ftruncate(self._segment, at.size)
        return at


def _opened(path: Path) -> int:
    """Open a file for reading and writing; one that is no plain file is refused.

    Raises:
        OSError: it cannot be opened.
    """
    file = os.open(path, _FLAGS, 0o600)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "not a regular file")
    return file


def _locked(file: int) -> None:
    """Take the advisory lock.

    Raises:
        OSError: another process holds it for too long, because it is stopped, say.
    """
    deadline = 0.0
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            now = time.monotonic()
            deadline = deadline or now + RECEIPT_LOCK_SECONDS
            if now > deadline:
                raise OSError(errno.EAGAIN, "another process holds them locked") from None
            time.sleep(_RETRY_SECONDS)
        else:
            return
