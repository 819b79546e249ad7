"""Windows, screenshots, mouse and keyboard, with a program that prints its input on a private X server."""

from __future__ import annotations

import base64
import json
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from tests.agent.desktop.conftest import call, x_server
from wasmrt import CallbackApprover, ToolRegistry
from wasmrt.agent.builtin.desktop import desktop_problem, desktop_tool
from wasmrt.core.errors import InvalidParametersError, NotAuthorizedError, ToolError
from wasmrt.core.limits import MAX_TYPED_CHARS
from wasmrt.egress.gateway import EgressGateway
from wasmrt.runtime.config_extensions import DesktopSettings
from wasmrt.runtime.context import ToolContext

CONTROL = ("windows.focus", "keyboard.type", "keyboard.press", "mouse.move", "mouse.click", "mouse.drag")


class Windows:
    """A running program with the windows `notes` (at 10, 20) and `terminal` (at 160, 20) of 140 x 100 pixels."""

    def __init__(self, lines: IO[str], ids: dict[str, str]) -> None:
        self._lines = lines
        self.notes, self.terminal = (f"{int(number):#x}" for number in sorted(ids, key=int))

    def input(self, count: int) -> list[dict[str, Any]]:
        """Return the next lines of input."""
        return [json.loads(self._lines.readline()) for _ in range(count)]


def opened(*arguments: str) -> Iterator[Windows]:
    program = Path(__file__).with_name("window_program.py")
    process = subprocess.Popen([sys.executable, program, *arguments], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield Windows(process.stdout, json.loads(process.stdout.readline())["ready"])
    process.terminate()
    process.wait()
    process.stdout.close()


@pytest.fixture
def windows(desktop: str) -> Iterator[Windows]:
    yield from opened()


@pytest.fixture
def managed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Windows]:
    """Run the program as the window manager of a new display."""
    with x_server() as screen:
        monkeypatch.setenv("DISPLAY", screen)
        yield from opened("manage")


class Approval:
    """A registry with the desktop tools, and the previews that its approver got."""

    def __init__(self, approve: bool = True) -> None:
        self.shown: list[str] = []

        def ask(request: Any) -> bool:
            self.shown.append(request.preview)
            return approve

        self.registry = ToolRegistry(approver=CallbackApprover(ask))
        for name in (*CONTROL, "mouse.scroll", "windows.list", "screen.capture"):
            self.registry.register(desktop_tool(name, DesktopSettings(), EgressGateway), builtin=True)

    def __call__(self, name: str, **params: object) -> Any:
        return self.registry.execute(name, params).result


@pytest.fixture
def approved() -> Iterator[Approval]:
    approval = Approval()
    with approval.registry:
        yield approval


def keys(lines: list[dict[str, Any]]) -> str:
    return "".join(line["key"] for line in lines)


# -- reading -----------------------------------------------------------------------------------------------------------


def test_windows_are_listed_with_titles_and_positions(windows: Windows) -> None:
    found = call("windows.list")
    assert found["screen"] == {"width": 320, "height": 200}
    notes = {"window": windows.notes, "title": "Notes – Grüße", "application": "Notes", "x": 10, "y": 20}
    assert notes | {"width": 140, "height": 100, "focused": False} in found["windows"]  # type: ignore[operator]


def pixels(block: dict[str, str]) -> tuple[int, int, bytes]:
    data = base64.b64decode(block["data"])
    width, height = struct.unpack(">II", data[16:24])
    start = data.index(b"IDAT")
    return width, height, zlib.decompress(data[start + 4 :])


def test_screenshot_of_a_window_is_an_image_of_its_part_of_the_screen(windows: Windows) -> None:
    text, image = call("screen.capture", None, window=windows.notes)["content"]  # type: ignore[misc]
    assert text["text"] == "a part of the screen of 140 x 100 pixels at 10, 20" and image["mimeType"] == "image/png"
    width, height, rows = pixels(image)
    assert (width, height) == (140, 100) and rows == (b"\0" + b"\x33\x66\x99" * 140) * 100


