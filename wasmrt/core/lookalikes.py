"""Letters of other alphabets that look like the letters from a to z."""

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
}
LOOKALIKES = {ord(char): plain for plain, alike in _ALIKE.items() for char in alike}
"""The letter for each code point, for `str.translate`."""
