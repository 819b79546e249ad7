"""A private desktop: an X server without a screen, and a bus with a notification service."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.agent.first_party.web import Web, serve_web
from wasmrt.agent.builtin.desktop import desktop_tool
from wasmrt.egress.gateway import EgressGateway
from wasmrt.runtime.config_extensions import DesktopSettings
from wasmrt.runtime.context import ToolContext

SERVICE = Path(__file__).with_name("notification_service.py")
SESSION = ("DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "XAUTHORITY")
Call = Callable[..., object]


@pytest.fixture(autouse=True)
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prevent tests from using the desktop session of the user who runs them."""
    for name in SESSION:
        monkeypatch.delenv(name, raising=False)


@contextmanager
def x_server() -> Iterator[str]:
    """Run an X server without a screen, and yield its display."""
    if shutil.which("Xvfb") is None:
        pytest.skip("no Xvfb here")
    read, write = os.pipe()
    process = subprocess.Popen(
        ["Xvfb", "-displayfd", str(write), "-screen", "0", "320x200x24", "-nolisten", "tcp"],
        pass_fds=[write], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        os.close(write)
        with os.fdopen(read) as pipe:
            yield f":{pipe.readline().strip()}"
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="package")
def screen() -> Iterator[str]:
    with x_server() as display:
        yield display


@pytest.fixture
def desktop(screen: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("DISPLAY", screen)
    return screen


@pytest.fixture
def bus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Run a private bus, and yield its address."""
    if shutil.which("dbus-daemon") is None or shutil.which("notify-send") is None:
        pytest.skip("dbus-daemon or notify-send is not installed")
    process = subprocess.Popen(
        ["dbus-daemon", "--session", "--nofork", "--nopidfile", "--print-address=1",
         f"--address=unix:path={tmp_path}/bus"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", address)
    yield address
    process.terminate()
    process.wait()
    process.stdout.close()


@pytest.fixture
def shown(bus: str, tmp_path: Path) -> Iterator[Path]:
    """Run a notification service on the bus, and yield the file to which it writes notifications."""
    log = tmp_path / "shown"
    process = subprocess.Popen([sys.executable, SERVICE, bus.partition(",")[0].removeprefix("unix:path="), log],
                               stdout=subprocess.PIPE, text=True)  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield log
    process.terminate()
    process.wait()
    process.stdout.close()


@pytest.fixture
def applications(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a private folder of desktop entries."""
    folder = tmp_path / "share/applications"
    folder.mkdir(parents=True)
    monkeypatch.setenv("XDG_DATA_DIRS", str(tmp_path / "share"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "nothing"))
    return folder


@pytest.fixture(scope="package")
def whole_web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with serve_web(tmp_path_factory.mktemp("web")) as web:
        yield web


@pytest.fixture
def web(whole_web: Web) -> Web:
    whole_web.clear()
    return whole_web


def call(name: str, settings: DesktopSettings | None = None, /, **params: object) -> dict[str, object]:
    """Call a tool without a registry."""
    tool = desktop_tool(name, settings or DesktopSettings(tools=(name,)), EgressGateway)
    result = tool.execute(params, ToolContext()).result
    assert isinstance(result, dict)
    return result
