"""Component files by digest. Written whole or not at all; read only if they still are what was written."""

from __future__ import annotations

import os
from collections.abc import Container
from pathlib import Path

from wasmrt.catalog._index import INCOMING
from wasmrt.core.component_bytes import ComponentBytes
from wasmrt.core.errors import InstallError, IntegrityError
from wasmrt.core.files import UnfitFileError, read_file, replace_file

_SUFFIX = ".wasm"


class ComponentFolder:
    """One file a digest. A half-written file lies in the folder `incoming`, where nothing is ever read from."""

    def __init__(self, data: Path) -> None:
        self._folder = data / "components"
        self._incoming = data / INCOMING

    def prepare(self) -> None:
        """Make the folders."""
        for folder in (self._folder, self._incoming):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def write(self, component: ComponentBytes) -> None:
        """Store a component, durably. A file of that digest is left alone if it is whole, else replaced."""
        try:
            self.read(component.digest, "", size_bytes=len(component.data))
        except (IntegrityError, InstallError):
            replace_file(self._path(component.digest), component.data, drafts=self._incoming)

    def read(self, digest: str, name: str, *, size_bytes: int) -> ComponentBytes:
        """Return the component of a digest, checked; `name` is the tool's, for the errors.

        Raises:
            IntegrityError: the file is gone or holds other bytes.
            InstallError: it cannot be read.
        """
        hint = f"install {name} again from where it came, or go back: wasmrt rollback {name}"
        changed = IntegrityError(f"the stored component of {name} is not what was installed", hint=hint)
        try:
            data = read_file(self._path(digest), max_bytes=size_bytes, follow_link=False)
        except FileNotFoundError:
            raise IntegrityError(f"the stored component of {name} is gone", hint=hint) from None
        except UnfitFileError:
            raise changed from None
        except OSError as error:
            raise InstallError(f"the stored component of {name} cannot be read ({error.strerror})") from error
        # SECURITY: the bytes that were hashed are the bytes that are returned; nothing is read twice.
        component = ComponentBytes(data)
        if component.digest != digest:
            raise changed
        return component

    def remove(self, digest: str) -> None:
        """Remove a component, if it is there."""
        self._path(digest).unlink(missing_ok=True)

    def clear_incoming(self) -> None:
        """Remove what a process that was killed left half-written. Call only while no one else can write."""
        import shutil  # as tempfile in _index.py

        for entry in os.scandir(self._incoming):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                Path(entry.path).unlink(missing_ok=True)

    def has_incoming(self) -> bool:
        """Return whether something half-written lies around; it may be another process's that is still writing."""
        try:
            return any(os.scandir(self._incoming))
        except FileNotFoundError:
            return False

    def strays(self, known: Container[str]) -> list[str]:
        """Return the digests on disk that `known` does not hold."""
        try:
            names = [entry.name for entry in os.scandir(self._folder)]
        except FileNotFoundError:
            return []
        digests = (name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))
        return sorted(digest for digest in digests if digest not in known)

    def _path(self, digest: str) -> Path:
        return self._folder / (digest + _SUFFIX)
