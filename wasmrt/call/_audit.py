"""One record a call, appended to a file in one write, so that a crash loses none that was answered for.

A record holds who called what, what was decided and what it used; never params, results or anything a guest wrote.
"""

from __future__ import annotations

import json
import os
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
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigurationError(
                f"the audit file cannot be opened ({error.strerror})", hint="choose another place for it"
            ) from error

    def __call__(self, record: dict[str, Any]) -> None:
        os.write(self._file, _encode(record).encode() + b"\n")

    def close(self) -> None:
        os.close(self._file)


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode
