"""Store each component in a file named after its digest. Files are written atomically, and verified when read."""

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
    """The folder with a file for each component. Incomplete files are in the folder `incoming`, which is never read."""

    def __init__(self, data: Path) -> None:
        self._folder = data / "components"
        self._incoming = data / INCOMING

    def prepare(self) -> None:
        """Create the folder of the components, and the folder of incomplete files."""
        for folder in (self._folder, self._incoming):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def write(self, component: ComponentBytes) -> None:
        """Store a component durably. An intact file with the same digest is not written again."""
        try:
            self.read(component.digest, "", size_bytes=len(component.data))
        except (IntegrityError, InstallError):
            self.replace(component)

    def replace(self, component: ComponentBytes) -> None:
        """Store a component durably, in place of any file with its name."""
        replace_file(self._path(component.digest), component.data, drafts=self._incoming)

    def read(self, digest: str, name: str, *, size_bytes: int) -> ComponentBytes:
        """Return the component with a digest, after verifying it. Error messages use `name`, the name of the tool.

        Raises:
            IntegrityError: the file is missing or has different contents.
            InstallError: the file cannot be read.
        """
        hint = f"install {name} again from its source, or run: wasmrt rollback {name}"
        changed = IntegrityError(f"the stored component of {name} differs from the installed one", hint=hint)
        try:
            data = read_file(self._path(digest), max_bytes=size_bytes, follow_link=False)
        except FileNotFoundError:
            raise IntegrityError(f"the stored component of {name} is missing", hint=hint) from None
        except UnfitFileError:
            raise changed from None
        except OSError as error:
            raise InstallError(f"the stored component of {name} cannot be read ({error.strerror})") from error
        # SECURITY: the bytes are hashed and returned from the same read.
        component = ComponentBytes(data)
        if component.digest != digest:
            raise changed
        return component

    def has(self, digest: str) -> bool:
        """Return whether the folder has a file for a component, intact or not."""
        return self._path(digest).exists()

    def remove(self, digest: str) -> None:
        """Remove a component, if it exists."""
        self._path(digest).unlink(missing_ok=True)

    def clear_incoming(self) -> None:
        """Delete the incomplete files of killed processes. Call this only while no other process can write."""
        import shutil  # slow to import, and rarely needed

        for entry in os.scandir(self._incoming):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                Path(entry.path).unlink(missing_ok=True)

    def has_incoming(self) -> bool:
        """Return whether incomplete files exist. Another process may still be writing them."""
        try:
            return any(os.scandir(self._incoming))
        except FileNotFoundError:
            return False

    def strays(self, known: Container[str]) -> list[str]:
        """Return the digests of stored components that are not in `known`."""
        try:
            names = [entry.name for entry in os.scandir(self._folder)]
        except FileNotFoundError:
            return []
        digests = (name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))
        return sorted(digest for digest in digests if digest not in known)

    def _path(self, digest: str) -> Path:
        return self._folder / (digest + _SUFFIX)
