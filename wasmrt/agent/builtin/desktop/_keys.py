"""Names of keys and mouse buttons, with their names or numbers in X11 (X11/keysymdef.h)."""

from __future__ import annotations

from wasmrt.core.errors import InvalidParametersError
from wasmrt.core.names import did_you_mean

BUTTONS = {"left": 1, "middle": 2, "right": 3}
WHEEL = {"up": 4, "down": 5, "left": 6, "right": 7}
_MODIFIERS = {
    "ctrl": "Control_L", "control": "Control_L", "shift": "Shift_L", "alt": "Alt_L", "option": "Alt_L",
    "super": "Super_L", "cmd": "Super_L", "meta": "Super_L", "win": "Super_L",
}  # fmt: skip
_KEYS = {
    "enter": "Return", "return": "Return", "tab": "Tab", "escape": "Escape", "esc": "Escape",
    "backspace": "BackSpace", "delete": "Delete", "insert": "Insert", "space": "space", "home": "Home", "end": "End",
    "pageup": "Page_Up", "pagedown": "Page_Down", "up": "Up", "down": "Down", "left": "Left", "right": "Right",
    "menu": "Menu", "print": "Print", "plus": "plus", **{f"f{number}": f"F{number}" for number in range(1, 25)},
}  # fmt: skip


def read_keys(text: str) -> tuple[str, ...]:
    """Convert a combination such as `ctrl+shift+t` to X11 names: the modifiers, then one key.

    Raises:
        InvalidParametersError: the text is not such a combination.
    """
    *modifiers, key = text.split("+")
    found = [_read_modifier(each) for each in modifiers]
    if len(set(found)) < len(found):
        raise InvalidParametersError(f"{text!r} has a modifier twice", hint="name each modifier once")
    return *found, _read_key(key)


def _read_modifier(name: str) -> str:
    modifier = _MODIFIERS.get(name.lower())
    if modifier is None:
        problem = f"expected a modifier, got {name!r:.40}"
        raise InvalidParametersError(problem, hint=f"modifiers: {', '.join(_MODIFIERS)}; write + as plus")
    return modifier


def _read_key(name: str) -> str:
    if len(name) == 1 and name.isprintable() and not name.isspace():
        return name
    folded = name.lower().replace("_", "").replace("-", "")
    key = _KEYS.get(folded) or _MODIFIERS.get(folded)
    if key is None:
        near = did_you_mean(folded, [*_KEYS, *_MODIFIERS])
        known = f"did you mean {near}?" if near else f"a single character, or one of: {', '.join(_KEYS)}"
        raise InvalidParametersError(f"expected a key, got {name!r:.40}", hint=known)
    return key
