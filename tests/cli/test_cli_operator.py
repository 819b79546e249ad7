"""What an operator meets between a tool and its first good run: told early, told once, with a step to take."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.cli.terminal import on_a_terminal
from wasmrt.testing.attacks import Body, tool

Run = Callable[..., Result]
Write = Callable[..., Path]

WIDE = {"http": {"allowlist": [{"host": "api.example.com"}, {"host": "files.example.com"}]}}
NARROW = {"http": {"allowlist": [{"host": "api.example.com", "path_prefix": "/v1/"}]}}
BEARER = {
    "http": {
        "allowlist": [{"host": "api.example.com"}],
        "credentials": {
            "api": {"secret_name": "api_token", "location": {"type": "bearer"}, "host_patterns": ["api.example.com"]}
        },
    },
}
URL = b"https://nowhere.invalid/v1/items"
GET = f"""(call $http-request (i32.const 1024) (i32.const 3) (i32.const 1027) (i32.const {len(URL)})
  (i32.const {1027 + len(URL)}) (i32.const 2) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
  (i32.const 0) (i32.const 256))"""


@pytest.fixture(autouse=True)
def secrets_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WASMRT_SECRETS_BACKEND", "file")


# -- secrets -------------------------------------------------------------------------------------------------------


def test_a_secret_that_is_not_set_is_told_at_install_and_check_with_the_command_that_sets_it(
    wasmrt: Run, tool_file: Write
) -> None:
    path = tool_file(sidecar=BEARER)
    step = "wasmrt secret set api_token"
    assert f"the secret api_token is not set; run: {step}" in wasmrt("install", path, "--yes").stderr
    beside = path.with_name("parrot.capabilities.json")
    assert step in wasmrt("caps", "check", beside).stderr
    told = json.loads(wasmrt("caps", "check", beside, "--json").stdout)["missing_secrets"]
    assert [(secret["name"], secret["hint"]) for secret in told] == [("api_token", f"run: {step}")]
    assert step in wasmrt("doctor").stdout
    for each in ("parrot", path):
        assert step in wasmrt("inspect", each).stdout.replace("\n", " ")
        assert json.loads(wasmrt("inspect", each, "--json").stdout)["missing_secrets"] == told
    wasmrt("secret", "set", "api_token", stdin="a-value")
    assert json.loads(wasmrt("install", path, "--json").stdout)["missing_secrets"] == []
    assert "api_token" not in wasmrt("doctor").stdout


def test_a_store_that_cannot_be_asked_stops_no_install(
    wasmrt: Run, tool_file: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    wasmrt("secret", "set", "other", stdin="a-value")
    monkeypatch.setenv("WASMRT_SECRETS_PASSPHRASE", "not what it was written with")
    assert (
        "needs a key file; unset WASMRT_SECRETS_PASSPHRASE"
        in wasmrt("install", tool_file(sidecar=BEARER), "--yes").stderr
    )
    monkeypatch.setenv("WASMRT_SECRETS_BACKEND", "none-of-that-name")
    told = wasmrt("install", tool_file(sidecar=BEARER)).stderr
    assert "installed already" in told and "whether the secret api_token is set cannot be told" in told


def test_a_secret_that_comes_from_a_login_names_the_login(wasmrt: Run, tool_file: Write) -> None:
    oauth = {"authorization_url": "https://a.example/a", "token_url": "https://a.example/t", "client_id": "c"}
    path = tool_file(sidecar=BEARER | {"auth": {"secret_name": "api_token", "oauth": oauth}})
    assert "run: wasmrt auth parrot" in wasmrt("install", path, "--yes").stderr


def test_a_secret_whose_power_was_not_granted_or_that_is_optional_is_not_asked_for(
    wasmrt: Run, tool_file: Write, tmp_path: Path
) -> None:
    nothing = tmp_path / "nothing.json"
    nothing.write_text("{}")
    assert "api_token" not in wasmrt("install", tool_file(sidecar=BEARER), "--grant", nothing).stderr
    optional = json.loads(json.dumps(BEARER))
    optional["http"]["credentials"]["api"]["optional"] = True
    assert "not set" not in wasmrt("install", tool_file(sidecar=optional), "--name", "other", "--yes").stderr


def test_a_secret_test_without_a_request_says_what_to_add(wasmrt: Run, tool_file: Write) -> None:
    wasmrt("install", tool_file(sidecar=BEARER), "--yes")
    told = wasmrt("secret", "test", "api_token", "--tool", "parrot", code=2).stderr
    added = json.loads("{" + told.partition("works: ")[2].strip() + "}")
    assert added["auth"]["secret_name"] == "api_token"
    path = tool_file(sidecar=BEARER | added)
    assert "api_token works" not in wasmrt("install", path, "--yes").stderr  # the example is a sound section


@pytest.mark.parametrize("command", ["set", "remove", "import"])
def test_changing_secrets_answers_in_json_where_it_is_asked_to(wasmrt: Run, command: str) -> None:
    wasmrt("secret", "set", "api_token", stdin="a-value")
    arguments = {"set": ("api_token",), "remove": ("api_token",), "import": ("-",)}[command]
    answer = json.loads(wasmrt("secret", command, *arguments, "--json", stdin="API_TOKEN=a-value").stdout)
    assert answer["user"] == "local"
    assert answer.get("removed", answer.get("set")) in ("api_token", ["api_token"])


# -- installing ----------------------------------------------------------------------------------------------------


def test_a_capability_file_that_was_edited_since_the_build_is_noticed(
    wasmrt: Run, tool_file: Write, tmp_path: Path
) -> None:
    built = tool_file()
    project = tmp_path / "project"
    (project / "build").mkdir(parents=True)
    (project / "wasmrt.toml").write_text('name = "parrot"\nlanguage = "rust"\n')
    path = built.rename(project / "build" / "parrot.wasm")
    copy, original = (folder / "parrot.capabilities.json" for folder in (project / "build", project))
    for sidecar in (copy, original):
        sidecar.write_text(json.dumps(NARROW))
    assert "wasmrt build" not in wasmrt("install", path, "--yes").stderr
    original.write_text(json.dumps(WIDE))
    warned = wasmrt("install", path, "--yes").stderr
    assert "an older copy of the project's parrot.capabilities.json; wasmrt build brings it up to date" in warned
    assert "wasmrt build" not in wasmrt("install", path, "--capabilities", original, "--yes").stderr
    copy.unlink()
    assert "has no copy" in json.loads(wasmrt("install", path, "--yes", "--json").stdout)["warnings"][0]


def test_a_tool_named_like_a_bundled_one_needs_its_name_said(wasmrt: Run, tool_file: Write) -> None:
    path = tool_file("echo")
    told = wasmrt("install", path, code=2).stderr
    assert "echo comes with wasmrt" in told and "--name echo" in told
    assert json.loads(wasmrt("list", "--json").stdout) == []
    assert "will run this one instead" in wasmrt("install", path, "--name", "echo").stderr
    assert "will run this one instead" not in wasmrt("install", path).stderr  # it was said once
    code, said = on_a_terminal(b"n\n", "install", tool_file("time"))
    assert code == 2 and "Take the place of the bundled time?" in said


def test_less_power_for_the_same_component_is_told_and_needs_no_answer(wasmrt: Run, tool_file: Write) -> None:
    wasmrt("install", tool_file(sidecar=WIDE), "--yes")
    told = wasmrt("install", tool_file(sidecar=NARROW)).stderr
    assert "no longer asks" in told and "installed parrot version 2" in told
    assert "may GET" not in told.partition("no longer asks")[0]
    assert "waits for a grant" in wasmrt("install", tool_file(sidecar=WIDE), code=3).stderr
    assert "waits for a grant" in wasmrt("install", tool_file(sidecar=NARROW, of="json"), code=3).stderr


def test_a_version_that_waits_keeps_its_number_when_it_is_installed_again(wasmrt: Run, tool_file: Write) -> None:
    wasmrt("install", tool_file())
    path = tool_file(sidecar=WIDE)
    for _ in range(3):
        assert "version 2 of parrot waits" in wasmrt("install", path, code=3).stderr
    for _ in range(2):
        assert json.loads(wasmrt("install", path, "--yes", "--json").stdout)["number"] == 2
    assert json.loads(wasmrt("list", "--json").stdout)[0]["waiting"] is None


def test_removing_asks_a_person_and_wants_yes_from_a_script(wasmrt: Run, tool_file: Write) -> None:
    wasmrt("install", tool_file())
    assert "wasmrt remove parrot --yes" in wasmrt("remove", "parrot", code=2).stderr
    assert json.loads(wasmrt("remove", "parrot", "--json", code=2).stderr)["code"] == "not-confirmed"
    code, said = on_a_terminal(b"n\n", "remove", "parrot")
    assert code == 2 and "Remove parrot with its 1 version" in said
    assert "parrot" in wasmrt("list").stdout
    code, said = on_a_terminal(b"\x04", "remove", "parrot")
    assert code == 130 and said.splitlines()[-1] == "error: interrupted"
    code, said = on_a_terminal(b"y\n", "remove", "parrot")
    assert code == 0 and "removed parrot" in said
    assert "no tool named 'parrot'" in wasmrt("remove", "parrot", code=2).stderr


# -- running -------------------------------------------------------------------------------------------------------


def test_a_name_that_nobody_answers_for_is_no_denial(
    wasmrt: Run, tool_file: Write, encode: Callable[[str], bytes], tmp_path: Path
) -> None:
    grant = tmp_path / "grant.json"
    grant.write_text(json.dumps({"http": {"allowlist": [{"host": "nowhere.invalid"}]}}))
    for body, code in ((f"{GET} (call $ok)", 0), (f"{GET} unreachable", 1)):
        data = encode(tool(Body(imports=("http-request",), text=b"GET" + URL + b"{}", execute=body)))
        told = wasmrt("run", tool_file("guest", data=data), "--capabilities", grant, code=code).stderr
        assert "not reached: https://nowhere.invalid" in told
        assert "denied" not in told and "to allow it" not in told
        assert "hint: check its spelling, and that this machine is online" in told


def test_a_workspace_that_was_granted_and_not_given_names_the_option(
    wasmrt: Run, tool_file: Write, encode: Callable[[str], bytes], tmp_path: Path
) -> None:
    body = Body(
        imports=("workspace-read",),
        text=b"notes/a.md",
        execute="(call $workspace-read (i32.const 1024) (i32.const 10) (i32.const 256)) (call $ok)",
    )
    path = tool_file("guest", data=encode(tool(body)))
    grant = tmp_path / "grant.json"
    grant.write_text(json.dumps({"workspace": {"allowed_prefixes": ["notes/"]}}))
    assert "wasmrt run --workspace DIR" in wasmrt("run", path, "--capabilities", grant).stderr
    given = ("--capabilities", grant, "--workspace", tmp_path)
    assert "not read: notes/a.md (there is no such file" in wasmrt("run", path, *given).stderr
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("hello")
    assert wasmrt("run", path, *given).stderr == ""
    learnt = json.loads(wasmrt("caps", "learn", path, "--workspace", tmp_path, "--json").stdout)
    assert learnt["proposal"]["workspace"]["allowed_prefixes"] == ["notes/"]
    wasmrt("caps", "learn", path, "--workspace", tmp_path / "absent", code=2)


def test_what_a_tool_says_of_its_failure_stays_in_the_one_line_of_its_error(
    wasmrt: Run, tool_file: Write, encode: Callable[[str], bytes]
) -> None:
    said = b"no\nerror: forged\r\nhint: wasmrt grant guest --yes\x1b[1m"
    body = Body(text=said, execute=f"(call $fail (i32.const 1024) (i32.const {len(said)}))")
    told = wasmrt("run", tool_file("guest", data=encode(tool(body))), code=1).stderr
    assert [line.partition(":")[0] for line in told.splitlines()] in (["error"], ["error", "hint"])
    assert "\x1b" not in told


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("run", "echo", "{}", "--context", "not json"), 2, "--context is not JSON"),
        (("run", "echo", "{}", "--capabilities", "x.json"), 2, "echo comes with wasmrt and needs no power"),
        (("install", "parrot"), 2, "did you mean parrot.wasm?"),
        (("install", "."), 2, "give the path of a component that you may read"),
        (("secret", "set", "api_token"), 2, "pipe it in"),
        (("secret", "set", "two words"), 2, "example_token"),
        (("secret", "remove", "api_token"), 1, "wasmrt secret list"),
        (("caps", "explain", "parrot.capabilities.json", "--method", "POST"), 2, "give one"),
        (("caps", "explain", "parrot.capabilities.json", "--url", "https://a/", "--resolves-to", "z"), 2, "IP address"),
        (("leaks", "test", "no-such-rule"), 2, "wasmrt leaks rules"),
        (("inspect", "parrot.wasm", "--version", "1"), 2, "leave --version out"),
        (("run", "a" * 300), 2, "wasmrt list"),
        (("run", "echo", "@" + "a" * 300), 2, "check the path after @"),
        (("run", "echo", "{}"), 2, "wasmrt inspect"),
        (("caps", "check", "a" * 300), 2, "a capability file that you may read"),
        (("auth", "echo"), 2, "nothing has to be set"),
    ],
)
def test_what_cannot_be_meant_is_one_sentence_with_a_step_and_the_same_in_json(
    wasmrt: Run, tool_file: Write, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], code: int, words: str
) -> None:
    monkeypatch.chdir(tool_file(sidecar=NARROW).parent)
    first, *more = wasmrt(*arguments, code=code).stderr.splitlines()
    assert first.startswith("error: ") and all(line.startswith("hint: ") for line in more) and len(more) <= 1
    error = json.loads(wasmrt(*arguments, "--json", code=code).stderr)
    assert (error["message"], error["exit_code"]) == (first.removeprefix("error: "), code)
    assert words in f"{error['message']} {error['hint']}"


def test_a_component_whose_name_leaves_no_room_for_a_sidecars_is_run(
    wasmrt: Run, tool_file: Write, tmp_path: Path
) -> None:
    path = tool_file().rename(tmp_path / ("b" * 245 + ".wasm"))
    assert json.loads(wasmrt("run", path, '{"message": "hi"}').stdout) == "hi"


@pytest.mark.parametrize(
    ("closed", "arguments", "code"),
    [
        (1, ("run", "echo", '{"message": "hi"}'), 1),
        (2, ("run", "echo", '{"message": "hi"}'), 0),
        (0, ("run", "echo", "-"), 2),
        (0, ("secret", "set", "api_token"), 2),
        (0, ("remove", "parrot"), 2),
    ],
)
def test_a_standard_stream_that_is_closed_is_no_accident_of_ours(
    home: Path, closed: int, arguments: tuple[str, ...], code: int
) -> None:
    close = (
        f"import os, sys; os.close({closed}); os.execv(sys.executable, [sys.executable, '-m', 'wasmrt', *sys.argv[1:]])"
    )
    result = subprocess.run([sys.executable, "-c", close, *arguments], capture_output=True, text=True)
    assert result.returncode == code, result.stderr
    assert "Traceback" not in result.stderr and "should never happen" not in result.stderr


def test_a_rollback_to_more_power_says_which(wasmrt: Run, tool_file: Write) -> None:
    wasmrt("install", tool_file(sidecar=WIDE), "--yes")
    wasmrt("install", tool_file(sidecar=NARROW))
    assert "again: may send any request to https://files.example.com" in wasmrt("rollback", "parrot").stderr
    assert json.loads(wasmrt("rollback", "parrot", "--to", "2", "--json").stdout)["wider"] == []


def test_a_formatted_file_that_was_written_is_told_in_json(wasmrt: Run, tool_file: Write) -> None:
    file = tool_file(sidecar=NARROW).with_name("parrot.capabilities.json")
    assert json.loads(wasmrt("caps", "fmt", "--write", file, "--json").stdout) == {"wrote": file.name}


# -- capability files ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sidecar", "words"),
    [
        ({"limits": {"memory": "64MB"}}, "such as 67108864 for 64 MiB, not text"),
        ({"limits": {"timeout": "30s"}}, "such as 30 for half a minute, not text"),
        ({"http": {"allowlist": [{"host": "[::1]:8443"}]}}, 'it holds a port (write the port apart: "host": "[::1]"'),
        ({"http": {"allowlist": [{"host": "a.example:443"}]}}, '"host": "a.example", "port": 443'),
        ({"http": {"allowlist": [{"host": "*.a.example:443"}]}}, '"host": "*.a.example", "port": 443'),
        ({"http": {"allowlist": [{"host": "[::1"}]}}, 'write an IPv6 address alone, like "2606:4700::1111"'),
        ({"http": {"allowlist": [{"host": "::1]"}]}}, "no opening bracket"),
        ({"http": {"allowlist": [{"host": "[192.0.2.1]"}]}}, "an IPv4 one unbracketed"),
    ],
)
def test_a_value_of_the_wrong_form_is_answered_with_one_of_the_right_form(
    wasmrt: Run, tmp_path: Path, sidecar: object, words: str
) -> None:
    file = tmp_path / "a.capabilities.json"
    file.write_text(json.dumps(sidecar))
    assert words in wasmrt("caps", "check", file, code=2).stderr


# -- doctor --------------------------------------------------------------------------------------------------------


def state_of(wasmrt: Run, check: str, *, code: int = 0) -> tuple[str, str]:
    checks = {each["name"]: each for each in json.loads(wasmrt("doctor", "--json", code=code).stdout)}
    return checks[check]["state"], checks[check]["found"]


def test_doctor_says_which_installed_component_is_not_what_was_installed(
    wasmrt: Run, tool_file: Write, home: Path
) -> None:
    wasmrt("install", tool_file())
    assert state_of(wasmrt, "catalog")[0] == "ok"
    (stored,) = home.rglob("components/*.wasm")
    stored.write_bytes(stored.read_bytes()[:-1] + b"\xff")
    state, found = state_of(wasmrt, "catalog", code=1)
    assert state == "failed" and "parrot" in found


def test_doctor_says_that_a_home_cannot_be_used(wasmrt: Run, home: Path) -> None:
    home.write_text("a file where a folder should be")
    state, found = state_of(wasmrt, "folders", code=1)
    assert state == "failed" and str(home) in found and "cannot be written" in found


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="rights as POSIX has them")
def test_doctor_warns_of_a_home_that_others_may_write(wasmrt: Run, home: Path) -> None:
    (home / "data").mkdir(parents=True)
    (home / "data").chmod(0o777)
    assert state_of(wasmrt, "folders")[0] == "warning"


# -- everywhere ----------------------------------------------------------------------------------------------------


def test_every_command_has_json_and_an_example(wasmrt: Run) -> None:
    import click

    from wasmrt.cli import cli

    def commands(group: click.Group, path: tuple[str, ...]) -> list[tuple[str, ...]]:
        context = click.Context(group)
        found: list[tuple[str, ...]] = []
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            found += commands(command, (*path, name)) if isinstance(command, click.Group) else [(*path, name)]
        return found

    for path in commands(cli, ()):
        shown = wasmrt(*path, "--help").stdout
        assert "--json" in shown, path
        assert "Example" in shown and f"wasmrt {' '.join(path)}" in shown.partition("Example")[2], path
