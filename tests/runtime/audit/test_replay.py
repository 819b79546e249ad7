"""A recorded call replays identically without network, files, tools or clock; differences are reported."""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import trustme
from wasmrt.testing import FakeResolver, MemorySecrets, ReceivedRequest, ScriptedServer, ServerConnection
from wasmrt.testing.attacks import Body, tool

import wasmrt.runtime.audit._recording as recording_module
from tests.runtime.audit.conftest import Chain
from tests.runtime.call.conftest import says
from tests.runtime.call.test_invoke import relay
from wasmrt import (
    Capabilities,
    EndpointPattern,
    HttpCapability,
    NetworkConfig,
    PreparedTool,
    ResourceLimits,
    SecretsCapability,
    ToolError,
    WasmRuntimeConfig,
    WasmToolRuntime,
)
from wasmrt.core.errors import ConfigurationError, NotInstalledError, SourceError
from wasmrt.egress.secrets import Secret
from wasmrt.runtime.audit import Recording, read_keys, read_recording
from wasmrt.runtime.audit.reading import find_receipt
from wasmrt.sandbox.guest.engine import wat2wasm

HOST = "api.example.com"
# FNV-1a over all memory, as sixteen quoted hexadecimal digits: it covers every reply of the host.
_HASH = """
  (local.set $h (i64.const -3750763034362895579))
  (local.set $i (i32.const 256))
  (loop $next
    (local.set $h (i64.mul (i64.xor (local.get $h) (i64.load8_u (local.get $i))) (i64.const 1099511628211)))
    (local.set $i (i32.add (local.get $i) (i32.const 1)))
    (br_if $next (i32.lt_u (local.get $i) (i32.mul (memory.size) (i32.const 65536)))))
  (i32.store8 (i32.const 256) (i32.const 34))
  (local.set $i (i32.const 257))
  (loop $digit
    (local.set $j (i32.and (i32.wrap_i64 (local.get $h)) (i32.const 15)))
    (i32.store8 (local.get $i) (i32.add (local.get $j)
      (if (result i32) (i32.lt_u (local.get $j) (i32.const 10)) (then (i32.const 48)) (else (i32.const 87)))))
    (local.set $h (i64.shr_u (local.get $h) (i64.const 4)))
    (local.set $i (i32.add (local.get $i) (i32.const 1)))
    (br_if $digit (i32.lt_u (local.get $i) (i32.const 273))))
  (i32.store8 (i32.const 273) (i32.const 34))
  (call $say (i32.const 256) (i32.const 18))"""


def asker(path: str = "context/notes.txt", method: str = "GET") -> bytes:
    """A tool that makes every host request, and returns a hash of the replies.

    Its params are the URL that it requests.
    """
    text = f"{path}on{method}{{}}token".encode()
    at = {name: 1024 + text.index(part) for name, part in (("on", b"on" + method.encode()), ("token", b"token"))}
    at["method"] = at["on"] + 2
    execute = f"""
      (i64.store (i32.const 512) (call $now-millis))
      (call $get-random-bytes (i64.const 32) (i32.const 520))
      (call $workspace-read (i32.const 1024) (i32.const {len(path)}) (i32.const 544))
      (call $http-request (i32.const {at["method"]}) (i32.const {len(method)})
        (i32.add (local.get $params) (i32.const 1)) (i32.sub (local.get $length) (i32.const 2))
        (i32.const {at["method"] + len(method)}) (i32.const 2)
        (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 640))
      (call $tool-invoke (i32.const {at["on"]}) (i32.const 2) (local.get $params) (local.get $length) (i32.const 768))
      (i32.store (i32.const 800) (call $secret-exists (i32.const {at["token"]}) (i32.const 5)))
      (i64.store (i32.const 808) (call $now-millis)){_HASH}"""
    names = ("now-millis", "get-random-bytes", "workspace-read", "http-request", "tool-invoke", "secret-exists")
    locals = "(local $h i64)"
    return wat2wasm(tool(Body(imports=names, text=text, execute=execute, locals=locals)))


def script(request: ReceivedRequest, connection: ServerConnection) -> bytes:
    body = os.urandom(48).hex() + request.target
    return f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nX-Served: {len(body)}\r\n\r\n{body}".encode()


