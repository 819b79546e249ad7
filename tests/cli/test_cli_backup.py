"""Tests that a copy of the data directory is a complete backup."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from wasmrt.core.places import find_places
from wasmrt.egress.secrets import open_store

Run = Callable[..., Result]
GRANT = {"http": {"allowlist": [{"host": "api.example.com", "path_prefix": "/v1/"}]}}


def receipts(wasmrt: Run) -> int:
    """Verify the chain of receipts, and return their number."""
    return int(json.loads(wasmrt("audit", "verify", "--json").stdout)["folders"][0]["records"])


def move_by_backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy the data directory, and use the copy as the data directory of another installation."""
    shutil.copytree(find_places().data, tmp_path / "restored/data")
    monkeypatch.setenv("WASMRT_HOME", str(tmp_path / "restored"))
    return find_places().data


@pytest.mark.parametrize("passphrase", ["", "a passphrase of the operator"])
def test_a_restored_backup_has_the_tools_grants_secrets_receipts_and_settings(
    wasmrt: Run, tool_file: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, passphrase: str
) -> None:
    monkeypatch.setenv("WASMRT_SECRETS_BACKEND", "file")
    monkeypatch.setenv("WASMRT_SECRETS_PASSPHRASE", passphrase)
    monkeypatch.setattr("wasmrt.egress.secrets._file._SCRYPT_N", 16)
    wasmrt("install", tool_file(sidecar=GRANT), "--yes")
    wasmrt("secret", "set", "api_token", stdin="not-a-real-token")
    wasmrt("config", "set", "limits.timeout_seconds", "31")
    wasmrt("run", "parrot", '{"message": "hi"}')
    before, records = wasmrt("inspect", "parrot", "--json").stdout, receipts(wasmrt)
    data = move_by_backup(tmp_path, monkeypatch)
    assert wasmrt("inspect", "parrot", "--json").stdout == before and "api.example.com" in before
    assert open_store(data).get("local", "api_token").reveal() == "not-a-real-token"
    assert json.loads(wasmrt("run", "parrot", '{"message": "again"}').stdout) == "again"
    assert receipts(wasmrt) == records + 1
    assert "1 checked, 0 broken" in wasmrt("advanced", "verify").stderr
    assert "31" in wasmrt("config", "show", "limits.timeout_seconds").stdout


def test_secrets_of_a_backup_without_its_key_are_refused(
    wasmrt: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WASMRT_SECRETS_BACKEND", "file")
    wasmrt("secret", "set", "api_token", stdin="not-a-real-token")
    data = move_by_backup(tmp_path, monkeypatch)
    (data / "secrets.key").unlink()
    assert "not-a-real-token" not in wasmrt("secret", "list", code=1).stderr
