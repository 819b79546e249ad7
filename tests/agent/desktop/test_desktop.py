"""Clipboard, notifications and applications, with real programs on a desktop of the test's own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.agent.desktop.conftest import call, x_server
from tests.runtime.call.conftest import until
from wasmrt import CallbackApprover, ToolRegistry, WasmRuntimeConfig, WasmToolRuntime, load_registry
from wasmrt.agent.builtin.desktop import _programs, desktop_problem, desktop_tool
from wasmrt.agent.config import read_config_file
from wasmrt.agent.registry import _load
from wasmrt.catalog.bundled import DESKTOP_NAMES
from wasmrt.cli import cli
from wasmrt.core.errors import (
    ConfigFileError,
    DeadlineExceededError,
    InvalidParametersError,
    NotAuthorizedError,
    OutputLimitError,
    ToolError,
)
from wasmrt.core.limits import MAX_CLIPBOARD_BYTES
from wasmrt.core.traits import Confirmation, Risk
from wasmrt.egress.gateway import EgressGateway
from wasmrt.runtime.config_extensions import DesktopSettings

needs_xclip = pytest.mark.skipif(shutil.which("xclip") is None, reason="no xclip here")
ENTRY = "[Desktop Entry]\nType=Application\nName=Paint\nExec={}\n"


def refusal(name: str, settings: DesktopSettings | None = None, /, **params: object) -> ToolError:
    with pytest.raises(ToolError) as caught:
        call(name, settings, **params)
    return caught.value


def ended(pid: int) -> bool:
    """Tell whether a process was killed; whoever has to may not have waited for it yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


# -- the clipboard -----------------------------------------------------------------------------------------------------


@needs_xclip
def test_a_text_comes_back_from_the_clipboard_as_it_was_written(desktop: str) -> None:
    for text in ("Grüße, 世界\n\ttwo", "second", "x" * 100_000):
        assert call("clipboard.write", text=text) == {"written": len(text)}
        assert call("clipboard.read") == {"text": text}


@needs_xclip
def test_an_empty_clipboard_is_an_empty_text(monkeypatch: pytest.MonkeyPatch) -> None:
    with x_server() as screen:
        monkeypatch.setenv("DISPLAY", screen)
        assert call("clipboard.read") == {"text": ""}


@needs_xclip
def test_more_than_the_bound_is_refused_and_not_cut(desktop: str) -> None:
    large = b"x" * (MAX_CLIPBOARD_BYTES + 1)
    assert _programs.hand_over(["/usr/bin/xclip", "-selection", "clipboard"], large) == 0
    with pytest.raises(OutputLimitError):
        call("clipboard.read")
    with pytest.raises(InvalidParametersError):
        call("clipboard.write", text=large.decode())
    call("clipboard.write", text="small")


@pytest.mark.parametrize("text", ["rm -rf ~\x1b[201~\r", "a\0b", "\x9b31m", "\x7f", "a\rb"])
def test_what_would_type_into_a_terminal_is_not_put_into_the_clipboard(text: str) -> None:
    with pytest.raises(InvalidParametersError, match="control characters"):
        call("clipboard.write", text=text)


def test_a_program_that_hangs_is_ended_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, number = tmp_path / "xclip", tmp_path / "number"
    program.write_text(f"#!/bin/sh\nsleep 600 &\necho $! > {number}\nwait\n")
    program.chmod(0o755)
    monkeypatch.setattr(_programs, "PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(_programs, "SECONDS", 0.5)
    monkeypatch.setenv("DISPLAY", ":7")
    with pytest.raises(DeadlineExceededError):
        call("clipboard.write", text="x")
    until(lambda: ended(int(number.read_text())))  # the signal is sent; the system ends it when it comes to it
    with pytest.raises(DeadlineExceededError):
        call("clipboard.read")


def test_a_program_has_nothing_of_this_processs_environment_but_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "xclip"
    program.write_text("#!/bin/sh\nenv\n")
    program.chmod(0o755)
    monkeypatch.setattr(_programs, "PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("DISPLAY", ":7")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-this-process")
    monkeypatch.setenv("LD_PRELOAD", "")
    text = str(call("clipboard.read")["text"])
    assert "DISPLAY=:7" in text and "OPENAI_API_KEY" not in text and "LD_PRELOAD" not in text


# -- notifications -----------------------------------------------------------------------------------------------------


def test_a_notification_is_shown_as_the_agents_without_markup(shown: Path) -> None:
    body = "see <a href='https://evil.example'>here</a> & \x1b]8;;x\x07\nsecond"
    assert call("notify.send", title="--replace-id=1 done", body=body) == {"shown": True}
    (line,) = map(json.loads, shown.read_text().splitlines())
    assert line["app"] == "wasmrt: your agent" and line["title"] == "--replace-id=1 done"
    assert "<a" not in line["body"] and "&lt;a href" in line["body"] and "&amp;" in line["body"]
    assert "\x1b" not in line["body"] and line["body"].endswith("\nsecond")


def test_without_a_service_the_error_says_what_to_start(bus: str) -> None:
    error = refusal("notify.send", title="done")
    assert error.code == "notification" and "notification service" in (error.hint or "")


# -- applications ------------------------------------------------------------------------------------------------------


@pytest.fixture
def paint(tmp_path: Path) -> Path:
    """An application that writes down its arguments and environment."""
    program = tmp_path / "paint it"
    program.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" > {tmp_path}/args.new\nenv >> {tmp_path}/args.new\n"
                       f"mv {tmp_path}/args.new {tmp_path}/args\n")  # fmt: skip
    program.chmod(0o755)
    return program


