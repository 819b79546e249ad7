"""Answer one request about an X display."""

from __future__ import annotations

import json
import sys
from typing import Any

from Xlib import error

from wasmrt.agent.builtin.x11._input import Input
from wasmrt.agent.builtin.x11._pixels import capture
from wasmrt.agent.builtin.x11._windows import Desktop, FailedError


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Carry out a request."""
    desktop, do = Desktop(), request["do"]
    if do == "list":
        screen = {"width": desktop.screen.width_in_pixels, "height": desktop.screen.height_in_pixels}
        return {"screen": screen, "windows": desktop.windows()}
    if do == "find":
        return desktop.find(request["window"])
    if do == "at":
        found = desktop.at(*request["point"])
        return (desktop.describe(found) or {}) | {"root": found == desktop.root.id}
    if do == "capture":
        return capture(desktop, request["window"], request["max_pixels"], request["max_bytes"])
    if request["focus"]:
        desktop.focus(request["focus"])
    if do == "mouse":
        Input(desktop).mouse(request["targets"], request["batches"])
    elif do == "press":
        Input(desktop).press(request["focus"], request["keys"], request["count"])
    elif do == "type":
        Input(desktop).type_text(request["focus"], request["text"])
    return {}


def main() -> None:
    """Read a request, and write its answer."""
    try:
        found = answer(json.loads(sys.stdin.read()))
    except FailedError as failed:
        found = {"failed": failed.args[0], "hint": failed.args[1]}
    except (error.DisplayError, error.ConnectionClosedError, error.XError) as problem:
        found = {"failed": f"the display does not answer: {type(problem).__name__}", "hint": "check DISPLAY"}
    sys.stdout.write(json.dumps(found))
