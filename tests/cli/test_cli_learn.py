"""Tests of `wasmrt caps learn`, and of the subjects of `wasmrt caps`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from click.testing import Result
from wasmrt.testing.attacks import Body, tool

from tests.cli.terminal import on_a_terminal
from wasmrt.capabilities.file import parse

Run = Callable[..., Result]
Write = Callable[..., Path]
Encode = Callable[[str], bytes]

URL = "http://api.test:{port}/v1/items"
READ = "(call $workspace-read (i32.const {at}) (i32.const {length}) (i32.const 256))"


@pytest.fixture
def reader(tool_file: Write, encode: Encode) -> Callable[..., Path]:
    """Writes a tool that reads files in order and stops at the first denial."""

    def write(*paths: str, **more: object) -> Path:
        text = "".join(paths).encode()
        steps, at = [], 1024
        for path in paths:
            steps.append(READ.format(at=at, length=len(path)))
            steps.append(
                f"(if (i32.eqz (i32.load8_u (i32.const 256))) (then (return (call $fail (i32.const {at}) "
                f"(i32.const {len(path)})))))"
            )
            at += len(path)
        body = Body(imports=("workspace-read",), text=text, execute=" ".join([*steps, "(call $ok)"]))
        return tool_file("reader", data=encode(tool(body)), **more)

    return write


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    for name in ("notes/a.md", "plans/b.md", "other/c.md"):
        (tmp_path / "files" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "files" / name).write_text("hello")
    return tmp_path / "files"


def learned(said: str) -> list[str]:
    return [line for line in said.splitlines() if line.startswith("requested: ")]


@pytest.mark.ci("slow")
def test_learn_on_a_terminal_repeats_until_nothing_is_denied(
    home: Path, reader: Callable[..., Path], workspace: Path, tmp_path: Path
) -> None:
    path = reader("notes/a.md", "plans/b.md", "other/c.md")
    out = tmp_path / "start.json"
    out.write_text("{}")
    given = ("--workspace", workspace, "--capabilities", out)
    code, said = on_a_terminal(b"y\nnarrower\n\ny\ny\n", "caps", "learn", path, *given)
    assert code == 0, said
    assert [line.split()[1] for line in learned(said)] == ["notes/a.md", "plans/b.md", "other/c.md"]
    assert "3 allowed, 0 not" in said
    capabilities = parse(out.read_bytes()).capabilities
    assert capabilities.workspace_read is not None
    assert set(capabilities.workspace_read.allowed_prefixes) == {"notes/", "plans/b.md", "other/"}


@pytest.mark.ci("slow")
def test_declined_access_is_not_asked_again_or_written(
    home: Path, reader: Callable[..., Path], workspace: Path, tmp_path: Path
) -> None:
    path = reader("notes/a.md", "plans/b.md")
    out = tmp_path / "start.json"
    out.write_text("{}")
    given = ("--workspace", workspace, "--capabilities", out)
    code, said = on_a_terminal(b"y\nn\ny\n", "caps", "learn", path, *given, "--", "{}", "{}")
    assert code == 0, said
    assert len(learned(said)) == 2
    assert parse(out.read_bytes()).capabilities.workspace_read.allowed_prefixes == ("notes/",)


@pytest.mark.ci("slow")
def test_wider_entry_is_rejected_as_narrower(
    home: Path, reader: Callable[..., Path], workspace: Path, tmp_path: Path
) -> None:
    path = reader("notes/a.md")
    out = tmp_path / "start.json"
    out.write_text("{}")
    given = ("--workspace", workspace, "--capabilities", out)
    answers = b'narrower\n""\nnarrower\n{"x": 1}\nperhaps\nn\n'
    code, said = on_a_terminal(answers, "caps", "learn", path, *given)
    assert code == 0, said
    assert "the entry is not narrower" in said
    assert "the entry cannot be used" in said
    assert "0 allowed, 1 not" in said
    assert out.read_text() == "{}"


@pytest.mark.ci("slow")
def test_answers_are_printed_when_the_user_leaves(home: Path, reader: Callable[..., Path], workspace: Path) -> None:
    path = reader("notes/a.md", "plans/b.md")
    code, said = on_a_terminal(b"y\n\x04", "caps", "learn", path, "--workspace", workspace)
    assert code == 130
    assert "1 allowed, 0 not" in said


def test_learn_without_a_terminal_starts_from_the_file(
    wasmrt: Run, reader: Callable[..., Path], workspace: Path, tmp_path: Path
) -> None:
    path = reader("notes/a.md", "plans/b.md")
    start = tmp_path / "start.json"
    start.write_text(json.dumps({"description": "mine", "workspace": {"allowed_prefixes": ["notes/"]}}))
    given = (path, "--workspace", workspace, "--capabilities", start)
    result = wasmrt("caps", "learn", *given)
    assert [line.split()[1] for line in learned(result.stderr)] == ["plans/b.md"]
    assert json.loads(result.stdout) == {"description": "mine", "workspace": {"allowed_prefixes": ["notes/", "plans/"]}}
    start.write_text(result.stdout)
    assert "requested no more access" in wasmrt("caps", "learn", *given).stderr
    assert json.loads(wasmrt("caps", "learn", *given, "--json").stdout)["asked"] == []


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    server.asked = []  # type: ignore[attr-defined]
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.ci("slow")
def test_request_is_sent_only_after_it_is_allowed(
    home: Path, tool_file: Write, encode: Encode, server: ThreadingHTTPServer, tmp_path: Path
) -> None:
    (home / "data").mkdir(parents=True, exist_ok=True)
    (home / "data/config.toml").write_text(
        '[network]\nunsafe_allowed_networks = ["127.0.0.1/32"]\nhosts = {"api.test" = ["127.0.0.1"]}\n'
    )
    url = URL.format(port=server.server_port).encode()
    body = Body(
        imports=("http-request",),
        text=b"GET" + url + b"{}",
        execute=f"""(call $http-request (i32.const 1024) (i32.const 3) (i32.const 1027) (i32.const {len(url)})
          (i32.const {1027 + len(url)}) (i32.const 2) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
          (i32.const 0) (i32.const 256)) (call $ok)""",
    )
    path = tool_file("asker", data=encode(tool(body)))
    out = tmp_path / "start.json"
    out.write_text("{}")
    code, said = on_a_terminal(b"n\n", "caps", "learn", path, "--capabilities", out)
    assert (code, server.asked) == (0, []), said  # type: ignore[attr-defined]
    code, said = on_a_terminal(b"y\ny\n", "caps", "learn", path, "--capabilities", out)
    assert (code, server.asked) == (0, ["/v1/items"]), said  # type: ignore[attr-defined]
    entry = parse(out.read_bytes()).capabilities.http.allowlist[0]
    assert (entry.host_pattern, entry.path_prefix, entry.methods) == ("api.test", "/v1/items", ("GET",))


def test_similar_requests_are_proposed_as_a_pattern_unless_exact_paths_are_wanted(
    wasmrt: Run, tool_file: Write, encode: Encode
) -> None:
    urls = [f"https://api.example.com/repos/{path}".encode() for path in ("a/b/issues/1", "c/d/issues/2")]
    starts = (1027, 1027 + len(urls[0]))
    end = starts[1] + len(urls[1])
    calls = "".join(
        f"""(call $http-request (i32.const 1024) (i32.const 3) (i32.const {start}) (i32.const {len(url)})
          (i32.const {end}) (i32.const 2) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
          (i32.const 0) (i32.const 256))"""
        for start, url in zip(starts, urls, strict=True)
    )
    body = Body(imports=("http-request",), text=b"GET" + b"".join(urls) + b"{}", execute=f"{calls} (call $ok)")
    path = tool_file("asker", data=encode(tool(body)))

    proposed = wasmrt("caps", "learn", path)
    entries = parse(proposed.stdout).capabilities.http.allowlist
    assert [entry.path_prefix for entry in entries] == ["/repos/*/*/issues/*"]
    assert "proposed for 2 similar requests" in proposed.stderr and "/repos/c/d/issues/2" in proposed.stderr
    assert "--exact" in proposed.stderr
    exact = wasmrt("caps", "learn", path, "--exact", "--json").stdout
    assert len(json.loads(exact)["proposal"]["http"]["allowlist"]) == 2 and json.loads(exact)["patterns"] == []


SIDECAR = {"workspace": {"allowed_prefixes": ["notes/"]}}


@pytest.fixture
def forms(wasmrt: Run, reader: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One tool as an installed name, a path, a file name in its folder, and a capability file."""
    path = reader("notes/a.md", sidecar=SIDECAR)
    wasmrt("install", path, "--yes")
    shutil.copy(path, tmp_path / "bare")
    shutil.copy(path.with_name("reader.capabilities.json"), tmp_path / "bare.capabilities.json")
    monkeypatch.chdir(tmp_path)
    return ["reader", str(path), "reader.wasm", "bare", "reader.capabilities.json"]


