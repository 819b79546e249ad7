"""Component files by digest. Written whole or not at all; read only if they still are what was written."""

from __future__ import annotations

import os
from collections.abc import Container
from pathlib import Path

from blake3 import blake3

from wasmrt.errors import InstallError, IntegrityError
from wasmrt.files import UnfitFileError, read_file, replace_file
from wasmrt.install._index import INCOMING

_SUFFIX = ".wasm"


def digest_of(data: bytes) -> str:
    """Return the BLAKE3 of `data` as 64 hexadecimal digits."""
    return blake3(data).hexdigest()


class ComponentFolder:
    """One file a digest. A half-written file lies in the folder `incoming`, where nothing is ever read from."""

    def __init__(self, data: Path) -> None:
        self._folder = data / "components"
        self._incoming = data / INCOMING

    def prepare(self) -> None:
        for folder in (self._folder, self._incoming):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def write(self, data: bytes, digest: str) -> None:
        """Store `data`, durably. A sound file of that digest is left alone; a spoilt one is replaced."""
        path = self._path(digest)
        if not self._is_sound(digest):
            replace_file(path, data, drafts=self._incoming)

    def read(self, digest: str, name: str, *, size_bytes: int) -> bytes:
        """Return the bytes of a digest, checked.

        Raises:
            IntegrityError: the file is gone or holds other bytes.
            InstallError: it cannot be read.
        """
        hint = f"install {name} again from where it came, or go back: wasmrt rollback {name}"
        try:
            data = read_file(self._path(digest), max_bytes=size_bytes, follow_link=False)
        except FileNotFoundError:
            raise IntegrityError(f"the stored component of {name} is gone", hint=hint) from None
        except UnfitFileError as error:
            raise IntegrityError(f"the stored component of {name} is not what was installed", hint=hint) from error
        except OSError as error:
            raise InstallError(f"the stored component of {name} cannot be read ({error.strerror})") from error
        # SECURITY: the bytes that were hashed are the bytes that are returned; nothing is read twice.
        if digest_of(data) != digest:
            raise IntegrityError(f"the stored component of {name} is not what was installed", hint=hint)
        return data

    def remove(self, digest: str) -> None:
        self._path(digest).unlink(missing_ok=True)

    def clear_incoming(self) -> None:
        """Remove what a process that was killed left half-written. Call only while no one else can write."""
        import shutil  # reading does without

        for entry in os.scandir(self._incoming):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                Path(entry.path).unlink(missing_ok=True)

    def has_incoming(self) -> bool:
        """Whether something half-written lies around; it may be another process's that is still writing."""
        try:
            return any(os.scandir(self._incoming))
        except FileNotFoundError:
            return False

    def strays(self, known: Container[str]) -> list[str]:
        """Digests on disk that `known` does not hold."""
        try:
            names = [entry.name for entry in os.scandir(self._folder)]
        except FileNotFoundError:
            return []
        digests = (name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))
        return sorted(digest for digest in digests if digest not in known)

    def _is_sound(self, digest: str) -> bool:
        try:
            return digest_of(self._path(digest).read_bytes()) == digest
        except OSError:
            return False

    def _path(self, digest: str) -> Path:
        return self._folder / (digest + _SUFFIX)
