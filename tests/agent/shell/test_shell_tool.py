"""The shell tool: approvals, refusals, backends, configuration, and the command line."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.sandbox.isolation.conftest import needs_landlock, needs_seccomp
from wasmrt import (
    CallbackApprover,
    Permission,
    ToolError,
    ToolPolicy,
    ToolRegistry,
    ToolRule,
    WasmRuntimeConfig,
    WasmToolRuntime,
    load_registry,
)
from wasmrt.agent.approvals import ApprovalAnswer, ApprovalRequest, ApprovalStore
from wasmrt.agent.builtin.shell import Backend, ShellSettings, ShellTool, _backend
from wasmrt.agent.config import read_config_file
from wasmrt.cli import cli
from wasmrt.core.effects import Effect
from wasmrt.core.errors import ConfigFileError, NotAuthorizedError, UnknownToolError
from wasmrt.core.places import find_places
from wasmrt.sandbox.isolation.confine import Layer

pytestmark = [needs_seccomp, needs_landlock]
ALLOWED = ToolPolicy(rules=(ToolRule(tool="shell", permission=Permission.ALLOW),))


class Asked:
    """A registry with the shell, and the requests that its approver received."""

    def __init__(self, shell: ShellTool, policy: ToolPolicy, answer: bool = True) -> None:
        self.requests: list[ApprovalRequest] = []

        def ask(request: ApprovalRequest) -> bool:
            self.requests.append(request)
            return answer

        self.receipts: list[Any] = []
        self.registry = ToolRegistry(policy=policy, approver=CallbackApprover(ask), receipts=self.receipts.append)
        self.registry.register(shell, builtin=True)

    def run(self, command: str) -> Any:
        return self.registry.execute("shell", {"command": command}).result


def test_every_command_is_shown_for_approval(shell: ShellTool) -> None:
    asked = Asked(shell, ToolPolicy())
    assert asked.run("echo a")["stdout"] == "a\n"
    assert [request.params["command"] for request in asked.requests] == ["echo a"]
    assert asked.requests[0].risk == "high" and "echo a" in str(asked.requests[0].preview)
    assert asked.receipts[-1].tool == "shell"


def test_rule_approves_only_harmless_commands(shell: ShellTool, folder: Path) -> None:
    asked = Asked(shell, ALLOWED, answer=False)
    (folder / "a").mkdir()
    asked.run("ls")
    assert asked.requests == []
    with pytest.raises(NotAuthorizedError):
        asked.run("rm -rf a")
    assert (folder / "a").exists()
    assert "rm-recursive" in str(asked.requests[0].preview)


def test_approved_command_runs_and_the_approval_is_not_remembered(shell: ShellTool, folder: Path) -> None:
    asked = Asked(shell, ALLOWED)
    for _ in range(2):
        (folder / "a").mkdir()
        asked.run("rm -rf a")
    assert len(asked.requests) == 2 and not any(request.may_be_remembered for request in asked.requests)


def test_refused_command_needs_no_approval_and_names_its_rule(shell: ShellTool) -> None:
    asked = Asked(shell, ALLOWED)
    with pytest.raises(NotAuthorizedError) as caught:
        asked.run("sudo id")
    assert asked.requests == []
    assert "dangerous: become-another-user" in str(caught.value) and caught.value.hint
    assert "privileges" in caught.value.for_model()
    assert asked.receipts[-1].outcome != "ok"


def test_refused_command_is_refused_without_a_registry(shell: ShellTool) -> None:
    with pytest.raises(NotAuthorizedError, match="rm -rf /"):
        shell.execute({"command": "rm -rf /"})


def test_read_only_views_have_no_shell(shell: ShellTool) -> None:
    registry = Asked(shell, ALLOWED).registry
    assert "shell" not in registry.read_only().tool_names()
    assert "shell" in registry.without_network().tool_names()
    assert {Effect.EXECUTE_CODE, Effect.SPAWN_PROCESS, Effect.WRITE_FILESYSTEM} <= shell.traits.effects


def test_without_confinement_no_command_runs(home: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_backend, "layers", lambda: (Layer("seccomp", True, ""), Layer("landlock", False, "")))
    _backend._list_missing_layers.cache_clear()
    shell = ShellTool(folder)
    try:
        assert shell.backend is Backend.DISABLED
    finally:
        _backend._list_missing_layers.cache_clear()
    with pytest.raises(NotAuthorizedError, match="landlock"):
        shell.execute({"command": "ls"})


@pytest.mark.parametrize(
    ("settings", "missing", "words"),
    [
        (ShellSettings(enabled=False), "", "wasmrt config set shell.enabled true$"),
        (ShellSettings(), "find_spec", r"wasmrt\[shell\]"),
        (ShellSettings(unsafe_host=True), "find_spec", r"wasmrt\[shell\]"),
        (ShellSettings(), "find_bash", "bash was not found"),
    ],
)
def test_disabled_shell_reports_the_reason(
    folder: Path, monkeypatch: pytest.MonkeyPatch, settings: ShellSettings, missing: str, words: str
) -> None:
    if missing:
        monkeypatch.setattr(_backend, missing, lambda *_: None)
    asked = Asked(ShellTool(folder, settings), ALLOWED)
    with pytest.raises(NotAuthorizedError, match=words):
        asked.run("ls")


def test_disabled_shell_is_not_offered_to_agents(home: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with WasmToolRuntime(WasmRuntimeConfig(workspace=folder)) as runtime:
        with load_registry(runtime) as registry:
            assert "shell" in registry.tool_names()
        monkeypatch.setattr(_backend, "find_spec", lambda _: None)
        with load_registry(runtime) as registry:
            assert "shell" not in registry.tool_names()
            for name in ("shell", "shell_exec"):
                with pytest.raises(UnknownToolError, match="cannot be used here") as caught:
                    registry.execute(name, {"command": "ls"})
                assert "wasmrt[shell]" in (caught.value.hint or "")


def test_host_backend_must_be_enabled_and_obeys_the_lists(home: Path, folder: Path, tmp_path: Path) -> None:
    shell = ShellTool(folder, ShellSettings(unsafe_host=True))
    assert shell.backend is Backend.HOST and Effect.NETWORK in shell.traits.effects
    (tmp_path / "outside").write_text("x")
    assert shell.execute({"command": f"cat {tmp_path}/outside"}).result["stdout"] == "x"
    assert ShellTool(folder).execute({"command": f"cat {tmp_path}/outside"}).result["exit_code"] == 1
    with pytest.raises(ToolError, match="sudo"):
        shell.execute({"command": "sudo id"})


def test_shell_section_rejects_unknown_keys_and_values(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('[shell]\ntimeout_seconds = 30\nmemory_mib = 100\nread = ["data"]\nunsafe_host = true\n')
    assert read_config_file(path).shell == ShellSettings(
        timeout_seconds=30, memory_mib=100, read=(str(tmp_path / "data"),), unsafe_host=True
    )
    path.write_text('[shell]\ntimeout_seconds = 0\nbackend = "host"\nread = "data"\nenabled = 1\nexecute = [""]\n')
    with pytest.raises(ConfigFileError) as caught:
        read_config_file(path)
    keys = {key for key, _ in caught.value.problems}
    assert keys == {"shell.timeout_seconds", "shell.backend", "shell.read", "shell.enabled", "shell.execute"}


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(cli, [str(each) for each in arguments], prog_name="wasmrt")
    assert result.exit_code == code, f"exit code {result.exit_code}: {result.stderr or result.exception!r}"
    return result


def test_shell_from_the_command_line_runs_and_leaves_a_receipt(home: Path, folder: Path) -> None:
    shown = run("run", "shell", '{"command": "echo a > b; ls"}', "--workspace", folder).stdout
    changed = [{"path": "b", "change": "created"}]
    assert json.loads(shown) == {
        "exit_code": 0, "stdout": "b\n", "stderr": "", "truncated": False, "changed": changed,
    }  # fmt: skip
    assert "shell" in run("audit", "tail").stdout
    data = json.loads(run("run", "shell_exec", '{"command": "ls"}', "--workspace", folder, "--json").stdout)
    assert data["result"]["stdout"] == "b\n" and data["decisions"]


def test_irreversible_command_needs_a_terminal_for_approval(home: Path, folder: Path) -> None:
    said = run("run", "shell", '{"command": "rm -rf ."}', "--workspace", folder, code=3).stderr
    assert "rm-recursive" in said and "on a terminal" in said and "[tools.rules]" not in said
    assert folder.exists()


def test_configured_queue_approves_commands_from_the_command_line(home: Path, folder: Path) -> None:
    places = find_places()
    places.config.parent.mkdir(parents=True, exist_ok=True)
    places.config.write_text('[approvals]\napprover = "queue"\n')
    (folder / "old").mkdir()

    def answer() -> None:
        store = ApprovalStore(places.approvals)
        for _ in range(100_000):
            if waiting := store.pending():
                break
        store.answer(waiting[0].request.id, ApprovalAnswer(approved=True, by="ann"), user="local")

    person = threading.Thread(target=answer)
    person.start()
    said = run("run", "shell", '{"command": "rm -rf old"}', "--workspace", folder)
    person.join()
    assert "wasmrt approvals approve" in said.stderr and not (folder / "old").exists()


def test_command_line_reports_shell_errors(home: Path, folder: Path) -> None:
    assert "--workspace" in run("run", "shell", '{"command": "ls"}', code=2).stderr
    assert "become-another-user" in run("run", "shell", '{"command": "sudo ls"}', "--workspace", folder, code=3).stderr
    assert "command" in run("run", "shell", "{}", "--workspace", folder, code=2).stderr
    run("run", "shell", '{"command": "ls"}', "--tool", "x", "--workspace", folder, code=2)