def test_caps_commands_accept_files_components_packages_and_names(wasmrt: Run, forms: list[str]) -> None:
    # Without the first line, which is the name of the subject.
    explained = {form: wasmrt("caps", "explain", form).stdout.partition("\n")[2] for form in forms}
    assert len(set(explained.values())) == 1, explained
    assert "notes/" in explained["reader"]
    for form in forms:
        wasmrt("caps", "explain", form, "--path", "plans/b.md", code=3)
        assert "is valid" in wasmrt("caps", "check", form).stderr
        warned = json.loads(wasmrt("caps", "check", form, "--json").stdout)["warnings"]
        assert bool(warned) == (not form.endswith(".json")), "a tool is held against its own imports"
        assert "workspace" in json.loads(wasmrt("caps", "init", form).stdout)
        told = wasmrt("caps", "learn", form, "--workspace", ".").stderr
        assert "notes/a.md" in told or form.endswith(".json")


def test_tool_name_precedes_a_file_of_the_same_name(wasmrt: Run, forms: list[str], tmp_path: Path) -> None:
    meant = {name: wasmrt("caps", "explain", name).stdout for name in ("reader", "json")}
    (tmp_path / "reader").mkdir()
    (tmp_path / "json").write_text("no capability file")
    for name, before in meant.items():
        assert wasmrt("caps", "explain", name).stdout == before
        wasmrt("caps", "init", name)
        wasmrt("caps", "explain", f"./{name}", code=2)


