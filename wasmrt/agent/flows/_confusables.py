"""Characters that look like a letter or a digit of ASCII and do not decompose to it: Cyrillic, Greek, Armenian, IPA.

Chosen by looking at the scripts' own charts; Unicode Technical Standard 39 says why such a table is needed.
"""

from __future__ import annotations

_ALIKE = {
    "a": "аαɑ⍺ａᴀᎪⲁ",
    "b": "ЬьƄƅβʙᏼⲃ",
    "c": "сϲᴄⅽᏟⲥ",
    "d": "ԁɗⅾđᴅᎠ",
    "e": "еєҽɛε℮əᴇᎬⲉ",
    "f": "ƒғꜰ",
    "g": "ɡցɢᏀ",
    "h": "һհħʜᎻⲏ",
    "i": "іιıɩӏǀɪᎥⲓ",
    "j": "јϳʝᴊᎫ",
    "k": "кκĸᴋᏦⲕ",
    "l": "ⅼłʟᏞ",
    "m": "мⅿᴍμᎷⲙ",
    "n": "пηոռɴⲛ",
    "o": "оοσօᴏø०٥ᎤⲟჿՕ",
    "p": "рρþᴘᏢⲣ",
    "q": "ԛզǫ",
    "r": "гᴦɾʀᎡᏒ",
    "s": "ѕꜱʂᏚ",
    "t": "тτţᴛᎢⲧ",
    "u": "υսʋцᴜ",
    "v": "νѵᴠᏙ",
    "w": "ԝωѡᴡᎳ",
    "x": "хχⲭ",
    "y": "уүγʏᎽⲩ",
    "z": "ᴢʐζᏃⲍ",
    ".": "。．｡․",
    "@": "＠﹫",
    "-": "‐‑‒–—―−﹣",
    "/": "⁄∕⧸",
}
_UNLIKE = {"Η": "h", "Ν": "n", "Υ": "y", "В": "b", "Н": "h"}
"""Capitals that look like another letter than their small ones do."""
_SETS = (0x1F150, 0x1F170, 0x1F1E6)
"""First letters of alphabets in circles, squares and flags, which do not decompose."""
_FILLERS = (0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0)
"""Letters that nobody sees."""
CAPITALS: dict[int, str] = {ord(char): plain for char, plain in _UNLIKE.items()}
CAPITALS |= {first + place: chr(ord("a") + place) for first in _SETS for place in range(26)}
_MARKS = (*range(0x300, 0x370), *range(0x1AB0, 0x1B00), *range(0x1DC0, 0x1E00), *range(0x20D0, 0x2100))
"""Combining marks, which a decomposed letter leaves behind."""
CONFUSABLES: dict[int, str | None] = dict.fromkeys((*_MARKS, *_FILLERS))
CONFUSABLES |= {ord(char): plain for plain, alike in _ALIKE.items() for char in alike}
