"""Every guest that the toolchains of this machine can build runs, and says the same through every import."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.sandbox.guests.build import GUESTS
from wasmrt.capabilities import Capabilities
from wasmrt.core.errors import GuestError, LimitError, ToolError, TrapError
from wasmrt.core.limits import MIB
from wasmrt.runtime.config import WasmRuntimeConfig
from wasmrt.runtime.prepared import PreparedTool
from wasmrt.runtime.runtime import WasmToolRuntime
from wasmrt.sandbox.guest.settings import OptLevel

pytestmark = pytest.mark.usefixtures("unmeasured")
OTHERS = {"echo-wat", "counter-wat", "host-wat", "rust-tool", "rust-wasip2"}
OTHERS |= {"rust-http", "python-http", "starlingmonkey-fetch"}  # test_wasi_http.py runs them
OTHERS |= {"rust-handler", "tinygo-wasip2"}  # test_http_handlers.py and test_go_modules.py run them
SAME = [name for name in GUESTS if name not in OTHERS]
GRANT = Capabilities.none().with_workspace_read(["shared/"]).with_secrets(["known"]).with_tool_invoke({"other": "echo"})

Prepare = Callable[[str], PreparedTool]


@pytest.fixture(scope="module")
def prepared(guest: Callable[[str], bytes], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prepare]:
    # One runtime for all: a Python guest takes seconds to compile.
    workspace = tmp_path_factory.mktemp("workspace")
    (workspace / "shared").mkdir()
    (workspace / "shared/note.txt").write_text('a "quoted" note')
    (workspace / "shared/data.json").write_text("[1]")
    config = WasmRuntimeConfig(workspace=workspace, cache_compiled=False, optimization_level=OptLevel.NONE)
    tools: dict[str, PreparedTool] = {}
    with WasmToolRuntime(config) as runtime:

        def prepare(name: str) -> PreparedTool:
            if name not in tools:
                data = guest(name)
                if "echo" not in tools:
                    tools["echo"] = runtime.prepare("echo", guest("echo-wat"))
                tools[name] = runtime.prepare(name.replace(".", "-"), data, capabilities=GRANT)
            return tools[name]

        yield prepare


@pytest.mark.parametrize("name", SAME)
def test_a_guest_uses_every_import(prepared: Prepare, name: str) -> None:
    tool = prepared(name)
    assert tool.execute({"message": "hi"}).result == {"message": "hi"}
    assert tool.execute({"op": "now"}).result["now"] > 1_700_000_000_000
    assert tool.execute({"op": "workspace", "arg": "shared/note.txt"}).result == {"text": 'a "quoted" note'}
    assert tool.execute({"op": "workspace", "arg": "other/note.txt"}).result == {"text": None}
    assert tool.execute({"op": "invoke", "arg": "other"}).result == {}
    assert tool.execute({"op": "secret", "arg": "known"}).result is False
    logged = tool.execute({"op": "log", "arg": "over here"})
    assert [(str(entry.level), entry.message) for entry in logged.logs] == [
        (level, "over here") for level in ("trace", "debug", "info", "warn", "error")
    ]


@pytest.mark.parametrize("name", SAME)
def test_a_guest_gets_the_reason_of_a_denied_request(prepared: Prepare, name: str) -> None:
    with pytest.raises(GuestError, match=r"example\.com"):
        prepared(name).execute({"op": "http", "arg": "https://example.com/"})


@pytest.mark.parametrize("name", SAME)
def test_a_guest_keeps_no_state_between_calls(prepared: Prepare, name: str) -> None:
    tool = prepared(name)
    assert [tool.execute({"op": "count"}).result for _ in range(3)] == [1, 1, 1]


@pytest.mark.parametrize("name", SAME)
def test_the_message_of_a_guest_failure_is_returned(prepared: Prepare, name: str) -> None:
    with pytest.raises(GuestError, match="no such luck"):
        prepared(name).execute({"op": "fail", "arg": "no such luck"})


@pytest.mark.parametrize("op", ["spin", "grow", "recurse"])
@pytest.mark.parametrize("name", SAME)
def test_a_guest_with_unbounded_use_is_stopped(prepared: Prepare, name: str, op: str) -> None:
    # Interpreters notice a full memory or stack themselves and say so as a failure: that is an end as well.
    with pytest.raises((LimitError, TrapError, GuestError)):
        prepared(name).execute({"op": op})


@pytest.mark.parametrize("name", SAME)
def test_results_that_are_not_json_or_too_large_are_refused(prepared: Prepare, name: str) -> None:
    for params in ({"op": "invalid"}, {"op": "big", "arg": str(5 * MIB)}):
        with pytest.raises(ToolError):
            prepared(name).execute(params)


def test_the_smallest_guests_work(prepared: Prepare) -> None:
    assert prepared("counter-wat").execute({}).result == 2
    host = prepared("host-wat").execute({})
    assert (host.result, host.logs[0].message) == ([1], "{}")


def test_one_component_offers_several_tools_with_typed_failures(prepared: Prepare) -> None:
    suite = prepared("rust-tool")
    assert len(suite.tools) == 10
    assert suite.tool("read-file").execute({"path": "shared/note.txt"}).result == 'a "quoted" note'
    listed = suite.tool("list-files").execute({"path": "shared/"}).result
    assert {(entry["name"], entry["kind"]) for entry in listed} == {("note.txt", "file"), ("data.json", "file")}
    assert suite.tool("has-secret").execute({"name": "known"}).result is False
    assert suite.tool("invoke").execute({"alias": "other", "params": {"a": 1}}).result == {"a": 1}
    clocks = suite.tool("clock").execute({}).result
    assert clocks["now"] > 1_700_000_000_000
    assert clocks["monotonic"] >= 0
    with pytest.raises(GuestError, match="try again later"):
        suite.tool("fail").execute({"kind": "client", "code": "busy", "message": "try again later"})
    with pytest.raises(ToolError, match=r"example\.com"):
        suite.tool("fetch").execute({"url": "https://example.com/"})


def test_progress_reaches_the_caller_in_order(prepared: Prepare) -> None:
    seen: list[tuple[int, int | None, str | None]] = []
    tool = prepared("rust-tool").tool("progress")
    tool.execute({}, on_progress=lambda done, total, message: seen.append((done, total, message)))
    assert seen == [(1, None, None), (2, 3, "two of three"), (3, 3, "")]


@pytest.mark.parametrize(
    ("op", "arg"),
    [
        ("read", "/etc/passwd"),
        ("write", "/tmp/x"),
        ("list", "/"),
        ("connect", "127.0.0.1:1"),
        ("listen", "127.0.0.1:0"),
        ("udp", "127.0.0.1:0"),
        ("resolve", "example.com:80"),
    ],
)
def test_standard_library_calls_without_a_grant_are_refused(prepared: Prepare, op: str, arg: str) -> None:
    with pytest.raises(ToolError):
        prepared("rust-wasip2").execute({"op": op, "arg": arg})


def test_a_standard_library_gets_only_clock_and_randomness(prepared: Prepare) -> None:
    tool = prepared("rust-wasip2")
    assert tool.execute({"op": "clock"}).result["unix_millis"] > 1_700_000_000_000
    assert tool.execute({"op": "sleep", "arg": "5"}).result["slept_millis"] >= 5
    assert tool.execute({"op": "env"}).result == {}
    assert tool.execute({"op": "args"}).result == []
    assert tool.execute({"op": "stdin"}).result == ""
    assert sorted(tool.execute({"op": "random"}).result) == list(range(64))
    printed = tool.execute({"op": "print", "arg": "out and err"})
    assert [entry.message for entry in printed.logs] == ["out and err", "out and err"]


def test_a_crash_message_contains_no_secret(prepared: Prepare) -> None:
    token = "ghp_" + "k3Jd8sQmZ1xPv7Lr" + "Tn0WbY5cHfG2uA9eRoXi"
    with pytest.raises(TrapError) as caught:
        prepared("rust-wasip2").execute({"op": "panic", "arg": f"seven is not even {token}"})
    assert "last output: thread" in caught.value.message
    assert "seven is not even" in caught.value.message
    assert "RUST_BACKTRACE" not in caught.value.message
    assert token not in caught.value.message