def test_unknown_subject_is_one_error_message(wasmrt: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for command in ("explain", "check", "init", "learn"):
        assert "no tool named 'absent'" in wasmrt("caps", command, "absent", code=2).stderr
        assert "absent.json" in wasmrt("caps", command, "absent.json", code=2).stderr
    (tmp_path / "alone.capabilities.json").write_text("{}")
    assert "no component alone.wasm next to" in wasmrt("caps", "init", "alone.capabilities.json", code=2).stderr


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_learn_on_several_tools_without_a_choice_lists_them(
    wasmrt: Run, encode: Encode, tmp_path: Path, options: tuple[str, ...]
) -> None:
    lifts = "".join(
        f'(func (export "{name}") (result u32) (canon lift (core func $i "f")))' for name in ("first", "second")
    )
    core = '(core module $m (func (export "f") (result i32) i32.const 1)) (core instance $i (instantiate $m))'
    (tmp_path / "two.wasm").write_bytes(encode(f"(component {core} {lifts})"))
    result = wasmrt("caps", "learn", str(tmp_path / "two.wasm"), *options, code=2)
    assert "proposal" not in result.stdout
    assert "first, second" in result.output
    assert wasmrt("caps", "learn", str(tmp_path / "two.wasm"), "--tool", "first", *options).exit_code == 0