class Desk:
    """A runtime that records, with a server, a workspace, a secret and a second tool."""

    def __init__(self, stack: ExitStack, chain: Chain, tmp_path: Path, isolation: str) -> None:
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(HOST).configure_cert(tls)
        self.server = stack.enter_context(ScriptedServer(script, tls=tls))
        (tmp_path / "work/context").mkdir(parents=True)
        self.notes = tmp_path / "work/context/notes.txt"
        self.notes.write_text("otters")
        self.isolation = isolation
        self.chain = chain
        secrets = MemorySecrets()
        secrets.set("local", "token", Secret("not-a-real-token"))
        network = NetworkConfig(
            unsafe_allowed_networks=("127.0.0.0/8",),
            resolver=FakeResolver({HOST: ["127.0.0.1"]}),
            ca_file=tmp_path / "ca.pem",
        )
        self.runtime = self.open(
            stack, audit=chain.folder, audit_record=True, network=network, secrets=secrets, workspace=tmp_path / "work"
        )
        self.runtime.prepare("other", wat2wasm(tool(says('{"of": "the other"}'))))
        self.dry = self.open(stack)
        """A runtime without network, workspace, secrets and other tools."""

    def open(self, stack: ExitStack, **options: Any) -> WasmToolRuntime:
        config = WasmRuntimeConfig(cache_compiled=False, isolation=self.isolation, **options)  # type: ignore[arg-type]
        return stack.enter_context(WasmToolRuntime(config))

    def prepare(self, data: bytes) -> PreparedTool:
        pattern = EndpointPattern(HOST, ports=(self.server.port,))
        grant = (
            Capabilities.none()
            .with_http(HttpCapability(allowlist=(pattern,)))
            .with_workspace_read(["context/"])
            .with_tool_invoke({"on": "other"})
        )
        return self.runtime.prepare("asker", data, grant.with_secrets(SecretsCapability(("token",))))

    def call(self, prepared: PreparedTool, path: str) -> str:
        return prepared.execute(json.dumps(f"https://{HOST}:{self.server.port}{path}")).call_id

    def recording(self, call_id: str) -> Recording:
        return read_recording(self.chain.folder, read_keys(self.chain.key), call_id)


@pytest.fixture
def chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chain:
    monkeypatch.setenv("WASMRT_HOME", str(tmp_path / "home"))
    return Chain(tmp_path / "home/data")


@pytest.fixture(params=["process", "in-process"])
def desk(request: pytest.FixtureRequest, chain: Chain, tmp_path: Path) -> Iterator[Desk]:
    with ExitStack() as stack:
        yield Desk(stack, chain, tmp_path, request.param)


def test_twenty_recorded_calls_replay_identically_without_a_network(desk: Desk) -> None:
    asks = desk.prepare(asker())
    calls = [desk.call(asks, f"/{number}") for number in range(20)]
    results = {(find_receipt(desk.chain.folder, call) or {})["output_hash"] for call in calls}
    assert len(results) == 20  # each call got different replies
    served = len(desk.server.requests)
    desk.notes.unlink()
    dry = desk.dry.prepare("asker", asker())
    for call in calls:
        recording = desk.recording(call)
        receipt = find_receipt(desk.chain.folder, call)
        assert receipt is not None and recording.is_of(receipt)
        replayed = dry.replay(recording)
        assert (replayed.same, replayed.difference, replayed.component_changed) == (True, None, False)
        assert replayed.answers == replayed.recorded == 5
    assert len(desk.server.requests) == served == 20
    assert desk.chain.verified().broken is None


@pytest.mark.parametrize("changed", range(5))
def test_one_changed_reply_is_reported(desk: Desk, changed: int) -> None:
    call = desk.call(desk.prepare(asker()), "/a")
    recording = desk.recording(call)
    event = recording.events[changed]
    answers: dict[str, Any] = {
        "workspace_read": {"text": "otterS"},
        "http_open": {"status": 201, "headers": []},
        "http_read_all": {"text": "something else"},
        "invoke_tool": '{"of": "nobody"}',
        "secret_exists": False,
    }
    events = list(recording.events)
    events[changed] = event._replace(answer=answers[event.do])
    replayed = desk.dry.prepare("asker", asker()).replay(recording._replace(events=tuple(events)))
    assert not replayed.same
    assert replayed.difference is not None and replayed.difference.startswith("the result differs: $ was ")


def test_a_changed_recording_does_not_match_its_receipt(desk: Desk) -> None:
    call = desk.call(desk.prepare(asker()), "/a")
    path = desk.chain.folder / "recordings" / f"{call}.jsonl"
    path.write_bytes(path.read_bytes().replace(b"otters", b"otterS"))
    recording = desk.recording(call)
    assert not recording.is_of(find_receipt(desk.chain.folder, call) or {})
    assert not desk.dry.prepare("asker", asker()).replay(recording).same


