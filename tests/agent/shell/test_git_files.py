"""Git's own files: a command cannot leave settings or hooks that make the user's git run a program."""

from __future__ import annotations

import shutil
import subprocess
import threading
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.sandbox.isolation.conftest import needs_landlock, needs_seccomp
from wasmrt import ToolError
from wasmrt.agent.builtin.shell import ShellSettings, ShellTool, _scan
from wasmrt.core.errors import DeadlineExceededError
from wasmrt.core.model import Reason, ToolOutput

GIT = shutil.which("git")
pytestmark = [needs_seccomp, needs_landlock, pytest.mark.skipif(GIT is None, reason="no git")]
UNSAFE = ShellSettings(unsafe_write_git=True)


class Repository(NamedTuple):
    """A repository in the workspace, and the file that a planted program creates."""

    folder: Path
    planted: Path

    def git(self, *arguments: str, at: str = "") -> str:
        """Run git as the user does, without confinement."""
        command = [str(GIT), "-C", str(self.folder / at), "-c", "user.name=a", "-c", "user.email=a@example.com"]
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=30, check=False)
        return done.stdout

    def script(self, text: str) -> dict[str, str]:
        """Write a script and return the params that run it."""
        (self.folder / "plant.sh").write_text(text)
        return {"command": "sh plant.sh"}

    @property
    def config(self) -> Path:
        return self.folder / ".git/config"


@pytest.fixture
def repository(folder: Path, tmp_path: Path) -> Repository:
    made = Repository(folder, tmp_path / "planted")
    made.git("init", "-q", "-b", "main")
    (folder / "cfg").write_text(f'[core]\n\tfsmonitor = "touch {made.planted}; false"\n')
    (folder / "a.txt").write_text("one\n")
    made.git("add", "a.txt")
    made.git("commit", "-qm", "one")
    return made


def subjects(output: ToolOutput) -> list[str]:
    assert all(each.reason is Reason.PROTECTED_FILE and not each.allowed for each in output.decisions)
    return [each.subject for each in output.decisions]


C_PROGRAM = """#include <stdio.h>
int main(void) { char b[4096]; FILE *i = fopen("cfg", "r"), *o = fopen(".git/config", "w");
size_t n = fread(b, 1, sizeof b, i); fwrite(b, 1, n, o); fclose(o); return 0; }
"""
WRITERS = {
    "cp": "cp cfg .git/config",
    "uniq": "uniq cfg .git/config",
    "find": 'find a.txt -fprintf .git/config "$(cat cfg)\\n"',
    "openssl": "openssl base64 -in cfg -out coded; openssl base64 -d -in coded -out .git/config",
    "C": "cc -o plant plant.c && ./plant",
    "python": "python3 -c 'open(\".git/config\", \"wb\").write(open(\"cfg\", \"rb\").read())'",
    "the folder moved away": "mv .git old; cp -r old .git; cp cfg .git/config",
    "a link": "ln -sf ../cfg .git/config",
    "an include": "git config include.path ../cfg",
    "settings of a worktree": "git config extensions.worktreeConfig true; cp cfg .git/config.worktree",
    "a continued line": "printf '[core]\\n\\teol = lf\\\\\\n[a]\\n' > x; cat x cfg > .git/config",
    "one line": "printf '[core] fsmonitor = \"touch %s; false\"\\n' ../planted > .git/config",
    "another repository": "cp -r .git evil; cp cfg evil/config; rm -rf .git; echo 'gitdir: evil' > .git",
    "a shared folder": "mkdir e; cp -r .git/objects .git/refs e; cp cfg e/config; echo ../e > .git/commondir",
}  # fmt: skip


@pytest.mark.ci("slow")
@pytest.mark.parametrize("writer", WRITERS)
def test_planted_program_does_not_run_in_the_next_git_status(
    repository: Repository, shell: ShellTool, folder: Path, writer: str
) -> None:
    if writer == "C" and shutil.which("cc") is None:
        pytest.skip("no C compiler")
    (folder / "plant.c").write_text(C_PROGRAM)
    saved = folder.parent / "saved"
    shutil.copytree(folder, saved, symlinks=True)

    ShellTool(folder, UNSAFE).execute(repository.script(WRITERS[writer]))
    repository.git("status")
    assert repository.planted.exists(), "the same command without protection"
    repository.planted.unlink()
    shutil.rmtree(folder)
    saved.rename(folder)

    output = shell.execute(repository.script(WRITERS[writer]))
    repository.git("status")
    assert not repository.planted.exists()
    assert subjects(output)


