"""Move the mouse and press keys on an X display with the XTEST extension.

https://www.x.org/releases/X11R7.7/doc/xextproto/xtest.html
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from Xlib import XK, X
from Xlib.ext import xtest

from wasmrt.agent.builtin.x11._windows import Desktop, FailedError

_STEP_SECONDS = 0.02
"""Pause, in seconds, after each step of a drag, so that programs can handle the motion."""
_MAPPING_SECONDS = 0.15
"""Pause, in seconds, after a change of the keyboard mapping, so that programs can read it."""
_CHUNK = 16
"""Number of characters that are typed between two checks of the focus."""
_HELD = X.ShiftMask | X.LockMask | X.ControlMask | X.Mod1Mask | X.Mod4Mask


class Input:
    """The mouse and the keyboard of a display."""

    def __init__(self, desktop: Desktop) -> None:
        self._desktop = desktop
        self._display = desktop.display
        if not self._display.has_extension("XTEST"):
            raise FailedError("the display has no extension XTEST", "enable XTEST in the X server")
        self._down: dict[tuple[int, int], None] = {}

    def mouse(self, targets: Sequence[Sequence[int]], batches: Sequence[Sequence[Sequence[Any]]]) -> None:
        """Send batches of mouse events, after checking which windows are at the given points.

        Raises:
            FailedError: a point is not in its window. No event was sent.
        """
        try:
            for index, batch in enumerate(batches):
                with self._desktop.alone():
                    for x, y, number in targets if index == 0 else ():
                        # SECURITY: the approver saw this window. During the grab, no other program can cover it.
                        if (found := self._desktop.at(x, y)) != number:
                            raise FailedError(
                                f"expected window {number:#x} at this point, got {found:#x}", "list the windows again"
                            )
                    for kind, *values in batch:
                        self._send(kind, values)
                time.sleep(_STEP_SECONDS)
        finally:
            self._release()

    def press(self, window: int, names: Sequence[str], count: int) -> None:
        """Press keys together, for example Control_L and c, and release them."""
        codes = []
        for name in names:
            symbol = XK.string_to_keysym(name) or _find_keysym(name)
            code = self._display.keysym_to_keycode(symbol) if symbol else 0
            if not code:
                raise FailedError(f"the keyboard layout has no key {name!r}", "type it with keyboard.type")
            codes.append(code)
            if len(name) == 1 and self._display.keycode_to_keysym(code, 0) != symbol:
                codes.insert(0, self._display.keysym_to_keycode(XK.XK_Shift_L))
        for _ in range(count):
            self._strike(window, [codes])
            time.sleep(_STEP_SECONDS)

    def type_text(self, window: int, text: str) -> None:
        """Type a text. For characters that the layout lacks, unused keys are mapped until the text is typed."""
        first = self._display.display.info.min_keycode
        table = self._display.get_keyboard_mapping(first, self._display.display.info.max_keycode - first + 1)
        unused = [first + index for index, symbols in enumerate(table) if not any(symbols)]
        keys = self._read_layout(first, table)
        missing = list(dict.fromkeys(symbol for each in text if (symbol := _find_keysym(each)) not in keys))
        if len(missing) > len(unused):
            raise FailedError(
                f"the keyboard layout lacks {len(missing)} characters, and has only {len(unused)} unused keys",
                "type a shorter text, or paste it with clipboard.write and keyboard.press",
            )
        shift = self._display.keysym_to_keycode(XK.XK_Shift_L)
        taken = unused[: len(missing)]
        try:
            for code, symbol in zip(taken, missing, strict=True):
                self._display.change_keyboard_mapping(code, [[symbol] * len(table[0])])
                keys[symbol] = code, False
            self._settle(taken)
            strokes = [
                [*([shift] if upper else []), code] for code, upper in (keys[_find_keysym(each)] for each in text)
            ]
            for start in range(0, len(strokes), _CHUNK):
                self._strike(window, strokes[start : start + _CHUNK])
        finally:
            self._settle(taken)
            for code in taken:
                self._display.change_keyboard_mapping(code, [[X.NoSymbol] * len(table[0])])
            self._display.sync()

    def _read_layout(self, first: int, table: Sequence[Sequence[int]]) -> dict[int, tuple[int, bool]]:
        """Return the key of each symbol, and whether the symbol needs Shift.

        Only the first layout is read. If another layout is active, the result has only Return and Tab.
        """
        if self._desktop.root.query_pointer().mask >> 13 & 3:
            return {symbol: (self._display.keysym_to_keycode(symbol), False) for symbol in map(_find_keysym, "\n\t")}
        pairs = (
            (symbols[level], (first + index, level == 1))
            for level in (1, 0)
            for index, symbols in enumerate(table)
            if len(symbols) > level
        )
        return {symbol: key for symbol, key in pairs if symbol}

    def _settle(self, changed: Sequence[int]) -> None:
        self._display.sync()
        if changed:
            time.sleep(_MAPPING_SECONDS)

    def _strike(self, window: int, strokes: Sequence[Sequence[int]]) -> None:
        try:
            with self._desktop.alone():
                # SECURITY: the approver saw this window. During the grab, no other program can take the focus.
                if not self._desktop.has_focus(window):
                    raise FailedError(
                        f"window {window:#x} lost the keyboard focus", "inspect the screen, then continue"
                    )
                if self._desktop.root.query_pointer().mask & _HELD:
                    raise FailedError("a modifier key or Caps Lock is on", "ask the user to release the key")
                for codes in strokes:
                    for code in codes:
                        self._send("key-down", [code])
                    for code in reversed(codes):
                        self._send("key-up", [code])
        finally:
            self._release()

    def _send(self, kind: str, values: Sequence[int]) -> None:
        if kind == "move":
            xtest.fake_input(self._display, X.MotionNotify, x=values[0], y=values[1])
            return
        code = {"down": X.ButtonPress, "up": X.ButtonRelease, "key-down": X.KeyPress, "key-up": X.KeyRelease}[kind]
        xtest.fake_input(self._display, code, values[0])
        if code in (X.ButtonPress, X.KeyPress):
            self._down[code + 1, values[0]] = None
        else:
            self._down.pop((code, values[0]), None)

    def _release(self) -> None:
        """Release all keys and buttons that are still pressed after a failure."""
        for code, number in self._down:
            xtest.fake_input(self._display, code, number)
        self._down.clear()
        self._display.sync()


def _find_keysym(char: str) -> int:
    """Return the keysym of a single character (X protocol, appendix A), or 0 for a longer text."""
    if char in "\n\t":
        return int(XK.XK_Return if char == "\n" else XK.XK_Tab)
    if len(char) != 1:
        return 0
    code = ord(char)
    return code if 0x20 <= code < 0x7F or 0xA0 <= code < 0x100 else code | 0x01000000
