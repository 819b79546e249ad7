"""A record of the audit file is a whole line or none, and a file that cannot take one is said."""

from __future__ import annotations

import gc
import json
import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from wasmrt import WasmRuntimeConfig, WasmToolRuntime
from wasmrt.call import AuditFile, AuditRecord
from wasmrt.errors import ConfigurationError
from wasmrt.model import Usage


def record(user: str = "ann") -> AuditRecord:
    usage = Usage(*[0] * len(Usage._fields))
    return AuditRecord(1, "c-1", "tool", "0" * 64, user, ("tool",), "ok", usage, (), 0)


def users_in(path: Path) -> list[str]:
    return [json.loads(line)["user"] for line in path.read_text().splitlines()]


@contextmanager
def no_file_over(size: int) -> Iterator[None]:
    """Write no file beyond so many bytes: as a disk that fills up in the middle of a line."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_line_that_does_not_fit_is_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    audit = AuditFile(path)
    audit(record("first"))
    whole = path.stat().st_size
    with no_file_over(whole + 40), pytest.raises(ConfigurationError, match="cannot be written"):
        audit(record("second"))
    assert path.stat().st_size == whole
    audit(record("third"))
    audit.close()
    assert users_in(path) == ["first", "third"]


def test_a_line_that_does_not_fit_stays_where_another_process_wrote_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.jsonl"
    audit = AuditFile(path)
    write = os.write

    def write_a_part(file: int, data: bytes) -> int:
        written = write(file, data[:10])
        with path.open("ab") as other:
            other.write(b"another's line\n")
        return written

    monkeypatch.setattr(os, "write", write_a_part)
    with pytest.raises(ConfigurationError, match="cannot be written"):
        audit(record())
    monkeypatch.undo()
    audit.close()
    assert path.read_bytes().endswith(b"another's line\n")


def test_a_place_that_can_hold_no_file_is_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="cannot be opened"):
        WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False, audit=tmp_path / "file/audit.jsonl"))
    gc.collect()  # what was half made goes without a word


def test_a_file_that_nobody_closes_is_closed_with_its_last_user(tmp_path: Path) -> None:
    audit = AuditFile(tmp_path / "audit.jsonl")
    audit(record())
    opened = len(os.listdir("/proc/self/fd"))
    del audit
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == opened - 1


def test_the_file_is_its_users_alone(tmp_path: Path) -> None:
    path = tmp_path / "new/and/newer/audit.jsonl"
    AuditFile(path).close()
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_pipe_that_is_full_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reader, True)
    audit = AuditFile(path)
    long = "x" * 300_000  # more than a pipe holds
    thread = threading.Thread(target=audit, args=(record(long),))
    thread.start()
    with os.fdopen(reader) as lines:
        assert json.loads(lines.readline())["user"] == long
    thread.join()
    audit.close()
