"""Rules for each kind of name, and suggestions for misspelled names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

from blake3 import blake3

from wasmrt.core.errors import InvalidNameError
from wasmrt.core.lookalikes import LOOKALIKES
from wasmrt.core.normal_form import normalize

MAX_NAME_LENGTH = 64
"""Characters of a tool's name that both OpenAI and Anthropic accept."""
MAX_PROJECT_NAME_LENGTH = 40
_DIGEST_DIGITS = 8
_NEAR = 0.7
"""A `difflib` ratio. With the default of 0.6, `vault` would match `auto`."""
_MAX_COMPARED = 200

_INSTALLED = r"[a-z0-9][a-z0-9_-]{0,63}"
_INSTALLED_RULE = "use 1 to 64 lower-case letters, digits, '-' and '_', and start with a letter or a digit"
_PROJECT = r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*"
_PROJECT_RULE = "use up to 40 of a-z and 0-9 with single - between, starting with a letter, such as word-count"
_OFFERED = r"[a-zA-Z0-9_-]{1,64}"
_ALIAS = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}"
_INVOKED = r"[\x21-\x7e]{1,256}"
_SECRET = r"[a-z0-9_](?:[a-z0-9_.-]{0,126}[a-z0-9_])?"  # noqa: S105 - a rule, not a secret


def check_installed_name(name: str) -> str:
    """Return `name` if it is valid for an installed tool; it becomes part of commands and file names.

    Raises:
        InvalidNameError: the name is invalid; the hint has the rule.
    """
    if not re.fullmatch(_INSTALLED, name):
        shown = ascii(name[:MAX_NAME_LENGTH]) + ("..." if len(name) > MAX_NAME_LENGTH else "")
        raise InvalidNameError(f"{shown} is not a valid tool name", hint=_INSTALLED_RULE)
    return name


def installed_name(text: str) -> str:
    """Return a valid name for an installed tool that resembles `text`, such as a file name."""
    return re.sub("[^a-z0-9_-]", "-", text.lower())[:MAX_NAME_LENGTH].strip("-_") or "tool"


def check_prepared_name(name: object) -> str:
    """Return `name` if it is valid for a prepared tool; it is printed, but never part of a path.

    Raises:
        InvalidNameError: the name is invalid.
    """
    if not isinstance(name, str) or not name or len(name) > MAX_NAME_LENGTH or not name.isprintable():
        raise InvalidNameError(f"a tool's name is 1 to {MAX_NAME_LENGTH} printable characters, not {name!r:.80}")
    if any(mark in name for mark in "/\\") or name.startswith("."):
        raise InvalidNameError(
            f"the name {name!r} contains a separator or starts with a dot", hint="use letters, digits, - and _"
        )
    return name


def check_project_name(name: str) -> str:
    """Return `name` if it is valid for a tool's project; its directory, crate, module and package get this name.

    Raises:
        InvalidNameError: the name is invalid; the hint has the rule.
    """
    if any(mark in name for mark in "/\\"):
        raise InvalidNameError(f"{name!r:.60} contains a separator", hint=f"change the folder first; {_PROJECT_RULE}")
    if len(name) > MAX_PROJECT_NAME_LENGTH or not re.fullmatch(_PROJECT, name):
        raise InvalidNameError(f"{name!r:.60} is not a valid tool name", hint=_PROJECT_RULE)
    return name


def is_offered_name(name: str) -> bool:
    """Return whether every model provider accepts `name` for a tool; MCP accepts more names."""
    return re.fullmatch(_OFFERED, name) is not None


def offered_name(name: str) -> str:
    """Return a name that every provider accepts: other characters become `-`, and a long name ends in a digest."""
    fitting = re.sub(r"[^a-zA-Z0-9_-]+", "-", name).strip("-") or "tool"
    return fitting if len(fitting) <= MAX_NAME_LENGTH else shorten_name(fitting, name)


def shorten_name(name: str, whole: str, limit: int = MAX_NAME_LENGTH) -> str:
    """Return `name` truncated to `limit` characters, with a digest of `whole` at the end."""
    kept = name[: limit - _DIGEST_DIGITS - 1].rstrip("-")
    digest = blake3(whole.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{kept}-{digest[:_DIGEST_DIGITS]}"


def fold_name(name: str) -> str:
    """Return `name` without differences that models, clients and people confuse.

    These are letter case, `_` for `-`, full-width and other compatible forms, and letters that look like ASCII.
    """
    if not name.isascii():
        # SECURITY: otherwise a tool could imitate a protected name in a list that a person reads.
        name = path_key(name).translate(LOOKALIKES)
    return name.lower().replace("-", "_")


def spelling(name: str) -> str:
    """Return the common spelling of a model's variants of a name: `files_read_text` for `files.read_text`."""
    return fold_name(name).replace(".", "_")


def path_key(path: str) -> str:
    """Return the form of `path` by which case-insensitive, normalizing file systems compare names."""
    return normalize("NFKC", normalize("NFKC", path).casefold())


def setting_secret_name(tool: str, name: str) -> str:
    """Return the name of the secret for a tool's setting; it starts with the tool's name."""
    prefix, name = f"{fold_name(tool)}_", name.replace("-", "_").replace(".", "_")
    return name.lower() if name.lower().startswith(prefix) else f"{prefix}{name.lower()}"


def is_alias(text: str) -> bool:
    """Return whether `text` is a valid alias for a tool that a guest invokes."""
    return re.fullmatch(_ALIAS, text) is not None


def is_invoked_name(text: str) -> bool:
    """Return whether `text` is a valid name for the tool behind an alias: 1 to 256 visible ASCII characters."""
    return re.fullmatch(_INVOKED, text) is not None


def is_secret_name(text: str) -> bool:
    """Return whether `text`, in lower case, is a valid secret name: up to 128 letters, digits, `_`, `-` and `.`."""
    return re.fullmatch(_SECRET, text) is not None


def did_you_mean(word: object, known: Iterable[str]) -> str | None:
    """Return the known name that `word` probably misspells, or None.

    The result is the closest match, ignoring case. If no name is close, the result is the name that begins with `word`
    or has exactly its letters, if there is only one such name. Only the first 200 names are compared.
    """
    if not isinstance(word, str) or not word:
        return None
    meant = word[:MAX_NAME_LENGTH].lower()
    candidates = {name.lower(): name for name in islice(known, _MAX_COMPARED)}
    if close := get_close_matches(meant, candidates, n=1, cutoff=_NEAR):
        return candidates[close[0]]
    alike = [name for name in candidates if name.startswith(meant) or sorted(name) == sorted(meant)]
    return candidates[alike[0]] if len(alike) == 1 else None
