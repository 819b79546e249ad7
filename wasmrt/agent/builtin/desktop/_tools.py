"""The desktop tools, by name. `_screen.py` has the tools for the screen, `_control.py` for mouse and keyboard.

Source of the names: a tool system's specification (seed 003). Risk and confirmation follow from the effects. An
approval is required each time to read the clipboard or the screen, send input, open an application or open a page.
Writing the clipboard requires a confirmation; a notification requires neither.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from wasmrt.agent.builtin.desktop._apps import find_application, open_application
from wasmrt.agent.builtin.desktop._clipboard import find_clipboard, read_clipboard, write_clipboard
from wasmrt.agent.builtin.desktop._control import control_tool
from wasmrt.agent.builtin.desktop._display import find_display
from wasmrt.agent.builtin.desktop._programs import find_program, no_desktop_error, refusal_error, run
from wasmrt.agent.builtin.desktop._screen import screen_capture, windows_list
from wasmrt.agent.builtin.host_tool import HostTool, Params, trust_none
from wasmrt.catalog.bundled import DESKTOP_NAMES
from wasmrt.core.effects import Effect
from wasmrt.core.errors import ToolError
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import (
    MAX_CLIPBOARD_BYTES,
    MAX_NOTIFICATION_BODY_CHARS,
    MAX_NOTIFICATION_TITLE_CHARS,
    MAX_PAGE_CHARS,
    PAGE_SECONDS,
)
from wasmrt.core.model import Decision, Reason
from wasmrt.core.setting_commands import append_command
from wasmrt.core.terminal import printable
from wasmrt.core.traits import OwnTerms
from wasmrt.egress.gateway import EgressGateway
from wasmrt.runtime.config_extensions import DesktopSettings
from wasmrt.runtime.context import ToolContext

APP_NAME = "wasmrt: your agent"
URGENCIES = ("low", "normal", "critical")
_MARKUP = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_ANSWER_BYTES = 4096


def send_notification(
    title: str, body: str, urgency: str, lifetime: Lifetime | None = None, *, sender: str = APP_NAME
) -> None:
    """Show the user a notification. By default, its sender is the agent.

    Raises:
        ToolError: there is no session, no notify-send, or no notification service.
    """
    program = find_notifier()
    argv = [
        program, f"--app-name={sender}", f"--urgency={urgency}", "--",
        printable(title),
        # SECURITY: services render a subset of HTML in the body, which could contain links and images.
        "\n".join(printable(line) for line in body.split("\n")).translate(_MARKUP),
    ]  # fmt: skip
    ran = run(argv, b"", lifetime, max_bytes=_ANSWER_BYTES)
    if ran.code != 0:
        raise ToolError(
            f"the notification was not shown: {ran.stderr:.200}", code="notification",
            hint="start a notification service in this session, such as dunst",
        )  # fmt: skip


def find_notifier() -> str:
    """Return the path of notify-send.

    Raises:
        ToolError: there is no session, or no notify-send.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if not os.environ.get("DBUS_SESSION_BUS_ADDRESS") and not (runtime and Path(runtime, "bus").exists()):
        raise no_desktop_error(
            "there is no desktop session to show a notification",
            "run the agent in a desktop session: DBUS_SESSION_BUS_ADDRESS is not set",
        )
    found = find_program("notify-send")
    if found is None:
        raise no_desktop_error("this machine has no notify-send", "install libnotify-bin, or libnotify")
    return found


Gateway = Callable[[], EgressGateway]
_TEXT = {"type": "string"}
_BOTH = OwnTerms(labels=("private", "untrusted"))
"""Labels of the clipboard's text, which the user may have copied from any source."""
_UNTRUSTED = OwnTerms(labels=("untrusted",))


def desktop_tools(settings: DesktopSettings, gateway: Gateway) -> list[HostTool]:
    """Create the tools that the operator enabled. `gateway` opens a gateway for each page."""
    return [desktop_tool(name, settings, gateway) for name in DESKTOP_NAMES if name in settings.tools]


def desktop_tool(name: str, settings: DesktopSettings, gateway: Gateway) -> HostTool:
    """Create a tool by name."""
    if name in _MAKERS:
        return _MAKERS[name](settings, gateway)
    return _READERS[name]() if name in _READERS else control_tool(name)


def desktop_problem(name: str, settings: DesktopSettings) -> str:
    """Return the reason why a tool cannot run on this machine, with a fix; an empty string if the tool can run."""
    from wasmrt.agent.builtin.desktop._browser import find_browser

    try:
        if name.startswith("clipboard."):
            find_clipboard()
        elif name == "notify.send":
            find_notifier()
        elif name == "apps.open":
            for app in settings.applications:
                find_application(app)
        elif name == "browser.open_url":
            find_browser(settings.browser)
        else:
            find_display()
    except ToolError as error:
        return f"{error.message}; {error.hint}"
    return ""


