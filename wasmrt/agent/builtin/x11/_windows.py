"""The windows of an X display.

https://specifications.freedesktop.org/wm-spec/latest/
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from Xlib import X, Xatom, display, error
from Xlib.protocol import event

_MAX_WINDOWS = 200
_MAX_TITLE_CHARS = 300
_MAX_DEPTH = 32
"""Maximum depth of nested windows that are searched."""
_FOCUS_SECONDS = 2.0
_POLL_SECONDS = 0.02


class FailedError(Exception):
    """A request cannot be carried out. The arguments are the problem and a hint."""


class Desktop:
    """The windows of one X display."""

    def __init__(self) -> None:
        self.display = display.Display()
        self.screen = self.display.screen()
        self.root = self.screen.root

    def windows(self) -> list[dict[str, Any]]:
        """Return the windows from the lowest to the topmost."""
        focused = self._find_client(self.display.get_input_focus().focus)
        rows = (self.describe(client) for client in self._clients()[-_MAX_WINDOWS:])
        return [row | {"focused": row["window"] == focused} for row in rows if row is not None]

    def describe(self, number: int) -> dict[str, Any] | None:
        """Return the ID, title, class and position of a window, or None if the window does not exist."""
        window = self.display.create_resource_object("window", number)
        try:
            size, place = window.get_geometry(), self.root.translate_coords(window, 0, 0)
            title = window.get_full_property(self.display.intern_atom("_NET_WM_NAME"), X.AnyPropertyType)
            title = title or window.get_full_property(Xatom.WM_NAME, X.AnyPropertyType)
            kind = window.get_full_property(Xatom.WM_CLASS, X.AnyPropertyType)
        except error.XError:
            return None
        return {
            "window": number, "title": _decode(title), "class": _decode(kind).rstrip("\0").rpartition("\0")[2],
            "x": place.x, "y": place.y, "width": size.width, "height": size.height,
        }  # fmt: skip

    def find(self, number: int) -> dict[str, Any]:
        """Return the listed window with an ID.

        Raises:
            FailedError: there is no such window.
        """
        found = self.describe(number) if number in self._clients() else None
        if found is None:
            raise FailedError(f"there is no window {number:#x}", "list the windows with windows.list")
        return found

    def at(self, x: int, y: int) -> int:
        """Return the window at a point of the screen: a listed window, a menu, or the root window."""
        clients, inner, top = self._clients(), self.root, 0
        for _ in range(_MAX_DEPTH):
            child = inner.translate_coords(self.root, x, y).child
            if child == X.NONE:
                break
            if child.id in clients:
                return int(child.id)
            inner, top = child, top or child.id
        return int(top or self.root.id)

    def focus(self, number: int) -> None:
        """Raise a window and give it the keyboard focus.

        Raises:
            FailedError: the window did not get the keyboard focus in time.
        """
        window = self.display.create_resource_object("window", self.find(number)["window"])
        if self._read_property(self.root, "_NET_SUPPORTING_WM_CHECK"):
            active = self.display.intern_atom("_NET_ACTIVE_WINDOW")
            asked = event.ClientMessage(window=window, client_type=active, data=(32, [2, X.CurrentTime, 0, 0, 0]))
            self.root.send_event(asked, event_mask=X.SubstructureRedirectMask | X.SubstructureNotifyMask)
        else:
            window.configure(stack_mode=X.Above)
            window.set_input_focus(X.RevertToParent, X.CurrentTime, onerror=lambda *_: None)
        until = time.monotonic() + _FOCUS_SECONDS
        while not self.has_focus(number):
            if time.monotonic() > until:
                raise FailedError(
                    f"window {number:#x} did not get the keyboard focus",
                    "a dialog may have the focus; inspect the screen",
                )
            time.sleep(_POLL_SECONDS)

    def has_focus(self, number: int) -> bool:
        """Return whether a window, or a part of it, has the keyboard focus."""
        self.display.sync()
        return self._find_client(self.display.get_input_focus().focus) == number

    def _find_client(self, window: Any) -> int | None:
        clients = self._clients()
        for _ in range(_MAX_DEPTH):
            if isinstance(window, int) or window is None or window.id == self.root.id:
                return None
            if window.id in clients:
                return int(window.id)
            try:
                window = window.query_tree().parent
            except error.XError:
                return None
        return None

    def _clients(self) -> list[int]:
        """Return the windows that the window manager lists; without a manager, the root window's visible children."""
        for name in ("_NET_CLIENT_LIST_STACKING", "_NET_CLIENT_LIST"):
            if listed := self._read_property(self.root, name):
                return listed
        found = []
        for child in self.root.query_tree().children:
            try:
                seen = child.get_attributes()
            except error.XError:
                continue
            if seen.map_state == X.IsViewable and not seen.override_redirect and seen.win_class == X.InputOutput:
                found.append(int(child.id))
        return found

    def _read_property(self, window: Any, name: str) -> list[int]:
        found = window.get_full_property(self.display.intern_atom(name), X.AnyPropertyType)
        return [] if found is None or found.format != 32 else list(map(int, found.value))

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Block the requests of all other programs, so that windows and focus cannot change after a check."""
        self.display.grab_server()
        try:
            yield
        finally:
            self.display.sync()
            self.display.ungrab_server()
            self.display.sync()


def _decode(value: Any) -> str:
    data = b"" if value is None else value.value
    return (data if isinstance(data, str) else bytes(data).decode("utf-8", "replace"))[:_MAX_TITLE_CHARS]
