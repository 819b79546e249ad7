"""One record a call, appended to a file in one write, so that a crash loses none that was answered for.

A record holds who called what, what was decided and what it used; never params, results or anything a guest wrote.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wasmrt.errors import ConfigurationError

AuditSink = Callable[[dict[str, Any]], None]


class AuditFile:
    """Appends records as lines of JSON.

    Raises:
        ConfigurationError: the file cannot be opened for appending.
    """

    def __init__(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            # O_APPEND: one write is one record, whole, however many processes share the file.
            self._file: int | None = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigurationError(
                f"the audit file cannot be opened ({error.strerror})", hint="choose another place for it"
            ) from error

        self._lock = threading.Lock()

    def __call__(self, record: dict[str, Any]) -> None:
        """Append one record.

        Raises:
            ConfigurationError: it cannot be written, or the file was closed.
        """
        line = _encode(record).encode("utf-8", "replace") + b"\n"
        with self._lock:  # a closed descriptor's number belongs to somebody else
            if self._file is None:
                raise ConfigurationError("the audit file is closed", hint="close the runtime after its last call")
            try:
                os.write(self._file, line)
            except OSError as error:
                raise ConfigurationError(
                    f"the audit record cannot be written ({error.strerror})", hint="make room for the audit file"
                ) from error

    def close(self) -> None:
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode
