"""Tests of the output for tools that crash, fail, flood, or use capabilities without a grant."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from wasmrt.testing.attacks import Body, tool

from wasmrt.capabilities import Capabilities
from wasmrt.cli.shared.output import show_json, show_json_list

Run = Callable[..., "object"]
Write = Callable[..., Path]
Encode = Callable[[str], bytes]

TEXT_AT = 1024
SAY = "(call $say (i32.const {at}) (i32.const {length}))"
URL = b"https://api.example.com/v1/items"
GET = f"""(call $http-request (i32.const {TEXT_AT}) (i32.const 3) (i32.const {TEXT_AT + 3}) (i32.const {len(URL)})
  (i32.const {TEXT_AT + 3 + len(URL)}) (i32.const 2) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
  (i32.const 0) (i32.const 256))"""


@pytest.fixture
def guest(tool_file: Write, encode: Encode) -> Callable[..., Path]:
    """Writes a near:agent@0.3.0 component with a custom body."""
    return lambda body, **more: tool_file("guest", data=encode(tool(body)), **more)


def answers(text: bytes) -> Body:
    return Body(text=text, execute=SAY.format(at=TEXT_AT, length=len(text)))


def test_a_trap_is_one_sentence_and_exit_code_1(wasmrt: Run, guest: Callable[..., Path]) -> None:
    path = guest(Body(execute="unreachable"))
    assert wasmrt("run", path, code=1).stderr.startswith("error: ")
    error = json.loads(wasmrt("run", path, "--json", code=1).stderr)
    assert (error["code"], error["kind"]) == ("trap-unreachable", "sandbox")
    assert error["usage"]["fuel"] > 0


@pytest.mark.parametrize(("imports", "end"), [((), "unreachable"), (("exit",), "(call $exit (i32.const 1))")])
@pytest.mark.parametrize("isolation", ["process", "in-process"])
def test_last_output_of_a_guest_is_in_its_error(
    wasmrt: Run, home: Path, guest: Callable[..., Path], imports: tuple[str, ...], end: str, isolation: str
) -> None:
    (home / "data").mkdir(parents=True, exist_ok=True)
    (home / "data/config.toml").write_text(f'[guests]\nisolation = "{isolation}"\n')
    log = "(call $log (i32.const 4) (i32.const 1024) (i32.const 13))"
    path = guest(Body(imports=("log", *imports), text=b"it went wrong", execute=f"{log} {end} (call $ok)"))
    error = json.loads(wasmrt("run", path, "--json", code=1).stderr)
    assert error["message"].endswith("; last output: it went wrong")


def test_invalid_and_oversized_results_are_rejected(wasmrt: Run, guest: Callable[..., Path]) -> None:
    error = json.loads(wasmrt("run", guest(answers(b"{nope")), "--json", code=1).stderr)
    assert error["code"] == "invalid-output"
    flood = """(drop (memory.grow (i32.const 800)))
      (call $say (i32.const 131072) (i32.const 50000000))"""
    error = json.loads(wasmrt("run", guest(Body(execute=flood)), "--json", code=1).stderr)
    assert error["code"] == "output-too-large"


def test_endless_tool_is_stopped_by_fuel(wasmrt: Run, guest: Callable[..., Path], tmp_path: Path) -> None:
    limits = tmp_path / "limits.json"
    limits.write_text(json.dumps({"limits": {"fuel": 1_000_000}}))
    path = guest(Body(execute="(loop $forever (br $forever)) unreachable"))
    told = wasmrt("run", path, "--capabilities", limits, code=1).stderr
    assert "fuel" in told.splitlines()[0]
    assert "limits.fuel" in told.splitlines()[1]


@pytest.fixture
def heeded_interrupts() -> Iterator[None]:
    """Start children with the default SIGINT handler; background processes of a script ignore SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to see the guest at work")
