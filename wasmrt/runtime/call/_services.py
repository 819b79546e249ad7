"""The host's services for one call. Every request of a guest is allowed or denied here, under the call's grant."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

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
    MAX_INVOKE_DEPTH,
    MAX_LIST_BYTES,
    MAX_LOG_ENTRY_BYTES,
    MAX_PATH_BYTES,
    MAX_PROGRESS_REPORTS,
    MAX_REFUSALS,
    MAX_TOOL_INVOCATIONS,
)
from wasmrt.core.model import Decision, Reason
from wasmrt.runtime.call._answer import clean_line
from wasmrt.runtime.call._files import CallFiles
from wasmrt.runtime.call._state import Call, GuestResponse, ToolRunner
from wasmrt.sandbox.component.worlds import FailureKind
from wasmrt.sandbox.guest.refusals import make_denial
from wasmrt.sandbox.guest.replies import HostFailure, HttpHead
from wasmrt.sandbox.guest.requests import (
    ConfigGet,
    ConfigList,
    HttpCheck,
    HttpClose,
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
    WorkspaceReadPart,
    WorkspaceRemove,
    WorkspaceRename,
    WorkspaceSize,
    WorkspaceStat,
    WorkspaceWrite,
)
from wasmrt.sandbox.guest.services import Reply

_OF_TOOL_ERROR = {
    ToolErrorKind.INVALID_PARAMETERS: FailureKind.INPUT,
    ToolErrorKind.NOT_AUTHORIZED: FailureKind.AUTH_REQUIRED,
    ToolErrorKind.RATE_LIMITED: FailureKind.EXECUTOR,
    ToolErrorKind.TIMEOUT: FailureKind.EXECUTOR,
    ToolErrorKind.SANDBOX: FailureKind.EXECUTOR,
    ToolErrorKind.EXTERNAL_SERVICE: FailureKind.CLIENT,
}


class CallServices:
    """Decides and handles the requests of one call's guest. `close` the services when the guest has ended."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._opened = 0
        self._open: dict[int, GuestResponse] = {}
        self._refused: set[tuple[str, str]] = set()
        self._progress_reports = 0
        self._files: CallFiles | None = None

    @property
    def has_workspace(self) -> bool:
        return any(part is not None for part in self._call.files)

    @property
    def max_write_bytes(self) -> int:
        writer = self._call.files.writer
        return 0 if writer is None else writer.max_file_bytes

    @property
    def max_request_bytes(self) -> int:
        http = self._call.grant.http
        return DEFAULT_MAX_REQUEST_BYTES if http is None else http.max_request_bytes

    def handle(self, request: Request[Reply]) -> Reply:
        """Handle one request.

        Raises:
            HostFailure: the request was denied or failed.
            BaseException: the error ends the call.
        """
        kind = type(request)
        if kind in _FILE_HANDLERS:
            self._files = self._files or CallFiles(self._call, self.record_denial)
            return cast("Reply", _FILE_HANDLERS[kind](self._files, request))
        return cast("Reply", _HANDLERS[kind](self, request))

    def close(self) -> None:
        """Close every response that the guest left open, and the undo journal."""
        if self._files is not None:
            self._files.close()
        for response in self._open.values():
            response.close()

    # -- HTTP ------------------------------------------------------------------------------------------------------

    def _check_http(self, request: HttpCheck) -> HostFailure | None:
        refused = self._find_http_denial(request.method, request.url)
        if refused is None:
            return None
        self.record_denial(refused)
        return self._failure(self._call.redact(refused))

    def _open_http(self, request: HttpOpen) -> HttpHead:
        call = self._call
        refused = self._find_http_denial(request.method, request.url)
        if refused is not None:
            raise self._denied(refused)
        assert call.backends.http is not None  # checked by `_find_http_denial`
        response = call.backends.http.open(call, request)
        self._opened += 1
        self._open[self._opened] = response
        return HttpHead(self._opened, response.status, response.headers)

    def _read_http(self, request: HttpRead) -> bytes:
        return self._open[request.handle].read()

    def _read_all_http(self, request: HttpReadAll) -> bytes:
        body = self._open[request.handle].read_all()
        if len(body) > MAX_LIST_BYTES:
            message = f"the response has more than {MAX_LIST_BYTES:,} bytes, the most that a tool receives at once"
            raise HostFailure(FailureKind.OUTPUT_TOO_LARGE, "response-too-large", message)
        return body

    def _close_http(self, request: HttpClose) -> None:
        self._open.pop(request.handle).close()

    def _find_http_denial(self, method: str, url: str) -> Decision | None:
        grant, gateway = self._call.grant, self._call.backends.http
        if grant.http is None:
            networks = self._call.backends.networks if gateway is None else gateway.networks
            return grant.explain_http(method, url, unsafe_allowed_networks=networks)
        if gateway is None:
            rule, hint = "this runtime has no network", "set network in WasmRuntimeConfig"
            return Decision(False, Reason.NOT_GRANTED, rule, hint, capability="http", subject=method)
        return None

    # -- secrets, configuration, tools, progress -------------------------------------------------------------------

    def _check_secret(self, request: SecretExists) -> bool:
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

    def _get_config(self, request: ConfigGet) -> str | None:
        decision = self._call.grant.explain_config(request.key)
        if not decision.allowed:
            self.record_denial(decision)
            return None
        return dict(self._list_config(ConfigList())).get(request.key)

    def _list_config(self, request: ConfigList) -> list[tuple[str, str]]:
        granted, redact = self._call.grant.config_store, self._call.scanner.redact
        values = {} if granted is None else granted.by_key
        # SECURITY: a guest never receives a secret, even if the grant contains one by mistake.
        return [(key, redact(value)) for key, value in values.items() if value is not None]

    def _invoke_tool(self, request: InvokeTool) -> str:
        alias, params = request
        call = self._call
        if call.call_tool is not None:
            return call.call_tool(alias, params, call)
        if call.backends.tools is None:
            decision = call.grant.explain_tool(alias)
            if decision.allowed:
                rule, hint = (
                    "this runtime does not allow tool invocations",
                    "prepare the other tool in the same runtime",
                )
                decision = _invoke_denial(alias, Reason.NOT_GRANTED, rule, hint)
            raise self._denied(decision)
        try:
            return self._run_tool(call.backends.tools, alias, params)
        except (CapabilityDeniedError, ToolError) as error:
            call.lifetime.check()  # if the caller itself was cancelled or timed out, report that instead
            raise self._convert_error(error) from error

    def _run_tool(self, runner: ToolRunner, alias: str, params: str) -> str:
        """Run the tool with this alias under its own grant, on the same thread; return its scanned JSON text.

        The tool runs within the caller's deadline and budgets.
        """
        call = self._call
        capability = call.grant.tool_invoke
        name = None if capability is None else capability.resolve(alias)
        if capability is None or name is None:
            raise self._denied(call.grant.explain_tool(alias))
        if name in call.tool_chain:
            rule, hint = (
                "the tool is already in the chain of callers",
                "call a different tool: cycles are never allowed",
            )
            raise self._denied(_invoke_denial(alias, Reason.INVOKE_CYCLE, rule, hint))
        if call.may_invoke is not None and (denial := call.may_invoke(name)) is not None:
            raise self._denied(denial._replace(capability="tool_invoke", subject=alias[:MAX_PATH_BYTES]))
        if len(call.tool_chain) > MAX_INVOKE_DEPTH:
            rule = f"at most {MAX_INVOKE_DEPTH} levels of tool invocations are allowed"
            hint = "the limit cannot be changed: use fewer levels"
            raise self._denied(_invoke_denial(alias, Reason.INVOKE_DEPTH, rule, hint))
        if not call.charge_tool_invocation():
            rule = f"a call may invoke at most {MAX_TOOL_INVOCATIONS} tools"
            hint = "the limit cannot be changed: do more with each invocation"
            raise self._denied(_invoke_denial(alias, Reason.INVOKE_BUDGET, rule, hint))
        runner.rates.check_and_record(call.user, call.tool, capability.rate_limit, what="invoke")
        output = runner.run(name, params, call)
        if output is None:
            hint = "install the tool to which the grant maps this alias"
            rule = "the tool with this alias is not prepared"
            raise self._denied(_invoke_denial(alias, Reason.NOT_FOUND, rule, hint))
        return output.raw or "null"

    def _report_progress(self, request: ReportProgress) -> None:
        self._progress_reports += 1
        if self._progress_reports > MAX_PROGRESS_REPORTS:
            raise BudgetExceededError(
                f"the guest reported progress more than {MAX_PROGRESS_REPORTS} times",
                limit=MAX_PROGRESS_REPORTS, used=self._progress_reports, setting="limits.MAX_PROGRESS_REPORTS",
                hint="change the tool to report less often",
            )  # fmt: skip
        if self._call.on_progress is not None:
            message = request.message
            text = None if message is None else clean_line(self._call, message, MAX_LOG_ENTRY_BYTES)
            self._call.on_progress(request.done, request.total, text)

    # -- denials ---------------------------------------------------------------------------------------------------

    def _record_guest_refusal(self, request: Refuse) -> None:
        self.record_denial(make_denial(request))

    def record_denial(self, decision: Decision) -> None:
        """Record a denial, but only once for each target, and at most `MAX_REFUSALS` denials in total."""
        key = (decision.capability, decision.subject)
        if key not in self._refused and len(self._refused) < MAX_REFUSALS:
            self._refused.add(key)
            self._call.decide(decision)

    def _denied(self, decision: Decision) -> HostFailure:
        return self._failure(self._call.decide(decision))

    def _convert_error(self, error: WasmrtError) -> HostFailure:
        if isinstance(error, CapabilityDeniedError) and error.decision is not None:
            return self._denied(error.decision)
        kind = FailureKind.OPERATION_FAILED
        if isinstance(error, ToolError):
            kind = _OF_TOOL_ERROR.get(error.kind, kind)
        return HostFailure(kind, error.code, error.message)

    def _failure(self, redacted: Decision) -> HostFailure:
        message = self._call.describe(redacted)
        return HostFailure(FailureKind.NETWORK_DENIED, str(redacted.reason), message, denied=True)


