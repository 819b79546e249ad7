"""The tools that send input to the desktop: windows.focus, keyboard.type, keyboard.press and the mouse tools.

SECURITY: a key or a click can do anything that the user can do, even approve this agent's requests in another window.
Therefore each call requires its own approval (`Plan`), which shows the window, its title and the typed text. No rule or
remembered answer replaces this approval. Input is sent only if the same window is still there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from shlex import quote
from typing import Any

from wasmrt.agent.builtin.desktop._display import Window, ask_display, read_window
from wasmrt.agent.builtin.desktop._keys import BUTTONS, WHEEL, read_keys
from wasmrt.agent.builtin.desktop._screen import WINDOW
from wasmrt.agent.builtin.host_tool import HostTool, Params, Plan
from wasmrt.core.effects import Effect
from wasmrt.core.errors import InvalidParametersError
from wasmrt.core.limits import MAX_INPUT_REPEATS, MAX_SCREEN_COORDINATE, MAX_TYPED_CHARS
from wasmrt.core.terminal import printable
from wasmrt.core.traits import OwnTerms
from wasmrt.runtime.context import ToolContext

_COORDINATE = {"type": "integer", "minimum": 0, "maximum": MAX_SCREEN_COORDINATE}
_POINT = {
    "x": _COORDINATE | {"description": "Pixels from the left edge of the window, or of the screen without a window."},
    "y": _COORDINATE | {"description": "Pixels from the upper edge of the window, or of the screen without a window."},
    "window": WINDOW | {"description": "The ID of a window, from windows.list. The window is focused first."},
}
_BUTTON = {"type": "string", "enum": list(BUTTONS), "description": "left by default."}
_COUNT = {"type": "integer", "minimum": 1, "maximum": MAX_INPUT_REPEATS, "description": "1 by default."}
_DRAG_STEPS = 8
_NO_LABELS = OwnTerms(labels=())
"""Labels for results that only confirm that the input was sent."""
Step = tuple[str | int, ...]


def control_tool(name: str) -> HostTool:
    """Create a tool by name."""
    description, properties, required, plan = _TOOLS[name]
    return HostTool(
        name, description, properties, plan=plan, required=required, in_programs=False, own=_NO_LABELS,
        effects=[Effect.CONTROL_DESKTOP, Effect.EXTERNAL_WRITE],
        command=lambda params: f"wasmrt run {name} {quote(json.dumps(dict(params)))}",
    )  # fmt: skip


def _plan_focus(params: Params) -> Plan:
    window = _find(params["window"])
    return _plan(f"Focus {window.shown}", "focus", focus=window.number)


def _plan_typing(params: Params) -> Plan:
    text = params["text"]
    # SECURITY: an escape sequence or a control character can start an action of the program without visible text.
    if any((ord(each) < 32 and each not in "\n\t") or 0x7F <= ord(each) < 0xA0 for each in text):
        hint = "remove all control characters except line feeds and tabs, or use keyboard.press"
        raise InvalidParametersError("the text contains control characters", hint=hint)
    if any(0xD800 <= ord(each) < 0xE000 for each in text):
        raise InvalidParametersError("the text is not valid Unicode", hint="remove lone surrogates")
    window = _find(params["window"])
    shown = f"Type into {window.shown}:\n{printable(json.dumps(text, ensure_ascii=False))}"
    return _plan(shown, "type", focus=window.number, text=text)


def _plan_press(params: Params) -> Plan:
    keys, count = read_keys(params["keys"]), params.get("count", 1)
    window = _find(params["window"])
    shown = f"Press {' + '.join(keys)}{_format_times(count)} in {window.shown}"
    return _plan(shown, "press", focus=window.number, keys=keys, count=count)


def _plan_move(params: Params) -> Plan:
    target = _Target(params, "x", "y")
    return target.plan(f"Move the mouse to {target.shown}", [[target.move]])


def _plan_click(params: Params) -> Plan:
    button, count = params.get("button", "left"), params.get("count", 1)
    target = _Target(params, "x", "y")
    click = [("down", BUTTONS[button]), ("up", BUTTONS[button])] * count
    return target.plan(f"Click the {button} button{_format_times(count)} at {target.shown}", [[target.move, *click]])


def _plan_scroll(params: Params) -> Plan:
    direction, count = params["direction"], params.get("count", 1)
    target = _Target(params, "x", "y")
    turn = [("down", WHEEL[direction]), ("up", WHEEL[direction])] * count
    return target.plan(f"Scroll {direction}{_format_times(count)} at {target.shown}", [[target.move, *turn]])


def _plan_drag(params: Params) -> Plan:
    button = params.get("button", "left")
    start = _Target(params, "x", "y")
    end = _Target(params, "to_x", "to_y", start.window if start.focus else None)
    batches: list[list[Step]] = [[start.move, ("down", BUTTONS[button])]]
    for step in range(1, _DRAG_STEPS + 1):
        x, y = ((a * (_DRAG_STEPS - step) + b * step) // _DRAG_STEPS for a, b in zip(start.at, end.at, strict=True))
        batches.append([("move", x, y)])
    batches.append([("up", BUTTONS[button])])
    shown = f"Drag with the {button} button from {start.shown}\nto {end.shown}"
    return start.plan(shown, batches, end)


class _Target:
    """A point of the screen, and the window that gets the input at this point."""

    def __init__(self, params: Params, x: str, y: str, window: Window | None = None) -> None:
        self.focus = 0
        if "window" in params:
            self.window = window or _find(params["window"])
            self.focus = self.window.number
            if params[x] >= self.window.width or params[y] >= self.window.height:
                size = f"{self.window.width} x {self.window.height}"
                raise InvalidParametersError(
                    f"{params[x]}, {params[y]} is outside of the window, which has {size} pixels",
                    hint="use a point in the window, or leave out `window` for a point of the screen",
                )
            self.at = self.window.x + params[x], self.window.y + params[y]
        else:
            self.at = params[x], params[y]
            self.window = read_window(ask_display(None, "at", point=self.at))

    @property
    def move(self) -> Step:
        """The event that moves the mouse to the point."""
        return "move", *self.at

    @property
    def shown(self) -> str:
        """A description of the point for the approver."""
        return f"{self.at[0]}, {self.at[1]} in {self.window.shown}"

    def plan(self, shown: str, batches: Sequence[Sequence[Step]], *others: _Target) -> Plan:
        """Plan mouse input. The input is refused if a window has changed or no longer contains its point."""
        targets = [(*each.at, each.window.number) for each in (self, *others)]
        return _plan(shown, "mouse", focus=self.focus, targets=targets, batches=batches)


def _plan(shown: str, do: str, **request: Any) -> Plan:
    def apply(context: ToolContext) -> Any:
        ask_display(context.lifetime, do, **request)
        return {"done": True}

    return Plan(shown, apply)


def _find(window: str) -> Window:
    return read_window(ask_display(None, "find", window=int(window, 16)))


def _format_times(count: int) -> str:
    return "" if count == 1 else f" {count} times"


_MOUSE = ("x", "y")
_TOOLS: Mapping[str, tuple[str, dict[str, Any], Sequence[str], Callable[[Params], Plan]]] = {
    "windows.focus": ("Raise a window and give it the keyboard focus.", {"window": WINDOW}, ["window"], _plan_focus),
    "keyboard.type": (
        "Focus a window and type a text into it.",
        {
            "window": WINDOW,
            "text": {
                "type": "string", "minLength": 1, "maxLength": MAX_TYPED_CHARS,
                "description": "A line feed presses Return, a tab presses Tab.",
            },
        },
        ["window", "text"], _plan_typing,
    ),
    "keyboard.press": (
        "Focus a window and press a key, or several keys together.",
        {
            "window": WINDOW,
            "keys": {"type": "string", "minLength": 1, "maxLength": 64, "description": "For example ctrl+shift+t."},
            "count": _COUNT,
        },
        ["window", "keys"], _plan_press,
    ),
    "mouse.move": ("Move the mouse.", _POINT, _MOUSE, _plan_move),
    "mouse.click": (
        "Click at a point.", _POINT | {"button": _BUTTON, "count": _COUNT | {"maximum": 3}}, _MOUSE, _plan_click,
    ),
    "mouse.drag": (
        "Drag from one point to another.",
        _POINT | {"to_x": _COORDINATE, "to_y": _COORDINATE, "button": _BUTTON}, [*_MOUSE, "to_x", "to_y"], _plan_drag,
    ),
    "mouse.scroll": (
        "Turn the mouse wheel at a point.",
        _POINT | {"direction": {"type": "string", "enum": list(WHEEL)}, "count": _COUNT}, [*_MOUSE, "direction"],
        _plan_scroll,
    ),
}  # fmt: skip