@pytest.mark.parametrize("installed", [False, True])
def test_ctrl_c_ends_an_endless_guest(
    wasmrt: Run, guest: Callable[..., Path], tmp_path: Path, installed: bool, heeded_interrupts: None
) -> None:
    asks = {"limits": {"fuel": 10**15, "timeout_seconds": 120}}
    limits = tmp_path / "limits.json"
    limits.write_text(json.dumps(asks))
    path = guest(Body(execute="(loop $forever (br $forever)) unreachable"), sidecar=asks)
    if installed:  # no option parser is needed then
        wasmrt("install", path, "--yes")
    what = ["guest"] if installed else [str(path), "--capabilities", str(limits)]
    command = [sys.executable, "-m", "wasmrt", "run", *what]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while cpu_seconds(process.pid) < 2:  # longer than any start, so the guest is running
            with contextlib.suppress(subprocess.TimeoutExpired):
                assert process.wait(0.05) is None, "it ended by itself"
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and its descendants, because guests run in workers."""
    parents, times = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
                times[int(entry.name)] = int(fields[11]) + int(fields[12])
    family = {pid}
    while more := {child for child, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(times.get(each, 0) for each in family) / os.sysconf("SC_CLK_TCK")


def test_tool_failure_is_printed_without_terminal_escapes(wasmrt: Run, guest: Callable[..., Path]) -> None:
    said = b"no such \x1b[31mcity\x1b[0m"
    told = wasmrt(
        "run", guest(Body(text=said, execute=f"(call $fail (i32.const 1024) (i32.const {len(said)}))")), code=1
    )
    assert "no such" in told.stderr
    assert "\x1b" not in told.output


def test_a_denial_is_shown_with_the_line_that_would_allow_it(wasmrt: Run, guest: Callable[..., Path]) -> None:
    body = Body(imports=("http-request",), text=b"GET" + URL + b"{}", execute=f"{GET} (call $ok)")
    path = guest(body)
    result = wasmrt("run", path)
    assert json.loads(result.stdout) == {"ok": True}
    assert "denied: GET https://api.example.com/v1/items" in result.stderr
    assert '"allowlist": [{"host": "api.example.com"' in result.stderr
    decisions = json.loads(wasmrt("run", path, "--json").stdout)["decisions"]
    assert [decision["allowed"] for decision in decisions] == [False]


def test_denial_repeated_in_a_tool_failure_is_shown_once(wasmrt: Run, guest: Callable[..., Path]) -> None:
    refused = Capabilities.none().explain_http("GET", URL.decode())
    said = f"no items: {refused.reason}: {refused.sentence}".encode()
    start, length = TEXT_AT + 3 + len(URL) + 2, len(said)
    fail = f"{GET} (call $fail (i32.const {start}) (i32.const {length}))"
    path = guest(Body(imports=("http-request",), text=b"GET" + URL + b"{}" + said, execute=fail))
    shown = wasmrt("run", path, code=3).stderr
    assert shown.count(refused.subject) == shown.count('add "http"') == 1
    assert shown.splitlines()[-1] == "error: no items: not-granted: denied, as above"
    assert json.loads(wasmrt("run", path, "--json", code=3).stderr)["message"] == said.decode()


def test_denial_mentions_an_unused_capability_file(wasmrt: Run, guest: Callable[..., Path], tmp_path: Path) -> None:
    body = Body(imports=("http-request",), text=b"GET" + URL + b"{}", execute=f"{GET} (call $ok)")
    path = guest(body, sidecar={"http": {"allowlist": [{"host": "api.example.com"}]}})
    assert f"--capabilities {path.with_name('guest.capabilities.json')}" in wasmrt("run", path).stderr
    given = tmp_path / "given.json"
    given.write_text('{"workspace": {"allowed_prefixes": ["a/"]}}')
    assert "its capability file was not granted" not in wasmrt("run", path, "--capabilities", given).stderr
    assert "its capability file was not granted" not in wasmrt("run", guest(body)).stderr


def test_inspect_lists_imports_that_will_be_denied(wasmrt: Run, guest: Callable[..., Path]) -> None:
    body = Body(imports=("http-request",), text=b"GET" + URL + b"{}", execute=f"{GET} (call $ok)")
    asks = {"http": {"allowlist": [{"host": "api.example.com"}]}}
    path = guest(body, sidecar=asks)
    report = json.loads(wasmrt("inspect", path, "--json").stdout)
    assert "http-request" in report["imports"]["near:agent/host@0.3.0"]
    assert "http" in {r["capability"] for r in report["refused"]}
    assert "will be denied" in wasmrt("inspect", path).stdout
    wasmrt("install", path, "--yes")
    refused = json.loads(wasmrt("inspect", "guest", "--json").stdout)["refused"]
    assert "http" not in {r["capability"] for r in refused}
    assert {r["capability"]: r["import"] for r in refused}["secrets"] == "near:agent/host@0.3.0#secret-exists"
    stored = json.loads(wasmrt("install", path, "--yes", "--json").stdout)
    assert "near:agent/host@0.3.0#http-request" in stored["imports"]


def test_update_with_more_imports_is_reported(wasmrt: Run, guest: Callable[..., Path]) -> None:
    wasmrt("install", guest(answers(b"{}")))
    body = Body(imports=("http-request",), text=b"GET" + URL + b"{}", execute=f"{GET} (call $ok)")
    told = wasmrt("install", guest(body), code=3).stderr
    assert "newly imports near:agent/host@0.3.0#http-request" in told


def test_a_guest_whose_description_traps_is_installed_and_flagged(wasmrt: Run, guest: Callable[..., Path]) -> None:
    # The tool returns `{"ok":true}` as its schema; its description traps.
    path = guest(Body(description="unreachable"))
    assert "warning: " in wasmrt("install", path).stderr
    assert json.loads(wasmrt("run", "guest").stdout) == {"ok": True}


def test_logs_are_shown_on_request_and_on_failure(wasmrt: Run, guest: Callable[..., Path]) -> None:
    log = "(call $log (i32.const 2) (i32.const 1024) (i32.const 5))"
    calm = guest(Body(imports=("log",), text=b"hello", execute=f"{log} (call $ok)"))
    assert "hello" not in wasmrt("run", calm).stderr
    assert "log info: hello" in wasmrt("run", calm, "--logs").stderr
    assert "the tool's log has 1 line; to print it, pass --logs" in wasmrt("run", calm).stderr
    assert (
        "log info: hello"
        in wasmrt("run", guest(Body(imports=("log",), text=b"hello", execute=f"{log} unreachable")), code=1).stderr
    )


def test_a_tool_invokes_another_by_alias_under_the_grants_of_both(
    wasmrt: Run, guest: Callable[..., Path], tool_file: Write
) -> None:
    text = b'helper{"message": "through two"}'
    at, length = TEXT_AT + 6, len(text) - 6
    invoke = f"""(call $tool-invoke (i32.const {TEXT_AT}) (i32.const 6) (i32.const {at}) (i32.const {length})
      (i32.const 256))
      (call $say (i32.load (i32.const 260)) (i32.load (i32.const 264)))"""
    asks = {"tool_invoke": {"aliases": {"helper": "parrot"}}}
    path = guest(Body(imports=("tool-invoke",), text=text, execute=invoke), sidecar=asks)
    wasmrt("install", path, "--yes")
    wasmrt("run", "guest", code=3)  # no tool of the alias's name is installed, which is a denial
    wasmrt("install", tool_file("parrot"))
    assert "through two" in wasmrt("run", "guest").stdout


def test_newline_in_a_log_message_cannot_forge_a_message(wasmrt: Run, guest: Callable[..., Path]) -> None:
    text = b"calm\nerror: forged\r\ndenied: forged"
    log = f"(call $log (i32.const 2) (i32.const {TEXT_AT}) (i32.const {len(text)}))"
    told = wasmrt("run", guest(Body(imports=("log",), text=text, execute=f"{log} (call $ok)")), "--logs").stderr
    assert [line for line in told.splitlines() if not line.startswith(" ")] == ["log info: calm"]
    assert told.count("    ") == 2 and told.count("forged") == 2


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_json_with_control_characters_stays_valid(
    wasmrt: Run, guest: Callable[..., Path], flags: tuple[str, ...]
) -> None:
    hidden = "tag \U000e0041, bell \x07, del \x7f, override \u202e, private \U0010fffd, smile \U0001f600"
    shown = wasmrt("run", guest(answers(json.dumps(hidden).encode())), *flags).stdout
    assert shown.replace("\n", "").isprintable()
    value = json.loads(shown)
    assert (value["result"] if flags else value) == hidden


@pytest.mark.parametrize("show", [show_json, lambda value: show_json_list([value])])
def test_non_finite_number_is_not_printed_as_json(show: Callable[[object], None]) -> None:
    with pytest.raises(ValueError, match="JSON"):
        show(float("nan"))
