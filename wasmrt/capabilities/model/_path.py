"""Path patterns: an exact path, or a prefix of whole segments. The segment `*` matches any one segment."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import zip_longest
from typing import NamedTuple

from wasmrt.core.errors import ConfigurationError
from wasmrt.core.url import find_ambiguity, is_plain_segment, split_path

MAX_PATH_LENGTH = 2048
ANY_SEGMENT = "*"
_PATH = re.compile(r'/[^\x00-\x20\x7f-\U0010ffff?#\\"]*\Z')


class PathPattern(NamedTuple):
    """A pattern for paths: the first segments of a matching path, and how many segments it can have."""

    text: str
    """The pattern as written. A prefix that ends in `/` matches only paths below it."""
    names: tuple[str | None, ...]
    """The first segments of a matched path, decoded. None matches one plain segment."""
    least: int
    """The minimum number of segments of a matched path."""
    most: int | None
    """The maximum number of segments; None for a prefix."""

    @property
    def has_wildcard(self) -> bool:
        """True if a segment is `*`."""
        return None in self.names

    def matches(self, segments: Sequence[str]) -> bool:
        """Return whether the pattern matches a path, given as decoded segments."""
        if len(segments) < self.least or (self.most is not None and len(segments) > self.most):
            return False
        return not self.names or all(map(_is_within, segments, self.names))

    def within(self, outer: PathPattern) -> bool:
        """Return whether `outer` matches every path that this pattern matches."""
        if outer.most is not None and (self.most is None or self.most > outer.most):
            return False
        if self.least < outer.least or len(self.names) < len(outer.names):
            return False
        return all(_is_within(mine, theirs) for mine, theirs in zip(self.names, outer.names, strict=False))

    def intersect(self, other: PathPattern) -> PathPattern | None:
        """Return the pattern for the paths that both patterns match, or None if there is no such path."""
        least = max(self.least, other.least)
        most = min((bound for bound in (self.most, other.most) if bound is not None), default=None)
        if most is not None and most < least:
            return None
        written = []
        for mine, theirs in zip_longest(self._segments(), other._segments()):
            if theirs is None or (mine is not None and _is_within(mine[1], theirs[1])):
                written.append(mine[0])
            elif mine is None or _is_within(theirs[1], mine[1]):
                written.append(theirs[0])
            else:
                return None
        below = [""] if least > len(written) else []
        return path_pattern(f"/{'/'.join([*written, *below])}", is_exact=most is not None)

    def subtract(self, other: PathPattern) -> PathPattern | None:
        """Return the pattern for the paths that match this pattern, but not `other`.

        Raises:
            ConfigurationError: no single pattern matches exactly these paths.
        """
        common = self.intersect(other)
        if common is None:
            return self
        if self.within(common):
            return None
        # Only `/a` without `/a/`, and `/a` without the single path `/a`, are patterns.
        if self.most is None and len(common.names) == len(self.names) == self.least and self._has_same_names(common):
            return path_pattern(self.text if common.most is None else f"{self.text}/", is_exact=common.most is None)
        raise ConfigurationError(f"no pattern matches {self.text} without {common.text}")

    def _has_same_names(self, other: PathPattern) -> bool:
        return all(_is_within(a, b) for a, b in zip(self.names, other.names, strict=True))

    def _segments(self) -> list[tuple[str, str | None]]:
        return list(zip(self.text[1:].split("/"), self.names, strict=False))

    @property
    def rank(self) -> tuple[int, int, int]:
        """A sort key. If one pattern is within another, the inner (narrower) pattern has the larger key."""
        return len(self.names), len(self.names) - self.names.count(None), self.least


def _is_within(inner: str | None, outer: str | None) -> bool:
    """Return whether `outer` covers `inner`. Each is a literal segment, or None for `*`."""
    # SECURITY: `*` matches only what every server reads as one segment, so that the segments after it are compared
    # with the same segments of the path that the server uses.
    return inner == outer or (outer is None and inner is not None and is_plain_segment(inner))


@lru_cache(maxsize=1024)
def path_pattern(text: str, *, is_exact: bool) -> PathPattern:
    """Parse a valid text as a pattern for one exact path or, if `is_exact` is false, for a prefix.

    The prefix `/v1/messages` matches this path and every path below it. The prefix `/v1/` matches only paths below it.
    """
    decoded = split_path(text)
    written = text[1:].split("/")
    names = tuple(None if raw == ANY_SEGMENT else name for raw, name in zip(written, decoded, strict=False))
    if is_exact:
        return PathPattern(text, names, len(names), len(names))
    return PathPattern(text, names[:-1] if names[-1:] == ("",) else names, len(names), None)


def read_path_pattern(text: object) -> str:
    """Return `text` unchanged if it is a valid path or path prefix, in which segments may be `*`.

    Raises:
        ConfigurationError: the text is relative or too long, contains a query, a dot segment or an invalid escape, or
            has a `*` that is only a part of a segment.
    """
    if not isinstance(text, str) or not _PATH.match(text):
        raise ConfigurationError(
            f"path {text!r:.200} must begin with '/' and contain only path characters",
            hint='write it like "/v1/" or "/v1/*/items", without a query or a fragment',
        )
    if len(text) > MAX_PATH_LENGTH:
        raise ConfigurationError(f"a path must have at most {MAX_PATH_LENGTH} characters, not {len(text)}")
    for segment in text.split("/"):
        if segment == "**":
            raise ConfigurationError(
                f"path {text!r:.200} contains '**'; a '*' matches exactly one segment",
                hint="write '*' for each segment; a path_prefix already covers everything below it",
            )
        if ANY_SEGMENT in segment and segment != ANY_SEGMENT:
            raise ConfigurationError(
                f"path {text!r:.200} has a '*' within the segment {segment!r:.80}; it must be a whole segment",
                hint="write '*' for any one segment, or %2A for the character itself",
            )
    unclear = find_ambiguity(text)
    if unclear is not None:
        raise ConfigurationError(f"path {text!r:.200} contains {unclear}")
    return text