def test_an_application_that_the_operator_allows_is_opened_by_its_entry(
    applications: Path, paint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISPLAY", ":7")
    monkeypatch.setenv("MY_TOKEN", "t")
    (applications / "org.example.Paint.desktop").write_text(
        ENTRY.format(f'"{paint}" --name %c "a \\\\$HOME; rm -rf /" %U 100%%')
    )
    settings = DesktopSettings(applications=("org.example.Paint",))
    assert call("apps.open", settings, app="org.example.Paint") == {"opened": "org.example.Paint", "name": "Paint"}
    for _ in range(100_000):
        if (tmp_path / "args").exists():
            break
    args = (tmp_path / "args").read_text()
    assert args.startswith("--name\nPaint\na $HOME; rm -rf /\n100%\n"), "no shell has read it"
    assert "MY_TOKEN" not in args


def test_what_the_operator_did_not_allow_is_refused_with_the_line_that_would_allow_it(applications: Path) -> None:
    (applications / "other.desktop").write_text(ENTRY.format("true"))
    for app in ("other", "../other", "/usr/bin/true"):
        error = refusal("apps.open", DesktopSettings(applications=("paint",)), app=app)
        assert isinstance(error, NotAuthorizedError) and "applications in [desktop]" in (error.hint or "")
        assert error.hint not in error.message, "it is told once"


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (ENTRY.format("no-such-program-here"), "is not in"),
        (ENTRY.format("sh -c 'rm -rf /'"), "not well-formed"),
        (ENTRY.format("true; rm -rf /"), "not well-formed"),
        (ENTRY.format("true") + "Terminal=true\n", "terminal"),
        (ENTRY.format("true") + "Hidden=true\n", "none of an application"),
        ("[Desktop Entry]\nType=Link\nURL=file:///etc/passwd\n", "none of an application"),
        ("nothing", "cannot be read"),
        (ENTRY.format("false"), "exit code 1"),
    ],
)
def test_an_entry_that_is_of_no_use_is_told(
    applications: Path, monkeypatch: pytest.MonkeyPatch, entry: str, said: str
) -> None:
    monkeypatch.setenv("DISPLAY", ":7")
    (applications / "x.desktop").write_text(entry)
    assert said in refusal("apps.open", DesktopSettings(applications=("x",)), app="x").message


# -- without a desktop -------------------------------------------------------------------------------------------------


def test_a_machine_without_a_desktop_refuses_with_the_next_step(applications: Path) -> None:
    (applications / "x.desktop").write_text(ENTRY.format("true"))
    settings = DesktopSettings(applications=("x",))
    for name, params in (
        ("clipboard.read", {}), ("clipboard.write", {"text": "x"}), ("notify.send", {"title": "x"}),
        ("apps.open", {"app": "x"}),
    ):  # fmt: skip
        error = refusal(name, settings, **params)
        assert error.code == "no-desktop" and "desktop session" in (error.hint or ""), name


def test_a_desktop_without_the_program_names_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_programs, "PATH", str(tmp_path))
    for variable, package in (("DISPLAY", "xclip or xsel"), ("WAYLAND_DISPLAY", "wl-clipboard")):
        monkeypatch.setenv(variable, "x")
        assert package in (refusal("clipboard.read").hint or "")
    assert "wl-clipboard" in desktop_problem("clipboard.read", DesktopSettings())
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere")
    assert "libnotify" in (refusal("notify.send", title="x").hint or "")


