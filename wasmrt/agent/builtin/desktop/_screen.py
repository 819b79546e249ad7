"""The tools that read the screen: windows.list and screen.capture."""

from __future__ import annotations

from typing import Any

from wasmrt.agent.builtin.desktop._display import ask_display, read_window
from wasmrt.agent.builtin.host_tool import HostTool, Params, trust_none
from wasmrt.core.effects import Effect
from wasmrt.core.limits import MAX_SCREENSHOT_BYTES, MAX_SCREENSHOT_PIXELS
from wasmrt.core.traits import OwnTerms
from wasmrt.runtime.context import ToolContext

WINDOW = {
    "type": "string", "pattern": "^0x[0-9a-f]{1,8}$", "description": "The ID of a window, from windows.list.",
}  # fmt: skip
_BOTH = OwnTerms(labels=("private", "untrusted"))
"""Labels of titles and images, which can show the user's documents and text from any source."""


def windows_list() -> HostTool:
    """Create the tool windows.list."""

    def read(params: Params, context: ToolContext) -> Any:
        found = ask_display(context.lifetime, "list")
        rows = []
        for row in found["windows"]:
            window = read_window(row)
            rows.append({
                "window": f"{window.number:#x}", "title": window.title, "application": window.kind, "x": window.x,
                "y": window.y, "width": window.width, "height": window.height, "focused": row["focused"],
            })  # fmt: skip
        return {"screen": found["screen"], "windows": rows}

    return HostTool(
        "windows.list", "List the windows of the user's desktop, the topmost last, with their positions.", {}, read,
        effects=[Effect.READ_DESKTOP], untrusted=trust_none, own=_BOTH,
    )  # fmt: skip


def screen_capture() -> HostTool:
    """Return the tool screen.capture."""

    def capture(params: Params, context: ToolContext) -> Any:
        number = int(params["window"], 16) if "window" in params else None
        found = ask_display(
            context.lifetime, "capture", window=number, max_pixels=MAX_SCREENSHOT_PIXELS, max_bytes=MAX_SCREENSHOT_BYTES
        )
        step, place = found["step"], f"{found['width']} x {found['height']} pixels at {found['x']}, {found['y']}"
        scale = f"; multiply coordinates in the image by {step}" if step > 1 else ""
        return {
            "content": [
                {"type": "text", "text": f"a part of the screen of {place}{scale}"},
                {"type": "image", "data": found["png"], "mimeType": "image/png"},
            ]
        }

    return HostTool(
        "screen.capture", "Take a screenshot of the screen, or of the part of the screen that a window covers.",
        {"window": WINDOW}, capture, effects=[Effect.READ_DESKTOP], untrusted=trust_none, own=_BOTH,
    )  # fmt: skip
