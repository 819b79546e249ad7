"""A horizontal bar chart as SVG, readable on light and dark pages."""

from __future__ import annotations

from html import escape

WIDTH, LEFT, RIGHT, ROW, TOP, FOOT = 760, 270, 110, 30, 62, 34
_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #24292f }
.title { font-size: 16px; font-weight: 600 }
.note, .foot { fill: #57606a; font-size: 12px }
.ours { fill: #0f766e } .floor { fill: #64748b } .other { fill: #b8c1cc } .axis { stroke: #d0d7de }
.strong { font-weight: 600 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .note, .foot { fill: #9198a1 }
  .ours { fill: #2dd4bf } .floor { fill: #94a3b8 } .other { fill: #475569 } .axis { stroke: #3d444d }
}
"""


def chart(title: str, note: str, foot: str, bars: list[tuple[str, float]], *, cut: float) -> str:
    """Draw bars of microseconds, shortest first. A bar longer than `cut` is drawn broken, with its value next to it."""
    ordered = sorted(bars, key=lambda bar: bar[1])
    height = TOP + ROW * len(ordered) + FOOT
    longest = min(max(value for _, value in ordered), cut)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" aria-label="{escape(title)}">',
        f"<style>{_STYLE}</style>",
        f'<text class="title" x="16" y="26">{escape(title)}</text>',
        f'<text class="note" x="16" y="46">{escape(note)}</text>',
        f'<line class="axis" x1="{LEFT}" y1="{TOP - 4}" x2="{LEFT}" y2="{TOP + ROW * len(ordered)}"/>',
    ]
    for index, (name, value) in enumerate(ordered):
        parts += _bar(name, value, TOP + index * ROW, longest)
    parts.append(f'<text class="foot" x="16" y="{height - 12}">{escape(foot)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _bar(name: str, value: float, top: float, longest: float) -> list[str]:
    room = WIDTH - LEFT - RIGHT
    width = room * min(value, longest) / longest
    kind = "ours" if name.startswith("wasmrt") else "floor" if name.startswith("C,") else "other"
    strong = ' class="strong"' if kind == "ours" else ""
    middle = top + ROW / 2
    parts = [
        f'<text{strong} x="{LEFT - 10}" y="{middle + 4:.0f}" text-anchor="end">{escape(name)}</text>',
        f'<rect class="{kind}" x="{LEFT}" y="{top + 5:.0f}" width="{width:.1f}" height="{ROW - 10}" rx="3"/>',
        f'<text{strong} x="{LEFT + width + 8:.1f}" y="{middle + 4:.0f}">{value:.3g} us</text>',
    ]
    if value > longest:
        at = LEFT + width - 40
        parts.append(
            f'<path d="M{at:.0f} {top + 2:.0f} l6 {ROW - 4} m8 0 l-6 -{ROW - 4}" class="axis" fill="none" '
            'stroke-width="3"/>'
        )
    return parts
