"""Tests of `wasmrt plugins check`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.agent.plugins.conftest import MANIFEST
from tests.sandbox.programs.build import echo_plugin

pytestmark = pytest.mark.ci("toolchain")

Run = Callable[..., "object"]


def test_plugins_check_reports_each_plugin(wasmrt: Run, tmp_path: Path) -> None:
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "echo.toml").write_text(MANIFEST.format(name="echo", more=""))
    (folder / "echo.wasm").write_bytes(echo_plugin("wasm32-wasip2").read_bytes())
    assert "1 valid, 0 invalid" in wasmrt("plugins", "check", folder).stderr

    (folder / "other.toml").write_text(MANIFEST.format(name="other", more="nativ = true\nversion_of = 1"))
    (folder / "script.toml").write_text(MANIFEST.format(name="script", more="native = true"))
    (folder / "script").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (folder / "script").chmod(0o755)
    (folder / "absent.toml").write_text(MANIFEST.format(name="absent", more=""))
    told = wasmrt("plugins", "check", folder, code=2)
    assert [line.split()[:3] for line in told.stdout.splitlines()[1:]] == [
        ["echo", "wasi", "0.1.0"],
        ["script", "native", "0.1.0"],
    ]
    assert "other.toml: nativ: unknown key; did you mean 'native'?" in told.stderr
    assert "other.toml: version_of: unknown key" in told.stderr
    assert "absent: cannot use the plugin's file absent.wasm" in told.stderr
    assert "require unsafe_native_plugins: script" in told.stderr
    assert "2 valid, 2 invalid" in told.stderr
    assert not (tmp_path / "ran").exists()

    data = json.loads(wasmrt("plugins", "check", folder, "--json", code=2).stdout)
    assert [tool["name"] for tool in data["plugins"]] == ["echo", "script"]
    assert {one["name"]: one["error"] for one in data["refused"]} == {"absent": "SourceError", "other": "ManifestError"}


def test_missing_plugin_folder_is_an_error(wasmrt: Run, tmp_path: Path) -> None:
    assert "cannot use the plugins folder" in wasmrt("plugins", "check", tmp_path / "no", code=2).stderr
