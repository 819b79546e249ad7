"""Paths of an agent's memory, the targets that stand for some, and the files that no tool writes."""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime
from shlex import quote
from typing import NamedTuple

from wasmrt.agent.flows import skeleton
from wasmrt.capabilities import is_prompt_file, is_unseen, path_problem, plain_path
from wasmrt.core.errors import InvalidParametersError
from wasmrt.core.limits import MAX_MEMORY_PATH_BYTES, MAX_MEMORY_PATH_DEPTH
from wasmrt.core.model import Decision, Reason
from wasmrt.core.names import path_key

_FILES = {"memory": "MEMORY.md", "heartbeat": "HEARTBEAT.md"}
DAILY_LOG = "daily_log"
_DAY = re.compile(r"daily/\d{4}-\d\d-\d\d\.md", re.ASCII)
_REFUSED = ("Cc", "Cs", "Co", "Cn", "Zl", "Zp")


class Target(NamedTuple):
    """A place in the memory, as a tool's parameter names it."""

    path: str
    stamp: str = ""
    """The time that an entry of a log begins with."""


def read_target(text: str, now: datetime | None = None) -> Target:
    """Return the place that `memory`, `daily_log`, `heartbeat` or a path stands for. A log's day is that of UTC.

    Raises:
        InvalidParametersError: it is no path of a memory.
    """
    name = text.strip().casefold() if isinstance(text, str) else ""
    if name == DAILY_LOG:
        now = now or datetime.now(UTC)
        return Target(f"daily/{now:%Y-%m-%d}.md", f"[{now:%H:%M:%S}] ")
    return Target(_FILES.get(name) or read_path(text))


def is_target(path: str) -> bool:
    """Tell whether a path is one that a target stands for, which nobody made up."""
    return path in _FILES.values() or _DAY.fullmatch(path) is not None


def read_path(text: str) -> str:
    """Return a path in its one spelling: without empty segments, in Unicode's composed form.

    Raises:
        InvalidParametersError: it is no path of a memory.
    """
    path = "" if path_problem(text) else unicodedata.normalize("NFC", plain_path(text))
    problem = path_problem(text) or _problem(path)
    if problem is not None:
        raise InvalidParametersError(problem, code=str(Reason.INVALID_PATH), hint="write it like projects/notes.md")
    return path


def decide_write(path: str) -> Decision | None:
    """Decide whether a tool may write a path as it was given; None where nothing is against it.

    SECURITY: these files go into the prompt of the agent's model. A name that a reader takes for one of them counts as
    one: another case or Unicode form, letters of other scripts, characters that nobody sees.
    """
    # What cannot be a path at all is refused as that.
    if not isinstance(path, str) or path_problem(path) or not (is_prompt_file(path) or is_prompt_file(skeleton(path))):
        return None
    rule = "the file says what an agent is, which tools never write"
    shown = plain_path(path)[:MAX_MEMORY_PATH_BYTES]
    hint = f"a person writes it: wasmrt memory write {quote(shown)} FILE"
    return Decision(False, Reason.PROTECTED_FILE, rule, hint, "memory.write", shown)


def _problem(path: str) -> str | None:
    if not path:
        return "the path names nothing"
    if len(path.encode()) > MAX_MEMORY_PATH_BYTES:
        return f"the path is longer than {MAX_MEMORY_PATH_BYTES} bytes"
    if path.count("/") >= MAX_MEMORY_PATH_DEPTH:
        return f"the path is deeper than {MAX_MEMORY_PATH_DEPTH} folders"
    if any(is_unseen(char) or unicodedata.category(char) in _REFUSED for char in path):
        return "the path holds a character that nobody sees"
    key = path_key(path)
    if key.count("/") != path.count("/") or "\\" in key or {".", ".."} & {*key.split("/")}:
        return "the path holds a character that reads as a slash or as dots"
    if any(name != name.strip() or name.endswith(".") for name in path.split("/")):
        return "the path holds a name with a blank or a dot at its edge"
    return None