@pytest.mark.parametrize("answer", [None, 1, "x", {"status": "x"}, {"failure": {}}, [[1]]])
def test_corrupted_replies_are_reported_as_differences(desk: Desk, answer: object) -> None:
    recording = desk.recording(desk.call(desk.prepare(asker()), "/a"))
    spoiled = tuple(event._replace(answer=answer) for event in recording.events)
    assert not desk.dry.prepare("asker", asker()).replay(recording._replace(events=spoiled)).same
    strange = tuple(event._replace(ask=[answer]) for event in recording.events)
    assert not desk.dry.prepare("asker", wat2wasm(tool(says('"no"')))).replay(recording._replace(events=strange)).same


def test_a_changed_components_different_request_is_reported(desk: Desk) -> None:
    recording = desk.recording(desk.call(desk.prepare(asker()), "/a"))
    other_file = desk.dry.prepare("asker", asker("context/n.txt")).replay(recording)
    assert other_file.component_changed
    assert other_file.difference == (
        'the request for host answer 1 differs: workspace_read "context/n.txt" false; '
        'recorded: workspace_read "context/notes.txt" false'
    )
    posting = desk.dry.prepare("asker", asker(method="POST")).replay(recording)
    assert (posting.same, posting.answers) == (False, 1)
    assert "the request for host answer 2 differs: http_open POST https://" in str(posting.difference)
    silent = desk.dry.prepare("asker", wat2wasm(tool(says('"no"')))).replay(recording)
    assert str(silent.difference).startswith("host answer 1 was not requested again: workspace_read")


def test_a_changed_components_additional_request_is_reported(desk: Desk) -> None:
    recording = desk.recording(desk.runtime.prepare("says", wat2wasm(tool(says('"no"')))).execute("{}").call_id)
    replayed = desk.dry.prepare("says", asker()).replay(recording)
    assert str(replayed.difference).startswith("the call made a request that was not recorded: workspace_read")


def test_a_different_end_or_result_is_reported(desk: Desk) -> None:
    recording = desk.recording(
        desk.runtime.prepare("says", wat2wasm(tool(says('{"a": [1, {"b": 2}]}')))).execute("{}").call_id
    )
    again = desk.dry.prepare("says", wat2wasm(tool(says('{"a": [1, {"b": 3}]}')))).replay(recording)
    assert again.difference == "the result differs: $.a[1].b was 2, now 3"
    broken = desk.dry.prepare("says", wat2wasm(tool(Body(execute="unreachable")))).replay(recording)
    assert broken.difference == "the call ended with trap-unreachable; the recorded call with ok"


def test_refusals_and_failures_are_replayed_unchanged(desk: Desk) -> None:
    bare = desk.runtime.prepare("bare", asker())  # granted nothing
    call = desk.call(bare, "/a")
    recording = desk.recording(call)
    refused = [event.do for event in recording.events if isinstance(event.answer, dict) and "failure" in event.answer]
    assert refused == ["workspace_read", "http_open", "invoke_tool"]
    assert desk.dry.prepare("bare", asker()).replay(recording).same
    failing = desk.runtime.prepare("failing", wat2wasm(tool(Body(execute="unreachable"))))
    with pytest.raises(ToolError) as caught:
        failing.execute({})
    recording = desk.recording(caught.value.call_id or "")
    assert recording.outcome == "trap-unreachable"
    assert desk.dry.prepare("failing", wat2wasm(tool(Body(execute="unreachable")))).replay(recording).same


def test_a_call_ended_by_the_host_replays_up_to_that_point(desk: Desk) -> None:
    spins = wat2wasm(tool(Body(execute="(loop $again (br $again)) unreachable")))
    desk.runtime.prepare("spins", spins)
    with pytest.raises(ToolError) as caught:
        relay(desk.runtime, "caller", "spins", ResourceLimits(timeout_seconds=0.2)).execute({})
    recording = desk.recording(caught.value.call_id or "")
    assert (recording.outcome, recording.events[-1].answer) == ("deadline-exceeded", {"ended": "deadline-exceeded"})
    replayed = relay(desk.dry, "caller", "spins").replay(recording)
    assert (replayed.same, replayed.answers) == (True, 1)


def test_a_sleep_takes_no_time_in_a_replay(desk: Desk) -> None:
    names = ("subscribe-duration", "block", "now", "now-millis")
    execute = f"""(call $block (call $subscribe-duration (i64.const 30000000)))
      (i64.store (i32.const 512) (call $now-millis)) (i64.store (i32.const 520) (call $now)){_HASH}"""
    sleeper = wat2wasm(tool(Body(imports=names, execute=execute, locals="(local $h i64)")))
    output = desk.runtime.prepare("sleeper", sleeper).execute({})
    assert output.duration >= 0.02
    assert desk.dry.prepare("sleeper", sleeper).replay(desk.recording(output.call_id)).same


def test_an_oversized_recording_is_dropped_and_reported(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording_module, "MAX_RECORDING_BYTES", 400)
    call = desk.call(desk.prepare(asker()), "/a")
    assert (find_receipt(desk.chain.folder, call) or {})["recording"] == "dropped"
    with pytest.raises(SourceError, match="has no recording"):
        desk.recording(call)


