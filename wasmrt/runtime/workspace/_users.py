"""A workspace for each user: a folder of its own below one root, made when it is first used."""

from __future__ import annotations

import re
from pathlib import Path

from blake3 import blake3

from wasmrt.core.errors import ConfigurationError

_PLAIN = re.compile(r"[a-z0-9_-]")
_MAX_LENGTH = 120
_JOINT = "~"
"""Escaped in every name, so that a shortened name is no other user's."""


class UserFolders:
    """The folder of each user below `root`, for `WasmRuntimeConfig(workspace=...)`; it may be shared by threads."""

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root).absolute()

    def __call__(self, user: str) -> Path:
        """Return the folder of a user, which is there.

        Raises:
            ConfigurationError: the root is no folder, or the user's cannot be made.
        """
        folder = self.root / folder_name(user)
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(
                f"the workspace of a user cannot be made ({error.strerror})", hint="make the folder of [workspace]"
            ) from None
        return folder


def folder_name(user: str) -> str:
    """Return the name of a user's folder: no two users share one, also where letter case does not count.

    SECURITY: whatever a user is called, the name is one plain segment: no dot, no separator, nothing empty.
    """
    name = "".join(c if _PLAIN.match(c) else "".join(f"%{byte:02x}" for byte in _bytes(c)) for c in user)
    if len(name) <= _MAX_LENGTH and name:
        return name
    return f"{name[: _MAX_LENGTH // 2]}{_JOINT}{blake3(_bytes(user)).hexdigest()[:32]}"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # names from the command line may hold lone surrogates