@pytest.mark.ci("slow")
@pytest.mark.parametrize(
    ("script", "restored"),
    [
        ("cp plant.sh .git/hooks/post-commit; chmod +x .git/hooks/post-commit", ".git/hooks/post-commit"),
        ("cp plant.sh .git/hooks/pre-commit", ".git/hooks/pre-commit"),
        ("rm .git/hooks/pre-commit", ".git/hooks/pre-commit"),
        ("rm -rf .git/hooks; mkdir h; cp plant.sh h/pre-commit; ln -s ../h .git/hooks", ".git/hooks/pre-commit"),
        ("cp -r .git sub/.git; cp cfg sub/.git/config", "sub/.git/config"),
        ("git init -q --bare sub/x; cp cfg sub/x/config", "sub/x/config"),
        ("mkdir -p .git/rebase-merge; echo 'exec id' > .git/rebase-merge/git-rebase-todo", "git-rebase-todo"),
        ("echo 'gitdir: /var/tmp/x' > sub/.git", "sub/.git"),
    ],
)  # fmt: skip
def test_hooks_and_nested_repositories_are_restored(
    repository: Repository, shell: ShellTool, folder: Path, script: str, restored: str
) -> None:
    hook = folder / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 0\n")
    hook.chmod(0o755)
    (folder / "sub").mkdir()
    before = {path: path.read_bytes() for path in (hook, repository.config)}
    output = shell.execute(repository.script(script))
    assert any(each.endswith(restored) for each in subjects(output)), output.result
    assert {path: path.read_bytes() for path in before} == before
    assert {path.name for path in hook.parent.iterdir() if path.suffix != ".sample"} == {"pre-commit"}
    assert hook.stat().st_mode & 0o111
    assert not any((folder / "sub").rglob("config")) and not (folder / "sub/.git").is_file()


def test_refusal_names_the_file_the_setting_and_the_next_step(repository: Repository, shell: ShellTool) -> None:
    before = repository.config.read_text()
    result = shell.execute(repository.script("uniq cfg .git/config; echo done")).result
    assert result["exit_code"] == 0 and result["stdout"] == "done\n"
    assert ".git/config: the file was restored, because core.fsmonitor can make git run" in result["stderr"]
    assert "wasmrt config set shell.unsafe_write_git true" in result["stderr"]
    assert repository.config.read_text() == before


def test_usual_commands_of_git_keep_their_settings(repository: Repository, shell: ShellTool, folder: Path) -> None:
    script = """set -e
git config user.name agent; git config user.email agent@example.com
git remote add origin https://git.example.com/a.git; git remote set-url origin git@git.example.com:a.git
git checkout -q -b feature; git branch -u main; git config pull.rebase true
echo two >> a.txt; git commit -qam two; git rebase -q main; git stash list
git clone -q . copied; git init -q new; git init -q --bare bare
git worktree add -q tree; git -c protocol.file.allow=always submodule --quiet add ./copied module
git commit -qm module; git checkout -q main
"""
    output = shell.execute(repository.script(script))
    assert output.result["exit_code"] == 0, output.result
    assert subjects(output) == []
    assert repository.git("config", "remote.origin.url") == "git@git.example.com:a.git\n"
    assert repository.git("config", "branch.feature.merge") == "refs/heads/main\n"
    assert "origin" in repository.git("remote", at="copied") and (folder / "module/.git").is_file()
    assert repository.git("branch", "--show-current", at="tree") == "tree\n"


DANGEROUS = (
        "[alias]\n\tst = !id", "[credential]\n\thelper = !id", '[filter "x"]\n\tclean = id', "[core]\n\tpager = id",
        "[core]\n\thooksPath = .", "[core]\n\tsshCommand = id", '[remote "o"]\n\turl = ext::id',
        '[remote "o"]\n\tuploadpack = id', '[remote "o"]\n\turl = "e"xt::id', '[submodule "x"]\n\tupdate = !id',
        "[core]\n\tworktree = ../../..", '[core]\n\tworktree = ".."/..', '[diff "x"]\n\ttextconv = id',
        "[gpg]\n\tprogram = id",
        '[includeIf "gitdir:."]\n\tpath = ../cfg', '[url "x"]\n\tinsteadOf = y', "[core.x]\n\ta = b",
        "[http]\n\tproxy = x",
        '[merge "x"]\n\tdriver = id', "[uploadpack]\n\tpackObjectsHook = id", "[sequence]\n\teditor = id", "[\x01]",
)  # fmt: skip


