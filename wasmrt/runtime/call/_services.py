"""The host's services for one call: every request of a guest is decided here, under the call's own grant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wasmrt.core.errors import (
    BudgetExceededError,
    CapabilityDeniedError,
    SecretError,
    ToolError,
    ToolErrorKind,
    WasmrtError,
)
from wasmrt.core.limits import (
    DEFAULT_MAX_REQUEST_BYTES,
    MAX_LOG_ENTRY_BYTES,
    MAX_PATH_BYTES,
    MAX_PROGRESS_REPORTS,
    MAX_REFUSALS,
)
from wasmrt.core.model import Decision, Reason
from wasmrt.runtime.call._answer import clean_line
from wasmrt.runtime.call._state import Call
from wasmrt.runtime.call._writes import CallWrites
from wasmrt.sandbox.component.worlds import FailureKind
from wasmrt.sandbox.guest.services import GuestRequest, GuestResponse, HostFailure

if TYPE_CHECKING:
    from wasmrt.runtime.workspace import WorkspaceEntry, WorkspaceReader

_OF_TOOL_ERROR = {
    ToolErrorKind.INVALID_PARAMETERS: FailureKind.INPUT,
    ToolErrorKind.NOT_AUTHORIZED: FailureKind.AUTH_REQUIRED,
    ToolErrorKind.RATE_LIMITED: FailureKind.EXECUTOR,
    ToolErrorKind.TIMEOUT: FailureKind.EXECUTOR,
    ToolErrorKind.SANDBOX: FailureKind.EXECUTOR,
    ToolErrorKind.EXTERNAL_SERVICE: FailureKind.CLIENT,
}
_LOOKING_FOR_A_FILE = frozenset({str(Reason.NOT_FOUND), str(Reason.NOT_A_FILE)})
_LOOKING_FOR_A_FOLDER = frozenset({str(Reason.NOT_FOUND)})
"""Refusals of a guest that only looks: it has tried nothing that it may not. What is neither a file nor a folder, such
as a file with a second name elsewhere, is on record."""


class CallServices:
    """Implements `wasmrt.sandbox.guest.services.HostServices` for one call. `close` it when the guest is gone."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._open: list[GuestResponse] = []
        self._refused: set[tuple[str, str]] = set()
        self._progress_reports = 0
        self._writes = CallWrites(call, self.refuse)

    @property
    def has_workspace(self) -> bool:
        return any(part is not None for part in self._call.files)

    @property
    def max_write_bytes(self) -> int:
        return self._writes.max_write_bytes

    @property
    def max_request_bytes(self) -> int:
        http = self._call.grant.http
        return DEFAULT_MAX_REQUEST_BYTES if http is None else http.max_request_bytes

    def close(self) -> None:
        """Let go of every connection that the guest left open, and of the journal of its writes."""
        self._writes.close()
        for response in self._open:
            response.close()

    # -- HTTP ------------------------------------------------------------------------------------------------------

    def http_refusal(self, method: str, url: str) -> HostFailure | None:
        """Return why no request can be sent at all; None where one may."""
        refused = self._http_denial(method, url)
        if refused is None:
            return None
        self.refuse(refused)
        return self._failure(self._call.told(refused))

    def http_open(self, request: GuestRequest) -> GuestResponse:
        """Send a request through every check and wait for the head of its response.

        Raises:
            HostFailure: why there is none.
        """
        call = self._call
        refused = self._http_denial(request.method, request.url)
        if refused is not None:
            raise self._denied(refused)
        assert call.backends.http is not None  # `_http_denial` has looked
        response = call.backends.http.open(call, request)
        self._open = [known for known in self._open if known.is_open]
        self._open.append(response)
        return response

    def _http_denial(self, method: str, url: str) -> Decision | None:
        grant, gateway = self._call.grant, self._call.backends.http
        if grant.http is None:
            networks = self._call.backends.networks if gateway is None else gateway.networks
            return grant.explain_http(method, url, unsafe_allowed_networks=networks)
        if gateway is None:
            rule, hint = "this runtime has no network", "give WasmRuntimeConfig a network"
            return Decision(False, Reason.NOT_GRANTED, rule, hint, capability="http", subject=method)
        return None

    # -- the workspace ---------------------------------------------------------------------------------------------

    def workspace_read(self, path: str, *, looking: bool = False) -> bytes:
        """Return a file's bytes.

        Raises:
            HostFailure: it is not granted, or cannot be read.
        """
        try:
            return self._workspace(path).read(path)
        except CapabilityDeniedError as error:
            raise self._workspace_failure(error, _LOOKING_FOR_A_FILE if looking else None) from error

    def workspace_list(self, path: str, *, looking: bool = False) -> Sequence[WorkspaceEntry]:
        """Return a directory's entries.

        Raises:
            HostFailure: it is not granted, or cannot be read.
        """
        try:
            return self._workspace(path).list(path)
        except CapabilityDeniedError as error:
            raise self._workspace_failure(error, _LOOKING_FOR_A_FOLDER if looking else None) from error

    def workspace_stat(self, path: str) -> WorkspaceEntry:
        """Return a file's or a directory's name, kind and size.

        Raises:
            HostFailure: it is not granted, or there is none.
        """
        try:
            return self._workspace(path).stat(path)
        except CapabilityDeniedError as error:
            raise self._workspace_failure(error, _LOOKING_FOR_A_FOLDER) from error

    def workspace_size(self, path: str) -> int | None:
        """Return the size of a file that may be written; None where there is none. Raises `HostFailure`."""
        return self._writes.size(path)

    def workspace_write(self, path: str, content: bytes, *, new: bool = False) -> None:
        """Make a file that holds `content`. Raises `HostFailure`."""
        self._writes.write(path, content, new=new)

    def workspace_copy(self, path: str, to: str) -> int:
        """Copy a file to a name that nothing has; return its size in bytes. Raises `HostFailure`."""
        content = self.workspace_read(path)
        self._writes.write(to, content, new=True)
        return len(content)

    def workspace_make_directory(self, path: str) -> None:
        """Make a directory. Raises `HostFailure`."""
        self._writes.make_directory(path)

    def workspace_remove(self, path: str, *, directory: bool = False) -> None:
        """Remove a file, or an empty directory. Raises `HostFailure`."""
        self._writes.remove(path, directory=directory)

    def workspace_rename(self, path: str, to: str) -> None:
        """Give a file another name. Raises `HostFailure`."""
        self._writes.rename(path, to)

    def _workspace(self, path: str) -> WorkspaceReader:
        reader, grant = self._call.files.reader, self._call.grant
        if grant.workspace_read is None:
            raise self._denied(grant.explain_workspace(path))
        if reader is None:
            rule = "this runtime has no workspace"
            hint = "give it a folder: wasmrt run --workspace DIR; in Python, WasmRuntimeConfig(workspace=DIR)"
            decision = Decision(
                False, Reason.NOT_GRANTED, rule, hint, capability="workspace", subject=path[:MAX_PATH_BYTES]
            )
            raise self._denied(decision)
        return reader

    def _workspace_failure(self, error: CapabilityDeniedError, no_attempt: frozenset[str] | None) -> HostFailure:
        if no_attempt is None or error.decision is None:
            return self._from_error(error)
        if str(error.decision.reason) not in no_attempt:
            self.refuse(error.decision)
        return self._failure(self._call.told(error.decision))

    # -- secrets, tools, progress ----------------------------------------------------------------------------------

    def secret_exists(self, name: str) -> bool:
        """Answer truthfully for granted names, and no for every other."""
        decision = self._call.grant.explain_secret(name)
        if not decision.allowed:
            self._call.decide(decision)
            return False
        secrets = self._call.secrets
        if secrets is None:
            return False
        try:
            secrets.get(name)
        except SecretError:
            return False
        return True

    def invoke_tool(self, alias: str, params: str) -> str:
        """Run the tool behind an alias and return its JSON text.

        Raises:
            HostFailure: it may not be invoked, or it failed.
        """
        call = self._call
        if call.call_tool is not None:
            return call.call_tool(alias, params, call)
        if call.backends.tools is None:
            decision = call.grant.explain_tool(alias)
            if decision.allowed:
                rule, hint = "this runtime lets no tool call another", "prepare the other tool in the same runtime"
                decision = Decision(
                    False, Reason.NOT_GRANTED, rule, hint, capability="tool_invoke", subject=alias[:MAX_PATH_BYTES]
                )
            raise self._denied(decision)
        try:
            return call.backends.tools.invoke(call, alias, params)
        except (CapabilityDeniedError, ToolError) as error:
            call.lifetime.check()  # the caller's own deadline or cancellation is not a failure of the other tool
            raise self._from_error(error) from error

    def report_progress(self, done: int, total: int | None, message: str | None) -> None:
        """Pass a report of progress on to the caller, scanned.

        Raises:
            BudgetExceededError: the guest has reported as often as it may.
        """
        self._progress_reports += 1
        if self._progress_reports > MAX_PROGRESS_REPORTS:
            raise BudgetExceededError(
                f"the guest reported progress more than {MAX_PROGRESS_REPORTS} times",
                limit=MAX_PROGRESS_REPORTS, used=self._progress_reports, setting="limits.MAX_PROGRESS_REPORTS",
                hint="have the tool report less often",
            )  # fmt: skip
        if self._call.on_progress is not None:
            text = None if message is None else clean_line(self._call, message, MAX_LOG_ENTRY_BYTES)
            self._call.on_progress(done, total, text)

    # -- refusals --------------------------------------------------------------------------------------------------

    def refuse(self, decision: Decision) -> None:
        """Put a refusal on record, once a target: a guest that tries a million times leaves a bounded number."""
        key = (decision.capability, decision.subject)
        if key not in self._refused and len(self._refused) < MAX_REFUSALS:
            self._refused.add(key)
            self._call.decide(decision)

    def _denied(self, decision: Decision) -> HostFailure:
        return self._failure(self._call.decide(decision))

    def _from_error(self, error: WasmrtError) -> HostFailure:
        if isinstance(error, CapabilityDeniedError) and error.decision is not None:
            return self._denied(error.decision)
        kind = FailureKind.OPERATION_FAILED
        if isinstance(error, ToolError):
            kind = _OF_TOOL_ERROR.get(error.kind, kind)
        return HostFailure(kind, error.code, error.message)

    def _failure(self, told: Decision) -> HostFailure:
        return HostFailure(FailureKind.NETWORK_DENIED, str(told.reason), self._call.sentence_of(told), denied=True)
