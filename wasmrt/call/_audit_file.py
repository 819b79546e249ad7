"""The audit file: a record is kept before its call is answered, so that a crash loses none that was answered for."""

from __future__ import annotations

import atexit
import contextlib
import errno
import itertools
import os
import stat
import threading
import time
import weakref
from functools import partial
from pathlib import Path

from wasmrt.call._audit import AuditRecord
from wasmrt.call._spool import CAN_SPOOL, Spool, left_behind
from wasmrt.errors import ConfigurationError

_LOOK_SECONDS = 0.05
_numbers = itertools.count(1)


class AuditFile:
    """Appends records as lines of JSON.

    To an ordinary file they go by way of a spool, and are in it after a twentieth of a second, or when a runtime is
    closed; a process that dies leaves them to the next that opens the file. Two processes can share one file.

    Raises:
        ConfigurationError: the file cannot be opened for appending.
    """

    def __init__(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            # O_APPEND: one write is whole lines, however many processes share the file.
            self._file: int | None = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigurationError(
                f"the audit file cannot be opened ({error.strerror})", hint="choose another place for it"
            ) from error
        self._process = os.getpid()
        self._lock = threading.Lock()
        """Around the spool and what says whether there is one."""
        self._writing = threading.Lock()
        """Around the file; taken before the other where both are."""
        self._wake = threading.Event()
        self._awake = False
        self._problem: OSError | None = None
        self._at_exit = partial(_close, weakref.ref(self))
        self._spool = self._new_spool(path)
        if self._spool is not None:
            threading.Thread(
                target=_flush, args=(weakref.ref(self), self._wake), name="wasmrt-audit", daemon=True
            ).start()
            atexit.register(self._at_exit)

    def __call__(self, record: AuditRecord) -> None:
        """Append one record.

        Raises:
            ConfigurationError: it cannot be written, as the one before could not, or the file was closed.
        """
        line = record.line().encode("utf-8", "replace")
        with self._lock:
            kept = self._spool is not None and self._problem is None and self._spool.put(line)
        if not kept:
            self._now(line)
        elif not self._awake:
            self._awake = True
            self._wake.set()

    def flush(self) -> bool:
        """Append what waits in the spool; True where something did.

        Raises:
            OSError: it cannot be written.
        """
        with self._writing:
            return self._flushed()

    def close(self) -> None:
        """Append what waits, and let go of the file.

        Raises:
            ConfigurationError: what waits cannot be written; it stays in the spool for the next that opens the file.
        """
        if self._process != os.getpid():
            return  # forked: the spool is the parent's
        with self._writing:
            if self._file is None:
                return
            try:
                self._flushed()
            except OSError as error:
                raise _unwritable(error) from error
            finally:
                with self._lock:
                    spool, self._spool = self._spool, None
                os.close(self._file)
                self._file = None
                if spool is not None:
                    spool.close()
        atexit.unregister(self._at_exit)
        self._wake.set()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()

    def rest(self) -> bool:
        """Look for work no more until the next record; False where one has come meanwhile."""
        self._awake = False
        self._wake.clear()
        with self._lock:
            return self._spool is None or not self._spool.lines()

    def _new_spool(self, path: Path) -> Spool | None:
        """A spool beside an ordinary file, after what older ones left behind was appended."""
        assert self._file is not None
        if not CAN_SPOOL or not stat.S_ISREG(os.fstat(self._file).st_mode):
            return None
        try:
            for lines in left_behind(path):
                _write(self._file, lines)
            return Spool(path, next(_numbers))
        except OSError:
            return None  # every record is written at once, and says what is wrong

    def _now(self, line: bytes) -> None:
        """Write a line for which the spool has no room, or which has to say what is wrong with the file."""
        with self._writing:
            if self._file is None:  # a closed descriptor's number belongs to somebody else
                raise ConfigurationError("the audit file is closed", hint="close the runtime after its last call")
            try:
                self._flushed()
                _write(self._file, line)
            except OSError as error:
                self._problem = error
                raise _unwritable(error) from error
            self._problem = None

    def _flushed(self) -> bool:
        with self._lock:
            lines = b"" if self._spool is None else self._spool.lines()
        if not lines or self._file is None:
            return False
        try:
            _write(self._file, lines)
        except OSError as error:
            self._problem = error
            raise
        with self._lock:
            if self._spool is not None:
                self._spool.forget(len(lines))
        return True


def _flush(reference: weakref.ref[AuditFile], wake: threading.Event) -> None:
    """Append what waits every twentieth of a second while there is something: nobody has to wake this for each."""
    while True:
        wake.wait()
        time.sleep(_LOOK_SECONDS)
        audit = reference()
        if audit is None or audit._file is None:
            return
        try:
            busy = audit.flush()
        except OSError:
            busy = False  # the next call says so
        if not busy and not audit.rest():
            wake.set()
        del audit


def _close(reference: weakref.ref[AuditFile]) -> None:
    if (audit := reference()) is not None:
        with contextlib.suppress(ConfigurationError):
            audit.close()


def _write(file: int, data: bytes) -> None:
    """Append all of it or nothing.

    Raises:
        OSError: it does not fit; what was begun is taken back where nobody else has written meanwhile.
    """
    written = os.write(file, data)
    if written < len(data):
        end = os.lseek(file, 0, os.SEEK_CUR)
        if os.fstat(file).st_size == end:
            os.ftruncate(file, end - written)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _unwritable(error: OSError) -> ConfigurationError:
    return ConfigurationError(
        f"the audit record cannot be written ({error.strerror})", hint="make room for the audit file"
    )