def test_settings_that_may_run_a_program_are_not_kept(repository: Repository, shell: ShellTool, folder: Path) -> None:
    for number, text in enumerate(DANGEROUS):
        (folder / f"r{number}").mkdir()
        (folder / f"r{number}/cfg").write_text(f"{repository.config.read_text()}{text}\n")
    script = "for r in r*; do git init -q $r; cp $r/cfg $r/.git/config; done; git init -q r"
    output = shell.execute(repository.script(script))
    assert sorted(subjects(output)) == sorted(f"r{number}/.git/config" for number in range(len(DANGEROUS)))
    assert [path.parts[-3] for path in folder.glob("r*/.git/config")] == ["r"]


def test_settings_that_the_user_made_stay(repository: Repository, shell: ShellTool, folder: Path) -> None:
    repository.git("config", "core.pager", "cat")
    repository.git("config", "include.path", "../shared.cfg")
    (folder / "shared.cfg").write_text("[user]\n\tname = ann\n")
    assert subjects(shell.execute(repository.script("git config user.name agent; cp cfg shared.cfg"))) == ["shared.cfg"]
    assert repository.git("config", "core.pager") == "cat\n"
    assert (folder / "shared.cfg").read_text() == "[user]\n\tname = ann\n"


def test_moved_repository_keeps_its_hooks_and_settings(repository: Repository, shell: ShellTool, folder: Path) -> None:
    (folder / "sub").mkdir()
    repository.git("init", "-q", at="sub")
    repository.git("config", "core.pager", "cat", at="sub")
    (folder / "sub/.git/hooks").mkdir(exist_ok=True)
    (folder / "sub/.git/hooks/pre-commit").write_text("#!/bin/sh\n")
    assert subjects(shell.execute({"command": "mv sub moved"})) == []
    assert repository.git("config", "core.pager", at="moved") == "cat\n"
    assert (folder / "moved/.git/hooks/pre-commit").exists()


def test_copied_repository_cannot_include_other_settings(repository: Repository, shell: ShellTool) -> None:
    repository.git("config", "include.path", "../shared.cfg")
    script = "mkdir evil; cp -r .git evil/.git; cp cfg evil/shared.cfg"
    assert subjects(shell.execute(repository.script(script))) == ["evil/.git/config"]
    repository.git("status", at="evil")
    assert not repository.planted.exists()


def test_command_that_is_ended_leaves_nothing_behind(repository: Repository, shell: ShellTool) -> None:
    before = repository.config.read_text()
    plant = "cp cfg new; mv new .git/config"  # never a half-written file, which would be harmless
    script = f"{plant}; (while true; do {plant}; done) & sleep 999"
    with pytest.raises(DeadlineExceededError, match=r"\.git/config: the file was restored") as caught:
        shell.execute({**repository.script(script), "timeout": 3})
    assert repository.config.read_text() == before
    assert [each.subject for each in caught.value.decisions] == [".git/config"]


def test_second_command_does_not_take_a_planted_setting_for_the_original(
    repository: Repository, shell: ShellTool, folder: Path
) -> None:
    before = repository.config.read_text()
    script = repository.script("cp cfg .git/config; mkfifo done ready; echo > ready; cat done")
    first = threading.Thread(target=shell.execute, args=(script,))
    first.start()
    while not (folder / "ready").exists():
        assert first.is_alive()
    (folder / "ready").read_text()
    ShellTool(folder).execute({"command": "ls"})
    assert repository.config.read_text() == before
    (folder / "done").write_text("")
    first.join()
    assert repository.config.read_text() == before


def test_many_new_files_do_not_hide_the_hooks_of_a_repository(
    repository: Repository, shell: ShellTool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_scan, "MAX_GIT_SEARCH", 200)
    (folder / "z/y").mkdir(parents=True)
    repository.git("init", "-q", at="z/y")
    script = "mkdir a; touch $(seq -f a/%g 300); cp cfg z/y/.git/config; cp cfg z/y/.git/hooks/pre-commit"
    output = shell.execute(repository.script(script))
    assert sorted(subjects(output)) == ["z/y/.git/config", "z/y/.git/hooks/pre-commit"]
    assert "changed lists only part" in output.result["stderr"]


def test_hooks_too_large_to_restore_stop_the_command(repository: Repository, shell: ShellTool, folder: Path) -> None:
    (folder / ".git/hooks").mkdir(exist_ok=True)
    with (folder / ".git/hooks/pre-commit").open("wb") as file:
        file.truncate(65 << 20)
    with pytest.raises(ToolError, match="exceed 64 MiB"):
        shell.execute({"command": "ls"})
