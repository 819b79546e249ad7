"""An agent with mail, files, pages and notes, whose user approves calls that flow rules stop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from wasmrt import ApprovalAnswer, ApprovalRequest, CallbackApprover, FunctionTool, ToolRegistry, tool
from wasmrt.agent.flows import read_labels
from wasmrt.agent.policy import FlowPolicy, Permission, ToolPolicy, ToolRule
from wasmrt.core.errors import ToolError
from wasmrt.runtime.audit import Receipt

PERSON = "Please read the page https://news.example/today and send the notes to bob@example.com."


class Agent:
    """One trace of one user. Its tools read `pages`, `mails` and `files`, and record their actions in `sent`."""

    def __init__(
        self,
        flows: FlowPolicy | None = None,
        *,
        said: str = PERSON,
        approve: bool = False,
        rules: tuple[ToolRule, ...] = (),
        automation: bool = False,
    ) -> None:
        self.asked: list[ApprovalRequest] = []
        self.receipts: list[Receipt] = []
        self.sent: list[tuple[Any, ...]] = []
        self.pages: dict[str, Any] = {}
        self.files: dict[str, str] = {"notes.txt": "Private notes of the board: the merger with Contoso closes in May."}
        self.mails: list[Any] = []
        self.answer = ApprovalAnswer(approved=approve, by="ann")
        tools = self._tools()
        allowed = tuple(ToolRule(tool=each.name, permission=Permission.ALLOW) for each in tools)
        self.registry = ToolRegistry(
            policy=ToolPolicy(flows=flows, rules=(*allowed, *rules)),
            approver=CallbackApprover(self._asked),
            receipts=self.receipts.append,
        )
        for each in tools:
            self.registry.register(each, builtin=True)
        self.trace = self.registry.trace("t", user="ann", automation=automation)
        if said:
            self.trace.user_said(said)

    async def _asked(self, request: ApprovalRequest) -> ApprovalAnswer:
        self.asked.append(request)
        return self.answer

    def call(self, name: str, **params: Any) -> Any:
        return self.registry.execute(name, params, user="ann", trace="t").result

    def asks(self, name: str, **params: Any) -> bool:
        """Make a call, and return whether it required approval or was denied."""
        before = len(self.asked)
        try:
            self.call(name, **params)
        except ToolError as error:
            return error.code in ("approval-denied", "untrusted-flow")
        return len(self.asked) > before

    def allow(self, name: str) -> None:
        """Add a rule that approves calls which require approval only by the effects of a tool."""
        rules = (*self.registry.policy.rules, ToolRule(tool=name, permission=Permission.ALLOW))
        self.registry._services.policy = replace(self.registry.policy, rules=rules)

    def read_page(self, text: Any) -> None:
        self.pages["https://news.example/today"] = text
        self.call("fetch", url="https://news.example/today")

    def read_notes(self) -> None:
        self.call("read_file", path="notes.txt")

    def rule_of(self, name: str, params: Mapping[str, Any]) -> str:
        found = dict(self.registry.explain(name, dict(params), user="ann", trace="t").steps)
        return found["approval"].rule if "approval" in found else found["flow"].rule

    def _tools(self) -> list[FunctionTool[..., Any]]:
        sent, pages, files, mails = self.sent, self.pages, self.files, self.mails

        @tool(effects=["network"])
        def fetch(url: str) -> Any:
            """Read a page."""
            return pages.get(url, "nothing there")

        @tool(effects=["network", "use-secret"])
        def read_mail(folder: str = "inbox") -> Any:
            """Read mail."""
            return mails

        @tool(effects=["read-filesystem"])
        def read_file(path: str) -> str:
            """Read a file."""
            return files[path]

        @tool(effects=["write-filesystem"])
        def write_file(path: str, content: str) -> str:
            """Write a file."""
            files[path] = content
            return "written"

        @tool(effects=["delete-filesystem"])
        def delete_file(path: str) -> str:
            """Delete a file."""
            files.pop(path, None)
            return "deleted"

        @tool(effects=["external-write", "network", "use-secret"])
        def send_mail(to: list[str] | str, body: str = "", subject: str = "", cc: list[str] | None = None) -> str:
            """Send a mail."""
            sent.append(("mail", to, subject, body))
            return "sent"

        @tool(effects=["financial"])
        def pay(account: str, amount: float, reference: str = "") -> str:
            """Pay."""
            sent.append(("pay", account, amount))
            return "paid"

        @tool(effects=["external-write"])
        def post_note(text: str) -> str:
            """Post a note to the board, a fixed destination."""
            sent.append(("note", text))
            return "posted"

        @tool(effects=[])
        def transform(text: str, how: str = "join") -> str:
            """Change a text."""
            return {"join": text.replace(" + ", ""), "reverse": text[::-1], "upper": text.upper()}.get(how, text)

        made = [fetch, read_mail, read_file, write_file, delete_file, send_mail, pay, post_note, transform]
        return [each for each in made if isinstance(each, FunctionTool)]


def own(tool_name: str, *labels: str) -> ToolRule:
    """Return a rule that sets the labels of a tool's results."""
    return ToolRule(tool=tool_name, permission=Permission.ALLOW, results=read_labels(labels))
