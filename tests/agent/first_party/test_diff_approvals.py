"""Approvals of `apply_diff`: the approver sees the result, and only that result may be made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from wasmrt import CallbackApprover, PreparedTool, ToolRegistry, WasmToolRuntime
from wasmrt.agent.approvals import ApprovalRequest, request_lines
from wasmrt.agent.registry import preview_approval
from wasmrt.core.errors import NotAuthorizedError, ToolError

TEXT = "".join(f"line {number}\n" for number in range(1, 40))
DIFF = "--- a/a.txt\n+++ b/a.txt\n@@ -2,3 +2,3 @@\n line 29\n-line 30\n+LINE 30\n line 31\n"
RESULT = (
    "change a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -27,7 +27,7 @@\n line 27\n line 28\n line 29\n-line 30\n+LINE 30\n"
    " line 31\n line 32\n line 33\n"
)
ALL = (
    "*** Begin Patch\n*** Add File: in/new.txt\n+new\n*** Update File: a.txt\n*** Move to: b.txt\n@@\n"
    "-line 30\n+LINE 30\n*** Delete File: gone.txt\n*** Delete File: gone.bin\n*** End Patch"
)


class Asked:
    """A registry whose approver keeps the requests, and changes files before it approves them."""

    def __init__(self, runtime: WasmToolRuntime, tool: PreparedTool) -> None:
        self.requests: list[ApprovalRequest] = []
        self.before_approval: Callable[[], Any] = lambda: None
        self.registry = ToolRegistry(runtime, approver=CallbackApprover(self._approve))
        self.registry.register(tool, builtin=True)

    def _approve(self, request: ApprovalRequest) -> bool:
        self.requests.append(request)
        self.before_approval()
        return True

    def call(self, diff: str) -> Any:
        return self.registry.execute("apply_diff", {"diff": diff}).result

    def refused(self, diff: str) -> ToolError:
        with pytest.raises(ToolError) as caught:
            self.call(diff)
        return caught.value


@pytest.fixture
def asked(runtime: WasmToolRuntime, prepared: Callable[[str], PreparedTool], root: Path) -> Iterator[Asked]:
    (root / "a.txt").write_text(TEXT)
    asked = Asked(runtime, prepared("apply_diff"))
    with asked.registry:
        yield asked


def shown(request: ApprovalRequest) -> list[str]:
    lines, cut = request_lines(request, whole=True)
    assert not cut
    return [line[4:] for line in lines[lines.index("  changes:") + 1 :]]


def test_the_approver_sees_the_diff_of_the_result_instead_of_wrong_line_numbers(asked: Asked, root: Path) -> None:
    assert asked.call(DIFF)["files"][0]["regions"][0]["start_line"] == 30
    lines = shown(asked.requests[0])
    assert lines[:-1] == RESULT.splitlines() and lines[-1].startswith("result: sha1:")
    assert (root / "a.txt").read_text() == TEXT.replace("line 30\n", "LINE 30\n")


def test_created_renamed_and_deleted_files_are_shown(asked: Asked, root: Path) -> None:
    (root / "gone.txt").write_text("last\nwords")
    (root / "gone.bin").write_bytes(b"\xff\x00")
    asked.call(ALL)
    text = "\n".join(shown(asked.requests[0]))
    assert "create in/new.txt\n--- /dev/null\n+++ b/in/new.txt\n@@ -0,0 +1 @@\n+new\n" in text
    assert "rename a.txt to b.txt and change it\n--- a/a.txt\n+++ b/b.txt\n@@ -27" in text
    assert "-last\n-words\n\\ No newline" in text and "delete gone.bin: 2 bytes, not shown\n" in text
    assert sorted(path.name for path in root.iterdir()) == ["b.txt", "in"]


@pytest.mark.parametrize("change", ["line 1\n", "line 39\n"])
def test_a_call_is_refused_if_its_result_differs_from_the_approved_one(asked: Asked, root: Path, change: str) -> None:
    changed = TEXT.replace(change, "other\n")
    asked.before_approval = lambda: (root / "a.txt").write_text(changed)
    error = asked.refused(DIFF)
    assert error.code == "tool:changed-since-approval" and "call apply_diff again" in error.message
    assert (root / "a.txt").read_text() == changed
    asked.before_approval = lambda: None
    asked.call(DIFF)
    assert (root / "a.txt").read_text() == changed.replace("line 30\n", "LINE 30\n")


@pytest.mark.parametrize("name", ["gone.txt", "gone.bin"])
def test_a_deletion_is_refused_if_the_file_has_changed_since_the_approval(asked: Asked, root: Path, name: str) -> None:
    (root / "gone.txt").write_text("last\nwords")
    (root / "gone.bin").write_bytes(b"\xff\x00")
    asked.before_approval = lambda: (root / name).write_bytes(b"\xffmore")
    assert asked.refused(ALL).code == "tool:changed-since-approval"
    assert (root / name).exists() and (root / "a.txt").read_text() == TEXT


def test_a_diff_that_does_not_fit_is_refused_before_anyone_is_asked(asked: Asked) -> None:
    assert asked.refused(DIFF.replace("line 30", "line x")).code == "tool:no-match"
    large = "--- /dev/null\n+++ b/large\n@@ -0,0 +1,9000 @@\n" + f"+{'x' * 60}\n" * 9000
    assert asked.refused(large).code == "tool:too-large"
    assert asked.requests == []


def test_a_preview_changes_no_file(asked: Asked, root: Path) -> None:
    request = preview_approval(asked.registry, "apply_diff", {"diff": DIFF})
    assert request is not None and shown(request)[:-1] == RESULT.splitlines()
    assert (root / "a.txt").read_text() == TEXT


def test_a_denied_call_changes_nothing(runtime: WasmToolRuntime, asked: Asked, root: Path) -> None:
    registry = ToolRegistry(runtime, approver=CallbackApprover(lambda request: False))
    registry.register(runtime.prepare_installed("apply_diff"), builtin=True)
    with registry, pytest.raises(NotAuthorizedError):
        registry.execute("apply_diff", {"diff": DIFF})
    assert (root / "a.txt").read_text() == TEXT