# -- who is asked ------------------------------------------------------------------------------------------------------


def test_risk_and_confirmation_follow_from_what_each_does() -> None:
    found = {name: desktop_tool(name, DesktopSettings(), EgressGateway).traits for name in DESKTOP_NAMES}
    assert {name: (traits.risk(), traits.confirmation()) for name, traits in found.items()} == {
        "clipboard.read": (Risk.HIGH, Confirmation.ALWAYS),
        "clipboard.write": (Risk.MEDIUM, Confirmation.IF_DESTRUCTIVE),
        "notify.send": (Risk.LOW, Confirmation.NEVER),
        "apps.open": (Risk.HIGH, Confirmation.ALWAYS),
        "browser.open_url": (Risk.HIGH, Confirmation.ALWAYS),
    }
    assert not any(traits.read_only for traits in found.values())


@needs_xclip
def test_a_registry_asks_a_person_before_the_clipboard_is_read_or_written(desktop: str) -> None:
    asked: list[str] = []

    def ask(request: object) -> bool:
        asked.append(request.tool)  # type: ignore[attr-defined]
        return True

    with ToolRegistry(approver=CallbackApprover(ask)) as registry:
        for name in ("clipboard.read", "clipboard.write"):
            registry.register(desktop_tool(name, DesktopSettings(), EgressGateway), builtin=True)
        trace = registry.trace("t")
        registry.execute("clipboard.write", {"text": "from the agent"}, trace="t")
        assert registry.execute("clipboard.read", {}, trace="t").result == {"text": "from the agent"}
        assert asked == ["clipboard.write", "clipboard.read"]
        assert {"private", "untrusted"} <= set(map(str, trace.labels)), "whoever copied it"
        assert registry.read_only().tool_names() == []


def wasmrt(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(cli, arguments, prog_name="wasmrt")
    assert result.exit_code == code, f"exit code {result.exit_code}: {result.stderr or result.exception!r}"
    return result


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WASMRT_HOME", str(tmp_path / "home"))
    (tmp_path / "home/data").mkdir(parents=True)
    return tmp_path / "home/data/config.toml"


def test_each_is_off_until_the_operator_turns_it_on_and_shown_as_such(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_load, "TOOLS", ())  # components, which would be compiled
    for name in DESKTOP_NAMES:
        step = f'tools = ["{name}"] in [desktop]'
        assert step in wasmrt("run", name, "{}", code=2).stderr
    assert "off: the section [desktop]" in wasmrt("doctor").stdout
    with WasmToolRuntime(WasmRuntimeConfig.load(isolation="in-process")) as runtime, load_registry(runtime) as registry:
        assert not set(DESKTOP_NAMES) & set(registry.all_names())
        with pytest.raises(ToolError) as caught:
            registry.execute("notify.send", {"title": "x"})
        assert 'tools = ["notify.send"] in [desktop]' in (caught.value.hint or "")
    home.write_text('[desktop]\ntools = ["notify.send"]\n')
    with WasmToolRuntime(WasmRuntimeConfig.load(isolation="in-process")) as runtime, load_registry(runtime) as registry:
        assert set(DESKTOP_NAMES) & set(registry.all_names()) == {"notify.send"}
    assert "notify.send: there is no desktop session here" in wasmrt("doctor").stdout


def test_the_command_runs_one_that_is_on(home: Path, shown: Path) -> None:
    home.write_text('[desktop]\ntools = ["notify.send"]\n')
    assert json.loads(wasmrt("run", "notify.send", '{"title": "done"}').stdout) == {"shown": True}
    assert json.loads(shown.read_text())["title"] == "done"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('tools = ["notify.sent"]', "did you mean notify.send"), ('tools = "notify.send"', "list of texts"),
        ('applications = ["a b"]', "not an application ID"), ('hosts = ["*"]', "hosts"), ("browser = 1", "a path"),
        ("screen = true", "screen"),
    ],
)  # fmt: skip
def test_the_section_is_strict(home: Path, text: str, said: str) -> None:
    home.write_text(f"[desktop]\n{text}\n")
    with pytest.raises(ConfigFileError) as caught:
        read_config_file(home)
    assert said in f"{caught.value.problems} {caught.value.hint} {caught.value.message}"
