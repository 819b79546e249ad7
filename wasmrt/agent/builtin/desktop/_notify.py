"""Notifications, by notify-send, which speaks to the session's service over D-Bus."""

from __future__ import annotations

import os
from pathlib import Path

from wasmrt.agent.builtin.desktop._programs import find_program, no_desktop, run
from wasmrt.core.errors import ToolError
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.terminal import printable

APP_NAME = "wasmrt: your agent"
URGENCIES = ("low", "normal", "critical")
_MARKUP = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_ANSWER_BYTES = 4096


def send_notification(title: str, body: str, urgency: str, lifetime: Lifetime | None) -> None:
    """Show a notification to the person, as the agent's.

    Raises:
        ToolError: there is no session, no program, or no service that shows notifications.
    """
    program = find_notifier()
    argv = [
        program, f"--app-name={APP_NAME}", f"--urgency={urgency}", "--",
        printable(title),
        # SECURITY: services show a part of HTML in a body: a link or an image in it would be the agent's own.
        "\n".join(printable(line) for line in body.split("\n")).translate(_MARKUP),
    ]  # fmt: skip
    ran = run(argv, b"", lifetime, max_bytes=_ANSWER_BYTES)
    if ran.code != 0:
        raise ToolError(
            f"nothing was shown: {ran.stderr:.200}", code="notification",
            hint="start a notification service in this session, such as dunst or the desktop's own",
        )  # fmt: skip


def find_notifier() -> str:
    """Return the program that shows notifications in this session.

    Raises:
        ToolError: there is no session, or no program.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if not os.environ.get("DBUS_SESSION_BUS_ADDRESS") and not (runtime and Path(runtime, "bus").exists()):
        raise no_desktop(
            "there is no desktop session here that could show a notification",
            "run the agent in a desktop session: DBUS_SESSION_BUS_ADDRESS is not set",
        )
    found = find_program("notify-send")
    if found is None:
        raise no_desktop("this machine has no notify-send", "install libnotify-bin, or libnotify")
    return found
