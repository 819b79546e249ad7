"""Sessions store the directory and variables between commands, which cannot be used to bypass the lists."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.isolation.conftest import needs_landlock, needs_seccomp
from wasmrt import CallbackApprover, ToolRegistry
from wasmrt.agent.approvals import ApprovalRequest
from wasmrt.agent.builtin.shell import Action, Backend, ShellSettings, ShellTool, _session
from wasmrt.agent.builtin.shell._session import WORKSPACE, State, read_report
from wasmrt.core.errors import DeadlineExceededError, NotAuthorizedError
from wasmrt.runtime.context import ToolContext

pytestmark = [needs_seccomp, needs_landlock]


@pytest.fixture
def shell(home: Path, folder: Path) -> ShellTool:
    return ShellTool(folder, ShellSettings(session=True))


def run(shell: ShellTool, command: str, *, trace: str = "one", user: str = "ann", **params: Any) -> dict[str, Any]:
    output = shell.execute({"command": command, **params}, ToolContext(user=user, trace_id=trace))
    result: dict[str, Any] = output.result
    return result


def told(shell: ShellTool, command: str, **more: Any) -> str:
    result = run(shell, command, **more)
    assert result["exit_code"] == 0, result
    text: str = result["stdout"]
    return text


def decided(shell: ShellTool, command: str, **more: Any) -> tuple[Action, str]:
    """Return the decision about a command with the current state of the session."""
    verdict = shell.in_conversation("ann", "one").decide(command, **more)
    return verdict.action, verdict.rule


def test_session_stores_directory_and_variables(shell: ShellTool, folder: Path) -> None:
    assert shell.backend is Backend.SESSION
    assert run(shell, "mkdir -p a/b; cd a/b; A='two  words'; export B=$'it\\'s\\n'")["directory"] == "a/b"
    assert told(shell, 'pwd; echo "$A$B"; bash -c \'echo "<$A$B>"\'') == f"{folder}/a/b\ntwo  wordsit's\n\n<it's\n>\n"
    assert told(shell, "cd ..; unset A; pwd") == f"{folder}/a\n"
    assert told(shell, "echo ${A-none}; pwd; cd /usr/share") == f"none\n{folder}/a\n"
    assert told(shell, "pwd") == "/usr/share\n"


def test_sessions_are_separate_for_users_and_conversations(shell: ShellTool) -> None:
    run(shell, "A=1")
    for trace, user in (("two", "ann"), ("one", "bob"), ("", "ann")):
        assert told(shell, "echo ${A-none}; A=2", trace=trace, user=user) == "none\n"
    assert told(shell, "echo ${A-none}", trace="") == "none\n"
    assert told(shell, "echo $A") == "1\n"


@pytest.mark.parametrize(
    ("command", "code"),
    [("exit 7", 7), ("exec false", 1), ("kill -9 $$", -9), ("set -e; false; true", 1), ("set -u; echo $nothing", 127)],
)
def test_session_is_usable_after_exit_and_exec(shell: ShellTool, command: str, code: int) -> None:
    run(shell, "mkdir a; cd a; A=1")
    assert run(shell, command)["exit_code"] == code
    assert told(shell, "echo $A; basename $PWD; false || true") == "1\na\n"


def test_session_survives_a_hanging_command(shell: ShellTool, folder: Path) -> None:
    run(shell, "A=1")
    os.mkfifo(folder / "alive")
    watcher = threading.Thread(target=(folder / "alive").read_bytes, daemon=True)
    watcher.start()
    with pytest.raises(DeadlineExceededError):
        run(shell, "A=2; exec 9> alive; (sleep 999 &); trap '' TERM; sleep 999", timeout=1)
    watcher.join(30)
    assert not watcher.is_alive()
    assert told(shell, "echo $A") == "1\n"


def test_deleted_directory_of_a_session_is_reported(shell: ShellTool, folder: Path) -> None:
    run(shell, "mkdir a; cd a")
    (folder / "a").rmdir()
    result = run(shell, "pwd")
    assert "No such file" in result["stderr"] and result["stdout"] == f"{folder}\n" and result["directory"] == "."


def test_private_home_is_not_stored_as_directory(shell: ShellTool, folder: Path) -> None:
    assert run(shell, "mkdir ~/a; cd ~/a")["directory"] == "."
    assert told(shell, "pwd") == f"{folder}\n"


def test_workdir_applies_only_to_its_call(shell: ShellTool, folder: Path) -> None:
    (folder / "a").mkdir()
    assert told(shell, "pwd", workdir="a") == f"{folder}/a\n"


# -- bypassing the lists with stored state -----------------------------------------------------------------------------

LEFT = [
    ("A='rm -rf'", "$A build", Action.ASK),
    ("A=su; B=do", "$A$B id", Action.REFUSE),
    ("A=su", "${A}do id", Action.REFUSE),
    ("export A=sudo", "bash -c '$A id'", Action.REFUSE),
    ("export A=sudo", 'bash -c "$A id"', Action.REFUSE),
    ("A=/etc/shadow", "cat $A", Action.REFUSE),
    ("A=/etc; B=shadow", "cat $A/$B", Action.REFUSE),
    ("A='/et*/sh*dow'", "cat $A", Action.REFUSE),
    ("A='-rf x'", "rm $A", Action.ASK),
    ("A='x; sudo id'", 'bash -c "$A"', Action.REFUSE),
    ("printf -v A %s sudo", "$A id", Action.REFUSE),
    ("read A <<< sudo", "$A id", Action.REFUSE),
    ("for A in a sudo; do true; done", "$A id", Action.REFUSE),
    ("declare -- A=sudo", "$A id", Action.REFUSE),
    ("cd /etc", "cat shadow", Action.REFUSE),
    ("cd /", "cat etc/shadow", Action.REFUSE),
    ("cd /usr", "cat ../etc/shadow", Action.REFUSE),
    ("cd .git/hooks", "echo x > pre-commit", Action.REFUSE),
    ("A=x", "unset A; su${A}do id", Action.REFUSE),
    ("A=x", "A=; su${A}do id", Action.REFUSE),
    ("A=x", "f() { local A; su${A}do id; }; f", Action.REFUSE),
    ("A=x", "N=A; unset $N; su${A}do id", Action.ASK),
    ("A=$'\\x01sudo'", "$A id", Action.ASK),
]
"""A command, the next command, and the mildest allowed decision about the next command."""


@pytest.mark.parametrize(("first", "then", "least"), LEFT, ids=[then for _, then, _ in LEFT])
def test_lists_take_the_stored_state_into_account(
    shell: ShellTool, folder: Path, first: str, then: str, least: Action
) -> None:
    (folder / ".git/hooks").mkdir(parents=True)
    # The state counts, whether an approved command or a sourced script created it.
    run(shell, first)
    action, rule = decided(shell, then)
    assert action is least, rule


ENVIRONMENT = (
    "BASHOPTS POSIXLY_CORRECT CDPATH GLOBIGNORE LD_PRELOAD LD_LIBRARY_PATH GIT_SSH_COMMAND GIT_EDITOR PYTHONSTARTUP"
    " PERL5OPT NODE_OPTIONS JAVA_TOOL_OPTIONS HTTPS_PROXY https_proxy no_proxy LC_ALL LOCPATH PS4 PROMPT_COMMAND TMOUT"
    " BASH_XTRACEFD BASH_LOADABLES_PATH EXECIGNORE FUNCNEST TEXTDOMAIN"
)
SMUGGLED = [
    ("alias ls='echo smuggled'; shopt -s expand_aliases extglob; set -o posix", "ls; [[ -o posix ]] && echo smuggled"),
    ("ls() { echo smuggled; }; export -f ls", "ls"),
    ("cd() { echo smuggled; }; builtin() { echo smuggled; }; printf() { echo smuggled; }", "ls; cd .; printf x"),
    ("mkdir bin; echo 'echo smuggled' > bin/ls; chmod +x bin/ls; PATH=$PWD/bin:$PATH; hash -p $PWD/bin/ls ls", "ls"),
    ("IFS=x", "A=axb; for B in $A; do echo $B; done | wc -l | grep -q 2 && echo smuggled"),
    ("trap 'echo smuggled' DEBUG", "ls"),
    ("trap 'echo smuggled' EXIT ERR RETURN", "ls; true"),
    ("PROMPT_COMMAND='echo smuggled'; PS4='$(echo smuggled)'", "set -x; ls; set +x"),
    ("echo 'echo smuggled' > rc; export BASH_ENV=$PWD/rc ENV=$PWD/rc", "bash -c true; sh -c true; ls"),
    ("export SHELLOPTS; set -fCxv", "touch a; echo x > a; echo * | grep -q a || echo smuggled"),
    (f"for n in {ENVIRONMENT}; do printf -v $n %s smuggled; export $n; done; set +o posix", "env; set"),
    ("export HOME=$PWD TMPDIR=$PWD USER=smuggled EDITOR=smuggled", '[ "$HOME$TMPDIR" != "$PWD$PWD" ] && env'),
    (
        "set -- smuggled; exec 1>log 2>&1 7<.; umask 0; coproc cat; (sleep 300 &)",
        "echo $1; umask; jobs; (: >&7) 2>&1 | grep -q Bad || echo smuggled",
    ),
    ("A='a[$(echo smuggled >&2)]'; B='$(echo smuggled)'", "echo $((A)) ${B@P}; [[ $A -eq 0 ]]"),
    (
        "declare -n A=B; B=smuggled; declare -u D=x; declare -i E=7; readonly F=smuggled; declare -a G=(smuggled x)",
        'B=; D=abc; E=1+1; F=; echo "$F${G-}"; B=x; [ "$A" = x ] || [ $D = ABC ] || [ $E = 2 ] && echo smuggled',
    ),
]
"""A command that changes more than the directory and variables, and a command that would show the change."""


@pytest.mark.parametrize(("first", "then"), SMUGGLED, ids=[first for first, _ in SMUGGLED])
def test_only_directory_and_variables_reach_the_next_command(
    shell: ShellTool, folder: Path, first: str, then: str
) -> None:
    # On a command line, the lists catch many of these. They do not read sourced scripts.
    (folder / "set.sh").write_text(first + "\n")
    run(shell, "source ./set.sh")
    done = run(shell, then)
    assert "smuggled" not in done["stdout"] + done["stderr"], done


def test_report_of_a_command_is_only_data(shell: ShellTool, folder: Path) -> None:
    """A command can write any report about its own session."""
    (folder / "forge.sh").write_text(
        "report=$(trap -p EXIT | grep -o '/[^\"]*/report')\n"
        "trap - EXIT\n"
        r"printf '%s\0' $'/x\n; sudo' PATH x $'/evil' 'A;sudo id' '' 1 LD_PRELOAD x e B '' $'$(id)' C x ok D a 1"
        " > $report\n"
    )
    run(shell, "source ./forge.sh")
    assert shell.in_conversation("ann", "one")._start("") == State("", (("C", "ok"),), frozenset({"C"}))


def test_malformed_reports_change_nothing() -> None:
    before = State("a", (("A", "1"),))
    for data in (b"", b"/x", b"/x\0A", b"/x\0A\0\0", b"/x\0A\0\0" + b"1"):
        assert read_report(data, before, workspace="/w", home="/h") == before
    assert read_report(b"/w/b\0", before, workspace="/w", home="/h") == State("b")


def test_size_of_a_session_is_limited(shell: ShellTool) -> None:
    run(shell, "A=1")
    large = run(shell, "A=2; B=$(head -c 40000 /dev/zero | tr '\\0' x)")
    assert "was not changed" in large["stderr"] and told(shell, "echo $A${B-}") == "1\n"
    many = run(shell, "for n in $(seq 200); do printf -v A$n 1; done")
    assert "128 variables" in many["stderr"]
    flood = run(shell, "A=3; B=$(head -c 700000 /dev/zero | tr '\\0' x)")
    assert "too large" in flood["stderr"] and told(shell, "echo $A") == "1\n"


def test_sessions_are_limited_in_number_idle_time_and_age(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = _session.Sessions()
    now = [0.0]
    monkeypatch.setattr(_session.time, "monotonic", lambda: now[0])
    first = sessions.of("first")
    first.since = first.used = 0.0
    assert sessions.of("first") is first
    now[0] = _session.SHELL_SESSION_IDLE_SECONDS + 1
    second = sessions.of("first")
    assert second is not first
    second.since = 0.0
    second.used = now[0] = _session.SHELL_SESSION_AGE_SECONDS + 2
    third = sessions.of("first")
    assert third is not second
    for number in range(_session.MAX_SHELL_SESSIONS):
        sessions.of(number)
    assert sessions.of("first") is not third and sessions.of(5) is sessions.of(5)
    sessions.close()


# -- approvals --------------------------------------------------------------------------------------------------------


class Asked:
    """A registry with the shell, whose approver can run a function before answering."""

    def __init__(self, shell: ShellTool) -> None:
        self.requests: list[ApprovalRequest] = []
        self.meanwhile: Any = lambda: None

        def ask(request: ApprovalRequest) -> bool:
            self.requests.append(request)
            self.meanwhile()
            return True

        self.registry = ToolRegistry(approver=CallbackApprover(ask))
        self.registry.register(shell, builtin=True)

    def run(self, command: str) -> Any:
        return self.registry.execute("shell", {"command": command}, user="ann", trace="one").result


def test_approver_sees_the_used_directory_and_variables(shell: ShellTool, folder: Path) -> None:
    asked = Asked(shell)
    (folder / "a").mkdir()
    asked.run("cd a; T='x y'; U=1")
    asked.run("rm -rf $T")
    preview = str(asked.requests[-1].preview)
    assert "(in a, session)" in preview and "with T='x y'" in preview and "with U" not in preview


def test_approval_covers_only_the_shown_state(shell: ShellTool, folder: Path) -> None:
    asked = Asked(shell)
    for name in ("a", "b"):
        (folder / name).mkdir()
    asked.run("T=a")
    asked.meanwhile = lambda: run(shell, "T=b")
    with pytest.raises(NotAuthorizedError) as caught:
        asked.run("rm -rf $T")
    assert caught.value.code == "session-changed" and caught.value.hint
    assert (folder / "a").exists() and (folder / "b").exists()


def test_changed_session_requires_a_new_decision(shell: ShellTool, folder: Path) -> None:
    (folder / "a").mkdir()
    bound = shell.in_conversation("ann", "one")
    run(shell, "A=rm")
    context = ToolContext(user="ann", trace_id="one")
    assert bound.execute({"command": "echo fine"}, context).result["stdout"] == "fine\n"
    bound = shell.in_conversation("ann", "one")
    run(shell, "A='rm -rf'")
    with pytest.raises(NotAuthorizedError, match="changed"):
        bound.execute({"command": "$A a"}, context)
    bound = shell.in_conversation("ann", "one")
    with pytest.raises(NotAuthorizedError, match="did not show the session"):  # for example, approved by a token
        bound.execute({"command": "$A a"}, context)
    assert (folder / "a").exists()


def test_commands_of_a_session_run_sequentially(shell: ShellTool, folder: Path) -> None:
    run(shell, "A=0")
    threads = [threading.Thread(target=run, args=(shell, "mkdir lock && rmdir lock || touch both")) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not (folder / "both").exists()


# -- choice of the backend ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{"session": True}, {"network": True}])
def test_sessions_and_network_are_not_available_on_the_host(
    home: Path, folder: Path, settings: dict[str, bool]
) -> None:
    from wasmrt.capabilities import EndpointPattern

    given = {"session": True} if "session" in settings else {"network": (EndpointPattern("a.example"),)}
    shell = ShellTool(folder, ShellSettings(unsafe_host=True, **given))  # type: ignore[arg-type]
    assert shell.backend is Backend.DISABLED
    assert "cannot be combined" in shell.disabled_because


def test_without_sessions_only_workdir_affects_the_decision(home: Path, folder: Path) -> None:
    shell = ShellTool(folder)
    assert told(shell, "A=1") == "" and told(shell, "echo ${A-none}") == "none\n"
    assert shell.decide("echo x > pre-commit", ".git/hooks").action is Action.REFUSE
    assert shell.decide("echo x > pre-commit").action is Action.RUN
    assert State() == WORKSPACE
