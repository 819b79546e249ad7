"""Tests of `wasmrt audit` and `wasmrt replay`."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from wasmrt.testing.attacks import Body, tool

from wasmrt.core.model import Decision, Reason, Usage
from wasmrt.runtime.audit import Approval, Receipt, ReceiptWriter

Run = Callable[..., Result]


@pytest.fixture
def folder(home: Path) -> Path:
    return home / "data/receipts"


@pytest.fixture
def write(home: Path, folder: Path) -> Callable[..., None]:
    """Writes receipts with the given members."""

    def write_receipts(*every: dict[str, Any]) -> None:
        writer = ReceiptWriter(folder, home / "data/receipts.key")
        for number, members in enumerate(every, 1):
            known = Receipt(ended_ms=1_800_000_000_000 + number, call_id=f"{number:012x}-1", tool="echo", user="ann")
            writer(known._replace(**members))
        writer.close()

    return write_receipts


def ids(result: Result) -> list[str]:
    return [record["call_id"] for record in json.loads(result.stdout)]


def test_run_leaves_a_valid_receipt(wasmrt: Run, folder: Path) -> None:
    wasmrt("run", "echo", '{"message": "otter"}', "--user", "ann")
    wasmrt("run", "echo", '{"massage": "otter"}', code=2)
    shown = wasmrt("audit", "tail")
    assert shown.stdout.splitlines()[0].split() == [
        "ENDED",
        "(UTC)",
        "TOOL",
        "USER",
        "CLIENT",
        "OUTCOME",
        "DENIED",
        "SECONDS",
        "CALL",
    ]
    assert [line.split()[2:6] for line in shown.stdout.splitlines()[1:]] == [
        ["echo", "ann", "-", "ok"],
        ["echo", "local", "-", "invalid-parameters"],
    ]
    assert wasmrt("audit", "verify").stdout == "intact: 3 records in 1 segment\n"
    assert "otter" not in (folder / "receipts-000001.jsonl").read_text()


def test_other_commands_leave_no_receipts(wasmrt: Run, tool_file: Callable[..., Path], folder: Path) -> None:
    path = tool_file()
    wasmrt("inspect", path)
    wasmrt("install", path, "--yes")
    assert not folder.exists()


def test_receipts_can_be_disabled_and_moved(wasmrt: Run, home: Path, folder: Path) -> None:
    config = home / "data/config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text("[audit]\nenabled = false\n")
    wasmrt("run", "echo", '{"message": "hi"}')
    assert not folder.exists()
    config.write_text('[audit]\npath = "elsewhere"\n')
    wasmrt("run", "echo", '{"message": "hi"}')
    assert not folder.exists()
    assert len(ids(wasmrt("audit", "tail", "--json"))) == 1
    assert wasmrt("audit", "verify").exit_code == 0
    assert len(ids(wasmrt("audit", "show", "--json", "--folder", home / "data/elsewhere"))) == 1


def test_broken_chain_is_reported_with_file_and_line(wasmrt: Run, write: Callable[..., None], folder: Path) -> None:
    write({}, {}, {})
    segment = folder / "receipts-000001.jsonl"
    segment.write_bytes(segment.read_bytes().replace(b"000000000002-1", b"000000000009-1"))
    broken = wasmrt("audit", "verify", code=1)
    assert broken.stdout == "broken: receipts-000001.jsonl, line 3: edited: record 3 was changed\n"
    told = json.loads(wasmrt("audit", "verify", "--json", code=1).stdout)
    (found,) = told["folders"]
    assert (told["ok"], found["broken"]["kind"], found["broken"]["line"]) == (False, "edited", 3)


def test_verify_requires_the_given_head(wasmrt: Run, write: Callable[..., None], folder: Path) -> None:
    write({}, {})
    noted = wasmrt("audit", "head").stdout.strip()
    assert json.loads(wasmrt("audit", "head", "--json").stdout)["chains"][0]["number"] == 3
    wasmrt("audit", "verify", "--head", noted)
    wasmrt("audit", "verify", "--head", "3:" + "0" * 64, code=1)
    assert "this is not a chain head" in wasmrt("audit", "verify", "--head", "3", code=2).stderr
    gone = wasmrt("audit", "verify", folder / "none", "--head", noted, code=1)
    assert "the chain ends at record 0, expected record 3" in gone.stdout


def test_a_possible_cut_is_reported_until_it_is_acknowledged(
    wasmrt: Run, write: Callable[..., None], folder: Path
) -> None:
    write({}, {})
    (folder / "head").unlink()
    write({})
    broken = wasmrt("audit", "verify", code=1)
    assert "possible-cut: the head was missing when segment 2 was started" in broken.stdout
    assert "wasmrt audit acknowledge 2" in broken.stderr
    refused = wasmrt("audit", "acknowledge", "1", code=2)
    assert "the receipts show no possible cut before segment 1" in refused.stderr
    assert json.loads(wasmrt("audit", "acknowledge", "2", "--json").stdout) == {"acknowledged": 2, "chain": 0}
    intact = wasmrt("audit", "verify")
    assert "acknowledged by" in intact.stderr
    wasmrt("audit", "acknowledge", "2", code=2)


def test_verify_checks_all_chains_of_all_given_folders(
    wasmrt: Run, write: Callable[..., None], folder: Path, home: Path
) -> None:
    held = ReceiptWriter(folder, home / "data/receipts.key")
    held(Receipt(call_id="f-1", ended_ms=1_900_000_000_000))
    write({}, {})
    assert ids(wasmrt("audit", "tail", "--json")) == ["000000000001-1", "000000000002-1", "f-1"]
    held.close()
    assert wasmrt("audit", "verify").stdout == "intact: 6 records in 2 segments of 2 chains\n"
    noted = wasmrt("audit", "head").stdout.strip()
    wasmrt("audit", "verify", "--head", noted)
    copy = Path(shutil.copytree(folder, home / "copy"))
    (copy / "chains/0001/receipts-000001.jsonl").unlink()
    told = wasmrt("audit", "verify", folder, copy, code=1).stdout.splitlines()
    assert told[0].startswith(f"{folder}: intact") and f"{copy}: broken: chains/0001/" in told[1]
    assert (
        "--head can only be combined with one folder"
        in wasmrt("audit", "verify", folder, copy, "--head", noted, code=2).stderr
    )
    (folder / "chains/0001/head").unlink()
    held = ReceiptWriter(folder, home / "data/receipts.key")
    write({})
    assert "wasmrt audit acknowledge 2 --chain 1" in wasmrt("audit", "verify", code=1).stderr
    wasmrt("audit", "acknowledge", "2", "--chain", "1")
    held.close()
    wasmrt("audit", "verify")
    for wrong in ("0", "1/0", "x", "1,1"):
        assert "does not name segments" in wasmrt("audit", "verify", "--from-segment", wrong, code=2).stderr


def test_verify_creates_no_key(wasmrt: Run, home: Path) -> None:
    assert "no receipts key" in wasmrt("audit", "verify", code=2).stderr
    assert not (home / "data/receipts.key").exists()
    assert "no receipts" in wasmrt("audit", "tail").stderr
    assert wasmrt("audit", "tail", "--json").stdout == "[]\n"


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ((), [1, 2, 3, 4]),
        (("--tool", "desk"), [2, 3]),
        (("--tool", "desk.list"), [2]),
        (("--user", "bob"), [3]),
        (("--trace", "t-1"), [1]),
        (("--outcome", "ok"), [1, 2]),
        (("--outcome", "failed"), [3, 4]),
        (("--outcome", "trap"), [4]),
        (("--since", "2027-01-15T08:00:00.003"), [3, 4]),
        (("--since", "2027-01-15T08:00:00.003+00:00", "--user", "ann"), [4]),
    ],
)
def test_receipts_are_filtered(
    wasmrt: Run, write: Callable[..., None], options: tuple[str, ...], found: list[int]
) -> None:
    write(
        {"trace_id": "t-1"},
        {"tool": "desk.list"},
        {"tool": "desk.purge", "user": "bob", "outcome": "timeout"},
        {"outcome": "trap"},
    )
    wanted = [f"{number:012x}-1" for number in found]
    assert ids(wasmrt("audit", "show", "--json", *options)) == wanted
    assert ids(wasmrt("audit", "tail", "-n", "2", "--json", *options)) == wanted[-2:]
    exported = wasmrt("audit", "export", *options).stdout.splitlines()
    assert [json.loads(line)["call_id"] for line in exported] == wanted


def test_since_option_filters_recent_receipts(wasmrt: Run) -> None:
    wasmrt("run", "echo", '{"message": "hi"}')
    assert len(ids(wasmrt("audit", "show", "--json", "--since", "1h"))) == 1
    assert "is not a time" in wasmrt("audit", "show", "--since", "yesterday", code=2).stderr


def test_show_prints_all_of_one_receipt(wasmrt: Run, write: Callable[..., None]) -> None:
    decision = Decision(False, Reason.HOST_NOT_ALLOWED, "no entry", capability="http", subject="GET https://\x1b[2J/")
    write({
        "approval": Approval("terminal", "ann", "once"), "decisions": (decision,), "usage": Usage(fuel=7),
        "chain": ("a", "b"),
    })  # fmt: skip
    shown = wasmrt("audit", "show", "000000000001-1").stdout
    for line in ("approval: how terminal, by ann, scope once", "usage: fuel 7", "chain: a > b"):
        assert f"  {line}\n" in shown
    assert "denied: GET https://\\u001b[2J/ (host-not-allowed: no entry)" in shown
    assert json.loads(wasmrt("audit", "show", "000000000001-1", "--json").stdout)["user"] == "ann"
    assert "no receipt of a call" in wasmrt("audit", "show", "f-1", code=2).stderr


def test_csv_export_contains_no_formulas(wasmrt: Run, write: Callable[..., None]) -> None:
    denied = Decision(False, Reason.LEAK, "rule")
    write({"tool": "=1+1", "user": '@a,"b"', "decisions": (denied, denied), "chain": ("a", "b")})
    (row,) = csv.DictReader(io.StringIO(wasmrt("audit", "export", "--format", "csv").stdout))
    assert (row["tool"], row["user"], row["denied"], row["chain"]) == ("'=1+1", '\'@a,"b"', "leak leak", "a > b")


def test_report_summarizes_the_counts(wasmrt: Run, write: Callable[..., None]) -> None:
    denied = Decision(False, Reason.HOST_NOT_ALLOWED, "rule")
    write(
        {"usage": Usage(wall_seconds=1.5, http_requests=2)},
        {"outcome": "timeout", "decisions": (denied,), "user": "bob"},
        {"tool": "add", "approval": Approval("queue", "eve", "once")},
    )
    told = wasmrt("audit", "report").stdout
    assert told.startswith("3 calls by 2 users from 2027-01-15 08:00:00 to 2027-01-15 08:00:00 (UTC), 1 failed\n")
    counted = "timeout: 1", "host-not-allowed: 1", "queue by eve: 1", "ann: 2"
    for line in ("echo: 2 calls, 1 failed, 1.5 s, 2 HTTP requests", *counted):
        assert f"  {line}\n" in told
    data = json.loads(wasmrt("audit", "report", "--json").stdout)
    assert (data["calls"], data["denied"], data["top_users"]) == (3, {"host-not-allowed": 1}, {"ann": 2, "bob": 1})
    assert "no receipts" in wasmrt("audit", "report", "--user", "nobody").stderr


def test_lines_that_are_not_receipts_are_skipped(wasmrt: Run, write: Callable[..., None], folder: Path) -> None:
    write({})
    with (folder / "receipts-000001.jsonl").open("ab") as file:
        file.write(b'\xff\n[1]\n{"type":"receipt"')
    assert len(ids(wasmrt("audit", "show", "--json"))) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"usage":{"fuel":0', b'"usage":{"fuel":"x"'),
        (b'"decisions":[]', b'"decisions":[1]'),
        (b'"decisions":[]', b'"decisions":{}'),
        (b'"chain":[]', b'"chain":[{}]'),
        (b'"approval":null', b'"approval":1'),
        (b'"ended_ms":1800000000001', b'"ended_ms":"x"'),
        (b'"n":2', b'"n":' + b"1" * 5000),
        (b'"effects":[]', b'"effects":' + b"[" * 100_000),
    ],
)
def test_foreign_lines_in_the_chain_break_no_command(
    wasmrt: Run, write: Callable[..., None], folder: Path, old: bytes, new: bytes
) -> None:
    write({}, {})
    segment = folder / "receipts-000001.jsonl"
    whole = segment.read_bytes()
    assert old in whole
    segment.write_bytes(whole.replace(old, new, 1))
    assert [line.split()[-1] for line in wasmrt("audit", "show").stdout.splitlines()[1:]] == ["000000000002-1"]
    wasmrt("audit", "report")
    wasmrt("audit", "export", "--format", "csv")
    assert "line 2: edited" in wasmrt("audit", "verify", code=1).stdout


# -- replay --------------------------------------------------------------------------------------------------------

CLOCK = Body(
    imports=("now-millis",),
    text=b'"1"',
    execute="""(i32.store8 (i32.const 1025) (i32.add (i32.const 48) (i32.rem_u (i32.wrap_i64 (i64.shr_u
    (call $now-millis) (i64.const 0))) (i32.const 10)))) (call $say (i32.const 1024) (i32.const 3))""",
)


@pytest.fixture
def recording(home: Path) -> None:
    config = home / "data/config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text("[audit]\nrecord = true\n")


def call_id(wasmrt: Run) -> str:
    return ids(wasmrt("audit", "tail", "-n", "1", "--json"))[0]


def test_a_recorded_run_is_replayed(
    wasmrt: Run, recording: None, tool_file: Callable[..., Path], encode: Callable[[str], bytes], folder: Path
) -> None:
    path = tool_file("clock", data=encode(tool(CLOCK)))
    wasmrt("run", path)
    call = call_id(wasmrt)
    assert wasmrt("replay", call, path).stdout == "same: clock ended with ok after 0 host responses\n"
    told = json.loads(wasmrt("replay", call, path, "--json").stdout)
    assert (told["same"], told["authentic"], told["component_changed"]) == (True, True, False)
    kept = folder / f"recordings/{call}.jsonl"
    text = kept.read_text()
    start = json.loads(text.splitlines()[0])["start_ns"]
    kept.write_text(text.replace(str(start), str(start + 1_000_000)))
    changed = wasmrt("replay", call, path, code=1)
    assert changed.stdout.startswith("different: the result differs: $ was ")
    assert "does not match the call's receipt" in changed.stderr


def test_changed_tool_is_replayed_with_a_note(
    wasmrt: Run, recording: None, tool_file: Callable[..., Path], encode: Callable[[str], bytes]
) -> None:
    path = tool_file("clock", data=encode(tool(CLOCK)))
    wasmrt("install", path, "--yes")
    wasmrt("run", "clock")
    call = call_id(wasmrt)
    assert wasmrt("replay", call).exit_code == 0
    tool_file("clock", data=encode(tool(Body(text=b"{}", execute="(call $say (i32.const 1024) (i32.const 2))"))))
    wasmrt("install", path, "--yes")
    changed = wasmrt("replay", call, code=1)
    assert changed.stdout.startswith("different: the result differs")
    assert "the component has changed since" in changed.stderr


def test_missing_recording_error_says_how_to_record(wasmrt: Run) -> None:
    wasmrt("run", "echo", '{"message": "hi"}')
    refused = wasmrt("replay", call_id(wasmrt), code=2)
    assert "has no recording" in refused.stderr and "wasmrt config set audit.record true" in refused.stderr