@pytest.mark.ci("slow")
def test_screenshot_is_reduced_to_the_limits(windows: Windows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wasmrt.agent.builtin.desktop._screen.MAX_SCREENSHOT_PIXELS", 20_000)
    text, image = call("screen.capture")["content"]  # type: ignore[misc]
    assert pixels(image)[:2] == (160, 100) and "multiply coordinates in the image by 2" in text["text"]


def test_screen_is_private_and_untrusted_and_always_requires_approval(windows: Windows, approved: Approval) -> None:
    trace = approved.registry.trace("t")
    approved.registry.execute("screen.capture", {}, trace="t")
    assert {"private", "untrusted"} <= set(map(str, trace.labels))
    assert len(approved.shown) == 1
    assert approved.registry.read_only().tool_names() == []


# -- keyboard ----------------------------------------------------------------------------------------------------------


def test_text_is_typed_into_the_named_window_after_the_approver_saw_both(windows: Windows, approved: Approval) -> None:
    text = "ls -l 'Ä 世'\n"
    approved("keyboard.type", window=windows.terminal, text=text)
    lines = windows.input(len(text))
    assert keys(lines[:-1]) == text[:-1] and {line["at"] for line in lines} == {"terminal"}
    assert lines[-1]["key"] in ("Return", "\r")
    (shown,) = approved.shown
    assert (
        f'window {windows.terminal} "Terminal" of Terminal' in shown and json.dumps(text, ensure_ascii=False) in shown
    )


@pytest.mark.ci("slow")
def test_window_manager_focuses_the_window(managed: Windows, approved: Approval) -> None:
    approved("windows.focus", window=managed.notes)
    (focused,) = (row["window"] for row in approved("windows.list")["windows"] if row["focused"])
    assert focused == managed.notes
    approved("keyboard.type", window=managed.terminal, text="x")
    assert managed.input(1)[0]["at"] == "terminal"


@pytest.mark.ci("slow")
def test_keys_are_pressed_together(windows: Windows, approved: Approval) -> None:
    approved("keyboard.press", window=windows.notes, keys="ctrl+a", count=2)
    lines = [line for line in windows.input(4) if line["key"] == "a"]
    assert [(line["at"], line["control"]) for line in lines] == [("notes", True)] * 2
    assert "Press Control_L + a 2 times in window" in approved.shown[0]


@pytest.mark.parametrize(
    ("pressed", "said"),
    [("ctlr+a", "expected a modifier, got 'ctlr'"), ("ctrl+", "expected a key"), ("pagedwn", "expected a key"),
     ("ctrl+control+a", "a modifier twice"), ("a+b", "expected a modifier, got 'a'")],
)  # fmt: skip
def test_unknown_keys_are_refused_without_input(pressed: str, said: str) -> None:
    with pytest.raises(InvalidParametersError, match=said):
        call("keyboard.press", None, window="0x1", keys=pressed)


@pytest.mark.parametrize("text", ["\x1b[A", "\x03", "\x7f", "\x9b", "x" * (MAX_TYPED_CHARS + 1), ""])
def test_control_characters_and_long_texts_are_not_typed(text: str) -> None:
    with pytest.raises(InvalidParametersError):
        call("keyboard.type", None, window="0x1", text=text)


# -- mouse -------------------------------------------------------------------------------------------------------------


@pytest.mark.ci("slow")
def test_mouse_clicks_drags_and_scrolls_at_points_of_the_window(windows: Windows, approved: Approval) -> None:
    at = {"window": windows.notes, "x": 5, "y": 6}
    approved("mouse.click", **at, button="right", count=2)
    approved("mouse.scroll", **at, direction="down", count=3)
    approved("mouse.drag", **at, to_x=100, to_y=90)
    lines = windows.input(4 + 6 + 2)
    assert [line["button"] for line in lines] == [3] * 4 + [5] * 6 + [1] * 2
    assert [(line["at"], line["x"], line["y"]) for line in lines[:-1]] == [("notes", 5, 6)] * 11
    assert lines[-1] | {"kind": "up", "x": 100, "y": 90} == lines[-1]
    assert "Click the right button 2 times at 15, 26 in window" in approved.shown[0]
    assert all('"Notes – Grüße"' in shown for shown in approved.shown)


@pytest.mark.ci("slow")
def test_point_of_the_screen_is_shown_with_its_window(windows: Windows, approved: Approval) -> None:
    approved("mouse.click", x=170, y=30)
    assert windows.input(2)[0]["at"] == "terminal"
    approved("mouse.move", x=5, y=190)
    assert '"Terminal"' in approved.shown[0] and "outside of all windows" in approved.shown[1]


@pytest.mark.ci("slow")
def test_points_outside_of_window_or_limit_are_refused(windows: Windows) -> None:
    for x, y in ((140, 5), (5, 100), (-1, 5), (40_000, 5)):
        with pytest.raises(InvalidParametersError):
            call("mouse.click", None, window=windows.notes, x=x, y=y)


# -- approval ----------------------------------------------------------------------------------------------------------


@pytest.mark.ci("slow")
def test_denied_input_is_not_sent(windows: Windows) -> None:
    denied = Approval(approve=False)
    with denied.registry:
        for name, params in (
            ("keyboard.type", {"window": windows.notes, "text": "no"}), ("mouse.click", {"x": 20, "y": 30}),
        ):  # fmt: skip
            with pytest.raises(NotAuthorizedError):
                denied(name, **params)
    call_approved = Approval()
    with call_approved.registry:
        call_approved("keyboard.type", window=windows.notes, text="y")
    assert windows.input(1)[0]["key"] == "y"


def test_input_is_refused_if_the_window_changed_since_the_approval(windows: Windows) -> None:
    def rename(_: object) -> bool:
        subprocess.run(["xprop", "-id", windows.notes, "-f", "_NET_WM_NAME", "8u", "-set", "_NET_WM_NAME", "Bank"])
        return True

    with ToolRegistry(approver=CallbackApprover(rename)) as registry:
        registry.register(desktop_tool("keyboard.type", DesktopSettings(), EgressGateway), builtin=True)
        with pytest.raises(NotAuthorizedError, match="has changed since"):
            registry.execute("keyboard.type", {"window": windows.notes, "text": "secret"})


@pytest.mark.ci("slow")
def test_covered_window_gets_no_click(windows: Windows) -> None:
    tool = desktop_tool("mouse.click", DesktopSettings(), EgressGateway)
    assert tool.plan is not None
    plan = tool.plan({"x": 170, "y": 30})
    over = subprocess.Popen([sys.executable, Path(__file__).with_name("window_program.py")], stdout=subprocess.PIPE)
    assert over.stdout is not None and b"ready" in over.stdout.readline()
    try:
        with pytest.raises(ToolError, match="at this point, got"):
            plan.apply(ToolContext())
    finally:
        over.terminate()
        over.wait()
        over.stdout.close()


@pytest.mark.ci("slow")
def test_removed_window_is_refused_with_the_next_step(windows: Windows) -> None:
    with pytest.raises(ToolError, match="there is no window 0x1") as caught:
        call("windows.focus", None, window="0x1")
    assert "windows.list" in (caught.value.hint or "")


# -- without X11 -------------------------------------------------------------------------------------------------------


def test_wayland_session_and_missing_library_are_refused_with_the_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "desktop session" in desktop_problem("mouse.click", DesktopSettings())
    monkeypatch.setenv("DISPLAY", ":7")
    monkeypatch.setattr("wasmrt.agent.builtin.desktop._display.find_spec", lambda name: None)
    assert 'pip install "wasmrt[desktop]"' in desktop_problem("windows.list", DesktopSettings())
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    for name in CONTROL:
        assert "X11 session" in desktop_problem(name, DesktopSettings()), name


def test_unreachable_display_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", ":4711")
    with pytest.raises(ToolError, match="the display does not answer") as caught:
        call("windows.list")
    assert caught.value.code == "display"
