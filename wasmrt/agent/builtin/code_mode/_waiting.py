"""The programs that wait, for people: whose they are, what they wait for, and how one is dropped."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from wasmrt.agent.builtin.code_mode._runs import MAX_FILE_BYTES, VERSION, locked, unusable
from wasmrt.core.files import UnfitFileError, opened_file
from wasmrt.core.limits import CODE_RUN_SECONDS


class WaitingRun(NamedTuple):
    """A run that was kept, since a call of it needs a person."""

    id: str
    """The id of the call that it began with; of a file that cannot be read its name."""
    user: str
    trace: str
    tool: str
    """The tool that it waits for; empty where it runs at this moment, or was cut off."""
    calls: int
    """Calls that are done, and are not made again."""
    start_ms: int
    """Unix milliseconds, as is `expires_ms`."""
    expires_ms: int

    def as_dict(self) -> dict[str, Any]:
        """Return the run as JSON data."""
        return self._asdict()


def waiting_runs(folder: Path) -> list[WaitingRun]:
    """Return the runs of a folder, the oldest first; of a file that cannot be read, its name and its end alone."""
    return sorted(_runs(folder).values(), key=lambda run: (run.start_ms, run.id))


def drop_run(folder: Path, run_id: str) -> bool:
    """Remove a run, and return whether there was one: the same code begins anew.

    Raises:
        RunReplayError: it runs at this moment, or it cannot be removed.
    """
    path = next((path for path, run in _runs(folder).items() if run.id == run_id), None)
    if path is None:
        return False
    try:
        if (file := locked(path)) is not None:
            path.unlink(missing_ok=True)
            os.close(file)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise unusable(error) from error
    return file is not None


def _runs(folder: Path) -> dict[Path, WaitingRun]:
    return {path: _read(path) for path in folder.glob("*.jsonl")}


def _read(path: Path) -> WaitingRun:
    expires_ms = 0
    try:
        with opened_file(path, follow_link=False, private=True) as (file, status):
            data = file.read(MAX_FILE_BYTES)
        head, *lines = (json.loads(line) for line in data[: data.rfind(b"\n") + 1].splitlines())
        expires_ms = int(status.st_mtime + CODE_RUN_SECONDS) * 1000
        if head["version"] != VERSION:
            raise ValueError("of another version")
        user, trace, _ = head["owner"]
        last: dict[str, Any] = next((line for line in reversed(lines) if "pass" not in line), {})
        calls = sum("answered" in line for line in lines)
        return WaitingRun(head["id"], user, trace, last.get("waits", ""), calls, int(head["start_ms"]), expires_ms)
    except (OSError, UnfitFileError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return WaitingRun(path.stem, "", "", "", 0, 0, expires_ms)  # it counts among those that wait
