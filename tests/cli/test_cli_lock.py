"""Tests of `wasmrt install --lock`, `--locked` and `wasmrt update`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.cli.registry import COMPONENT, REQUEST, config_of, serve_registry

Run = Callable[..., Result]
Write = Callable[..., Path]
HTTP = {"http": {"allowlist": [{"host": "api.example.com", "methods": ["GET"]}]}}
WIDER = {"http": {"allowlist": [{"host": "*.example.com", "methods": ["GET"]}]}}


@pytest.fixture(autouse=True)
def _in_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_locked_installs_exactly_the_locked_content(wasmrt: Run, tool_file: Write) -> None:
    tool_file(sidecar=HTTP | {"version": "1.0.0"})
    wasmrt("sign", "--new-key", "publisher")
    wasmrt("sign", "parrot.wasm", "--key", "publisher.key")
    wasmrt("install", "parrot.wasm", "--key", "publisher.pub", "--lock", "--yes")
    (entry,) = json.loads(Path("wasmrt.lock").read_text())["tools"]
    assert (entry["name"], entry["source"], entry["resolved"]) == ("parrot", "parrot.wasm", "parrot.wasm")
    assert entry["version"] == "1.0.0" and entry["signer"]["key"]
    wasmrt("remove", "parrot", "--yes")
    wasmrt("install", "--locked", "--yes")
    assert json.loads(wasmrt("install", "--locked", "parrot", "--json").stdout)[0]["unchanged"]
    assert "does not list other" in wasmrt("install", "--locked", "other", "--yes", code=2).stderr

    wasmrt("remove", "parrot", "--yes")
    Path("parrot.wasm.sigstore.json").unlink()
    assert "must be signed by" in wasmrt("install", "--locked", "--yes", code=2).stderr
    tool_file(sidecar=WIDER | {"version": "1.0.0"})
    refused = json.loads(wasmrt("install", "--locked", "--yes", "--json", code=2).stderr)
    assert refused["code"] == "locked" and "another capability file" in refused["message"]
    tool_file(sidecar=HTTP | {"version": "1.0.0"}, of="time")
    assert "differs from wasmrt.lock" in wasmrt("install", "--locked", "--yes", code=2).stderr
    assert json.loads(wasmrt("list", "--json").stdout) == []


def test_a_malformed_lock_file_and_wrong_options_are_refused(wasmrt: Run, tool_file: Write) -> None:
    wasmrt("install", tool_file(), "--lock")
    good = json.loads(Path("wasmrt.lock").read_text())
    tool = good["tools"][0]
    for broken in (
        [], good | {"layout": 2}, good | {"more": 1}, good | {"tools": [tool, tool]}, good | {"tools": [{}]},
        good | {"tools": [tool | {"resolved": 1}]}, good | {"tools": [tool | {"signer": {"name": "x"}}]},
    ):  # fmt: skip
        Path("wasmrt.lock").write_text(json.dumps(broken))
        assert "wasmrt.lock is not valid" in wasmrt("install", "--locked", "--yes", code=2).stderr, broken
    Path("wasmrt.lock").unlink()
    assert "does not exist" in wasmrt("install", "--locked", code=2).stderr
    assert "--locked can only" in wasmrt("install", "--locked", "--name", "x", code=2).stderr
    assert "pass SOURCE" in wasmrt("install", code=2).stderr


def test_update_shows_the_difference_and_more_waits(wasmrt: Run, tool_file: Write) -> None:
    tool_file(sidecar=HTTP)
    wasmrt("install", "parrot.wasm", "--yes", "--lock")
    assert wasmrt("update").stderr.startswith("parrot version 1 is already installed")
    tool_file(sidecar=WIDER, of="time")
    shown = wasmrt("update", "--check").stderr
    assert shown.startswith("parrot, sha256:") and "+ new: may GET https://*.example.com" in shown
    (row,) = json.loads(wasmrt("update", "parrot", "--check", "--json").stdout)
    assert not row["unchanged"] and row["new"] and row["signer"] is None
    assert "version 1 stays active" in wasmrt("update", code=3).stderr
    before = json.loads(Path("wasmrt.lock").read_text())["tools"][0]
    wasmrt("update", "parrot", "--yes")
    after = json.loads(Path("wasmrt.lock").read_text())["tools"][0]
    assert after["digest"] == row["digest"] != before["digest"] and after["source"] == "parrot.wasm"


def test_a_lock_file_older_than_the_catalog_is_written_by_the_next_update_or_install(
    wasmrt: Run, tool_file: Write
) -> None:
    path, lock = tool_file(sidecar=HTTP), Path("wasmrt.lock")
    wasmrt("install", path, "--lock", "--yes")
    old = lock.read_text()
    tool_file(sidecar=WIDER)
    wasmrt("update", "--yes")
    new = lock.read_text()
    for command in (("update",), ("install", path, "--lock", "--yes")):
        lock.write_text(old)
        wasmrt(*command)
        assert lock.read_text() == new != old


def test_locked_resolves_no_tag_of_a_registry_and_only_update_notices_that_one_has_moved(
    wasmrt: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    with serve_registry(home) as registry:
        first = registry.publish(config_of(REQUEST), (COMPONENT, "application/wasm"))
        wasmrt("install", registry.url(), "--yes", "--lock")
        (entry,) = json.loads(Path("wasmrt.lock").read_text())["tools"]
        assert (entry["source"], entry["resolved"]) == (registry.url(), registry.url(f"@{first}"))
        assert (entry["digest"], entry["capabilities_digest"]) == (first, "")
        assert "parrot is up to date" in wasmrt("update", "--check").stderr

        moved = registry.publish(config_of(json.dumps(WIDER).encode()), (COMPONENT, "application/wasm"))
        wasmrt("remove", "parrot", "--yes")
        registry.server.requests.clear()
        assert "api.example.com" in wasmrt("install", "--locked", "--yes").stderr
        assert "hi" in wasmrt("run", "parrot", '{"message": "hi"}').stdout
        assert not any("1.0.0" in request.target for request in registry.server.requests)
        assert json.loads(wasmrt("install", "--locked", "--json").stdout)[0]["unchanged"]
        (row,) = json.loads(wasmrt("update", "--check", "--json").stdout)
        assert row["digest"] == moved and "may GET https://*.example.com" in row["new"][0]
        assert "version 1 stays active" in wasmrt("update", code=3).stderr
        assert json.loads(Path("wasmrt.lock").read_text())["tools"] == [entry]
        wasmrt("update", "--yes")
        assert json.loads(Path("wasmrt.lock").read_text())["tools"][0]["digest"] == moved
        same = registry.publish(config_of(json.dumps(WIDER).encode(), author="ann"), (COMPONENT, "application/wasm"))
        assert "version 2 is already installed" in wasmrt("install", registry.url(), "--lock").stderr
        assert json.loads(Path("wasmrt.lock").read_text())["tools"][0]["digest"] == same != moved

        registry.manifests[same] = registry.manifests[first]
        wasmrt("remove", "parrot", "--yes")
        refused = json.loads(wasmrt("install", "--locked", "--yes", "--json", code=2).stderr)
        assert refused["code"] == "digest-mismatch"


def test_update_of_a_file_leads_to_install(wasmrt: Run) -> None:
    assert "wasmrt install ./a.wasm" in wasmrt("update", "./a.wasm", code=2).stderr
