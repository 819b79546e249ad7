"""A program with two windows, which prints the input that they get. With `manage`, it is a window manager, too."""

from __future__ import annotations

import json
import sys

from Xlib import XK, X, display
from Xlib.protocol.rq import Event

MASK = X.KeyPressMask | X.ButtonPressMask | X.ButtonReleaseMask | X.PointerMotionMask | X.ExposureMask


def say(**line: object) -> None:
    print(json.dumps(line), flush=True)


class Program:
    """The windows, by their IDs."""

    def __init__(self, manage: bool) -> None:
        self.display = display.Display()
        self.screen = self.display.screen()
        self.titles: dict[int, str] = {}
        for left, title in ((10, "Notes – Grüße"), (160, "Terminal")):
            window = self.screen.root.create_window(
                left, 20, 140, 100, 0, X.CopyFromParent, event_mask=MASK, background_pixel=0x336699
            )
            window.set_wm_class("app", title.split()[0])
            utf8 = self.display.intern_atom("UTF8_STRING")
            window.change_property(self.display.intern_atom("_NET_WM_NAME"), utf8, 8, title.encode())
            window.map()
            self.titles[window.id] = title.split()[0].lower()
        if manage:
            self._manage()
        self.display.sync()

    def _manage(self) -> None:
        root, window = self.display.intern_atom("_NET_SUPPORTING_WM_CHECK"), self.display.intern_atom("WINDOW")
        self.screen.root.change_property(root, window, 32, [self.screen.root.id])
        listed = self.display.intern_atom("_NET_CLIENT_LIST")
        self.screen.root.change_property(listed, window, 32, list(self.titles))
        self.screen.root.change_attributes(event_mask=X.SubstructureRedirectMask)

    def run(self) -> None:
        exposed: set[int] = set()
        while True:
            event = self.display.next_event()
            if event.type == X.Expose and event.window.id not in exposed:
                exposed.add(event.window.id)
                if len(exposed) == len(self.titles):
                    say(ready=self.titles)
            self._print(event)

    def _print(self, event: Event) -> None:
        if event.type == X.MappingNotify:
            self.display.refresh_keyboard_mapping(event)
        elif event.type == X.ClientMessage:
            event.window.set_input_focus(X.RevertToParent, X.CurrentTime)
            self.display.sync()
        elif event.type == X.KeyPress:
            symbol = self.display.keycode_to_keysym(event.detail, 1 if event.state & X.ShiftMask else 0)
            char = chr(symbol & 0xFFFFFF) if symbol < 0x100 or symbol >> 24 == 1 else XK.keysym_to_string(symbol)
            say(at=self.titles[event.window.id], key=char or symbol, control=bool(event.state & X.ControlMask))
        elif event.type in (X.ButtonPress, X.ButtonRelease):
            kind = "down" if event.type == X.ButtonPress else "up"
            say(at=self.titles[event.window.id], button=event.detail, kind=kind, x=event.event_x, y=event.event_y)


if __name__ == "__main__":
    Program("manage" in sys.argv).run()