def _make_clipboard_read(_: DesktopSettings, __: Gateway) -> HostTool:
    def read(params: Params, context: ToolContext) -> Any:
        return {"text": read_clipboard(context.lifetime)}

    return HostTool(
        "clipboard.read", "Read the text of the user's clipboard.", {}, read,
        effects=[Effect.READ_DESKTOP], untrusted=trust_none, own=_BOTH,
    )  # fmt: skip


def _make_clipboard_write(_: DesktopSettings, __: Gateway) -> HostTool:
    def write(params: Params, context: ToolContext) -> Any:
        write_clipboard(params["text"], context.lifetime)
        return {"written": len(params["text"])}

    return HostTool(
        "clipboard.write", "Write a text to the user's clipboard, replacing its content.",
        {"text": _TEXT | {"maxLength": MAX_CLIPBOARD_BYTES, "description": "The text."}}, write,
        required=["text"], effects=[Effect.WRITE_DESKTOP],
    )  # fmt: skip


def _notify_send(_: DesktopSettings, __: Gateway) -> HostTool:
    def send(params: Params, context: ToolContext) -> Any:
        send_notification(params["title"], params.get("body", ""), params.get("urgency", "normal"), context.lifetime)
        return {"shown": True}

    return HostTool(
        "notify.send", "Show the user a notification on the desktop.",
        {
            "title": _TEXT | {"minLength": 1, "maxLength": MAX_NOTIFICATION_TITLE_CHARS},
            "body": _TEXT | {"maxLength": MAX_NOTIFICATION_BODY_CHARS, "description": "Plain text."},
            "urgency": _TEXT | {"enum": list(URGENCIES), "description": "normal by default."},
        },
        send, required=["title"], effects=[Effect.NOTIFY],
    )  # fmt: skip


def _make_apps_open(settings: DesktopSettings, _: Gateway) -> HostTool:
    allowed = settings.applications

    def check(params: Params) -> Decision | None:
        if params["app"] in allowed:
            return None
        hint = f"the operator can allow it: {append_command('desktop.applications', params['app'][:80])}"
        rule = "the operator does not allow this application"
        return Decision(False, Reason.NOT_FOUND, rule, hint, "tool.application", params["app"][:200])

    def start(params: Params, context: ToolContext) -> Any:
        if (decision := check(params)) is not None:
            raise refusal_error(decision)
        application = find_application(params["app"])
        open_application(application)
        return {"opened": application.id, "name": application.name}

    known = f"One of: {', '.join(allowed)}." if allowed else "The operator does not allow any application yet."
    return HostTool(
        "apps.open", "Open an application on the user's desktop, without a file or URL.",
        {"app": _TEXT | {"maxLength": 128, "description": f"The id of its desktop entry. {known}"}}, start,
        required=["app"], effects=[Effect.SPAWN_PROCESS], decide=check,
    )  # fmt: skip


def _make_browser_open_url(settings: DesktopSettings, gateway: Gateway) -> HostTool:
    from wasmrt.agent.builtin.desktop._browser import find_browser, open_page, page_grant

    grant = page_grant(settings.hosts)

    def check(params: Params) -> Decision | None:
        decision = grant.explain_http("GET", params["url"])
        if decision.allowed:
            return None
        hint = "use an https:// URL of a public host"
        if decision.reason is Reason.HOST_NOT_ALLOWED:
            hint = f"the operator can allow its host: {append_command('desktop.hosts', 'HOST')}"
        return Decision(False, decision.reason, decision.rule, hint, "tool.page", "url")

    def show(params: Params, context: ToolContext) -> Any:
        if (decision := check(params)) is not None:
            raise refusal_error(decision)
        found = find_browser(settings.browser)
        most = params.get("max_chars", MAX_PAGE_CHARS)
        return open_page(params["url"], most, context, browser=found, hosts=settings.hosts, gateway=gateway)

    return HostTool(
        "browser.open_url",
        "Open a page in a headless browser, run its scripts, and return its text. Use it for pages that are rendered"
        " by scripts, for which web_fetch returns no content.",
        {
            "url": _TEXT | {"maxLength": 2048, "description": "An https:// URL of a public host."},
            "max_chars": {
                "type": "integer", "minimum": 1, "maximum": MAX_PAGE_CHARS, "description": "Maximum text length.",
            },
        },
        show, required=["url"], effects=[Effect.NETWORK, Effect.SPAWN_PROCESS], decide=check,
        untrusted=trust_none, own=_UNTRUSTED, destinations=("url",), timeout_seconds=PAGE_SECONDS,
    )  # fmt: skip


_MAKERS: Mapping[str, Callable[[DesktopSettings, Gateway], HostTool]] = {
    "clipboard.read": _make_clipboard_read,
    "clipboard.write": _make_clipboard_write,
    "notify.send": _notify_send,
    "apps.open": _make_apps_open,
    "browser.open_url": _make_browser_open_url,
}
_READERS = {"windows.list": windows_list, "screen.capture": screen_capture}
