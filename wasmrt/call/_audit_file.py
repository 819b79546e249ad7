"""The audit file: one line of JSON a call, written before the call is answered."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

from wasmrt.call._audit import AuditRecord
from wasmrt.errors import ConfigurationError


class AuditFile:
    """Appends records as lines of JSON: one `O_APPEND` write each, so that processes can share one file.

    Raises:
        ConfigurationError: the file cannot be opened for appending.
    """

    def __init__(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            # Not blocking: a FIFO without a reader is an error, and no wait for one.
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
            self._file: int | None = os.open(path, flags, 0o600)
            os.set_blocking(self._file, True)
        except OSError as error:
            raise ConfigurationError(
                f"the audit file cannot be opened ({error.strerror})", hint="choose another place for it"
            ) from error
        self._lock = threading.Lock()
        self._process = os.getpid()

    def __call__(self, record: AuditRecord) -> None:
        """Append one record.

        Raises:
            ConfigurationError: it cannot be written, or the file was closed.
        """
        line = record.line().encode("utf-8", "replace")
        with self._lock:
            if self._file is None:  # a closed descriptor's number belongs to somebody else
                raise ConfigurationError("the audit file is closed", hint="close the runtime after its last call")
            try:
                _append(self._file, line)
            except OSError as error:
                raise ConfigurationError(
                    f"the audit record cannot be written ({error.strerror})", hint="make room for the audit file"
                ) from error

    def close(self) -> None:
        """Let go of the file; a second time does nothing, and so does a child that was forked meanwhile."""
        if self._process != os.getpid():
            return  # a thread of the parent may hold the lock for ever here
        with self._lock:
            file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def __del__(self) -> None:
        if getattr(self, "_process", None) is not None:
            self.close()


def _append(file: int, line: bytes) -> None:
    """Append all of a line or nothing.

    Raises:
        OSError: it does not fit; what was begun is taken back where nobody else has written meanwhile.
    """
    written = os.write(file, line)
    if written < len(line):
        end = os.lseek(file, 0, os.SEEK_CUR)
        if os.fstat(file).st_size == end:
            os.ftruncate(file, end - written)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
