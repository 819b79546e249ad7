"""Checks of a project that a model wrote."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from wasmrt.authoring.builder._values import BuildRequirement
from wasmrt.capabilities import BY_SECTION, Capabilities
from wasmrt.core.errors import BuildError

_MAX_ENTRIES = 50_000


def find_links_outside(folder: Path) -> list[str]:
    """Return the symbolic links in a project that lead out of it, relative to the project.

    SECURITY: a model's commands are confined, but wasmrt itself reads the project's files without confinement. A link
    to a file of the user would give the model its content, for example as a test case in an error message.

    Raises:
        BuildError: the project has too many files.
    """
    root, found = os.path.realpath(folder), []
    for number, path in enumerate(_walk(root)):
        if number >= _MAX_ENTRIES:
            raise BuildError(f"the project has more than {_MAX_ENTRIES:,} files", hint="delete generated files")
        target = os.path.realpath(path)
        if os.path.islink(path) and target != root and not target.startswith(f"{root}{os.sep}"):  # noqa: PTH114
            found.append(os.path.relpath(path, root))
    return found


def _walk(root: str) -> Iterator[str]:
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            yield os.path.join(folder, name)  # noqa: PTH118


def undeclared_requests(request: Capabilities, requirement: BuildRequirement) -> list[str]:
    """Return the requests of a capability file that the requirement does not list.

    SECURITY: text that the model reads while it writes code must not add access that the description did not need.
    """
    listed = [entry.partition(":") for entry in requirement.capabilities]
    sections = {section for section, _, _ in listed}
    found = [name for name in BY_SECTION if request.section(name) is not None and name not in sections]
    if request.logins:
        found.append("login")
    hosts = {host for section, _, host in listed if section == "http"}
    if request.http is not None and hosts and "" not in hosts:
        found += [f"http:{each.host_pattern}" for each in request.http.allowlist if each.host_pattern not in hosts]
    return found
