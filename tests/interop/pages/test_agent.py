"""An agent's call that waits, the user's answer on the page, and the resulting receipt."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.interop.pages.site import Person, Site
from wasmrt import ToolRegistry, tool
from wasmrt.agent.approvals import QueueApprover, QueuedRequest
from wasmrt.core.errors import ToolError
from wasmrt.runtime.audit import Receipt


@tool(effects=["external-write"])
def table(action: str) -> str:
    """Work with a table."""
    return f"done: {action}"


def waiting(site: Site) -> QueuedRequest:
    while True:
        if found := site.store.pending():
            return found[0]


def test_an_agents_call_continues_when_allowed_and_ends_when_denied(site: Site, ann: Person) -> None:
    receipts: list[Receipt] = []
    registry = ToolRegistry(approver=QueueApprover(site.store), receipts=receipts.append)
    registry.register(table)
    with ThreadPoolExecutor(1) as agent:
        call = agent.submit(registry.execute, "table", {"action": "drop"}, user="local", trace="t1")
        asked = waiting(site)
        page = ann.get().text
        assert "table" in page and "change something outside" in page and ">drop</bdi>" in page
        assert ann.post(f"requests/{asked.id}", answer="allow-once", user="local").status == 303
        assert "done: drop" in str(call.result(20).result)

        call = agent.submit(registry.execute, "table", {"action": "drop"}, user="local", trace="t1")
        refused = ann.post(f"requests/{waiting(site).id}", answer="deny-once", note="no", user="local")
        assert refused.status == 303
        with pytest.raises(ToolError):
            call.result(20)
    assert [(each.approval and (each.approval.how, each.approval.by), each.outcome == "ok") for each in receipts] == [
        (("person", "ann"), True),
        (("denied", "ann"), False),
    ]
