"""Files that commands change: the result and the next approval list them, and `wasmrt undo` takes them back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.agent.shell.test_shell_tool import Asked, run
from tests.sandbox.isolation.conftest import needs_landlock, needs_seccomp
from wasmrt import (
    ApprovalAnswer,
    ApprovalRequest,
    ApprovalScope,
    CallbackApprover,
    ConfirmationTokens,
    Permission,
    ToolPolicy,
    ToolRegistry,
    ToolRule,
)
from wasmrt.agent.approvals import params_digest
from wasmrt.agent.builtin.shell import ShellTool, _scan
from wasmrt.core.errors import DeadlineExceededError, NotAuthorizedError, UndoError
from wasmrt.core.places import find_places
from wasmrt.runtime.config_values import ShellSettings
from wasmrt.runtime.workspace import UndoJournal, plan_undo, undo

pytestmark = [needs_seccomp, needs_landlock]


def changed(shell: ShellTool, command: str, **params: object) -> list[tuple[str, ...]]:
    result = shell.execute({"command": command, **params}).result
    return [tuple(each.values()) for each in result.get("changed", ())]


def test_result_lists_created_modified_and_deleted_files(shell: ShellTool, folder: Path) -> None:
    for name in ("a", "b", "c", "d"):
        (folder / name).write_text(name)
    found = changed(shell, "echo x >> a; rm b; mkdir -p new/deep; echo y > new/deep/e; chmod a-w c; cat d; ln -s d f")
    assert found == [("a", "modified"), ("b", "deleted"), ("c", "modified"), ("f", "created"), ("new", "created")]
    assert changed(shell, "cat a; ls; touch -c missing") == []


def test_file_with_the_old_size_and_time_is_listed(shell: ShellTool, folder: Path) -> None:
    (folder / "a").write_text("one")
    assert changed(shell, "touch -r a b; echo -n two > a; touch -r b a; rm b") == [("a", "modified")]
    assert changed(shell, "cat a > b; cat b > a; rm b") == []


@pytest.mark.parametrize(
    ("path", "by"),
    [
        ("Makefile", "make"), ("sub/conftest.py", "python"), (".envrc", "direnv"), ("package.json", "npm"),
        (".vscode/tasks.json", "an editor"), (".idea/x.xml", "an editor"), (".bashrc", "a shell"), ("run", "a user"),
        (".husky/pre-commit", "git"), (".github/workflows/a.yml", "CI"), ("vite.config.ts", "node"),
    ],
)  # fmt: skip
def test_file_that_other_programs_execute_is_listed_first_and_marked(
    shell: ShellTool, folder: Path, path: str, by: str
) -> None:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text("")
    (folder / path).chmod(0o755 if path == "run" else 0o644)
    (folder / "plant.py").write_text(f"open('0', 'w'); open({path!r}, 'w').write('x')\n")
    assert changed(shell, "python3 plant.py") == [(path, "modified", by), ("0", "created")]


def test_libraries_in_a_new_folder_are_one_entry(shell: ShellTool) -> None:
    made = "mkdir -p node_modules/a; echo x > node_modules/a/package.json; echo y > node_modules/a/Makefile"
    assert changed(shell, made) == [("node_modules", "created")]


def test_list_of_changes_is_bounded(shell: ShellTool) -> None:
    result = shell.execute({"command": "touch $(seq 1 70)"}).result
    assert len(result["changed"]) == 50 and result["more_changed"] == 20


def test_strange_file_names_are_shown_as_one_line(shell: ShellTool, folder: Path) -> None:
    (folder / "plant.py").write_text("open(b'a\\xff\\nwasmrt: fine', 'w')\n")
    assert changed(shell, "python3 plant.py") == [("a\ufffd wasmrt: fine", "created")]


def test_note_reports_a_workspace_with_too_many_files(
    shell: ShellTool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_scan, "MAX_FILES", 10)
    (folder / "many").mkdir()
    for number in range(10):
        (folder / f"many/{number}").write_text("")
    result = shell.execute({"command": "touch a; touch many/x; rm many/3"}).result
    assert [each["path"] for each in result["changed"]] == ["a"]
    assert "changed lists only part of the workspace" in result["stderr"]


def test_next_approval_of_the_conversation_shows_executed_files(shell: ShellTool) -> None:
    rules = (ToolRule(tool="shell", permission=Permission.ALLOW),)
    asked = Asked(shell, ToolPolicy(rules=rules))

    def execute(command: str, trace: str) -> str:
        asked.requests.clear()
        asked.registry.execute("shell", {"command": command}, trace=trace)
        return "".join(str(request.preview) for request in asked.requests)

    assert execute("echo 'all:' > Makefile; touch notes.md", "one") == ""
    assert execute("touch .envrc", "one") == ""
    other = execute("mkdir a; rm -rf a", "two")
    assert "Makefile" not in other
    shown = execute("mkdir a; rm -rf a", "one")
    assert "created Makefile (executed by make)" in shown and ".envrc" in shown and "notes.md" not in shown
    assert "Makefile" not in execute("mkdir a; rm -rf a", "one")


def call_of(shell: ShellTool, command: str) -> str:
    output = shell.execute({"command": command})
    assert output.result["exit_code"] == 0, output.result
    assert output.call_id is not None
    return output.call_id


def tree(folder: Path) -> dict[str, object]:
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mode) if path.is_file() else "folder"
        for path in folder.rglob("*")
    }


@pytest.fixture
def journal(home: Path) -> UndoJournal:
    return UndoJournal(find_places().undo)


def test_changes_of_a_command_are_undone(shell: ShellTool, folder: Path, journal: UndoJournal) -> None:
    (folder / "src/deep").mkdir(parents=True)
    (folder / "src/a").write_text("one")
    (folder / "src/deep/b").write_bytes(bytes(range(256)) * 40)
    (folder / "src/deep/b").chmod(0o750)
    (folder / "c").write_text("")
    before = tree(folder)
    first = call_of(
        shell, "echo two >> src/a; mv src/deep/b b; rmdir src/deep; mkdir -p x/y; echo z > x/y/z; chmod 600 c"
    )
    after = tree(folder)
    second = call_of(shell, "rm -r src; echo three > c")
    assert journal.call_ids() == [second, first]
    with pytest.raises(UndoError):
        undo(journal, first)
    undo(journal, second)
    assert tree(folder) == after
    undo(journal, first)
    assert tree(folder) == before and journal.call_ids() == []


def test_command_that_changes_nothing_leaves_no_journal(shell: ShellTool, folder: Path, journal: UndoJournal) -> None:
    (folder / "a").write_text("one")
    shell.execute({"command": "cat a; cat a > b; rm b; touch a"})
    assert journal.call_ids() == []
    ShellTool(folder, undo=False).execute({"command": "rm a"})
    assert journal.call_ids() == []


def test_changes_that_cannot_be_undone_are_reported(shell: ShellTool, folder: Path, journal: UndoJournal) -> None:
    with (folder / "large").open("wb") as file:
        file.truncate(2 << 20)
    (folder / "a").write_text("one")
    output = shell.execute({"command": "rm large; ln -s a link; echo two > a"})
    assert "wasmrt undo cannot take back the change of" in output.result["stderr"]
    assert "large" in output.result["stderr"] and "and 1 more" in output.result["stderr"]
    undo(journal, str(output.call_id))
    assert (folder / "a").read_text() == "one"


def test_changes_of_a_command_that_took_too_long_are_undone(
    shell: ShellTool, folder: Path, journal: UndoJournal
) -> None:
    (folder / "a").write_text("one")
    with pytest.raises(DeadlineExceededError) as caught:
        shell.execute({"command": "echo two > a; sleep 99", "timeout": 1})
    assert (folder / "a").read_text() == "two\n"
    undo(journal, str(caught.value.call_id))
    assert (folder / "a").read_text() == "one"


def test_later_change_by_the_user_is_a_conflict(shell: ShellTool, folder: Path, journal: UndoJournal) -> None:
    (folder / "a").write_text("one")
    call = call_of(shell, "echo two > a")
    (folder / "a").write_text("three")
    assert [each.path for each in plan_undo(journal, call).conflicts] == ["a"]


def test_file_outside_of_the_workspace_is_never_copied(
    shell: ShellTool, folder: Path, tmp_path: Path, journal: UndoJournal
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text("nobody's business")
    (folder / "link").symlink_to(tmp_path / "outside")
    (folder / "file").symlink_to(tmp_path / "outside/secret")
    shell.execute({"command": "rm link file; mkdir link; echo x > link/secret; echo x > file"})
    kept = b"".join(path.read_bytes() for path in find_places().undo.iterdir())
    assert b"nobody's business" not in kept and kept


def test_command_line_offers_and_lists_the_undo(home: Path, folder: Path) -> None:
    (folder / "a").write_text("one")
    shown = run("run", "shell", '{"command": "echo two > a"}', "--workspace", folder)
    assert "to undo the changes: wasmrt undo" in shown.stderr
    listed = json.loads(run("undo", "--list", "--json").stdout)
    assert [(each["tool"], [step["path"] for step in each["steps"]]) for each in listed] == [("shell", ["a"])]
    run("undo", "--yes")
    assert (folder / "a").read_text() == "one"


@pytest.mark.parametrize(
    "command", ["sh deploy.sh", "cd bin && python3 job.py", "./bin/job.py", "cat a.txt; . ./deploy.sh"]
)
def test_file_that_changes_after_its_approval_does_not_run(home: Path, folder: Path, command: str) -> None:
    (folder / "bin").mkdir()
    scripts = folder / "deploy.sh", folder / "bin" / "job.py"
    for script in scripts:
        script.write_text("")
        script.chmod(0o755)

    def change_meanwhile(request: ApprovalRequest) -> bool:
        assert "content" in str(request.preview)
        for script in scripts:
            script.write_text("import os\nos.mkdir('ran')\n" if script.suffix == ".py" else "mkdir ran")
        return True

    registry = ToolRegistry(approver=CallbackApprover(change_meanwhile))
    registry.register(ShellTool(folder), builtin=True)
    with pytest.raises(NotAuthorizedError) as caught:
        registry.execute("shell", {"command": command})
    assert caught.value.code == "file-changed" and list(folder.rglob("ran")) == []
    registry = ToolRegistry(approver=CallbackApprover(lambda request: True))
    registry.register(ShellTool(folder), builtin=True)
    registry.execute("shell", {"command": "sh deploy.sh"})
    assert (folder / "ran").exists()


@pytest.mark.parametrize("session", [True, False])
@pytest.mark.parametrize("command", ["sh deploy.sh", "cd bin && sh job.sh", "cat a.txt; . ./deploy.sh"])
def test_token_covers_only_the_content_of_files_it_was_issued_for(
    home: Path, folder: Path, tmp_path: Path, command: str, session: bool
) -> None:
    (folder / "bin").mkdir()
    scripts = folder / "deploy.sh", folder / "bin" / "job.sh"
    for script in scripts:
        script.write_text("echo fine")
    shell = ShellTool(folder, ShellSettings(enabled=True, session=session))
    tokens = ConfirmationTokens(tmp_path / "used.db", tmp_path / "key")
    registry = ToolRegistry(tokens=tokens)
    registry.register(shell, builtin=True)
    params = {"command": command}

    def execute(content: str) -> str:
        token = tokens.issue(
            trace="t", tools=["shell"], scopes=shell.traits.effects, params_digest=params_digest(params),
            content=content, ttl_seconds=60,
        )  # fmt: skip
        return str(registry.execute("shell", params, trace="t", token=token).result["stdout"])

    confirmed = shell.content_digest(params)
    assert "fine" in execute(confirmed)
    for script in scripts:
        script.write_text("mkdir ran")
    for content in (confirmed, "", shell.content_digest({"command": "sh other.sh"})):
        with pytest.raises(NotAuthorizedError) as caught:
            execute(content)
        assert caught.value.code == "file-not-confirmed" and list(folder.rglob("ran")) == []


@pytest.mark.parametrize("scope", [ApprovalScope.SESSION, ApprovalScope.ALWAYS])
def test_remembered_answer_never_covers_a_script_that_changed(home: Path, folder: Path, scope: ApprovalScope) -> None:
    script, asked = folder / "deploy.sh", list[ApprovalRequest]()

    def answer_first(request: ApprovalRequest) -> ApprovalAnswer:
        asked.append(request)
        return ApprovalAnswer(approved=len(asked) == 1, scope=scope, by="ann")

    registry = ToolRegistry(approver=CallbackApprover(answer_first))
    registry.register(ShellTool(folder), builtin=True)
    script.write_text("echo fine")
    registry.execute("shell", {"command": "sh deploy.sh"}, trace="t")
    script.write_text("mkdir ran")
    with pytest.raises(NotAuthorizedError):
        registry.execute("shell", {"command": "sh deploy.sh"}, trace="t")
    assert len(asked) == 2 and not (folder / "ran").exists()


@pytest.mark.parametrize("name", ["17.sh", "40.sh", "large.sh"])
def test_change_of_the_last_or_of_a_large_file_is_noticed(home: Path, folder: Path, name: str) -> None:
    scripts = [folder / f"{number}.sh" for number in range(41)]
    for script in scripts:
        script.write_text("exit 0")
    with (folder / "large.sh").open("w") as file:
        file.write("exit 0\n")
        file.truncate(2 << 20)
    command = "sh large.sh" if name == "large.sh" else "; ".join(f"sh {script.name}" for script in scripts)

    def change_meanwhile(request: ApprovalRequest) -> bool:
        with (folder / name).open("r+") as file:
            file.write("mkdir ran #")
        return True

    registry = ToolRegistry(approver=CallbackApprover(change_meanwhile))
    registry.register(ShellTool(folder), builtin=True)
    with pytest.raises(NotAuthorizedError) as caught:
        registry.execute("shell", {"command": command})
    assert caught.value.code == "file-changed" and not (folder / "ran").exists()