def _invoke_denial(alias: str, reason: Reason, rule: str, hint: str) -> Decision:
    return Decision(False, reason, rule, hint, "tool_invoke", alias[:MAX_PATH_BYTES])


_HANDLERS: dict[type[object], Callable[..., object]] = {
    HttpCheck: CallServices._check_http,
    HttpOpen: CallServices._open_http,
    HttpRead: CallServices._read_http,
    HttpReadAll: CallServices._read_all_http,
    HttpClose: CallServices._close_http,
    SecretExists: CallServices._check_secret,
    ConfigGet: CallServices._get_config,
    ConfigList: CallServices._list_config,
    InvokeTool: CallServices._invoke_tool,
    ReportProgress: CallServices._report_progress,
    Refuse: CallServices._record_guest_refusal,
}
_FILE_HANDLERS: dict[type[object], Callable[..., object]] = {
    WorkspaceRead: CallFiles.read,
    WorkspaceReadPart: CallFiles.read_part,
    WorkspaceList: CallFiles.list,
    WorkspaceStat: CallFiles.stat,
    WorkspaceSize: CallFiles.size,
    WorkspaceWrite: CallFiles.write,
    WorkspaceCopy: CallFiles.copy,
    WorkspaceMakeDirectory: CallFiles.make_directory,
    WorkspaceRemove: CallFiles.remove,
    WorkspaceRename: CallFiles.rename,
}
"""`_HANDLERS` and `_FILE_HANDLERS` contain a handler for each request in `wasmrt.sandbox.guest.requests.NAMES`. Tests
check the types of their replies."""
