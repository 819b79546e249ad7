"""`wasmrt serve --log-format json`: each message on stderr, log record and call as one JSON object on a line."""

from __future__ import annotations

import io
import json
import logging
import sys
import threading
from datetime import UTC, datetime
from typing import Any, TextIO

from wasmrt.core.limits import KIB
from wasmrt.core.telemetry import CALLS_LOGGER

_MAX_MESSAGE_CHARS = 16 * KIB
_OWN = "wasmrt"


def log_as_json() -> None:
    """Write everything that this process prints and logs from now on to stderr as lines of JSON."""
    stream = _JsonLines(sys.stderr)
    sys.stdout = sys.stderr = stream
    logging.getLogger().addHandler(_JsonHandler(stream))
    logging.getLogger(_OWN).setLevel(logging.INFO)


class _JsonLines(io.TextIOBase):
    """A text stream that writes each line as a JSON object. Lines are split at `_MAX_MESSAGE_CHARS`."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._rest = ""

    def write(self, text: str) -> int:
        """Write the complete lines; the rest waits for its line's end."""
        with self._lock:
            *lines, self._rest = (self._rest + text).split("\n")
            while len(self._rest) > _MAX_MESSAGE_CHARS:
                lines.append(self._rest[:_MAX_MESSAGE_CHARS])
                self._rest = self._rest[_MAX_MESSAGE_CHARS:]
            for line in filter(None, lines):
                word = line.partition(":")[0]
                self._emit(word if word in ("error", "warning") else "info", {"event": "message", "message": line})
        return len(text)

    def write_event(self, level: str, event: dict[str, Any]) -> None:
        """Write an event with its own fields."""
        with self._lock:
            self._emit(level, event)

    def flush(self) -> None:
        """Flush the stream."""
        self._stream.flush()

    def fileno(self) -> int:
        """Return the descriptor of the stream."""
        return self._stream.fileno()

    def writable(self) -> bool:
        """Return True."""
        return True

    def _emit(self, level: str, event: dict[str, Any]) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._stream.write(json.dumps({"time": now, "level": level} | event) + "\n")
        self._stream.flush()


class _JsonHandler(logging.Handler):
    """Writes log records. SECURITY: the text of other libraries may contain secrets, so it is left out."""

    def __init__(self, stream: _JsonLines) -> None:
        super().__init__()
        self._stream = stream

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, without its traceback."""
        if record.name == CALLS_LOGGER and isinstance(record.args, dict):
            event: dict[str, Any] = {"event": "call"} | {name: value for name, value in record.args.items() if value}
        else:
            event = {"event": "log", "logger": record.name}
            if record.name == _OWN or record.name.startswith(f"{_OWN}."):
                event["message"] = record.getMessage()[:_MAX_MESSAGE_CHARS]
        if record.exc_info and record.exc_info[0] is not None:
            event["exception"] = record.exc_info[0].__name__
        self._stream.write_event(record.levelname.lower(), event)
