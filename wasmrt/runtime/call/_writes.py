"""Changes of the workspace by one call: decided under its own grant, counted by a budget of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from wasmrt.core.errors import CapabilityDeniedError
from wasmrt.core.limits import MAX_PATH_BYTES
from wasmrt.core.model import Decision, GrantList, Reason
from wasmrt.runtime.call._state import Call
from wasmrt.sandbox.component.worlds import FailureKind
from wasmrt.sandbox.guest.requests import HostFailure

if TYPE_CHECKING:
    from collections.abc import Callable

    from wasmrt.runtime.workspace import WorkspaceWriter, WriteBudget

_NO_ATTEMPT = frozenset({Reason.NOT_FOUND, Reason.NOT_A_FILE, Reason.ALREADY_EXISTS, Reason.NOT_EMPTY})
"""Refusals of a guest that has tried nothing that it may not."""


class CallWrites:
    """Carries out the requests of a guest that change files. Methods raise `HostFailure`."""

    def __init__(self, call: Call, refuse: Callable[[Decision], None]) -> None:
        self._call = call
        self._refuse = refuse
        self._budget: WriteBudget | None = None

    def close(self) -> None:
        """Close the journal of the call."""
        if self._budget is not None and self._budget.journal is not None:
            self._budget.journal.close()

    @property
    def max_write_bytes(self) -> int:
        """The most bytes that a file may have that is written; 0 where none is."""
        writer = self._call.files.writer
        return 0 if writer is None else writer.max_file_bytes

    def size(self, path: str) -> int | None:
        """Return the size of a file that may be written; None where there is none."""
        with self._writing(path) as (writer, _):
            return writer.size(path)

    def write(self, path: str, content: bytes, *, new: bool) -> None:
        """Make a file that holds `content`; with `new`, nothing may be there."""
        with self._writing(path) as (writer, budget):
            writer.write(path, content, budget, new=new)

    def make_directory(self, path: str) -> None:
        """Make a directory."""
        with self._writing(path) as (writer, budget):
            writer.make_directory(path, budget)

    def remove(self, path: str, *, directory: bool) -> None:
        """Remove a file, or an empty directory."""
        with self._writing(path) as (writer, budget):
            writer.remove(path, budget, directory=directory)

    def rename(self, path: str, to: str) -> None:
        """Give a file another name."""
        with self._writing(path) as (writer, budget):
            writer.rename(path, to, budget)

    @contextmanager
    def _writing(self, path: str) -> Iterator[tuple[WorkspaceWriter, WriteBudget]]:
        writer = self._call.files.writer
        if writer is None:
            raise self._failure(self._missing(path))
        if self._budget is None:
            call = self._call
            self._budget = writer.new_budget(
                call_id=call.call_id, tool=call.tool_chain[-1], user=call.user, within=call.within
            )
        try:
            yield writer, self._budget
        except CapabilityDeniedError as error:
            assert error.decision is not None  # the workspace refuses by decisions only
            raise self._failure(error.decision) from error

    def _missing(self, path: str) -> Decision:
        decision = self._call.grant.explain_workspace_write(path)
        if not decision.allowed:
            return decision
        rule = "this runtime has no workspace"
        hint = "give it a folder: wasmrt run --workspace DIR; in Python, WasmRuntimeConfig(workspace=DIR)"
        subject = path[:MAX_PATH_BYTES].encode("unicode_escape").decode("ascii")
        return Decision(
            False, Reason.NOT_GRANTED, rule, hint, capability=GrantList.WORKSPACE_WRITE.section, subject=subject
        )

    def _failure(self, decision: Decision) -> HostFailure:
        if decision.reason not in _NO_ATTEMPT:
            self._refuse(decision)
        told = self._call.sentence_of(self._call.told(decision))
        return HostFailure(FailureKind.NETWORK_DENIED, str(decision.reason), told, denied=True)
