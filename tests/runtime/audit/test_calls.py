"""Every call leaves one receipt before it returns, without the texts of the call."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from wasmrt.testing.attacks import Body, tool

from tests.runtime.audit.conftest import Chain
from tests.runtime.call.test_invoke import relay
from wasmrt import PreparedTool, ToolContext, WasmRuntimeConfig, WasmToolRuntime
from wasmrt.core.errors import ConfigurationError, InvalidParametersError, ToolError, TrapError
from wasmrt.core.model import Decision, Reason
from wasmrt.runtime.audit import Approval, Receipt, read_keys
from wasmrt.runtime.audit.verify import verify
from wasmrt.sandbox.guest.engine import wat2wasm

ECHO = wat2wasm(tool(Body(execute="(call $say (local.get $params) (local.get $length))")))
BROKEN = wat2wasm(tool(Body(execute="unreachable")))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WASMRT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def chain(home: Path) -> Chain:
    return Chain(home / "data")


def runtime(chain: Chain, **options: Any) -> WasmToolRuntime:
    return WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False, audit=chain.folder, **options))


def receipts(chain: Chain) -> list[dict[str, Any]]:
    return [record for line in chain.lines() if (record := json.loads(line))["type"] == "receipt"]


def test_a_receipt_is_written_before_its_call_returns(chain: Chain) -> None:
    with runtime(chain) as opened:
        echo = opened.prepare("echo", ECHO)
        for calls in range(1, 4):
            answered = echo.execute({}).call_id
            assert [receipt["call_id"] for receipt in receipts(chain)][-1] == answered
            assert len(receipts(chain)) == calls
    assert verify(chain.folder, read_keys(chain.key)).broken is None


def test_a_receipt_names_caller_and_tool_and_hashes_the_texts(chain: Chain) -> None:
    with runtime(chain) as opened:
        echo = opened.prepare("echo", ECHO)
        output = echo.execute({"say": "otter"}, user="ann")
        with pytest.raises(TrapError):
            opened.prepare("broken", BROKEN).execute({"say": "otter"})
        hashed = opened.pipeline.hashed
        assert hashed is not None
        (told, failed) = receipts(chain)
        assert told["args_hash"] == hashed('{"say":"otter"}') == failed["args_hash"]
        assert (told["output_hash"], failed["output_hash"]) == (hashed(output.raw or ""), "")
    assert told["usage"] == output.usage.as_dict()
    assert (told["tool"], told["kind"], told["user"], told["outcome"]) == ("echo", "component", "ann", "ok")
    assert (told["digest"], told["chain"], told["parent_id"]) == (echo.digest, ["echo"], "")
    assert told["trace_id"] == told["call_id"] == output.call_id
    assert failed["outcome"] == "trap-unreachable"
    assert b"otter" not in chain.file().read_bytes()


def test_a_call_by_another_tool_names_its_caller_and_shares_its_trace(chain: Chain) -> None:
    with runtime(chain) as opened:
        opened.prepare("echo", ECHO)
        output = relay(opened, "caller", "echo").execute({})
    inner, outer = receipts(chain)
    assert outer["call_id"] == output.call_id == inner["parent_id"] == inner["trace_id"]
    assert (inner["chain"], outer["chain"]) == (["caller", "echo"], ["caller"])


def test_a_registrys_pipeline_adds_its_part_of_the_receipt(chain: Chain) -> None:
    decision = Decision(True, Reason.ALLOWED, "presets.dev.tools", capability="policy", subject="echo")
    known = Receipt(
        trace_id="trace-7",
        source="installed",
        effects=("network",),
        policy="p" * 64,
        approval=Approval("terminal", "ann", "once"),
        decisions=(decision,),
    )
    with runtime(chain) as opened:
        echo = opened.prepare("echo", ECHO)
        echo.execute({}, receipt=known)
        assert opened.pipeline.audit is not None
        opened.pipeline.audit(known._replace(kind="function", tool="add", outcome="not-authorized"))
        echo.execute({}, ToolContext(user="ann", trace_id="trace-8"))
    of_call, own, of_context = receipts(chain)
    assert (of_context["trace_id"], of_context["user"]) == ("trace-8", "ann")
    assert (of_call["trace_id"], of_call["source"], of_call["policy"]) == ("trace-7", "installed", "p" * 64)
    assert of_call["approval"] == {"how": "terminal", "by": "ann", "scope": "once"}
    assert [each["rule"] for each in of_call["decisions"]] == ["presets.dev.tools"]
    assert (of_call["kind"], own["kind"], own["digest"], own["effects"]) == ("component", "function", "", ["network"])


@pytest.mark.parametrize(("params", "user"), [("[", "ann"), ({}, "a\nb"), ({}, "")])
def test_a_call_refused_before_it_begins_leaves_a_receipt(chain: Chain, params: object, user: str) -> None:
    with runtime(chain) as opened:
        echo = opened.prepare("echo", ECHO)
        before = time.time_ns() // 1_000_000
        with pytest.raises(InvalidParametersError) as caught:
            echo.execute(params, user=user)
        after = time.time_ns() // 1_000_000
    (told,) = receipts(chain)
    assert (told["outcome"], told["call_id"], told["args_hash"]) == ("invalid-parameters", caught.value.call_id, "")
    assert told["user"] == ("ann" if user == "ann" else "")
    assert before <= told["started_ms"] == told["ended_ms"] <= after
    assert (told["kind"], told["trace_id"], told["parent_id"]) == ("component", caught.value.call_id, "")


def test_an_unwritable_receipt_is_a_typed_error_without_a_result(chain: Chain) -> None:
    with runtime(chain) as opened:
        echo = opened.prepare("echo", ECHO)
        (chain.folder / "head").unlink()
        (chain.folder / "head").mkdir()
        with pytest.raises(ConfigurationError, match="receipt"):
            echo.execute({})


def test_a_function_gets_every_receipt_as_plain_data(home: Path) -> None:
    told: list[dict[str, Any]] = []
    with WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False, audit=told.append)) as opened:
        prepared: PreparedTool = opened.prepare("echo", ECHO)
        prepared.execute({})
        with pytest.raises(ToolError):
            prepared.execute("[")
    assert [each["outcome"] for each in told] == ["ok", "invalid-parameters"]
    assert json.loads(json.dumps(told)) == told
    assert told[0]["args_hash"] == ""  # there is no key for the hash


CRASH = """
import os, signal, sys
from pathlib import Path
from wasmrt import WasmRuntimeConfig, WasmToolRuntime
echo = WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False, audit=Path(sys.argv[1]))).prepare("echo", sys.argv[2])
for n in range(50):
    print(echo.execute({"n": n}).call_id, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_loses_no_receipt_of_a_returned_call(chain: Chain, tmp_path: Path) -> None:
    component = tmp_path / "echo.wasm"
    component.write_bytes(ECHO)
    command = [sys.executable, "-c", CRASH, chain.folder, component]
    killed = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    answered = killed.stdout.split()
    assert len(answered) == 50
    assert [receipt["call_id"] for receipt in receipts(chain)] == answered
