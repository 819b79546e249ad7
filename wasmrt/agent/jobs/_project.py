"""The project folders of jobs: below `projects/` in the data folder, separate for each user."""

from __future__ import annotations

from pathlib import Path

from wasmrt.core.errors import ConfigurationError, InvalidParametersError
from wasmrt.core.places import find_places
from wasmrt.runtime.workspace import UserFolders


def _get_projects_folder(user: str) -> Path:
    root = find_places().projects
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        return UserFolders(root)(user).resolve(strict=True)
    except OSError as error:
        problem = f"cannot create the folder of projects ({error.strerror})"
        raise ConfigurationError(problem, hint="check the permissions of the data folder") from None


def check_project(user: str, given: str) -> Path:
    """Return the real path of a project folder that a call names.

    SECURITY: the folder becomes writable for a program, so it must be below the user's own projects after links are
    resolved.

    Raises:
        InvalidParametersError: the folder does not exist, or is elsewhere.
    """
    root = _get_projects_folder(user)
    try:
        found = (root / given.removeprefix("projects/")).resolve(strict=True)
    except (OSError, ValueError):
        found = None
    if found is None or not found.is_dir() or not found.is_relative_to(root):
        raise InvalidParametersError(f"project directory must be under projects/, and exist; got {given!r:.100}")
    return found


def create_project(user: str, job_id: str) -> Path:
    """Create the project folder of a job that names none, and return its path."""
    folder = _get_projects_folder(user) / job_id
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder
