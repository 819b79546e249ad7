"""Workspaces of users: a separate folder per user below one root, created on first use."""

from __future__ import annotations

import re
from pathlib import Path

from blake3 import blake3

from wasmrt.core.errors import ConfigurationError

_PLAIN = re.compile(r"[a-z0-9_-]")
_MAX_LENGTH = 120
_JOINT = "~"
"""Separates a shortened name from its hash. User names never contain it unescaped, so no two names are equal."""


class UserFolders:
    """Each user's folder below `root`, for `WasmRuntimeConfig(workspace=...)`; threads may share it."""

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root).absolute()

    def __call__(self, user: str) -> Path:
        """Return the folder of a user; create it if needed.

        Raises:
            ConfigurationError: the root is not a folder, or the user's folder cannot be created.
        """
        folder = self.root / folder_name(user)
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(
                f"cannot create a user's workspace ({error.strerror})",
                hint="create the folder: wasmrt config get workspace.path",
            ) from None
        return folder


def folder_name(user: str) -> str:
    """Return the folder name of a user. The names of two users differ, even on case-insensitive file systems.

    SECURITY: for any user name, the result is one non-empty path segment without dots and separators.
    """
    name = "".join(c if _PLAIN.match(c) else "".join(f"%{byte:02x}" for byte in _encode(c)) for c in user)
    if len(name) <= _MAX_LENGTH and name:
        return name
    return f"{name[: _MAX_LENGTH // 2]}{_JOINT}{blake3(_encode(user)).hexdigest()[:32]}"


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # names from the command line may contain lone surrogates
