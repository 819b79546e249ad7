"""Read workspace files and directories for a guest, below the granted prefixes."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from wasmrt.capabilities import Capabilities, path_problem, plain_path
from wasmrt.core.errors import CapabilityDeniedError, ConfigurationError
from wasmrt.core.files import UnfitFileError, open_file
from wasmrt.core.limits import MAX_WORKSPACE_ENTRIES, MAX_WORKSPACE_FILE_BYTES
from wasmrt.core.model import Reason
from wasmrt.runtime.workspace._refusals import convert_denial, make_refusal
from wasmrt.runtime.workspace._walk import OutsideError, Walk, walking
from wasmrt.sandbox.guest.replies import DirectoryEntry


class WorkspaceReader:
    """Reads files under `allowed_prefixes` of one root. No file stays open between calls; threads may share a reader.

    Links inside the root are followed, and their targets must be granted as well. Links out of the root, special files
    and files with several hard links (one may be outside the root) are denied.

    Raises:
        ConfigurationError: the root is not a directory, or a prefix is not a relative path.
    """

    def __init__(self, root: Path | str, allowed_prefixes: Iterable[str]) -> None:
        self._root = Path(root).absolute()
        if not self._root.is_dir():
            raise ConfigurationError(
                "the workspace root is not a directory", hint="create the folder, or choose a different one"
            )
        self._capabilities = Capabilities.none().with_workspace_read(allowed_prefixes)

    def read(self, path: str) -> bytes:
        """Return a file's bytes.

        Raises:
            CapabilityDeniedError: the path is invalid or not granted, or the file is missing, too large or not regular.
        """
        return self._read(path, None)

    def read_part(self, path: str, offset: int, length: int) -> bytes:
        """Return `length` bytes of a file of any size from the byte `offset`, or fewer at the end of the file.

        At most `MAX_WORKSPACE_FILE_BYTES` are returned.

        Raises:
            CapabilityDeniedError: the path is invalid or not granted, or the file is missing or not regular.
        """
        return self._read(path, (offset, length))

    def _read(self, path: str, part: tuple[int, int] | None) -> bytes:
        decision = self._capabilities.explain_workspace(path)
        if not decision.allowed:
            raise convert_denial(decision)
        if path.endswith(("/", "/.")):
            raise make_refusal(Reason.INVALID_PATH, "a file's path must not end in a slash", path, "remove the slash")
        try:
            with walking(self._root) as walk:
                name = walk.to(path)
                if name is None:
                    raise make_refusal(Reason.NOT_A_FILE, "the path is a directory", path, "list it instead")
                self._check_real(walk.path_of(name), path)
                return _read_file(walk.here, name, path, part)
        except OSError as error:
            raise _convert_os_error(error, path) from None

    def list(self, path: str = "") -> tuple[DirectoryEntry, ...]:
        """Return a directory's files and subdirectories, sorted by name, without links and special files.

        The path `""` is the root, which can be listed only if the complete workspace is granted.

        Raises:
            CapabilityDeniedError: the path is invalid, not granted or not a directory, or has too many entries.
        """
        if path:
            decision = self._capabilities.explain_workspace(path)
            if not decision.allowed:
                raise convert_denial(decision)
        try:
            with walking(self._root) as walk:
                if walk.to(path) is not None:
                    raise make_refusal(Reason.NOT_A_FILE, "the path is not a directory", path, "read it instead")
                self._check_real(walk.path_of(), path)
                return _list_directory(walk, path)
        except OSError as error:
            raise _convert_os_error(error, path) from None

    def stat(self, path: str) -> DirectoryEntry:
        """Return the name, kind and size of a file or a directory.

        Raises:
            CapabilityDeniedError: the path is invalid or not granted, or is not an existing file or directory.
        """
        decision = self._capabilities.explain_workspace(path)
        if not decision.allowed:
            raise convert_denial(decision)
        own = plain_path(path).rpartition("/")[2]
        try:
            with walking(self._root) as walk:
                name = walk.to(path)
                self._check_real(walk.path_of(name), path)
                if name is None:
                    return DirectoryEntry(own, True, 0)
                status = os.stat(name, dir_fd=walk.here, follow_symlinks=False)
        except OSError as error:
            raise _convert_os_error(error, path) from None
        if not stat.S_ISREG(status.st_mode):
            rule, hint = "the path is neither a file nor a directory", "choose a regular file"
            raise make_refusal(Reason.NOT_A_FILE, rule, path, hint)
        return DirectoryEntry(own, False, status.st_size)

    def _check_real(self, real: str, path: str) -> None:
        # SECURITY: a link in a granted folder must not extend the grant to its target.
        granted = self._capabilities.workspace_read
        if granted is None or not granted.allows(real):
            rule = "the path is a link to a file or folder that workspace.allowed_prefixes does not contain"
            raise make_refusal(Reason.PREFIX_NOT_ALLOWED, rule, path, "grant access to the link's target as well")


def _read_file(directory: int, name: str, path: str, part: tuple[int, int] | None) -> bytes:
    # Checked before opening, because opening a device can have effects; the opened file is checked again.
    if not stat.S_ISREG(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
        raise make_refusal(Reason.NOT_A_FILE, "the path is not a regular file", path, "choose a regular file")
    try:
        with open_file(name, folder=directory, follow_link=False) as (file, status):
            if status.st_nlink > 1:
                raise make_refusal(Reason.NOT_A_FILE, "the file has several names (hard links)", path, "copy the file")
            if part is not None:
                offset, length = part
                file.seek(min(offset, status.st_size))
                return file.read(min(length, MAX_WORKSPACE_FILE_BYTES))
            if status.st_size <= MAX_WORKSPACE_FILE_BYTES:
                content = file.read(MAX_WORKSPACE_FILE_BYTES + 1)
                if len(content) <= MAX_WORKSPACE_FILE_BYTES:
                    return content
    except UnfitFileError:
        raise make_refusal(Reason.NOT_A_FILE, "the path is not a regular file", path, "choose a regular file") from None
    rule = f"the file is larger than {MAX_WORKSPACE_FILE_BYTES} bytes"
    raise make_refusal(Reason.FILE_TOO_LARGE, rule, path, "split the file")


def _list_directory(walk: Walk, path: str) -> tuple[DirectoryEntry, ...]:
    entries: list[DirectoryEntry] = []
    seen = 0
    with os.scandir(walk.here) as names:
        for entry in names:
            seen += 1
            if seen > MAX_WORKSPACE_ENTRIES:
                rule = f"the directory has more than {MAX_WORKSPACE_ENTRIES} entries"
                raise make_refusal(Reason.TOO_MANY_ENTRIES, rule, path, "read the files of the directory by name")
            if path_problem(entry.name) is None and not entry.is_symlink():
                entries += _describe_entry(entry)
    return tuple(sorted(entries, key=lambda entry: entry.name))


def _describe_entry(entry: os.DirEntry[str]) -> list[DirectoryEntry]:
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return []
    if stat.S_ISDIR(status.st_mode):
        return [DirectoryEntry(entry.name, True, 0)]
    if stat.S_ISREG(status.st_mode):
        return [DirectoryEntry(entry.name, False, status.st_size)]
    return []


def _convert_os_error(error: OSError, path: str) -> CapabilityDeniedError:
    if isinstance(error, OutsideError):
        return make_refusal(
            Reason.INVALID_PATH, "the path leads out of the workspace", path, "use a path without links"
        )
    return make_refusal(Reason.NOT_FOUND, "there is no readable file with this path", path, "list its parent folder")
