"""Find all paths that the words of a command may name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

from wasmrt.agent.builtin.shell._words import ANY, DECODED, NAME_PART, UNKNOWN, Field, to_words
from wasmrt.capabilities.model import protected_problem

_SEPARATORS = re.compile(r"[\s:=,;@'\"()<>|&`{}\[\]#%!]+")
_SAFE_DEVICES = to_words("null zero full random urandom stdin stdout stderr tty fd shm ptmx pts tcp udp mqueue console")
_TOP = to_words(
    "bin boot dev etc home lib lib32 lib64 libx32 media mnt opt proc root run sbin srv sys usr var Users System "
    "Library Applications Volumes private"
)
_LEAST_LETTERS = 3
"""Minimum number of letters for a partly unknown word to count as a path."""


class FoundPath(NamedTuple):
    """A path with `.` and `..` resolved lexically."""

    parts: tuple[str, ...]
    absolute: bool
    home: bool = False
    climbed: bool = False

    @property
    def uncertain(self) -> bool:
        """True if a part is unknown."""
        return any(mark in part for part in self.parts for mark in (ANY, DECODED))


def iter_paths(fields: Iterable[Field], folders: Iterable[FoundPath] = ()) -> Iterator[FoundPath]:
    """Yield every path that words may name, relative to each folder that the script changes to."""
    folders = tuple(folders)
    for field in fields:
        for text in _split_at_separators(field.text):
            own = resolve_lexically(text)
            yield own
            if own.absolute or own.home:
                continue
            for folder in folders:
                yield resolve_lexically("/".join((*folder.parts, text)), absolute=folder.absolute, home=folder.home)
            if own.climbed:
                yield own._replace(absolute=True)


def resolve_lexically(text: str, *, absolute: bool = False, home: bool = False) -> FoundPath:
    """Return a path without `.`, `..` and the links in /proc to the root."""
    parts: list[str] = []
    absolute = absolute or text.startswith("/")
    climbed = False
    for index, part in enumerate(text.split("/")):
        if part in ("", "."):
            continue
        if index == 0 and part.startswith("~"):
            home = True
        elif part == "..":
            if parts:
                parts.pop()
            else:
                climbed, home, absolute = True, False, absolute or home
        else:
            parts.append(part)
            if absolute and len(parts) == 3 and parts[0] == "proc" and part in ("root", "cwd"):
                parts.clear()
    return FoundPath(tuple(parts), absolute, home, climbed)


def path_matches(path: FoundPath, pattern: str, *, certain: bool) -> bool:
    """Return whether a path matches a pattern of a rule, or is below a match.

    Patterns are keys of `_CLASSES`, absolute paths, or `**/` followed by a path that may occur anywhere. A pattern that
    ends with `$` does not match paths below it. If `certain` is false, a path that is known only in part
    matches if it could match.
    """
    if path.uncertain and (certain or sum(map(str.isalpha, "".join(path.parts))) < _LEAST_LETTERS):
        return False
    if pattern in _CLASSES:
        return _CLASSES[pattern](path)
    wanted = pattern.removeprefix("**/").removesuffix("$").strip("/").split("/")
    if pattern.startswith("**/"):
        first = len(path.parts) - len(wanted)
        places = range(first if pattern.endswith("$") else 0, first + 1) if first >= 0 else range(0)
        return any(_match_parts(path.parts[at : at + len(wanted)], wanted) and _has_letters(path, at) for at in places)
    return path.absolute and _match_parts(path.parts[: len(wanted)], wanted)


def _match_parts(parts: tuple[str, ...], wanted: list[str]) -> bool:
    return len(parts) == len(wanted) and all(map(_match_part, parts, wanted))


def _match_part(part: str, wanted: str) -> bool:
    if UNKNOWN.isdisjoint(part):
        return fnmatchcase(part.lower(), wanted.lower())
    if wanted.startswith(".") and not part.startswith(".") and part[0] == NAME_PART:
        return False  # a pattern does not match a leading dot
    return re.fullmatch(Field(part).expression(), wanted, re.IGNORECASE) is not None


def _split_at_separators(text: str) -> Iterator[str]:
    for piece in dict.fromkeys((text, *_SEPARATORS.split(text))):
        if not piece:
            continue
        yield piece
        if "/" in piece and piece.startswith("-"):
            yield piece[piece.index("/") :]
            yield re.sub("^-[a-zA-Z]+", "", piece)
        if "~" in piece[1:]:
            yield piece[piece.index("~") :]


def _has_letters(path: FoundPath, at: int) -> bool:
    """Return whether a part contains letters, so that it does not match every name."""
    return any(map(str.isalpha, path.parts[at]))


def _is_whole_tree(path: FoundPath) -> bool:
    parts = tuple(part for part in path.parts if set(part) - {NAME_PART, "."})
    if path.home:
        return not parts
    if not path.absolute or path.climbed:
        return False
    return (
        not parts
        or (len(parts) == 1 and any(_match_part(parts[0], top) for top in _TOP))
        or (len(parts) == 2 and parts[0] in ("home", "Users", "usr", "var"))
    )


def _is_device(path: FoundPath) -> bool:
    return path.absolute and len(path.parts) > 1 and path.parts[0] == "dev" and path.parts[1] not in _SAFE_DEVICES


def _is_kernel_path(path: FoundPath) -> bool:
    return path.absolute and path.parts[:1] in (("sys",), ("proc",)) and path.parts[1:2] != ("self",)


def _is_socket(path: FoundPath) -> bool:
    return path.absolute and path.parts[:2] in (("dev", "tcp"), ("dev", "udp"))


def _is_identity_path(path: FoundPath) -> bool:
    return not path.absolute and not path.home and protected_problem("/".join(path.parts)) is not None


def _is_settings_path(path: FoundPath) -> bool:
    return path.home and path.parts[:1] > (".",) and path.parts[0].startswith(".") and path.parts[0] != ".cache"


_CLASSES = {
    "settings": _is_settings_path,
    "identity": _is_identity_path,
    "everything": _is_whole_tree,
    "device": _is_device,
    "kernel": _is_kernel_path,
    "socket": _is_socket,
}
