"""`wasmrt run shell`: one command line, through the steps of a registry."""

from __future__ import annotations

from pathlib import Path

from wasmrt.approvals import ApprovalAnswer, ApprovalRequest, Approvals, DenyApprover, default_approver
from wasmrt.cli._calling import check_context, interruptible, show_denials
from wasmrt.cli._output import show_json
from wasmrt.cli._runtime import open_runtime
from wasmrt.config_file import read_config_file
from wasmrt.errors import ConfigurationError, NotAuthorizedError, ToolError
from wasmrt.install.bundled import SHELL_NAME
from wasmrt.places import find_places
from wasmrt.shell import ShellTool
from wasmrt.tools import ToolRegistry


class _Typed:
    """Approves what somebody typed; what cannot be taken back is asked for at the terminal all the same."""

    def __init__(self, shell: ShellTool) -> None:
        self._shell = shell

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Answer a request."""
        if not self._shell.requires_approval(request.params):
            return ApprovalAnswer(approved=True, by="command line")
        approver = default_approver()
        answer = await approver.ask(request)
        if isinstance(approver, DenyApprover):
            note = f"{self._shell.why(request.params)}; run it at a terminal, where you are asked"
            return ApprovalAnswer(approved=False, note=note)
        return answer


def run_shell(text: str | bytes, *, context: str | None, user: str, workspace: Path | None, as_json: bool) -> int:
    """Run a command line, and print its exit code and output as JSON.

    Raises:
        ToolError: it was refused, or failed.
        ConfigurationError: there is no workspace.
    """
    data, file = check_context(context), read_config_file(find_places().config)
    with open_runtime(workspace=workspace, receipts=True) as runtime:
        if runtime.config.workspace is None:
            raise ConfigurationError("the shell needs a workspace", hint="name one with --workspace DIR")
        shell = ShellTool(runtime.config.workspace, file.shell)
        approvals = Approvals(_Typed(shell), timeout_seconds=file.policy.approval_seconds)
        registry = ToolRegistry(runtime, policy=file.policy, approvals=approvals)
        registry.register(shell, builtin=True)
        try:
            output = interruptible(runtime.close, lambda: registry.execute(SHELL_NAME, text, user=user, data=data))
        except ToolError as error:
            if not as_json and not isinstance(error, NotAuthorizedError):  # whose sentence and hint are its denial's
                show_denials(error.decisions, None)
            raise
    show_json(output.as_dict() if as_json else output.result)
    return 0
