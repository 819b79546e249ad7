"""Read the pixels of an X display."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

from Xlib import X

from wasmrt.agent.builtin.x11._windows import Desktop, FailedError


def capture(desktop: Desktop, number: int | None, max_pixels: int, max_bytes: int) -> dict[str, Any]:
    """Capture the screen, or the part that a window covers, as PNG. The image is reduced to fit the limits."""
    left, top, right, bottom = 0, 0, desktop.screen.width_in_pixels, desktop.screen.height_in_pixels
    if number is not None:
        row = desktop.find(number)
        right, bottom = min(right, row["x"] + row["width"]), min(bottom, row["y"] + row["height"])
        left, top = max(0, row["x"]), max(0, row["y"])
    width, height = right - left, bottom - top
    if width <= 0 or height <= 0:
        raise FailedError("the window is not on the screen", "focus it with windows.focus")
    image = desktop.root.get_image(left, top, width, height, X.ZPixmap, 0xFFFFFFFF)
    if image.depth not in (24, 32) or len(image.data) != width * height * 4:
        raise FailedError(f"expected a screen with 24 bits per pixel, got {image.depth}", "change the screen's depth")
    step = 1
    while True:
        if -(-width // step) * -(-height // step) <= max_pixels:
            made = encode_png(image.data, width, height, step)
            if len(made) <= max_bytes:
                break
        step += 1
    return {"png": base64.b64encode(made).decode(), "x": left, "y": top, "width": width, "height": height, "step": step}


def encode_png(pixels: bytes, width: int, height: int, step: int) -> bytes:
    """Encode every `step`-th pixel of BGRX data as PNG (RFC 2083)."""
    columns, rows = -(-width // step), range(0, height, step)
    data = bytearray()
    for y in rows:
        line, row = pixels[y * width * 4 : (y + 1) * width * 4], bytearray(3 * columns)
        row[0::3], row[1::3], row[2::3] = line[2 :: 4 * step], line[1 :: 4 * step], line[0 :: 4 * step]
        data += b"\0" + row
    head = struct.pack(">IIBBBBB", columns, len(rows), 8, 2, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(data, 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in parts
    )
