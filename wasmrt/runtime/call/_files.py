"""Workspace requests of one call's guest, decided under the call's grant and limited by its write budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from wasmrt.capabilities import WorkspaceWriteCapability
from wasmrt.core.errors import CapabilityDeniedError
from wasmrt.core.limits import MAX_PATH_BYTES
from wasmrt.core.model import Decision, Reason
from wasmrt.runtime.call._state import Call
from wasmrt.sandbox.component.worlds import FailureKind
from wasmrt.sandbox.guest.replies import DirectoryEntry, HostFailure
from wasmrt.sandbox.guest.requests import (
    WorkspaceCopy,
    WorkspaceList,
    WorkspaceMakeDirectory,
    WorkspaceRead,
    WorkspaceReadPart,
    WorkspaceRemove,
    WorkspaceRename,
    WorkspaceSize,
    WorkspaceStat,
    WorkspaceWrite,
)

if TYPE_CHECKING:
    from wasmrt.runtime.workspace import WorkspaceReader, WorkspaceWriter, WriteBudget

_MISSING_FILE = frozenset({Reason.NOT_FOUND, Reason.NOT_A_FILE})
_MISSING_DIRECTORY = frozenset({Reason.NOT_FOUND})
"""Denials that are not recorded if the request only tests for existence. If an entry is neither a file nor a directory,
or has several hard links, the denial is always recorded."""
_FAILED_WRITE = frozenset({Reason.NOT_FOUND, Reason.NOT_A_FILE, Reason.ALREADY_EXISTS, Reason.NOT_EMPTY})
"""Failures of permitted writes, which are not recorded as denials."""
_NO_WORKSPACE = "this runtime has no workspace"
_NO_WORKSPACE_HINT = "set a folder: wasmrt run --workspace DIR"


class CallFiles:
    """Handles the workspace requests of a guest. Methods raise `HostFailure` for denied and failed requests."""

    def __init__(self, call: Call, record_denial: Callable[[Decision], None]) -> None:
        self._call = call
        self._record_denial = record_denial
        self._budget: WriteBudget | None = None

    def close(self) -> None:
        """Close the undo journal of the call, if there is one."""
        if self._budget is not None and self._budget.journal is not None:
            self._budget.journal.close()

    def read(self, request: WorkspaceRead) -> bytes:
        with self._open_reader(request.path, _MISSING_FILE if request.probe else frozenset()) as reader:
            return reader.read(request.path)

    def read_part(self, request: WorkspaceReadPart) -> bytes:
        with self._open_reader(request.path, frozenset()) as reader:
            return reader.read_part(request.path, request.offset, request.length)

    def list(self, request: WorkspaceList) -> Sequence[DirectoryEntry]:
        with self._open_reader(request.path, _MISSING_DIRECTORY if request.probe else frozenset()) as reader:
            return reader.list(request.path)

    def stat(self, request: WorkspaceStat) -> DirectoryEntry:
        with self._open_reader(request.path, _MISSING_DIRECTORY) as reader:
            return reader.stat(request.path)

    def size(self, request: WorkspaceSize) -> int | None:
        with self._open_writer(request.path) as (writer, _):
            return writer.size(request.path)

    def write(self, request: WorkspaceWrite) -> None:
        with self._open_writer(request.path) as (writer, budget):
            writer.write(request.path, request.content, budget, new=request.new)

    def copy(self, request: WorkspaceCopy) -> int:
        content = self.read(WorkspaceRead(request.path))
        self.write(WorkspaceWrite(request.to, content, True))
        return len(content)

    def make_directory(self, request: WorkspaceMakeDirectory) -> None:
        with self._open_writer(request.path) as (writer, budget):
            writer.make_directory(request.path, budget)

    def remove(self, request: WorkspaceRemove) -> None:
        with self._open_writer(request.path) as (writer, budget):
            writer.remove(request.path, budget, directory=request.directory)

    def rename(self, request: WorkspaceRename) -> None:
        with self._open_writer(request.path) as (writer, budget):
            writer.rename(request.path, request.to, budget)

    @contextmanager
    def _open_reader(self, path: str, not_recorded: frozenset[Reason]) -> Iterator[WorkspaceReader]:
        call, reader = self._call, self._call.files.reader
        if call.grant.workspace_read is None:
            raise self._failure(call.decide(call.grant.explain_workspace(path)))
        if reader is None:
            subject = path[:MAX_PATH_BYTES]
            raise self._failure(call.decide(_no_workspace_denial("workspace", subject)))
        try:
            yield reader
        except CapabilityDeniedError as error:
            decision = error.decision
            if decision is None:
                raise HostFailure(FailureKind.OPERATION_FAILED, error.code, error.message) from error
            if not not_recorded:
                raise self._failure(call.decide(decision)) from error
            if decision.reason not in not_recorded:
                self._record_denial(decision)
            raise self._failure(call.redact(decision)) from error

    @contextmanager
    def _open_writer(self, path: str) -> Iterator[tuple[WorkspaceWriter, WriteBudget]]:
        call, writer = self._call, self._call.files.writer
        if writer is None:
            decision = call.grant.explain_workspace_write(path)
            if decision.allowed:
                subject = path[:MAX_PATH_BYTES].encode("unicode_escape").decode("ascii")
                decision = _no_workspace_denial(WorkspaceWriteCapability.section, subject)
            raise self._write_failure(decision)
        if self._budget is None:
            self._budget = writer.new_budget(
                call_id=call.call_id, tool=call.tool_chain[-1], user=call.user, within=call.within
            )
        try:
            yield writer, self._budget
        except CapabilityDeniedError as error:
            assert error.decision is not None  # every error of the workspace contains a decision
            raise self._write_failure(error.decision) from error

    def _write_failure(self, decision: Decision) -> HostFailure:
        if decision.reason not in _FAILED_WRITE:
            self._record_denial(decision)
        return self._failure(self._call.redact(decision))

    def _failure(self, redacted: Decision) -> HostFailure:
        message = self._call.describe(redacted)
        return HostFailure(FailureKind.NETWORK_DENIED, str(redacted.reason), message, denied=True)


def _no_workspace_denial(capability: str, subject: str) -> Decision:
    return Decision(
        False, Reason.NOT_GRANTED, _NO_WORKSPACE, _NO_WORKSPACE_HINT, capability=capability, subject=subject
    )
