"""Limits on the files that one call writes, checked before writing."""

from __future__ import annotations

from wasmrt.capabilities import WorkspaceWriteCapability
from wasmrt.core.errors import CapabilityDeniedError
from wasmrt.core.model import Reason
from wasmrt.runtime.workspace._journal import CallJournal
from wasmrt.runtime.workspace._refusals import make_refusal

_SECTION = WorkspaceWriteCapability.section


class WriteBudget:
    """The bytes and names that one call has changed, and the names that it created. Not thread-safe.

    `journal` saves the content that changes replace; without a journal, they cannot be undone.
    """

    def __init__(self, journal: CallJournal | None = None) -> None:
        self.journal = journal
        self._bytes = 0
        self._names: set[str] = set()
        self._made: set[str] = set()

    def charge_name(self, granted: WorkspaceWriteCapability, path: str) -> None:
        """Count a name that is created, written, moved or removed.

        Raises:
            CapabilityDeniedError: the call has already changed the maximum number of names.
        """
        if path not in self._names and len(self._names) >= granted.max_files:
            rule = f"a call may change at most {granted.max_files} files"
            raise _budget_error(rule, path, f"increase {_SECTION}.max_files if the tool needs more files")
        self._names.add(path)

    def charge(self, granted: WorkspaceWriteCapability, path: str, size: int) -> None:
        """Count a file before it is written.

        Raises:
            CapabilityDeniedError: the file is too large, or the call would write too many files or bytes.
        """
        if size > granted.max_file_bytes:
            rule = f"a file may have at most {granted.max_file_bytes} bytes"
            hint = f"increase {_SECTION}.max_file_bytes if the tool needs larger files"
            raise make_refusal(Reason.FILE_TOO_LARGE, rule, path, hint, writing=True)
        if self._bytes + size > granted.max_bytes:
            rule = f"a call may write at most {granted.max_bytes} bytes"
            raise _budget_error(rule, path, f"increase {_SECTION}.max_bytes if the tool needs to write more")
        self.charge_name(granted, path)
        self._bytes += size

    def has_created(self, path: str) -> bool:
        """Return whether this call created a name."""
        return path in self._made

    def record_created(self, path: str) -> None:
        """Record that the call created a name."""
        self._made.add(path)

    def record_removed(self, path: str) -> None:
        """Record that a name was removed."""
        self._made.discard(path)

    def record_moved(self, path: str, to: str) -> None:
        """Record that a name was moved. If it is a folder, all names that the call created below it move with it."""
        moved = {name for name in self._made if name == path or name.startswith(f"{path}/")}
        self._made = (self._made - moved) | {to + name[len(path) :] for name in moved}


def _budget_error(rule: str, path: str, hint: str) -> CapabilityDeniedError:
    return make_refusal(Reason.WRITE_BUDGET, rule, path, hint, writing=True)
