"""List and drop suspended programs, for users."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

from wasmrt.agent.builtin.code_mode._runs import MAX_FILE_BYTES, VERSION, open_locked, storage_error
from wasmrt.core.files import UnfitFileError, open_file
from wasmrt.core.limits import CODE_RUN_SECONDS
from wasmrt.core.strict_json import parse_json


class WaitingRun(NamedTuple):
    """A run that is suspended because one of its calls requires an approval."""

    id: str
    """The ID of its first `run_code` call, or the file's name if the file cannot be read."""
    user: str
    trace: str
    tool: str
    """The tool whose call is pending; empty if the run is active or was interrupted."""
    calls: int
    """Number of completed calls, which are not repeated."""
    start_ms: int
    """Unix milliseconds, like `expires_ms`."""
    expires_ms: int

    def as_dict(self) -> dict[str, Any]:
        """Return the run as JSON data."""
        return self._asdict()


def waiting_runs(folder: Path) -> list[WaitingRun]:
    """Return the runs of a folder, oldest first. If a file cannot be read, its run has only an ID and an expiry."""
    return sorted(_read_runs(folder).values(), key=lambda run: (run.start_ms, run.id))


def drop_run(folder: Path, run_id: str) -> bool:
    """Remove a run, so that the same code starts from its beginning; return whether the run existed.

    Raises:
        RunReplayError: the run is active, or cannot be removed.
    """
    path = next((path for path, run in _read_runs(folder).items() if run.id == run_id), None)
    if path is None:
        return False
    try:
        if (file := open_locked(path)) is not None:
            path.unlink(missing_ok=True)
            os.close(file)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise storage_error(error) from error
    return file is not None


def _read_runs(folder: Path) -> dict[Path, WaitingRun]:
    return {path: _read_run(path) for path in folder.glob("*.jsonl")}


def _read_run(path: Path) -> WaitingRun:
    expires_ms = 0
    try:
        with open_file(path, follow_link=False, private=True) as (file, status):
            data = file.read(MAX_FILE_BYTES)
        head, *lines = (parse_json(line.decode()) for line in data[: data.rfind(b"\n") + 1].splitlines())
        expires_ms = int(status.st_mtime + CODE_RUN_SECONDS) * 1000
        if head["version"] != VERSION:
            raise ValueError("unsupported version")
        user, trace, _ = head["owner"]
        last: dict[str, Any] = next((line for line in reversed(lines) if "pass" not in line), {})
        calls = sum("answered" in line for line in lines)
        return WaitingRun(head["id"], user, trace, last.get("waits", ""), calls, int(head["start_ms"]), expires_ms)
    except (OSError, UnfitFileError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return WaitingRun(path.stem, "", "", "", 0, 0, expires_ms)  # it counts towards the limit of suspended runs
