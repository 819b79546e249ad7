"""Tests of `wasmrt install`, `grant`, `rollback`, `remove`, `verify` and `list` without a terminal."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.terminal import on_a_terminal

SIDECAR = {"http": {"allowlist": [{"host": "api.example.com", "path_prefix": "/v1/", "methods": ["GET"]}]}}

Run = Callable[..., "object"]
Write = Callable[..., Path]


def test_tool_without_requests_is_installed_listed_run_and_removed(wasmrt: Run, tool_file: Write) -> None:
    assert "installed parrot version 1" in wasmrt("install", tool_file()).stderr
    assert "parrot" in wasmrt("list").stdout
    assert "hi" in wasmrt("run", "parrot", '{"message": "hi"}').stdout
    assert "already installed" in wasmrt("install", tool_file()).stderr
    assert "removed parrot (1 version)" in wasmrt("remove", "parrot", "--yes").stderr
    said = wasmrt("list").stderr
    assert "no tools are installed" in said and "wasmrt tools list" in said
    assert "no tool named 'parrot'" in wasmrt("run", "parrot", code=2).stderr


def test_only_an_installed_replacement_of_a_bundled_tool_is_removed(wasmrt: Run, tool_file: Write) -> None:
    for more in ((), ("--yes",)):
        assert "error: json is part of wasmrt and cannot be removed" in wasmrt("remove", "json", *more, code=2).stderr
    wasmrt("install", tool_file(), "--name", "json")
    assert "removed json (1 version)" in wasmrt("remove", "json", "--yes").stderr
    assert wasmrt("run", "json", '{"operation": "validate", "data": "{}"}').stdout
    assert "error: no tool named 'jsn'" in wasmrt("remove", "jsn", code=2).stderr


def test_install_shows_the_request_and_needs_approval(wasmrt: Run, tool_file: Write) -> None:
    path = tool_file(sidecar=SIDECAR)
    refused = wasmrt("install", path, code=3).stderr
    assert "may GET https://api.example.com/v1/" in refused
    assert "hint: review its request, then install it with --yes" in refused
    error = json.loads(wasmrt("install", path, "--json", code=3).stderr)
    assert (error["code"], error["exit_code"]) == ("grant-required", 3)
    assert any("https://api.example.com/v1/" in sentence for sentence in error["asks"])
    assert json.loads(wasmrt("list", "--json").stdout) == []
    stored = json.loads(wasmrt("install", path, "--yes", "--json").stdout)
    assert (stored["name"], stored["number"], stored["active"]) == ("parrot", 1, True)
    assert json.loads(stored["sidecar"]) == SIDECAR


def test_an_update_waits_for_a_grant_while_the_old_version_runs(wasmrt: Run, tool_file: Write) -> None:
    wasmrt("install", tool_file())
    held = wasmrt("install", tool_file(of="json", sidecar=SIDECAR), code=3).stderr
    assert "version 2 of parrot awaits a grant; version 1 stays active" in held
    assert "different component" in held
    assert "asks for more: may GET https://api.example.com/v1/" in held
    assert "hi" in wasmrt("run", "parrot", '{"message": "hi"}').stdout
    assert json.loads(wasmrt("list", "--json").stdout)[0]["pending"] == 2
    assert "wasmrt grant parrot" in wasmrt("list").stderr
    assert "2: " in wasmrt("inspect", "parrot").stdout
    states = [(v["active"], v["pending"]) for v in json.loads(wasmrt("inspect", "parrot", "--json").stdout)["versions"]]
    assert states == [(True, False), (False, True)]
    assert "pass --yes" in wasmrt("grant", "parrot", code=3).stderr
    assert json.loads(wasmrt("grant", "parrot", "--json", code=3).stderr)["changes"]
    granted = wasmrt("grant", "parrot", "--yes")
    assert "new: may GET https://api.example.com/v1/" in granted.stderr
    assert json.loads(wasmrt("list", "--json").stdout)[0]["number"] == 2
    assert "now runs version 1" in wasmrt("rollback", "parrot").stderr
    assert "hi" in wasmrt("run", "parrot", '{"message": "hi"}').stdout
    assert "no update of parrot awaits" in wasmrt("grant", "parrot", "--yes", code=2).stderr


def test_grant_file_narrows_the_grant(wasmrt: Run, tool_file: Write, tmp_path: Path) -> None:
    narrower = tmp_path / "narrower.json"
    narrower.write_text(
        json.dumps({"http": {"allowlist": [{"host": "api.example.com", "path_prefix": "/v1/public/"}]}})
    )
    wasmrt("install", tool_file(sidecar=SIDECAR), "--grant", narrower, "--yes")
    report = json.loads(wasmrt("inspect", "parrot", "--json").stdout)
    assert "https://api.example.com/v1/ " in report["asks"][0]
    assert "GET https://api.example.com/v1/public/" in report["granted"][0]


def test_modified_component_is_not_run_and_verify_reports_it(wasmrt: Run, tool_file: Write, home: Path) -> None:
    wasmrt("install", tool_file())
    (stored,) = home.rglob("components/*.wasm")
    stored.write_bytes(stored.read_bytes()[:-1] + b"\xff")
    refused = wasmrt("run", "parrot", '{"message": "hi"}', code=1).stderr
    assert "differs from the installed one" in refused
    assert str(home) not in refused
    report = json.loads(wasmrt("verify", "--json", code=1).stdout)
    assert report["broken"] == 1
    assert "1 checked, 1 broken" in wasmrt("verify", "parrot", code=1).stderr
    wasmrt("remove", "parrot", "--yes")
    assert "0 checked, 0 broken" in wasmrt("verify").stderr


@pytest.mark.parametrize(
    ("data", "code", "words"),
    [
        (b"", "not-wasm", "the file is empty"),
        (b"this is a text file", "not-wasm", "this is not WebAssembly"),
        (b"\0asm\x01\0\0\0", "core-module", "this is a core module, not a component"),
        (b"\0asm\x0d\0\x01\0", "unknown-world", "no supported world"),
        (b"\0asm\x0d\0\x01\0\x01\x40", "invalid-component", "is cut off"),
    ],
)
def test_invalid_bytes_are_refused_with_a_hint(
    wasmrt: Run, tool_file: Write, data: bytes, code: str, words: str
) -> None:
    result = wasmrt("install", tool_file(data=data), code=2)
    first, second = result.stderr.splitlines()
    assert first.startswith("error: ") and words in first
    assert second.startswith("hint: ")
    error = json.loads(wasmrt("install", tool_file(data=data), "--json", code=2).stderr)
    assert (error["code"], error["exit_code"]) == (code, 2)
    assert json.loads(wasmrt("list", "--json").stdout) == []


def test_unknown_world_and_import_are_reported(wasmrt: Run, tool_file: Write, encode: Callable[[str], bytes]) -> None:
    world = encode('(component (instance $e) (export "acme:thing/api@1.0.0" (instance $e)))')
    assert "it exports acme:thing/api@1.0.0" in wasmrt("install", tool_file(data=world), code=2).stderr
    needs = encode(
        '(component (import "acme:thing/host" (instance)) (instance $e) (export "near:agent/tool" (instance $e)))'
    )
    assert "acme:thing/host" in wasmrt("install", tool_file(data=needs), code=2).stderr


def test_a_truncated_tool_and_one_of_200_megabytes_are_refused(wasmrt: Run, tool_file: Write, tmp_path: Path) -> None:
    path = tool_file()
    path.write_bytes(path.read_bytes()[:-100])
    assert "cut off" in wasmrt("install", path, code=2).stderr
    with path.open("wb") as file:
        file.truncate(200 * 1024 * 1024)
    assert "has more than 67108864 bytes" in wasmrt("install", path, code=2).stderr
    assert "has more than 1000 bytes" in wasmrt("install", tool_file(), "--max-bytes", "1000", code=2).stderr
    assert "warning: the component is large" in wasmrt("install", tool_file(), "--warn-bytes", "1000").stderr


@pytest.mark.parametrize("name", ["../up", "a/b", "dotted.name", "Upper", "bell\x07", "a" * 65, ""])
def test_invalid_name_error_states_the_rule(wasmrt: Run, tool_file: Write, name: str) -> None:
    result = wasmrt("install", tool_file(), "--name", name, code=2)
    assert "is not a valid tool name" in result.stderr
    assert "lower-case letters" in result.stderr
    assert "\x07" not in result.stderr


def test_invalid_capability_file_is_refused(wasmrt: Run, tool_file: Write) -> None:
    assert "capability file" in wasmrt("install", tool_file(sidecar="{nope"), "--yes", code=2).stderr
    twice = {"htpp": {}, "http": {"alowlist": []}}
    told = wasmrt("install", tool_file(sidecar=twice), "--yes", code=2).stderr
    assert "htpp" in told and "alowlist" in told
    assert json.loads(wasmrt("list", "--json").stdout) == []


def test_missing_source_error_omits_its_folder(wasmrt: Run, tmp_path: Path) -> None:
    told = wasmrt("install", tmp_path / "absent.wasm", code=2).stderr
    assert "the component 'absent.wasm' does not exist" in told
    assert str(tmp_path) not in told
    assert "must begin with https://" in wasmrt("install", "http://example.com/tool.wasm", code=2).stderr


def test_the_cache_folder_may_be_read_only(wasmrt: Run, tool_file: Write, absent_home: Path) -> None:
    wasmrt("install", tool_file())
    cache = absent_home / "cache"
    for path in (*cache.rglob("*.cwasm"),):
        path.unlink()
    # Root ignores permissions, but a file instead of the folder cannot be written into even by root.
    for folder in cache.iterdir():
        folder.rmdir()
    cache.rmdir()
    cache.write_text("")
    result = subprocess.run(
        [sys.executable, "-m", "wasmrt", "run", "parrot", '{"message": "hi"}'], capture_output=True, text=True
    )
    assert result.returncode == 0
    assert "hi" in result.stdout
    assert "cannot use the compile cache" in result.stderr


@pytest.mark.parametrize("tenths", range(1, 10, 2))
def test_an_install_killed_at_any_moment_leaves_a_whole_catalog(wasmrt: Run, tool_file: Write, tenths: int) -> None:
    wasmrt("install", tool_file())
    command = [sys.executable, "-m", "wasmrt", "install", str(tool_file(of="json")), "--yes"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(tenths / 10)
        process.kill()
    assert "0 broken" in wasmrt("verify").stderr
    assert json.loads(wasmrt("list", "--json").stdout)[0]["number"] in (1, 2)
    wasmrt("install", tool_file(of="json"), "--yes")
    assert json.loads(wasmrt("list", "--json").stdout)[0]["number"] == 2


@pytest.mark.ci("slow")
def test_install_on_a_terminal_asks_for_approval(wasmrt: Run, tool_file: Write) -> None:
    path = tool_file(sidecar=SIDECAR)
    code, said = on_a_terminal(b"n\n", "install", path)
    assert code == 3
    assert "may GET https://api.example.com/v1/" in said
    assert "Grant this to parrot, and offer it to the agents of this installation?" in said
    assert json.loads(wasmrt("list", "--json").stdout) == []
    code, said = on_a_terminal(b"y\n", "install", path)
    assert code == 0
    assert "installed parrot version 1" in said


def padded(component: bytes, size_bytes: int) -> bytes:
    """Return the component with an additional custom section."""
    body = b"\x03pad" + bytes(size_bytes)
    size = len(body)
    return (
        component
        + b"\x00"
        + bytes([size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14 & 0x7F | 0x80, size >> 21])
        + body
    )


@pytest.mark.ci("slow")
def test_two_processes_may_install_the_same_tool_at_once(wasmrt: Run, tool_file: Write) -> None:
    path = tool_file(sidecar=SIDECAR)
    command = [sys.executable, "-m", "wasmrt", "install", str(path), "--yes", "--json"]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(3)]
    outputs = [worker.communicate() for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0, 0], outputs
    assert {json.loads(out)["number"] for out, _ in outputs} == {1}
    assert "1 checked, 0 broken" in wasmrt("verify").stderr
