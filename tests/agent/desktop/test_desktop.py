"""Clipboard, notifications and applications, with real programs on a private desktop."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.agent.desktop.conftest import call, x_server
from tests.runtime.call.conftest import until
from wasmrt import CallbackApprover, ToolRegistry, WasmRuntimeConfig, WasmToolRuntime, load_registry
from wasmrt.agent import loading
from wasmrt.agent.builtin.desktop import _clipboard, _programs, desktop_problem, desktop_tool
from wasmrt.agent.config import read_config_file
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

needs_xclip = pytest.mark.skipif(shutil.which("xclip") is None, reason="xclip is not installed")
ENTRY = "[Desktop Entry]\nType=Application\nName=Paint\nExec={}\n"


def refusal(name: str, settings: DesktopSettings | None = None, /, **params: object) -> ToolError:
    with pytest.raises(ToolError) as caught:
        call(name, settings, **params)
    return caught.value


def fake_xclip(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Make the clipboard tools use a shell script instead of xclip."""
    program = folder / "xclip"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(_programs, "PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setenv("DISPLAY", ":7")


def ended(pid: int) -> bool:
    """Return whether a process has exited; it may not have been reaped yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


# -- the clipboard -----------------------------------------------------------------------------------------------------


@needs_xclip
def test_clipboard_text_round_trips(desktop: str) -> None:
    for text in ("Grüße, 世界\n\ttwo", "second", "x" * 100_000):
        assert call("clipboard.write", text=text) == {"written": len(text)}
        assert call("clipboard.read") == {"text": text}


def test_write_returns_after_the_text_can_be_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = tmp_path / "held"
    held.write_text("old")
    write = f"cat > {held}.new; (sleep 0.5; mv {held}.new {held}) > /dev/null 2>&1 &"
    fake_xclip(tmp_path, monkeypatch, f'case "$*" in *-out*) cat {held};; *) {write};; esac')
    call("clipboard.write", text="new")
    assert call("clipboard.read") == {"text": "new"}


def test_write_fails_if_the_text_cannot_be_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_xclip(tmp_path, monkeypatch, 'case "$*" in *-out*) echo old;; *) cat > /dev/null;; esac')
    monkeypatch.setattr(_clipboard, "_WRITE_SECONDS", 0.5)
    assert (
        "the clipboard still does not contain the text after 0.5 s: it has a different text"
        in refusal("clipboard.write", None, text="new").message
    )
    fake_xclip(tmp_path, monkeypatch, 'case "$*" in *-out*) echo broken >&2; exit 1;; *) cat > /dev/null;; esac')
    assert "broken" in refusal("clipboard.write", None, text="new").message


@needs_xclip
def test_empty_clipboard_reads_as_an_empty_string(monkeypatch: pytest.MonkeyPatch) -> None:
    with x_server() as screen:
        monkeypatch.setenv("DISPLAY", screen)
        assert call("clipboard.read") == {"text": ""}


@needs_xclip
def test_text_beyond_the_limit_is_refused_not_truncated(desktop: str) -> None:
    large = b"x" * (MAX_CLIPBOARD_BYTES + 1)
    assert _programs.start_with_input(["/usr/bin/xclip", "-selection", "clipboard"], large) == 0
    with pytest.raises(OutputLimitError):
        call("clipboard.read")
    with pytest.raises(InvalidParametersError):
        call("clipboard.write", text=large.decode())
    call("clipboard.write", text="small")


@pytest.mark.parametrize("text", ["rm -rf ~\x1b[201~\r", "a\0b", "\x9b31m", "\x7f", "a\rb"])
def test_control_characters_are_not_written_to_the_clipboard(text: str) -> None:
    with pytest.raises(InvalidParametersError, match="control characters"):
        call("clipboard.write", text=text)


def test_hanging_program_is_ended_with_all_its_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    number = tmp_path / "number"
    fake_xclip(tmp_path, monkeypatch, f"sleep 600 &\necho $! > {number}\nwait")
    monkeypatch.setattr(_programs, "SECONDS", 0.5)
    with pytest.raises(DeadlineExceededError):
        call("clipboard.write", text="x")
    until(lambda: ended(int(number.read_text())))  # the process exits some time after the signal
    with pytest.raises(DeadlineExceededError):
        call("clipboard.read")


def test_program_gets_only_the_session_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_xclip(tmp_path, monkeypatch, "env")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-this-process")
    monkeypatch.setenv("LD_PRELOAD", "")
    text = str(call("clipboard.read")["text"])
    assert "DISPLAY=:7" in text and "OPENAI_API_KEY" not in text and "LD_PRELOAD" not in text


# -- notifications -----------------------------------------------------------------------------------------------------


def test_notification_names_the_agent_and_has_no_markup(shown: Path) -> None:
    body = "see <a href='https://evil.example'>here</a> & \x1b]8;;x\x07\nsecond"
    assert call("notify.send", title="--replace-id=1 done", body=body) == {"shown": True}
    (line,) = map(json.loads, shown.read_text().splitlines())
    assert line["app"] == "wasmrt: your agent" and line["title"] == "--replace-id=1 done"
    assert "<a" not in line["body"] and "&lt;a href" in line["body"] and "&amp;" in line["body"]
    assert "\x1b" not in line["body"] and line["body"].endswith("\nsecond")


def test_missing_notification_service_error_names_a_service(bus: str) -> None:
    error = refusal("notify.send", title="done")
    assert error.code == "notification" and "notification service" in (error.hint or "")


# -- applications ------------------------------------------------------------------------------------------------------


@pytest.fixture
def paint(tmp_path: Path) -> Path:
    """Return an application that records its arguments and environment."""
    program = tmp_path / "paint it"
    program.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" > {tmp_path}/args.new\nenv >> {tmp_path}/args.new\n"
                       f"mv {tmp_path}/args.new {tmp_path}/args\n")  # fmt: skip
    program.chmod(0o755)
    return program


def test_allowed_application_is_opened_by_its_desktop_entry(
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


def test_application_that_is_not_allowed_is_refused_with_the_setting(applications: Path) -> None:
    (applications / "other.desktop").write_text(ENTRY.format("true"))
    for app in ("other", "../other", "/usr/bin/true"):
        error = refusal("apps.open", DesktopSettings(applications=("paint",)), app=app)
        assert isinstance(error, NotAuthorizedError) and "config set --append desktop.applications" in (
            error.hint or ""
        )
        assert error.hint not in error.message, "it is told once"


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (ENTRY.format("no-such-program-here"), "is not in"),
        (ENTRY.format("sh -c 'rm -rf /'"), "not well-formed"),
        (ENTRY.format("true; rm -rf /"), "not well-formed"),
        (ENTRY.format("true") + "Terminal=true\n", "terminal"),
        (ENTRY.format("true") + "Hidden=true\n", "does not describe an application"),
        ("[Desktop Entry]\nType=Link\nURL=file:///etc/passwd\n", "does not describe an application"),
        ("nothing", "cannot be read"),
        (ENTRY.format("false"), "at once with code 1"),
    ],
)
def test_unusable_desktop_entries_are_reported(
    applications: Path, monkeypatch: pytest.MonkeyPatch, entry: str, said: str
) -> None:
    monkeypatch.setenv("DISPLAY", ":7")
    (applications / "x.desktop").write_text(entry)
    assert said in refusal("apps.open", DesktopSettings(applications=("x",)), app="x").message


# -- without a desktop -------------------------------------------------------------------------------------------------


def test_missing_desktop_error_suggests_a_fix(applications: Path) -> None:
    (applications / "x.desktop").write_text(ENTRY.format("true"))
    settings = DesktopSettings(applications=("x",))
    for name, params in (
        ("clipboard.read", {}), ("clipboard.write", {"text": "x"}), ("notify.send", {"title": "x"}),
        ("apps.open", {"app": "x"}),
    ):  # fmt: skip
        error = refusal(name, settings, **params)
        assert error.code == "no-desktop" and "desktop session" in (error.hint or ""), name


def test_missing_program_error_names_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_programs, "PATH", str(tmp_path))
    for variable, package in (("DISPLAY", "xclip or xsel"), ("WAYLAND_DISPLAY", "wl-clipboard")):
        monkeypatch.setenv(variable, "x")
        assert package in (refusal("clipboard.read").hint or "")
    assert "wl-clipboard" in desktop_problem("clipboard.read", DesktopSettings())
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere")
    assert "libnotify" in (refusal("notify.send", title="x").hint or "")


# -- approval ----------------------------------------------------------------------------------------------------------


def test_risk_and_confirmation_follow_from_the_effects() -> None:
    found = {name: desktop_tool(name, DesktopSettings(), EgressGateway).traits for name in DESKTOP_NAMES}
    assert {name: (traits.risk(), traits.confirmation()) for name, traits in found.items()} == {
        "clipboard.read": (Risk.HIGH, Confirmation.ALWAYS),
        "clipboard.write": (Risk.MEDIUM, Confirmation.IF_DESTRUCTIVE),
        "notify.send": (Risk.LOW, Confirmation.NEVER),
        "apps.open": (Risk.HIGH, Confirmation.ALWAYS),
        **dict.fromkeys(DESKTOP_NAMES[4:], (Risk.HIGH, Confirmation.ALWAYS)),
    }
    assert not any(traits.read_only for traits in found.values())


@needs_xclip
def test_clipboard_access_requires_approval_or_confirmation(desktop: str) -> None:
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


def test_desktop_tools_are_disabled_by_default_and_listed_as_disabled(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "TOOLS", ())  # do not compile components
    for name in DESKTOP_NAMES:
        step = f"wasmrt config set --append desktop.tools {name}"
        assert step in wasmrt("run", name, "{}", code=2).stderr
    assert "off; to enable one: wasmrt config set --append desktop.tools NAME" in wasmrt("doctor").stdout
    with WasmToolRuntime(WasmRuntimeConfig.load(isolation="in-process")) as runtime, load_registry(runtime) as registry:
        assert not set(DESKTOP_NAMES) & set(registry.all_names())
        with pytest.raises(ToolError) as caught:
            registry.execute("notify.send", {"title": "x"})
        assert "wasmrt config set --append desktop.tools notify.send" in (caught.value.hint or "")
    home.write_text('[desktop]\ntools = ["notify.send"]\n')
    with WasmToolRuntime(WasmRuntimeConfig.load(isolation="in-process")) as runtime, load_registry(runtime) as registry:
        assert set(DESKTOP_NAMES) & set(registry.all_names()) == {"notify.send"}
    assert "notify.send: there is no desktop session" in wasmrt("doctor").stdout


def test_command_line_runs_an_enabled_desktop_tool(home: Path, shown: Path) -> None:
    home.write_text('[desktop]\ntools = ["notify.send"]\n')
    assert json.loads(wasmrt("run", "notify.send", '{"title": "done"}').stdout) == {"shown": True}
    assert json.loads(shown.read_text())["title"] == "done"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('tools = ["notify.sent"]', "did you mean notify.send"), ('tools = "notify.send"', "list of non-empty strings"),
        ('applications = ["a b"]', "must contain only application IDs"),
        ('hosts = ["*"]', "hosts"), ("browser = 1", "a path"),
        ("screen = true", "screen"),
    ],
)  # fmt: skip
def test_desktop_section_rejects_unknown_keys_and_values(home: Path, text: str, said: str) -> None:
    home.write_text(f"[desktop]\n{text}\n")
    with pytest.raises(ConfigFileError) as caught:
        read_config_file(home)
    assert said in f"{caught.value.problems} {caught.value.hint} {caught.value.message}"
