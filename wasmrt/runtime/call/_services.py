"""The host's services for one call: every request of a guest is decided here, under the call's own grant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

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
from wasmrt.runtime.call._state import Call, GuestResponse
from wasmrt.runtime.call._writes import CallWrites
from wasmrt.sandbox.component.worlds import FailureKind
from wasmrt.sandbox.guest.requests import (
    DirectoryEntry,
    HostFailure,
    HttpCheck,
    HttpClose,
    HttpHead,
    HttpOpen,
    HttpRead,
    HttpReadAll,
    InvokeTool,
    Refuse,
    ReportProgress,
    Request,
    SecretExists,
    WorkspaceCopy,
    WorkspaceList,
    WorkspaceMakeDirectory,
    WorkspaceRead,
    WorkspaceRemove,
    WorkspaceRename,
    WorkspaceSize,
    WorkspaceStat,
    WorkspaceWrite,
)
from wasmrt.sandbox.guest.services import Reply

if TYPE_CHECKING:
    from wasmrt.runtime.workspace import WorkspaceReader

_OF_TOOL_ERROR = {
    ToolErrorKind.INVALID_PARAMETERS: FailureKind.INPUT,
    ToolErrorKind.NOT_AUTHORIZED: FailureKind.AUTH_REQUIRED,
    ToolErrorKind.RATE_LIMITED: FailureKind.EXECUTOR,
    ToolErrorKind.TIMEOUT: FailureKind.EXECUTOR,
    ToolErrorKind.SANDBOX: FailureKind.EXECUTOR,
    ToolErrorKind.EXTERNAL_SERVICE: FailureKind.CLIENT,
}
_MISSING_FILE = frozenset({str(Reason.NOT_FOUND), str(Reason.NOT_A_FILE)})
_MISSING_DIRECTORY = frozenset({str(Reason.NOT_FOUND)})
"""Denials that are not recorded for a request that only probes. The denial of an entry that is neither a file nor a
directory, such as a file with another hard link, is always recorded."""


class CallServices:
    """Decides and carries out the requests of one call's guest. `close` it when the guest has ended."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._opened = 0
        self._open: dict[int, GuestResponse] = {}
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

    def handle(self, request: Request[Reply]) -> Reply:
        """Answer one request.

        Raises:
            HostFailure: the request is denied, or failed.
            BaseException: the call ends.
        """
        return cast("Reply", _HANDLERS[type(request)](self, request))

    def close(self) -> None:
        """Close every response that the guest left open, and the journal of its writes."""
        self._writes.close()
        for response in self._open.values():
            response.close()

    # -- HTTP ------------------------------------------------------------------------------------------------------

    def _http_check(self, request: HttpCheck) -> HostFailure | None:
        refused = self._http_denial(request.method, request.url)
        if refused is None:
            return None
        self.refuse(refused)
        return self._failure(self._call.told(refused))

    def _http_open(self, request: HttpOpen) -> HttpHead:
        call = self._call
        refused = self._http_denial(request.method, request.url)
        if refused is not None:
            raise self._denied(refused)
        assert call.backends.http is not None  # checked by `_http_denial`
        response = call.backends.http.open(call, request)
        self._opened += 1
        self._open[self._opened] = response
        return HttpHead(self._opened, response.status, response.headers)

    def _http_read(self, request: HttpRead) -> bytes:
        return self._open[request.handle].read()

    def _http_read_all(self, request: HttpReadAll) -> bytes:
        return self._open[request.handle].read_all()

    def _http_close(self, request: HttpClose) -> None:
        self._open.pop(request.handle).close()

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

    def _workspace_read(self, request: WorkspaceRead) -> bytes:
        try:
            return self._workspace(request.path).read(request.path)
        except CapabilityDeniedError as error:
            raise self._workspace_failure(error, _MISSING_FILE if request.probe else None) from error

    def _workspace_list(self, request: WorkspaceList) -> Sequence[DirectoryEntry]:
        try:
            return self._workspace(request.path).list(request.path)
        except CapabilityDeniedError as error:
            raise self._workspace_failure(error, _MISSING_DIRECTORY if request.probe else None) from error

    def _workspace_stat(self, request: WorkspaceStat) -> DirectoryEntry:
        try:
            return self._workspace(request.path).stat(request.path)
        except CapabilityDeniedError as error:
            raise self._workspace_failure(error, _MISSING_DIRECTORY) from error

    def _workspace_size(self, request: WorkspaceSize) -> int | None:
        return self._writes.size(request.path)

    def _workspace_write(self, request: WorkspaceWrite) -> None:
        self._writes.write(request.path, request.content, new=request.new)

    def _workspace_copy(self, request: WorkspaceCopy) -> int:
        content = self._workspace_read(WorkspaceRead(request.path))
        self._writes.write(request.to, content, new=True)
        return len(content)

    def _workspace_make_directory(self, request: WorkspaceMakeDirectory) -> None:
        self._writes.make_directory(request.path)

    def _workspace_remove(self, request: WorkspaceRemove) -> None:
        self._writes.remove(request.path, directory=request.directory)

    def _workspace_rename(self, request: WorkspaceRename) -> None:
        self._writes.rename(request.path, request.to)

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

    def _secret_exists(self, request: SecretExists) -> bool:
        decision = self._call.grant.explain_secret(request.name)
        if not decision.allowed:
            self._call.decide(decision)
            return False
        secrets = self._call.secrets
        if secrets is None:
            return False
        try:
            secrets.get(request.name)
        except SecretError:
            return False
        return True

    def _invoke_tool(self, request: InvokeTool) -> str:
        alias, params = request
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

    def _report_progress(self, request: ReportProgress) -> None:
        self._progress_reports += 1
        if self._progress_reports > MAX_PROGRESS_REPORTS:
            raise BudgetExceededError(
                f"the guest reported progress more than {MAX_PROGRESS_REPORTS} times",
                limit=MAX_PROGRESS_REPORTS, used=self._progress_reports, setting="limits.MAX_PROGRESS_REPORTS",
                hint="have the tool report less often",
            )  # fmt: skip
        if self._call.on_progress is not None:
            message = request.message
            text = None if message is None else clean_line(self._call, message, MAX_LOG_ENTRY_BYTES)
            self._call.on_progress(request.done, request.total, text)

    # -- refusals --------------------------------------------------------------------------------------------------

    def _refuse(self, request: Refuse) -> None:
        self.refuse(request.decision)

    def refuse(self, decision: Decision) -> None:
        """Record a refusal once for each target, at most `MAX_REFUSALS` in all."""
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


_HANDLERS: dict[type[object], Callable[..., object]] = {
    HttpCheck: CallServices._http_check,
    HttpOpen: CallServices._http_open,
    HttpRead: CallServices._http_read,
    HttpReadAll: CallServices._http_read_all,
    HttpClose: CallServices._http_close,
    WorkspaceRead: CallServices._workspace_read,
    WorkspaceList: CallServices._workspace_list,
    WorkspaceStat: CallServices._workspace_stat,
    WorkspaceSize: CallServices._workspace_size,
    WorkspaceWrite: CallServices._workspace_write,
    WorkspaceCopy: CallServices._workspace_copy,
    WorkspaceMakeDirectory: CallServices._workspace_make_directory,
    WorkspaceRemove: CallServices._workspace_remove,
    WorkspaceRename: CallServices._workspace_rename,
    SecretExists: CallServices._secret_exists,
    InvokeTool: CallServices._invoke_tool,
    ReportProgress: CallServices._report_progress,
    Refuse: CallServices._refuse,
}
"""One handler for each request of `wasmrt.sandbox.guest.requests.NAMES`; tests check their reply types."""
