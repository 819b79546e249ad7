"""List and drop suspended programs, for users."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from wasmrt.agent.builtin.code_mode._runs import VERSION, open_journals
from wasmrt.core.limits import CODE_RUN_SECONDS
from wasmrt.core.strict_json import parse_json

if TYPE_CHECKING:
    from wasmrt.core.postgres import Postgres


class WaitingRun(NamedTuple):
    """A run that is suspended because one of its calls requires an approval."""

    id: str
    """The ID of its first `run_code` call, or the journal's name if the journal cannot be read."""
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


def waiting_runs(place: Path | Postgres) -> list[WaitingRun]:
    """Return the stored runs, oldest first. If a journal cannot be read, its run has only an ID and an expiry."""
    runs = [_read_run(*each) for each in open_journals(place).read_all()]
    return sorted(runs, key=lambda run: (run.start_ms, run.id))


def drop_run(place: Path | Postgres, run_id: str) -> bool:
    """Remove a run, so that the same code starts from its beginning; return whether the run existed.

    Raises:
        RunReplayError: the run is active, or cannot be removed.
    """
    journals = open_journals(place)
    name = next((each[0] for each in journals.read_all() if _read_run(*each).id == run_id), None)
    return name is not None and journals.drop(name)


def _read_run(name: str, data: bytes | None, changed_ms: int) -> WaitingRun:
    expires_ms = 0 if data is None else changed_ms + int(CODE_RUN_SECONDS) * 1000
    try:
        lines = (data or b"")[: (data or b"").rfind(b"\n") + 1].splitlines()
        head, *rest = (parse_json(line.decode()) for line in lines)
        if head["version"] != VERSION:
            raise ValueError("unsupported version")
        user, trace, _ = head["owner"]
        last: dict[str, Any] = next((line for line in reversed(rest) if "pass" not in line), {})
        calls = sum("answered" in line for line in rest)
        return WaitingRun(head["id"], user, trace, last.get("waits", ""), calls, int(head["start_ms"]), expires_ms)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return WaitingRun(name, "", "", "", 0, 0, expires_ms)  # the run counts towards the limit of suspended runs