def test_the_oldest_recordings_are_removed_first(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = desk.runtime.prepare("says", wat2wasm(tool(says('"no"'))))
    first = quiet.execute({}).call_id
    size = sum(path.stat().st_size for path in (desk.chain.folder / "recordings").iterdir())
    monkeypatch.setattr(recording_module, "MAX_RECORDING_BYTES", 2 * size)
    monkeypatch.setattr(recording_module, "MAX_RECORDINGS_BYTES", 12 * size)
    last = [quiet.execute({}).call_id for _ in range(64)][-1]
    kept = {path.stem for path in (desk.chain.folder / "recordings").iterdir()}
    assert first not in kept and last in kept
    assert len(kept) < 50


def test_each_recorded_call_has_its_own_random_seed(desk: Desk) -> None:
    execute = f"(call $get-random-bytes (i64.const 32) (i32.const 520)){_HASH}"
    data = wat2wasm(tool(Body(imports=("get-random-bytes",), execute=execute, locals="(local $h i64)")))
    dice = desk.runtime.prepare("dice", data)
    rolled = [dice.execute({}) for _ in range(3)]
    assert len({str(output.result) for output in rolled}) == 3
    assert all(desk.dry.prepare("dice", data).replay(desk.recording(output.call_id)).same for output in rolled)


def test_a_recording_that_others_can_read_or_replace_is_refused(desk: Desk) -> None:
    call = desk.call(desk.prepare(asker()), "/a")
    (desk.chain.folder / f"recordings/{call}.jsonl").chmod(0o644)
    with pytest.raises(SourceError, match="other users"):
        desk.recording(call)


def test_a_recording_is_private_and_contains_no_secret(desk: Desk) -> None:
    call = desk.call(desk.prepare(asker()), "/a")
    path = desk.chain.folder / "recordings" / f"{call}.jsonl"
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert b"not-a-real-token" not in path.read_bytes()


def test_a_recording_that_cannot_be_stored_is_reported_and_stops_no_call(desk: Desk) -> None:
    desk.chain.folder.mkdir(parents=True, exist_ok=True)
    (desk.chain.folder / "recordings").write_text("in the way")
    call = desk.call(desk.prepare(asker()), "/a")
    assert (find_receipt(desk.chain.folder, call) or {})["recording"] == "dropped"


@pytest.mark.parametrize("text", [b"", b"{}\n", b"[1]\n{}\n", b'{"call_id": 1}\n\xff\n', b"[" * 100_000])
def test_an_invalid_recording_is_refused(chain: Chain, text: bytes) -> None:
    chain.write(1)
    (chain.folder / "recordings").mkdir()
    path = chain.folder / "recordings/0123456789ab-1.jsonl"
    path.write_bytes(text)
    path.chmod(0o600)
    with pytest.raises(SourceError, match="the recording is damaged"):
        read_recording(chain.folder, read_keys(chain.key), "0123456789ab-1")


@pytest.mark.parametrize("call_id", ["", "../head", "0123456789ab-1/../../head", "a" * 500])
def test_an_invalid_call_id_names_no_file(chain: Chain, call_id: str) -> None:
    chain.write(1)
    with pytest.raises(SourceError, match="is not a call ID"):
        read_recording(chain.folder, read_keys(chain.key), call_id)


def test_a_component_that_lost_the_tool_is_reported(desk: Desk) -> None:
    recording = desk.recording(desk.call(desk.prepare(asker()), "/a"))
    gone = recording._replace(call=recording.call._replace(tool="gone"))
    with pytest.raises(NotInstalledError, match="asker has no tool 'gone'"):
        desk.dry.prepare("asker", asker()).replay(gone)


def test_recording_needs_a_folder() -> None:
    with pytest.raises(ConfigurationError, match="audit_record requires audit to be a folder"):
        WasmRuntimeConfig(audit=lambda receipt: None, audit_record=True)


@pytest.mark.ci("slow")
def test_a_tool_that_reads_the_clock_replays(desk: Desk) -> None:
    output = desk.runtime.prepare_installed("time").execute({"operation": "now"})
    assert desk.dry.prepare_installed("time").replay(desk.recording(output.call_id)).same


def test_a_tool_of_a_real_toolchain_replays(desk: Desk, guest: Callable[[str], bytes]) -> None:
    data = guest("rust-wasip2")
    try:
        call = desk.runtime.prepare("real", data).execute({"op": "random"}).call_id
    except ToolError as error:
        call = error.call_id or ""
    assert desk.dry.prepare("real", data).replay(desk.recording(call)).same
