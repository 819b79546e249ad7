"""Use the display, mouse and keyboard of the user through a separate program."""

from __future__ import annotations

import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from wasmrt.agent.builtin.desktop._programs import no_desktop_error, run
from wasmrt.core.errors import ToolError
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import MAX_JSON_DEPTH, MAX_SCREENSHOT_BYTES, MIB
from wasmrt.core.strict_json import JsonError, read_json
from wasmrt.sandbox.component import printable_line

_LIBRARY = Path(__file__).parents[4]
"""The folder that contains this package."""
_PROGRAM = "import sys; sys.path += sys.argv[1:]; from wasmrt.agent.builtin.x11.program import main; main()"
_MAX_ANSWER_BYTES = MAX_SCREENSHOT_BYTES * 4 // 3 + MIB
_MAX_PARTS = 10_000


class Window(NamedTuple):
    """A window, as an approver sees it."""

    number: int
    title: str
    kind: str
    x: int
    y: int
    width: int
    height: int
    is_root: bool = False

    @property
    def shown(self) -> str:
        """A line that describes the window. The title is untrusted text of another program."""
        if self.is_root:
            return "the desktop, outside of all windows"
        title = json.dumps(self.title, ensure_ascii=False) if self.title else "without a title"
        return f"window {self.number:#x} {title}{f' of {self.kind}' if self.kind else ''}"


def find_display() -> str:
    """Return the folder of python-xlib, if this session has an X11 display.

    Raises:
        ToolError: there is no X11 display, or python-xlib is not installed.
    """
    if os.environ.get("WAYLAND_DISPLAY"):
        # SECURITY: XWayland has only some windows of the desktop, so a preview could name the wrong window.
        raise no_desktop_error(
            "Wayland does not let programs list windows, or use the mouse and the keyboard", "log in to an X11 session"
        )
    if not os.environ.get("DISPLAY"):
        raise no_desktop_error(
            "there is no desktop, and therefore no windows", "run the agent in a desktop session: DISPLAY is not set"
        )
    found = find_spec("Xlib")
    if found is None or not found.origin:
        raise no_desktop_error("windows, mouse and keyboard need python-xlib", 'pip install "wasmrt[desktop]"')
    return str(Path(found.origin).parent.parent)


def ask_display(lifetime: Lifetime | None, do: str, **request: Any) -> dict[str, Any]:
    """Send a request to the display program, and return its answer.

    Raises:
        ToolError: there is no display, or the program refused the request or failed.
    """
    folders = [str(_LIBRARY), find_display()]
    ran = run(
        [sys.executable, "-I", "-c", _PROGRAM, *folders], json.dumps({"do": do} | request).encode(), lifetime,
        max_bytes=_MAX_ANSWER_BYTES,
    )  # fmt: skip
    try:
        found = read_json(ran.stdout, max_bytes=_MAX_ANSWER_BYTES, max_depth=MAX_JSON_DEPTH, max_parts=_MAX_PARTS)
    except JsonError:
        found = None
    if not isinstance(found, dict):
        reason = printable_line(ran.stderr.rpartition("\n")[2])[:300] or f"exit code {ran.code}"
        raise ToolError(f"the display program failed: {reason}", code="display", hint="check that DISPLAY is reachable")
    if "failed" in found:
        raise ToolError(str(found["failed"]), code="display", hint=str(found["hint"]))
    return found


def read_window(row: dict[str, Any]) -> Window:
    """Read a window from an answer, and make its title printable."""
    return Window(
        row["window"], printable_line(row["title"]), printable_line(row["class"]), row["x"], row["y"], row["width"],
        row["height"], bool(row.get("root")),
    )  # fmt: skip
