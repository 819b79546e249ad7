"""Tests of errors: the message, the hint and the exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from wasmrt.testing.attacks import Body, tool

from wasmrt.cli.shared.errors import exit_code, fail
from wasmrt.core.errors import MemoryLimitError, NotAuthorizedError, WasmrtError
from wasmrt.core.model import Decision, Reason

Run = Callable[..., Result]
Write = Callable[..., Path]

WIDE = {"http": {"allowlist": [{"host": "api.example.com"}, {"host": "files.example.com"}]}}
NARROW = {"http": {"allowlist": [{"host": "api.example.com", "path_prefix": "/v1/"}]}}
URL = b"https://nowhere.invalid/v1/items"
GET = f"""(call $http-request (i32.const 1024) (i32.const 3) (i32.const 1027) (i32.const {len(URL)})
  (i32.const {1027 + len(URL)}) (i32.const 2) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
  (i32.const 0) (i32.const 256))"""


@pytest.fixture(autouse=True)
def secrets_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WASMRT_SECRETS_BACKEND", "file")


# -- running -------------------------------------------------------------------------------------------------------


def test_unresolvable_host_is_not_a_denial(
    wasmrt: Run, tool_file: Write, encode: Callable[[str], bytes], tmp_path: Path
) -> None:
    grant = tmp_path / "grant.json"
    grant.write_text(json.dumps({"http": {"allowlist": [{"host": "nowhere.invalid", "methods": ["GET"]}]}}))
    for body, code in ((f"{GET} (call $ok)", 0), (f"{GET} unreachable", 1)):
        data = encode(tool(Body(imports=("http-request",), text=b"GET" + URL + b"{}", execute=body)))
        told = wasmrt("run", tool_file("guest", data=data), "--capabilities", grant, code=code).stderr
        assert "not reached: https://nowhere.invalid" in told
        assert "denied" not in told and "to allow it" not in told
        assert "hint: check the host name, and that this machine is online" in told


def test_missing_workspace_error_names_the_option(
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
    assert "not read: notes/a.md (there is no readable file with this path" in wasmrt("run", path, *given).stderr
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("hello")
    assert wasmrt("run", path, *given).stderr == ""
    learnt = json.loads(wasmrt("caps", "learn", path, "--workspace", tmp_path, "--json").stdout)
    assert learnt["proposal"]["workspace"]["allowed_prefixes"] == ["notes/"]
    wasmrt("caps", "learn", path, "--workspace", tmp_path / "absent", code=2)


def test_tool_error_message_stays_on_one_line(wasmrt: Run, tool_file: Write, encode: Callable[[str], bytes]) -> None:
    said = b"no\nerror: forged\r\nhint: wasmrt grant guest --yes\x1b[1m"
    body = Body(text=said, execute=f"(call $fail (i32.const 1024) (i32.const {len(said)}))")
    told = wasmrt("run", tool_file("guest", data=encode(tool(body))), code=1).stderr
    assert [line.partition(":")[0] for line in told.splitlines()] in (["error"], ["error", "hint"])
    assert "\x1b" not in told


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("run", "echo", "{}", "--context", "not json"), 2, "--context is not JSON"),
        (("run", "echo", "{}", "--capabilities", "x.json"), 2, "echo comes with wasmrt and needs no grant"),
        (("install", "parrot"), 2, "did you mean parrot.wasm?"),
        (("install", "."), 2, "pass the folder or archive of a package"),
        (("secret", "set", "api_token"), 2, "pipe it in"),
        (("secret", "set", "two words"), 2, "example_token"),
        (("secret", "remove", "api_token"), 1, "wasmrt secret list"),
        (("caps", "explain", "parrot.capabilities.json", "--method", "POST"), 2, "require --url"),
        (("caps", "explain", "parrot.capabilities.json", "--url", "https://a/", "--resolves-to", "z"), 2, "IP address"),
        (("leaks", "test", "no-such-rule"), 2, "wasmrt advanced leaks rules"),
        (("inspect", "parrot.wasm", "--version", "1"), 2, "omit --version"),
        (("run", "a" * 300), 2, "wasmrt list"),
        (("run", "echo", "@" + "a" * 300), 2, "check the path after @"),
        (("run", "echo", "{}"), 2, "wasmrt inspect"),
        (("caps", "check", "a" * 300), 2, "a readable capability file"),
        (("auth", "echo"), 2, "none has to be set"),
    ],
)
def test_invalid_usage_is_one_sentence_with_a_hint_also_in_json(
    wasmrt: Run, tool_file: Write, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], code: int, words: str
) -> None:
    monkeypatch.chdir(tool_file(sidecar=NARROW).parent)
    first, *more = wasmrt(*arguments, code=code).stderr.splitlines()
    assert first.startswith("error: ") and all(line.startswith("hint: ") for line in more) and len(more) <= 1
    error = json.loads(wasmrt(*arguments, "--json", code=code).stderr)
    assert (error["message"], error["exit_code"]) == (first.removeprefix("error: "), code)
    assert words in f"{error['message']} {error['hint']}"


def test_missing_option_argument_suggests_the_commands_help(wasmrt: Run) -> None:
    assert "hint: wasmrt serve --help" in wasmrt("serve", "--http", code=2).stderr
    assert json.loads(wasmrt("mcp", "add", "--json", "--host", code=2).stderr)["hint"] == "wasmrt mcp add --help"


def test_component_with_the_longest_file_name_runs(wasmrt: Run, tool_file: Write, tmp_path: Path) -> None:
    path = tool_file().rename(tmp_path / ("b" * 245 + ".wasm"))
    assert json.loads(wasmrt("run", path, '{"message": "hi"}').stdout) == "hi"


@pytest.mark.ci("slow")
@pytest.mark.parametrize(
    ("closed", "arguments", "code"),
    [
        (1, ("run", "echo", '{"message": "hi"}'), 1),
        (2, ("run", "echo", '{"message": "hi"}'), 0),
        (0, ("run", "echo", "-"), 2),
        (0, ("secret", "set", "api_token"), 2),
        (0, ("remove", "parrot"), 2),
        (0, ("leaks", "scan", "-"), 0),
        (1, ("caps", "init", "echo"), 1),
    ],
)
def test_closed_standard_stream_is_not_an_internal_error(
    home: Path, closed: int, arguments: tuple[str, ...], code: int
) -> None:
    close = (
        f"import os, sys; os.close({closed}); os.execv(sys.executable, [sys.executable, '-m', 'wasmrt', *sys.argv[1:]])"
    )
    result = subprocess.run([sys.executable, "-c", close, *arguments], capture_output=True, text=True)
    assert result.returncode == code, result.stderr
    assert "Traceback" not in result.stderr and "unexpected" not in result.stderr


PLAIN = [
    ("echo", '{"message": "hi \\u2603"}'),
    ("echo", '{"message": 5}'),
    ("echo", "{not json"),
    ("echo", "@absent.json"),
    ("echo", "-"),
    ("echo",),
    ("absent",),
    ("./absent.wasm",),
    ("a" * 300, "{}"),
]


@pytest.mark.ci("slow")
@pytest.mark.parametrize("json_flag", [(), ("--json",)])
@pytest.mark.parametrize("arguments", PLAIN)
def test_run_has_the_same_outcome_with_and_without_options(
    home: Path, arguments: tuple[str, ...], json_flag: tuple[str, ...]
) -> None:
    def run(*command: str) -> tuple[int, object, str]:
        full = [sys.executable, "-m", "wasmrt", *command]
        result = subprocess.run(full, input='{"message": "piped"}', capture_output=True, text=True, encoding="utf-8")
        shown = json.loads(result.stdout)["result"] if json_flag and result.stdout else result.stdout
        told = json.loads(result.stderr)["message"] if json_flag and result.stderr else result.stderr
        return result.returncode, shown, told

    assert run("run", *arguments, *json_flag) == run("run", "--user", "local", *json_flag, "--", *arguments)


def test_option_before_its_command_is_an_error(home: Path) -> None:
    command = [sys.executable, "-m", "wasmrt", "--json", "run", "echo", '{"message": "hi"}']
    result = subprocess.run(command, capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (2, "")
    assert "no such option" in json.loads(result.stderr)["message"]


def test_unencodable_text_is_escaped_and_json_stays_valid(home: Path) -> None:
    command = [sys.executable, "-m", "wasmrt", "run", "echo", '{"message": "caf\u00e9 \U0001f600"}']
    environ = os.environ | {"PYTHONIOENCODING": "ascii"}
    shown = subprocess.run(command, capture_output=True, env=environ, check=True).stdout
    assert shown.isascii() and json.loads(shown) == "caf\u00e9 \U0001f600"


@pytest.mark.ci("slow")
@pytest.mark.parametrize("arguments", [("run", "--help"), ("leaks", "rules"), ("caps", "init", "echo")])
def test_full_disk_is_not_an_internal_error(home: Path, arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "wasmrt", *arguments]
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert result.returncode == 1
    assert "cannot write the output (No space left on device)" in result.stderr and "report it" not in result.stderr


def test_a_formatted_link_stays_a_link(wasmrt: Run, tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("{}")
    (tmp_path / "link.json").symlink_to("real.json")
    wasmrt("caps", "fmt", "--write", tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()


def test_rollback_lists_wider_permissions(wasmrt: Run, tool_file: Write) -> None:
    wasmrt("install", tool_file(sidecar=WIDE), "--yes")
    wasmrt("install", tool_file(sidecar=NARROW))
    assert "again: may send any request to https://files.example.com" in wasmrt("rollback", "parrot").stderr
    assert json.loads(wasmrt("rollback", "parrot", "--to", "2", "--json").stdout)["wider"] == []


def test_caps_fmt_reports_the_written_file_as_json(wasmrt: Run, tool_file: Write) -> None:
    file = tool_file(sidecar=NARROW).with_name("parrot.capabilities.json")
    assert json.loads(wasmrt("caps", "fmt", "--write", file, "--json").stdout) == {"wrote": file.name}


# -- capability files ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sidecar", "words"),
    [
        ({"limits": {"memory": "64MB"}}, "such as 67108864 for 64 MiB, not text"),
        ({"limits": {"timeout": "30s"}}, "such as 30 for half a minute, not text"),
        (
            {"http": {"allowlist": [{"host": "[::1]:8443"}]}},
            'write the port separately: "host": "[::1]"',
        ),
        ({"http": {"allowlist": [{"host": "a.example:443"}]}}, '"host": "a.example", "port": 443'),
        ({"http": {"allowlist": [{"host": "*.a.example:443"}]}}, '"host": "*.a.example", "port": 443'),
        ({"http": {"allowlist": [{"host": "[::1"}]}}, 'write an IPv6 address like "2606:4700::1111"'),
        ({"http": {"allowlist": [{"host": "::1]"}]}}, "no opening bracket"),
        ({"http": {"allowlist": [{"host": "[192.0.2.1]"}]}}, "IPv4 address without brackets"),
    ],
)
def test_malformed_value_error_shows_a_valid_example(wasmrt: Run, tmp_path: Path, sidecar: object, words: str) -> None:
    file = tmp_path / "a.capabilities.json"
    file.write_text(json.dumps(sidecar))
    assert words in wasmrt("caps", "check", file, code=2).stderr


# -- errors --------------------------------------------------------------------------------------------------------


def test_non_finite_number_is_left_out_of_json_errors(capsys: pytest.CaptureFixture[str]) -> None:
    error = MemoryLimitError("too much", limit=float("inf"), used=None, setting="limits.memory_bytes")
    assert fail(error, as_json=True) == 1
    told = json.loads(capsys.readouterr().err)
    assert (told["message"], told["code"], told["exit_code"]) == ("too much", "memory-limit", 1)


def test_missing_address_counts_as_failure_not_denial() -> None:
    unknown = Decision(
        False, Reason.NO_ADDRESS, "the host's name is not known", None, "http", "https://nowhere.invalid"
    )
    denied = Decision(False, Reason.PATH_NOT_ALLOWED, "other paths", None, "http", "https://nowhere.invalid")
    for decisions, code in (((unknown,), 1), ((unknown, denied), 3), ((denied,), 3), ((), 3)):
        error = NotAuthorizedError("refused")
        error.decisions = decisions
        assert exit_code(error) == code


@pytest.mark.parametrize("as_json", [False, True])
def test_error_text_cannot_start_a_new_line(capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    fail(WasmrtError("a\nerror: b\x1b[2J\x85", hint="c\nhint: d\r\u202e"), as_json=as_json)
    told = capsys.readouterr().err
    assert len(told.splitlines()) == (1 if as_json else 2)
    assert told.replace("\n", "").isprintable()


# -- everywhere ----------------------------------------------------------------------------------------------------


def test_every_command_has_json_and_an_example(wasmrt: Run) -> None:
    import click

    from wasmrt.cli import cli

    def commands(group: click.Group, path: tuple[str, ...]) -> list[tuple[str, ...]]:
        context = click.Context(group)
        found: list[tuple[str, ...]] = []
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            if command is None or command.hidden:  # an alias, whose help shows the command that it stands for
                continue
            found += commands(command, (*path, name)) if isinstance(command, click.Group) else [(*path, name)]
        return found

    for path in commands(cli, ()):
        shown = wasmrt(*path, "--help").stdout
        assert "--json" in shown, path
        assert "Example" in shown and f"wasmrt {' '.join(path)}" in shown.partition("Example")[2], path
