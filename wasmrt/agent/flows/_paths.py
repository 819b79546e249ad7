"""Paths of data through tools, from what each can reach: what is private, a stranger's word, and the way out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

MAX_PATHS = 10_000
_ASKS = 'permission = "ask"'


@dataclass(frozen=True, slots=True)
class Reach:
    """The part that one tool can have in a path, each in words; empty for one that it cannot have."""

    tool: str
    private: str = ""
    """The private text that it reads: `reads files`."""
    untrusted: str = ""
    """The strangers' text that it takes in."""
    sends: str = ""
    """The way in which it can send something out."""
    asks: bool = False
    """True where a person is asked about each call that sends."""


@dataclass(frozen=True, slots=True)
class FlowPath:
    """One way for private text to leave at a stranger's word, by one, two or three tools."""

    private: Reach
    untrusted: Reach
    sender: Reach

    @property
    def is_open(self) -> bool:
        """True where nobody is asked about the call that sends."""
        return not self.sender.asks

    @property
    def sentence(self) -> str:
        """The path in words."""
        private, untrusted, sender = self.private, self.untrusted, self.sender
        told = "a text that it takes in" if untrusted.tool == private.tool else f"a text that {untrusted.tool} takes in"
        by = "it" if sender.tool == private.tool and untrusted.tool == private.tool else sender.tool
        asked = "; a person is asked" if sender.asks else ""
        return (
            f"{private.tool} {private.private}; {told} ({untrusted.untrusted}) can have it sent on: "
            f"{by} {sender.sends}{asked}"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the path as JSON data."""
        return {
            "private": self.private.tool, "untrusted": self.untrusted.tool, "sender": self.sender.tool,
            "open": self.is_open, "sentence": self.sentence,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class FlowSummary:
    """All paths that end with one tool."""

    shortest: FlowPath
    count: int

    @property
    def sentence(self) -> str:
        """The shortest path in words, and the number of the others."""
        more = self.count - 1
        return self.shortest.sentence + (f" (and {more:,} more ways to it)" if more else "")


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the policy that breaks open paths, and how many of them."""

    tool: str
    breaks: int

    @property
    def line(self) -> str:
        """The change as one line, by its whole key."""
        return f'tools.rules."{self.tool}".{_ASKS}'

    @property
    def section(self) -> tuple[str, str]:
        """The change as a section of its own: it may stand beside `[tools]`, where the one line may not."""
        return f'[tools.rules."{self.tool}"]', _ASKS


@dataclass(frozen=True, slots=True)
class FlowMap:
    """The tools of a view, and every path through them."""

    reaches: tuple[Reach, ...]

    def paths(self) -> Iterator[FlowPath]:
        """Yield every path, those of few tools first."""
        private = [reach for reach in self.reaches if reach.private]
        untrusted = [reach for reach in self.reaches if reach.untrusted]
        senders = [reach for reach in self.reaches if reach.sends]
        found = (FlowPath(one, two, three) for three in senders for one in private for two in untrusted)
        return iter(sorted(_first(found), key=lambda path: len(_tools(path))))

    def summary(self) -> list[FlowSummary]:
        """Return for each tool that sends the shortest path to it and the number of all, open ones first."""
        private = [reach for reach in self.reaches if reach.private]
        untrusted = [reach for reach in self.reaches if reach.untrusted]
        found = []
        for sender in self.reaches if private and untrusted else ():
            if sender.sends:
                paths = _first(FlowPath(one, two, sender) for one in private for two in untrusted)
                shortest = min(paths, key=lambda path: len(_tools(path)))
                found.append(FlowSummary(shortest, len(private) * len(untrusted)))
        return sorted(found, key=lambda each: not each.shortest.is_open)

    @property
    def count(self) -> int:
        """The number of paths that are open."""
        return self._reading * sum(1 for reach in self.reaches if reach.sends and not reach.asks)

    def changes(self) -> tuple[Change, ...]:
        """Return for each tool that sends without a question the line that breaks its paths, and no more."""
        return tuple(
            Change(reach.tool, self._reading)
            for reach in self.reaches
            if reach.sends and not reach.asks and self._reading
        )

    @property
    def _reading(self) -> int:
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


def _first(paths: Iterable[FlowPath]) -> list[FlowPath]:
    return [path for path, _ in zip(paths, range(MAX_PATHS), strict=False)]


def _tools(path: FlowPath) -> set[str]:
    return {path.private.tool, path.untrusted.tool, path.sender.tool}
