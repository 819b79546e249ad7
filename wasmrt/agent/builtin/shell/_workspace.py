"""The params of a command, and its workspace: the working folder and the folders that a call may write."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wasmrt.core.errors import ConfigurationError, InvalidParametersError
from wasmrt.core.places import find_places


def check_workspace(folder: Path) -> Path:
    """Return a workspace's real path.

    Raises:
        ConfigurationError: the workspace is not a folder, or contains files that no command may read.
    """
    try:
        real = folder.resolve(strict=True)
    except OSError as error:
        raise ConfigurationError(f"the workspace cannot be used ({error.strerror})", hint="name a folder") from None
    if not real.is_dir():
        raise ConfigurationError("the workspace is not a folder", hint="name a folder")
    places = find_places()
    # SECURITY: the kernel's rules grant everything below the workspace; no subfolder can be excluded.
    for kept, words in (
        (places.data, "wasmrt's own folder"), (places.cache, "wasmrt's cache"),
        (places.config.parent, "wasmrt's configuration"), (Path.home(), "the home of this user"),
    ):  # fmt: skip
        kept = kept.resolve()
        if kept.is_relative_to(real) or (words != "the home of this user" and real.is_relative_to(kept)):
            raise ConfigurationError(
                f"the shell cannot use a workspace that contains {words}", hint="name a different folder"
            )
    return real


def folder_in(root: Path, given: str) -> Path:
    """Return a folder of the workspace.

    Raises:
        InvalidParametersError: the path is not a folder in the workspace.
    """
    try:
        found = (root / given).resolve(strict=True)
    except (OSError, ValueError):
        found = None
    if found is None or not found.is_relative_to(root) or not found.is_dir():
        raise InvalidParametersError(
            f"workdir {given!r:.80} is not a folder of the workspace", hint="omit it, or name a folder of the workspace"
        )
    return found


def writable_folders(root: Path, write_paths: tuple[tuple[str, ...], ...]) -> list[Path]:
    """Return the folders that a call may write: the workspace, restricted by each list of the presets."""
    found = [root]
    for listed in write_paths:
        wanted = [(root / path).resolve() for path in listed]
        found = [
            max(one, other, key=lambda path: len(path.parts))
            for one in found
            for other in wanted
            if one.is_relative_to(other) or other.is_relative_to(one)
        ]
    return [path for path in dict.fromkeys(found) if path.exists()]


def command_of(params: Any) -> str:
    """Return the command line in the params of a call.

    Raises:
        InvalidParametersError: there is none.
    """
    command = params.get("command") if isinstance(params, Mapping) else None
    if not isinstance(command, str):
        raise InvalidParametersError("params lack command", hint='pass {"command": "ls"}')
    return command


def workdir_of(params: Mapping[str, Any]) -> str:
    """Return the folder in the params of a call, or empty text."""
    workdir = params.get("workdir")
    return workdir if isinstance(workdir, str) else ""
