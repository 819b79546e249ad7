"""Record changes that wasmrt did not make itself, such as those of a shell command, in a call's undo journal."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from blake3 import blake3

from wasmrt.capabilities import path_problem, plain_path
from wasmrt.core.limits import MAX_UNDO_CALL_BYTES
from wasmrt.runtime.workspace._journal import UndoJournal
from wasmrt.runtime.workspace._journal_file import Change, JournalHead, append_entry
from wasmrt.runtime.workspace._states import ABSENT, Kind, State, state_at
from wasmrt.runtime.workspace._walk import walking

_MAX_HASHED_BYTES = 4 * MAX_UNDO_CALL_BYTES


class Earlier(NamedTuple):
    """The state of a name before a change. `mode` is its mode of stat(2), or None if the name did not exist."""

    path: str
    mode: int | None
    mtime_ns: int = 0
    content: bytes | None = None
    """The content of a file, or None if it was not saved."""

    def state(self) -> State | None:
        """Return the state to restore, or None if it was not saved completely."""
        if self.mode is None:
            return ABSENT
        if stat.S_ISDIR(self.mode):
            return State(Kind.DIRECTORY, stat.S_IMODE(self.mode))
        if not stat.S_ISREG(self.mode) or self.content is None:
            return None
        digest = blake3(self.content).hexdigest()
        return State(Kind.FILE, stat.S_IMODE(self.mode), len(self.content), digest, self.mtime_ns)


class Observed(NamedTuple):
    """The recorded changes, the changes that cannot be undone, and the unchanged names."""

    recorded: tuple[str, ...]
    lost: tuple[str, ...]
    unchanged: tuple[str, ...]


def record_observed(journal: UndoJournal, head: JournalHead, earlier: Iterable[Earlier]) -> Observed:
    """Record the names of a workspace that a finished call changed. If writing fails, the rest is not recorded."""
    recorded: list[str] = []
    lost: list[str] = []
    unchanged: list[str] = []
    handle, used = -1, 0
    try:
        for each, after in _iter_current(Path(head.root), earlier):
            before = each.state()
            if before is not None and after is not None and before.is_same_as(after) and before.mode == after.mode:
                unchanged.append(each.path)
                continue
            size = len(each.content or b"")
            if before is None or after is None or after.kind is Kind.OTHER or used + size > MAX_UNDO_CALL_BYTES:
                lost.append(each.path)
                continue
            contents = [] if each.content is None else [(before.digest, each.content)]
            try:
                handle = journal.create(head) if handle < 0 else handle
                used += append_entry(handle, [Change(each.path, before, after)], contents)
            except OSError:
                lost.append(each.path)
            else:
                recorded.append(each.path)
    finally:
        if handle >= 0:
            os.close(handle)
    return Observed(tuple(recorded), tuple(lost), tuple(unchanged))


def _iter_current(root: Path, earlier: Iterable[Earlier]) -> Iterator[tuple[Earlier, State | None]]:
    """Yield each name with its current state, or None if that cannot be recorded."""
    left = _MAX_HASHED_BYTES
    for each in earlier:
        state = None
        if path_problem(each.path) is None and plain_path(each.path) == each.path:
            folder, _, name = each.path.rpartition("/")
            with suppress(OSError), walking(root) as walk:
                state = ABSENT
                walk.down(folder)
                status = os.stat(name, dir_fd=walk.here, follow_symlinks=False)
                state, left = (state_at(walk.here, name), left - status.st_size) if left > 0 else (None, left)
        yield each, state
