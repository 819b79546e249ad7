"""Values and paths of an agent's memory: documents, versions, search results, and the files that tools cannot write."""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime
from enum import IntEnum
from shlex import quote
from typing import Any, NamedTuple

from wasmrt.agent.flows import make_skeleton
from wasmrt.capabilities import is_invisible, is_prompt_file, path_problem, plain_path
from wasmrt.core.errors import InvalidParametersError
from wasmrt.core.limits import MAX_MEMORY_PATH_BYTES, MAX_MEMORY_PATH_DEPTH
from wasmrt.core.model import Decision, Reason
from wasmrt.core.names import path_key
from wasmrt.core.normal_form import normalize


class Trust(IntEnum):
    """The origin of a stored text. Text from several origins has the highest value."""

    TRUSTED = 0
    """Written by a user, or by a conversation without untrusted content."""
    UNKNOWN = 1
    """Written by a call without tracked labels."""
    UNTRUSTED = 2
    """Written by a conversation with untrusted content."""

    @property
    def word(self) -> str:
        """The name used in results."""
        return self.name.lower()


class Author(IntEnum):
    """The writer of a version."""

    TOOL = 0
    PERSON = 1


class MemoryVersion(NamedTuple):
    """One version of a document."""

    path: str
    number: int
    bytes: int
    """Size of the text that this version wrote. For an appended version, this is only the appended text."""
    appended: bool
    trust: Trust
    author: Author
    made_ms: int

    def as_dict(self) -> dict[str, Any]:
        """Return the version as JSON data."""
        return self._asdict() | {"trust": self.trust.word, "author": self.author.name.lower()}


class MemoryDocument(NamedTuple):
    """The content of a document at one of its versions."""

    path: str
    content: str
    number: int
    """The version's number."""
    trust: Trust
    updated_ms: int


class MemoryEntry(NamedTuple):
    """A document without its content."""

    path: str
    bytes: int
    number: int
    trust: Trust
    updated_ms: int


class MemoryHit(NamedTuple):
    """A chunk of a document that matches a search."""

    path: str
    content: str
    score: float
    """From 0 to 1. A chunk that is first in each kind of search scores 1."""
    found_by: tuple[str, ...]
    """`text`, `vector`, or both."""
    trust: Trust
    updated_ms: int


class MemoryFindings(NamedTuple):
    """The result of a search, best hit first."""

    hits: tuple[MemoryHit, ...]
    search: str
    """`hybrid`, or `full-text` if no vectors were compared."""
    note: str = ""
    """The reason why vectors were not compared although an embedder is configured."""


_FILES = {"memory": "MEMORY.md", "heartbeat": "HEARTBEAT.md"}
DAILY_LOG = "daily_log"
_DAY = re.compile(r"daily/\d{4}-\d\d-\d\d\.md", re.ASCII)
_REFUSED = ("Cc", "Cs", "Co", "Cn", "Zl", "Zp")


class Target(NamedTuple):
    """A document named by a tool's parameter."""

    path: str
    stamp: str = ""
    """The timestamp to write before a log entry."""


def read_target(text: str, now: datetime | None = None) -> Target:
    """Return the document named by `memory`, `daily_log` (the current day in UTC), `heartbeat` or a path.

    Raises:
        InvalidParametersError: the path is invalid.
    """
    name = text.strip().casefold() if isinstance(text, str) else ""
    if name == DAILY_LOG:
        now = now or datetime.now(UTC)
        return Target(f"daily/{now:%Y-%m-%d}.md", f"[{now:%H:%M:%S}] ")
    return Target(_FILES.get(name) or read_path(text))


def is_target(path: str) -> bool:
    """Return whether `memory`, `daily_log` or `heartbeat` refers to this path, so that no caller chose its name."""
    return path in _FILES.values() or _DAY.fullmatch(path) is not None


def read_path(text: str) -> str:
    """Return a path in canonical form: without empty segments, in Unicode's composed form (NFC).

    Raises:
        InvalidParametersError: the path is invalid.
    """
    path = "" if path_problem(text) else normalize("NFC", plain_path(text))
    problem = path_problem(text) or _find_problem(path)
    if problem is not None:
        raise InvalidParametersError(problem, code=str(Reason.INVALID_PATH), hint="write it like projects/notes.md")
    return path


def decide_write(path: str) -> Decision | None:
    """Return the refusal if a tool may not write a path, otherwise None.

    SECURITY: prompt files are part of the prompt of the agent's model. A name that looks like a prompt file counts as
    one: a different case or Unicode form, look-alike letters, invisible characters.
    """
    # `read_path` refuses an invalid path, with a specific error.
    if (
        not isinstance(path, str)
        or path_problem(path)
        or not (is_prompt_file(path) or is_prompt_file(make_skeleton(path)))
    ):
        return None
    rule = "tools cannot write files that define the agent"
    shown = plain_path(path)[:MAX_MEMORY_PATH_BYTES]
    hint = f"a user can write it: wasmrt memory write {quote(shown)} FILE"
    return Decision(False, Reason.PROTECTED_FILE, rule, hint, "memory.write", shown)


def _find_problem(path: str) -> str | None:
    if not path:
        return "the path is empty"
    if len(path.encode()) > MAX_MEMORY_PATH_BYTES:
        return f"the path is longer than {MAX_MEMORY_PATH_BYTES} bytes"
    if path.count("/") >= MAX_MEMORY_PATH_DEPTH:
        return f"the path is deeper than {MAX_MEMORY_PATH_DEPTH} folders"
    if any(is_invisible(char) or unicodedata.category(char) in _REFUSED for char in path):
        return "the path contains an invisible character"
    key = path_key(path)
    if key.count("/") != path.count("/") or "\\" in key or {".", ".."} & {*key.split("/")}:
        return "the path contains a character that looks like a slash or dots"
    if any(name != name.strip() or name.endswith(".") for name in path.split("/")):
        return "the path contains a name that begins or ends with a space, or ends with a dot"
    return None
