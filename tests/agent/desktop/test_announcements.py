"""Desktop notifications for requests that wait for an answer, which an operator can enable."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.agent.approvals.requests import request
from wasmrt import WasmRuntimeConfig, WasmToolRuntime, load_registry, tool
from wasmrt.agent import loading
from wasmrt.agent.approvals import ApprovalStore
from wasmrt.agent.builtin.desktop import _announce
from wasmrt.agent.policy import ToolPolicy
from wasmrt.core.effects import Effect

HTTP = (Effect.NETWORK, Effect.EXTERNAL_WRITE)


@pytest.fixture(autouse=True)
def no_earlier_notification(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_announce, "_next_at", 0.0)


def shown_lines(shown: Path) -> list[dict[str, Any]]:
    """Return the notifications that were shown, after all have been sent."""
    for thread in threading.enumerate():
        if thread.name == "wasmrt-notification":
            thread.join()
    return [json.loads(line) for line in shown.read_text().splitlines()] if shown.exists() else []


@tool(effects=["network", "external-write"])
def post(url: str) -> str:
    """Post to a URL."""
    return "sent"


@pytest.mark.parametrize(("setting", "count"), [("notify = true", 1), ("", 0)])
def test_a_waiting_request_is_announced_if_the_operator_enabled_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown: Path, setting: str, count: int
) -> None:
    monkeypatch.setenv("WASMRT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(loading, "TOOLS", ())  # do not compile components
    config = tmp_path / "home/data/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'[approvals]\napprover = "queue"\n{setting}\n')
    with WasmToolRuntime(WasmRuntimeConfig.load(isolation="in-process")) as runtime, load_registry(runtime) as registry:
        registry.register(post, builtin=True)
        waiting = ApprovalStore(config.with_name("approvals.sqlite3"))

        async def call_until_the_request_waits() -> None:
            call = asyncio.ensure_future(registry.aexecute("post", {"url": "https://hooks.example.com/x"}))
            while not waiting.pending():
                await asyncio.sleep(0.001)
            call.cancel()
            await asyncio.wait({call})

        asyncio.run(call_until_the_request_waits())
    lines = shown_lines(shown)
    assert len(lines) == count
    for line in lines:
        assert (line["app"], line["title"]) == ("wasmrt", "A request waits for your answer")
        assert line["body"] == "Send data to hooks.example.com\nTo answer: wasmrt approvals --web"


def store(tmp_path: Path) -> ApprovalStore:
    return ApprovalStore(tmp_path / "approvals.sqlite3", announce=loading.make_announcer(ToolPolicy(notify=True)))


def test_untrusted_text_in_a_notification_is_not_markup(tmp_path: Path, shown: Path) -> None:
    store(tmp_path).add(request(tool="<b>safe</b>\x1b]8;;x", effects=()))
    (line,) = shown_lines(shown)
    assert "&lt;b&gt;safe&lt;/b&gt;" in line["body"] and "<b>" not in line["body"] and "\x1b" not in line["body"]


def test_requests_in_quick_succession_show_one_notification(tmp_path: Path, shown: Path) -> None:
    opened = store(tmp_path)
    for _ in range(5):
        opened.add(request(effects=HTTP))
    assert len(shown_lines(shown)) == 1
    assert len(opened.pending()) == 5


def test_a_request_waits_although_no_notification_can_be_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    opened = store(tmp_path)
    opened.add(request())
    shown_lines(tmp_path / "none")
    assert len(opened.pending()) == 1
    assert "no notification about a request: there is no desktop session" in caplog.text
