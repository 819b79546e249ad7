"""The tools of the automation set: clipboard.read, clipboard.write, notify.send, apps.open and browser.open_url.

Names: a tool system's specification (seed 003). What it leaves to each tool, its risk and confirmation, follows here
from the effects: reading the clipboard, opening an application and opening a page ask a person each time, writing the
clipboard is confirmed, and a notification is shown.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from wasmrt.agent.builtin.desktop._apps import find_application, open_application
from wasmrt.agent.builtin.desktop._clipboard import find_clipboard, read_clipboard, write_clipboard
from wasmrt.agent.builtin.desktop._notify import URGENCIES, find_notifier, send_notification
from wasmrt.agent.builtin.desktop._programs import refused
from wasmrt.agent.builtin.host_tool import HostTool, Params, any_result
from wasmrt.catalog.bundled import DESKTOP_NAMES
from wasmrt.core.effects import Effect
from wasmrt.core.errors import ToolError
from wasmrt.core.limits import (
    MAX_CLIPBOARD_BYTES,
    MAX_NOTIFICATION_BODY_CHARS,
    MAX_NOTIFICATION_TITLE_CHARS,
    MAX_PAGE_CHARS,
    PAGE_SECONDS,
)
from wasmrt.core.model import Decision, Reason
from wasmrt.core.traits import OwnTerms
from wasmrt.egress.gateway import EgressGateway
from wasmrt.runtime.config_extensions import DesktopSettings
from wasmrt.runtime.context import ToolContext

Gateway = Callable[[], EgressGateway]
_TEXT = {"type": "string"}
_BOTH = OwnTerms(labels=("private", "untrusted"))
"""Of the clipboard: a person copied it, from wherever they were."""
_UNTRUSTED = OwnTerms(labels=("untrusted",))


def desktop_tools(settings: DesktopSettings, gateway: Gateway) -> list[HostTool]:
    """Return the tools that the operator turned on; `gateway` opens the way out for one page."""
    return [desktop_tool(name, settings, gateway) for name in DESKTOP_NAMES if name in settings.tools]


def desktop_tool(name: str, settings: DesktopSettings, gateway: Gateway) -> HostTool:
    """Return one tool by its name."""
    return _MAKERS[name](settings, gateway)


def desktop_problem(name: str, settings: DesktopSettings) -> str:
    """Return what a tool lacks on this machine, with the step that helps; empty where nothing is."""
    from wasmrt.agent.builtin.desktop._browser import find_browser

    try:
        if name.startswith("clipboard."):
            find_clipboard()
        elif name == "notify.send":
            find_notifier()
        elif name == "apps.open":
            for app in settings.applications:
                find_application(app)
        else:
            find_browser(settings.browser)
    except ToolError as error:
        return f"{error.message}; {error.hint}"
    return ""


def _clipboard_read(_: DesktopSettings, __: Gateway) -> HostTool:
    def read(params: Params, context: ToolContext) -> Any:
        return {"text": read_clipboard(context.lifetime)}

    return HostTool(
        "clipboard.read", "Read the text that the person has copied.", {}, read,
        effects=[Effect.READ_DESKTOP], untrusted=any_result, own=_BOTH,
    )  # fmt: skip


def _clipboard_write(_: DesktopSettings, __: Gateway) -> HostTool:
    def write(params: Params, context: ToolContext) -> Any:
        write_clipboard(params["text"])
        return {"written": len(params["text"])}

    return HostTool(
        "clipboard.write", "Put a text into the person's clipboard, in place of what they have copied.",
        {"text": _TEXT | {"maxLength": MAX_CLIPBOARD_BYTES, "description": "The text."}}, write,
        required=["text"], effects=[Effect.WRITE_DESKTOP],
    )  # fmt: skip


def _notify_send(_: DesktopSettings, __: Gateway) -> HostTool:
    def send(params: Params, context: ToolContext) -> Any:
        send_notification(params["title"], params.get("body", ""), params.get("urgency", "normal"), context.lifetime)
        return {"shown": True}

    return HostTool(
        "notify.send", "Show the person a notification on their desktop.",
        {
            "title": _TEXT | {"minLength": 1, "maxLength": MAX_NOTIFICATION_TITLE_CHARS},
            "body": _TEXT | {"maxLength": MAX_NOTIFICATION_BODY_CHARS, "description": "Plain text."},
            "urgency": _TEXT | {"enum": list(URGENCIES), "description": "normal unless it is said."},
        },
        send, required=["title"], effects=[Effect.NOTIFY],
    )  # fmt: skip


def _apps_open(settings: DesktopSettings, _: Gateway) -> HostTool:
    allowed = settings.applications

    def check(params: Params) -> Decision | None:
        if params["app"] in allowed:
            return None
        hint = f"the operator allows it: add {json.dumps(params['app'])[:80]} to applications in [desktop]"
        rule = "it is not among the applications that the operator allows"
        return Decision(False, Reason.NOT_FOUND, rule, hint, "tool.application", params["app"][:200])

    def start(params: Params, context: ToolContext) -> Any:
        if (decision := check(params)) is not None:
            raise refused(decision)
        application = find_application(params["app"])
        open_application(application)
        return {"opened": application.id, "name": application.name}

    known = f"One of: {', '.join(allowed)}." if allowed else "The operator allows none yet."
    return HostTool(
        "apps.open", "Open an application on the person's desktop, without a file or an address.",
        {"app": _TEXT | {"maxLength": 128, "description": f"The id of its desktop entry. {known}"}}, start,
        required=["app"], effects=[Effect.SPAWN_PROCESS], decide=check,
    )  # fmt: skip


def _browser_open_url(settings: DesktopSettings, gateway: Gateway) -> HostTool:
    from wasmrt.agent.builtin.desktop._browser import find_browser, open_page, page_grant

    grant = page_grant(settings.hosts)

    def check(params: Params) -> Decision | None:
        decision = grant.explain_http("GET", params["url"])
        if decision.allowed:
            return None
        hint = "name a public https:// address"
        if decision.reason is Reason.HOST_NOT_ALLOWED:
            hint = "the operator allows it: add the address's host to hosts in [desktop]"
        return Decision(False, decision.reason, decision.rule, hint, "tool.page", "url")

    def show(params: Params, context: ToolContext) -> Any:
        if (decision := check(params)) is not None:
            raise refused(decision)
        found = find_browser(settings.browser)
        most = params.get("max_chars", MAX_PAGE_CHARS)
        return open_page(params["url"], most, context, browser=found, hosts=settings.hosts, gateway=gateway)

    return HostTool(
        "browser.open_url",
        "Open a page in a browser without a window, let its scripts run, and return its text. Use it where web_fetch"
        " finds nothing: pages that are made by scripts.",
        {
            "url": _TEXT | {"maxLength": 2048, "description": "An https:// address of a public host."},
            "max_chars": {
                "type": "integer", "minimum": 1, "maximum": MAX_PAGE_CHARS, "description": "Of the text at most.",
            },
        },
        show, required=["url"], effects=[Effect.NETWORK, Effect.SPAWN_PROCESS], decide=check,
        untrusted=any_result, own=_UNTRUSTED, destinations=("url",), timeout_seconds=PAGE_SECONDS,
    )  # fmt: skip


_MAKERS: Mapping[str, Callable[[DesktopSettings, Gateway], HostTool]] = {
    "clipboard.read": _clipboard_read,
    "clipboard.write": _clipboard_write,
    "notify.send": _notify_send,
    "apps.open": _apps_open,
    "browser.open_url": _browser_open_url,
}
assert tuple(_MAKERS) == DESKTOP_NAMES
