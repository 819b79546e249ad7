"""The picture of a map of flows: three columns of tools, and lines from those that read to those that send."""

from __future__ import annotations

from html import escape
from itertools import pairwise

from wasmrt.agent.flows._paths import FlowMap, Reach

_WIDTH, _BOX, _ROW, _TOP = 900, 240, 44, 70
_COLUMNS = ((20, "reads private text"), (330, "takes in strangers' text"), (640, "sends out"))
_MAX_ROWS = 40
_NAME_CHARS = 28
_STYLE = (
    "text{font:13px sans-serif;fill:#1f2328}.h{font-weight:600}.s{font-size:11px;fill:#59636e}"
    "rect{fill:#f6f8fa;stroke:#d1d9e0;rx:6}.o{stroke:#cf222e;fill:#fff5f5}line{stroke:#cf222e;stroke-opacity:.45}"
    "line.a{stroke:#59636e;stroke-dasharray:4 4}"
)


def picture(found: FlowMap, *, styled: bool = True) -> str:
    """Return a map of flows as SVG: full lines where nobody is asked, dashed ones where a person is.

    Without `styled` it has no colours of its own: a page that shows it has them, for the class `flows`.
    """
    columns = [
        [reach for reach in found.reaches if getattr(reach, part)][:_MAX_ROWS]
        for part in ("private", "untrusted", "sends")
    ]
    height = _TOP + _ROW * max(1, *map(len, columns)) + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" class="flows">',
        f"<title>{found.count} open paths</title>" + (f"<style>{_STYLE}</style>" if styled else ""),
        f'<text class="h" x="20" y="24">{found.count} open paths from private text to the outside</text>',
    ]
    for number, (left, right) in enumerate(pairwise(columns)):
        parts += _lines(_COLUMNS[number][0] + _BOX, left, _COLUMNS[number + 1][0], right, senders=number == 1)
    for (x, title), column, part in zip(_COLUMNS, columns, ("private", "untrusted", "sends"), strict=True):
        parts.append(f'<text class="h" x="{x}" y="54">{escape(title)}</text>')
        parts += [_box(x, _TOP + _ROW * row, reach, getattr(reach, part), part) for row, reach in enumerate(column)]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _lines(x1: int, left: list[Reach], x2: int, right: list[Reach], *, senders: bool) -> list[str]:
    return [
        f'<line{" class=" + chr(34) + "a" + chr(34) if senders and to.asks else ""} x1="{x1}" '
        f'y1="{_TOP + _ROW * one + 17}" x2="{x2}" y2="{_TOP + _ROW * two + 17}"/>'
        for one in range(len(left))
        for two, to in enumerate(right)
    ]


def _box(x: int, y: int, reach: Reach, said: str, part: str) -> str:
    kind = ' class="o"' if part == "sends" and not reach.asks else ""
    asked = " (asks)" if part == "sends" and reach.asks else ""
    return (
        f'<rect{kind} x="{x}" y="{y}" width="{_BOX}" height="34"/>'
        f'<text x="{x + 8}" y="{y + 15}">{escape(_cut(reach.tool))}</text>'
        f'<text class="s" x="{x + 8}" y="{y + 28}">{escape(_cut(said, 31 if asked else 38))}{asked}</text>'
    )


def _cut(text: str, limit: int = _NAME_CHARS) -> str:
    plain = "".join(char for char in text if char.isprintable())
    return plain if len(plain) <= limit else f"{plain[: limit - 3]}..."
