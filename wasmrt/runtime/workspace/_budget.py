"""Counts of what one call has written, charged before the first byte."""

from __future__ import annotations

from wasmrt.capabilities import WorkspaceWriteCapability
from wasmrt.core.errors import CapabilityDeniedError
from wasmrt.core.model import GrantList, Reason
from wasmrt.runtime.workspace._journal import CallJournal
from wasmrt.runtime.workspace._refusals import refusal

_SECTION = GrantList.WORKSPACE_WRITE.section


class WriteBudget:
    """The bytes and names of one call, and the names that it has made itself. Used by one thread.

    `journal` keeps what its changes take away; without one they cannot be taken back.
    """

    def __init__(self, journal: CallJournal | None = None) -> None:
        self.journal = journal
        self._bytes = 0
        self._names: set[str] = set()
        self._made: set[str] = set()

    def charge_name(self, granted: WorkspaceWriteCapability, path: str) -> None:
        """Count a name that is made, written, moved or removed.

        Raises:
            CapabilityDeniedError: the call has as many as it may have.
        """
        if path not in self._names and len(self._names) >= granted.max_files:
            rule = f"a call may change {granted.max_files} files"
            raise _over(rule, path, f"raise {_SECTION}.max_files if it really needs more")
        self._names.add(path)

    def charge(self, granted: WorkspaceWriteCapability, path: str, size: int) -> None:
        """Count a file that is about to be written whole.

        Raises:
            CapabilityDeniedError: it is larger than a file may be, or too much for the call.
        """
        if size > granted.max_file_bytes:
            rule = f"a file may have {granted.max_file_bytes} bytes"
            hint = f"raise {_SECTION}.max_file_bytes if it really needs more"
            raise refusal(Reason.FILE_TOO_LARGE, rule, path, hint, writing=True)
        if self._bytes + size > granted.max_bytes:
            rule = f"a call may write {granted.max_bytes} bytes"
            raise _over(rule, path, f"raise {_SECTION}.max_bytes if it really needs more")
        self.charge_name(granted, path)
        self._bytes += size

    def made(self, path: str) -> bool:
        """Tell whether the call itself has made a name."""
        return path in self._made

    def note_made(self, path: str) -> None:
        """Remember a name as made by the call."""
        self._made.add(path)

    def note_gone(self, path: str) -> None:
        """Forget a name that is no longer there."""
        self._made.discard(path)

    def note_moved(self, path: str, to: str) -> None:
        """Follow a folder that the call has made, and everything it has made below."""
        moved = {name for name in self._made if name == path or name.startswith(f"{path}/")}
        self._made = (self._made - moved) | {to + name[len(path) :] for name in moved}


def _over(rule: str, path: str, hint: str) -> CapabilityDeniedError:
    return refusal(Reason.WRITE_BUDGET, rule, path, hint, writing=True)
