"""Characters that look like a letter or a digit of ASCII and do not decompose to it: Cyrillic, Greek, Armenian, IPA.

Chosen by looking at the scripts' own charts; Unicode Technical Standard 39 says why such a table is needed.
"""

from __future__ import annotations

_ALIKE = {
    "a": "аαɑ⍺ａ",
    "b": "ЬьƄƅ",
    "c": "сϲᴄⅽ",
    "d": "ԁɗⅾđ",
    "e": "еєҽɛε℮ə",
    "f": "ƒғ",
    "g": "ɡցɢ",
    "h": "һհħ",
    "i": "іιıɩӏǀ",
    "j": "јϳʝ",
    "k": "кκĸ",
    "l": "ⅼłʟ",
    "m": "мⅿ",
    "n": "пηոռɴ",
    "o": "оοσօᴏø०٥",
    "p": "рρþ",
    "q": "ԛզ",
    "r": "гᴦɾ",
    "s": "ѕꜱʂ",
    "t": "тτţ",
    "u": "υսʋцᴜ",
    "v": "νѵᴠ",
    "w": "ԝωѡᴡ",
    "x": "хχ",
    "y": "уүγʏ",
    "z": "ᴢʐ",
    ".": "。．｡․",
    "@": "＠﹫",
    "-": "‐‑‒–—―−﹣",
    "/": "⁄∕⧸",
}
_MARKS = (*range(0x300, 0x370), *range(0x1AB0, 0x1B00), *range(0x1DC0, 0x1E00), *range(0x20D0, 0x2100))
"""Combining marks, which a decomposed letter leaves behind."""
CONFUSABLES: dict[int, str | None] = dict.fromkeys(_MARKS)
CONFUSABLES |= {ord(char): plain for plain, alike in _ALIKE.items() for char in alike}
