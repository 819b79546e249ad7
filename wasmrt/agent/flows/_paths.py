"""Find and draw paths of data through tools, from private text and untrusted content to tools that send data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Any

from wasmrt.core.setting_commands import set_command

MAX_PATHS = 10_000


@dataclass(frozen=True, slots=True)
class Reach:
    """The parts that a tool can have in a path. A phrase describes each part; it is empty if the part is impossible."""

    tool: str
    private: str = ""
    """A phrase that says how the tool reads private text, such as `reads files`."""
    untrusted: str = ""
    """A phrase that says where the tool reads untrusted content, such as `from the network`."""
    sends: str = ""
    """A phrase that says how the tool can send data, such as `can send requests, whose paths carry data`."""
    asks: bool = False
    """True if every call of the tool requires approval."""


@dataclass(frozen=True, slots=True)
class FlowPath:
    """A path, through one to three tools, on which untrusted content can cause private text to be sent."""

    private: Reach
    untrusted: Reach
    sender: Reach

    @property
    def is_open(self) -> bool:
        """True if the call that sends the text requires no approval."""
        return not self.sender.asks

    @property
    def sentence(self) -> str:
        """A description of the path."""
        private, untrusted, sender = self.private, self.untrusted, self.sender
        reader = "it" if untrusted.tool == private.tool else untrusted.tool
        by = "it" if sender.tool == private.tool and untrusted.tool == private.tool else sender.tool
        approval = "; approval required" if sender.asks else ""
        return (
            f"{private.tool} {private.private}; untrusted content that {reader} reads ({untrusted.untrusted}) can make "
            f"the agent send it: {by} {sender.sends}{approval}"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the path as JSON data."""
        return {
            "private": self.private.tool, "untrusted": self.untrusted.tool, "sender": self.sender.tool,
            "open": self.is_open, "sentence": self.sentence,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class FlowSummary:
    """The shortest of all paths that end with the same tool, and the number of these paths."""

    shortest: FlowPath
    count: int

    @property
    def sentence(self) -> str:
        """A description of the shortest path, and the number of other paths."""
        more = self.count - 1
        return self.shortest.sentence + (f" (and {more:,} more paths to it)" if more else "")


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the policy that closes open paths, and the number of these paths."""

    tool: str
    breaks: int

    @property
    def line(self) -> str:
        """The change as one TOML line with a dotted key."""
        return f'tools.rules."{self.tool}".permission = "ask"'

    @property
    def command(self) -> str:
        """The command that makes the change."""
        return set_command("tools.rules.NAME.permission", "ask", self.tool)


@dataclass(frozen=True, slots=True)
class FlowMap:
    """The tools of a view, and all paths through them."""

    reaches: tuple[Reach, ...]

    def paths(self) -> Iterator[FlowPath]:
        """Return an iterator over all paths. Paths through fewer tools come first."""
        private = [reach for reach in self.reaches if reach.private]
        untrusted = [reach for reach in self.reaches if reach.untrusted]
        senders = [reach for reach in self.reaches if reach.sends]
        found = (FlowPath(one, two, three) for three in senders for one in private for two in untrusted)
        return iter(sorted(_take_paths(found), key=lambda path: len(_get_tools(path))))

    def summary(self) -> list[FlowSummary]:
        """Return the shortest path to each tool that sends data, with the number of paths to it; open paths first."""
        private = [reach for reach in self.reaches if reach.private]
        untrusted = [reach for reach in self.reaches if reach.untrusted]
        found = []
        for sender in self.reaches if private and untrusted else ():
            if sender.sends:
                paths = _take_paths(FlowPath(one, two, sender) for one in private for two in untrusted)
                shortest = min(paths, key=lambda path: len(_get_tools(path)))
                found.append(FlowSummary(shortest, len(private) * len(untrusted)))
        return sorted(found, key=lambda each: not each.shortest.is_open)

    @property
    def count(self) -> int:
        """The number of open paths."""
        return self._reading_pairs * sum(1 for reach in self.reaches if reach.sends and not reach.asks)

    def changes(self) -> tuple[Change, ...]:
        """Return one change for each tool that sends without approval. The change closes all paths to that tool."""
        return tuple(
            Change(reach.tool, self._reading_pairs)
            for reach in self.reaches
            if reach.sends and not reach.asks and self._reading_pairs
        )

    @property
    def _reading_pairs(self) -> int:
        return sum(bool(each.private) for each in self.reaches) * sum(bool(each.untrusted) for each in self.reaches)

    def as_dict(self) -> dict[str, Any]:
        """Return tools, paths and changes as JSON data."""
        return {
            "tools": [
                {"tool": each.tool, "private": each.private, "untrusted": each.untrusted, "sends": each.sends,
                 "asks": each.asks} for each in self.reaches
            ],
            "open": self.count,
            "paths": [path.as_dict() for path in self.paths()],
            "changes": [{"line": each.line, "breaks": each.breaks} for each in self.changes()],
        }  # fmt: skip


def _take_paths(paths: Iterable[FlowPath]) -> list[FlowPath]:
    return [path for path, _ in zip(paths, range(MAX_PATHS), strict=False)]


def _get_tools(path: FlowPath) -> set[str]:
    return {path.private.tool, path.untrusted.tool, path.sender.tool}


_WIDTH, _BOX, _ROW, _TOP = 900, 240, 44, 70
_COLUMNS = ((20, "reads private text"), (330, "reads untrusted content"), (640, "sends data out"))
_MAX_ROWS = 40
_NAME_CHARS = 28
_STYLE = (
    "text{font:13px sans-serif;fill:#1f2328}.h{font-weight:600}.s{font-size:11px;fill:#59636e}"
    "rect{fill:#f6f8fa;stroke:#d1d9e0;rx:6}.o{stroke:#cf222e;fill:#fff5f5}line{stroke:#cf222e;stroke-opacity:.45}"
    "line.a{stroke:#59636e;stroke-dasharray:4 4}"
)


def draw_paths(found: FlowMap) -> str:
    """Return a map of flows as SVG. Lines of open paths are solid, lines of paths that require approval dashed."""
    columns = [
        [reach for reach in found.reaches if getattr(reach, part)][:_MAX_ROWS]
        for part in ("private", "untrusted", "sends")
    ]
    height = _TOP + _ROW * max(1, *map(len, columns)) + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
        f"<title>{found.count} open paths</title><style>{_STYLE}</style>",
        f'<text class="h" x="20" y="24">{found.count} open paths from private text to the outside</text>',
    ]
    for number, (left, right) in enumerate(pairwise(columns)):
        parts += _draw_lines(_COLUMNS[number][0] + _BOX, left, _COLUMNS[number + 1][0], right, senders=number == 1)
    for (x, title), column, part in zip(_COLUMNS, columns, ("private", "untrusted", "sends"), strict=True):
        parts.append(f'<text class="h" x="{x}" y="54">{escape(title)}</text>')
        parts += [
            _draw_box(x, _TOP + _ROW * row, reach, getattr(reach, part), part) for row, reach in enumerate(column)
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _draw_lines(x1: int, left: list[Reach], x2: int, right: list[Reach], *, senders: bool) -> list[str]:
    return [
        f'<line{" class=" + chr(34) + "a" + chr(34) if senders and to.asks else ""} x1="{x1}" '
        f'y1="{_TOP + _ROW * one + 17}" x2="{x2}" y2="{_TOP + _ROW * two + 17}"/>'
        for one in range(len(left))
        for two, to in enumerate(right)
    ]


def _draw_box(x: int, y: int, reach: Reach, text: str, part: str) -> str:
    kind = ' class="o"' if part == "sends" and not reach.asks else ""
    asked = " (asks)" if part == "sends" and reach.asks else ""
    return (
        f'<rect{kind} x="{x}" y="{y}" width="{_BOX}" height="34"/>'
        f'<text x="{x + 8}" y="{y + 15}">{escape(_cut(reach.tool))}</text>'
        f'<text class="s" x="{x + 8}" y="{y + 28}">{escape(_cut(text, 31 if asked else 38))}{asked}</text>'
    )


def _cut(text: str, limit: int = _NAME_CHARS) -> str:
    plain = "".join(char for char in text if char.isprintable())
    return plain if len(plain) <= limit else f"{plain[: limit - 3]}..."
