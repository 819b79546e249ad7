"""Check file names in packages. Only names with the same meaning on all systems are allowed."""

from __future__ import annotations

import re

from wasmrt.core.errors import PackageError
from wasmrt.core.limits import MAX_PACKAGE_DEPTH, MAX_PACKAGE_NAME_BYTES

_SEGMENT = re.compile(r"[A-Za-z0-9_@+ -](?:[A-Za-z0-9._@+ -]*[A-Za-z0-9_@+-])?\Z|\.[A-Za-z0-9_][A-Za-z0-9._-]*\Z")
_DEVICES = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?\Z", re.IGNORECASE)


def check_name(name: str) -> str:
    """Return `name` unchanged if it is a valid name of a file or folder in a package, such as `schemas/input.json`.

    Raises:
        PackageError: the name is absolute, contains `..`, or is ambiguous on some system.
    """
    shown = ascii(name[:80])
    if name.startswith(("/", "\\")) or re.match(r"[A-Za-z]:", name):
        raise PackageError(f"the package contains {shown}, which is an absolute path", code="package-name")
    segments = name.split("/")
    if ".." in segments or ".." in name.split("\\"):
        raise PackageError(
            f"the package has an entry {shown}, whose path is outside of the package", code="package-name"
        )
    fits = len(name) <= MAX_PACKAGE_NAME_BYTES and len(segments) <= MAX_PACKAGE_DEPTH
    if not fits or not all(_SEGMENT.match(segment) and not _DEVICES.match(segment) for segment in segments):
        raise PackageError(
            f"the package contains {shown}, a name that some systems do not support",
            code="package-name", hint="use letters, digits, '.', '_', '-' and '/'",
        )  # fmt: skip
    return name


class Names:
    """The names of the files in a package. Names must differ in more than case, and a file cannot also be a folder."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[str, bool]] = {}

    def add(self, name: str, *, is_folder: bool) -> None:
        """Add a name with its parent folders.

        Raises:
            PackageError: the name conflicts with another name.
        """
        parts = check_name(name).split("/")
        for depth in range(1, len(parts)):
            self._add("/".join(parts[:depth]), is_folder=True)
        if not is_folder and name.lower() in self._seen and self._seen[name.lower()][0] == name:
            raise PackageError(f"the package contains {name!r} twice", code="package-duplicate")
        self._add(name, is_folder=is_folder)

    def _add(self, name: str, *, is_folder: bool) -> None:
        known, known_folder = self._seen.setdefault(name.lower(), (name, is_folder))
        if known != name:
            raise PackageError(
                f"the package contains {known!r} and {name!r}, which are equal on many systems", code="package-case"
            )
        if known_folder != is_folder:
            raise PackageError(f"the package contains {name!r} as a file and as a folder", code="package-duplicate")
