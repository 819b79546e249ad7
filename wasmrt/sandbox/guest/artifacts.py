"""A cache of compiled code on disk. It is keyed by content, authenticated, limited in size, and safe to share.

Several processes can use a cache at the same time. An artifact is the machine code of one component.

SECURITY: a process that loads an artifact runs its code. Every file starts with a keyed BLAKE3 MAC over its cache key
and content. The MAC key is a secret of this installation, stored outside of the cache folder. The loaded bytes are
exactly the bytes that were checked. A file that fails verification is reported once, removed, and never loaded.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from functools import partial
from hmac import compare_digest
from pathlib import Path
from typing import NamedTuple

from blake3 import blake3

from wasmrt.core.files import DRAFT_PREFIX, Unfit, UnfitFileError, open_file, private_key, replace_file, write_whole
from wasmrt.core.limits import KIB, MIB
from wasmrt.sandbox.guest.settings import EngineConfig

DEFAULT_CACHE_BYTES = 1024 * MIB
_MAC_BYTES = 32
_PIECE_BYTES = 256 * KIB
_SUFFIX = ".cwasm"


class Artifact(NamedTuple):
    """A file of a cache."""

    used: float
    """Time of the last use, in seconds since 1970."""
    size_bytes: int
    path: str


class NotCachedError(LookupError):
    """Raised if the cache has no authentic artifact for a key."""


class DiskCache:
    """A folder of artifacts. If the folder cannot be used, a warning is logged once and nothing is cached."""

    def __init__(self, folder: Path, key_file: Path, *, max_bytes: int = DEFAULT_CACHE_BYTES) -> None:
        self.folder = folder
        self._max_bytes = max_bytes
        self._warned: set[str] = set()
        self.problem: str | None = None
        """The reason why the cache cannot be used, or None."""
        self._key = self._prepare(key_file)

    @property
    def usable(self) -> bool:
        """True if artifacts can be stored."""
        return self._key is not None

    def load(self, key: str) -> bytes | None:
        """Return the authenticated artifact stored under `key`, or None."""
        artifact = bytearray()
        return bytes(artifact) if self._take(key, artifact.extend) else None

    def copy(self, key: str, target: int) -> None:
        """Write the authenticated artifact stored under `key` to the open file descriptor `target`, in pieces.

        Raises:
            NotCachedError: no authentic artifact was found. The caller must discard the bytes already written.
        """
        if not self._take(key, partial(write_whole, target)):
            raise NotCachedError

    def store(self, key: str, artifact: bytes | memoryview) -> None:
        """Store an artifact under `key`. Failures are logged once and otherwise ignored."""
        if self._key is None:
            return
        try:
            # The write need not be durable: a file that a power failure damages fails verification, and is made again.
            replace_file(
                self._path(key), self._make_mac(key).update(artifact).digest(_MAC_BYTES), artifact, durable=False
            )
            remove_artifacts(self.folder, self._max_bytes)
        except OSError as error:
            self._warn(f"cannot write to the compile cache ({error.strerror}); this tool is not cached")

    def _take(self, key: str, take: Callable[[bytes], object]) -> bool:
        """Pass an artifact to `take` in pieces. Return False if the artifact does not exist or fails verification."""
        if self._key is None:
            return False
        path, mac = self._path(key), self._make_mac(key)
        try:
            with open_file(path, follow_link=False) as (file, status):
                if status.st_size > self._max_bytes + _MAC_BYTES:
                    raise UnfitFileError(path.name, Unfit.TOO_LARGE)
                written, rest = file.read(_MAC_BYTES), status.st_size - _MAC_BYTES
                while piece := file.read(max(0, min(rest, _PIECE_BYTES))):
                    rest -= len(piece)
                    mac.update(piece)
                    take(piece)
        except FileNotFoundError:
            return False
        except OSError as error:
            self._warn(f"cannot read the compile cache ({error.strerror}); compiling without it")
            return False
        if not compare_digest(written, mac.digest(_MAC_BYTES)):
            self._warn(f"the cached code {path.name} failed verification; it was removed and is compiled again")
            with contextlib.suppress(OSError):
                path.unlink()
            return False
        with contextlib.suppress(OSError):
            os.utime(path)
        return True

    def _path(self, key: str) -> Path:
        return self.folder / (blake3(key.encode()).hexdigest() + _SUFFIX)

    def _make_mac(self, key: str) -> blake3:
        assert self._key is not None
        return blake3(key.encode() + b"\0", key=self._key)

    def _prepare(self, key_file: Path) -> bytes | None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            return private_key(key_file)  # SECURITY: with this key a process can make wasmrt load arbitrary code
        except OSError as error:
            self.problem = f"cannot use the compile cache ({error.strerror}); tools are compiled again at every start"
            self._warn(self.problem)
            return None

    def _warn(self, sentence: str) -> None:
        if sentence not in self._warned:
            self._warned.add(sentence)
            import logging  # slow to import, and rarely needed

            logging.getLogger("wasmrt.guest").warning(sentence)


def stored_artifacts(folder: Path) -> list[Artifact]:
    """Return the artifacts in the folder of a cache, the least recently used one first."""
    found = []
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(_SUFFIX) or entry.name.startswith(DRAFT_PREFIX):
                with contextlib.suppress(OSError):  # removed since
                    status = entry.stat(follow_symlinks=False)
                    found.append(Artifact(status.st_mtime, status.st_size, entry.path))
    return sorted(found)


def remove_artifacts(folder: Path, max_bytes: int) -> list[Artifact]:
    """Remove the least recently used artifacts until at most `max_bytes` remain, and return them.

    A process that has loaded an artifact does not need the file any more.

    Raises:
        OSError: the folder cannot be read.
    """
    found, removed = stored_artifacts(folder), []
    excess = sum(artifact.size_bytes for artifact in found) - max_bytes
    for artifact in found:
        if excess <= 0:
            break
        with contextlib.suppress(OSError):
            Path(artifact.path).unlink()
            removed.append(artifact)
        excess -= artifact.size_bytes
    return removed


def cache_key(digest: str, version: str, config: EngineConfig) -> str:
    """Return the cache key of an artifact. It contains all that the machine code depends on.

    That is the component's digest, the engine's version and settings, and the processor.
    """
    return "|".join((digest, version, config.key, _describe_processor()))


def _describe_processor() -> str:
    try:
        with Path("/proc/cpuinfo").open("rb") as file:  # the first processor's block lists every feature
            return blake3(_select_stable_lines(file.read(8192))).hexdigest()
    except OSError:
        import platform

        return platform.processor() or platform.machine()


def _select_stable_lines(text: bytes) -> bytes:
    block = text.partition(b"\n\n")[0]
    changing = (b"cpu MHz", b"bogomips", b"BogoMIPS", b"apicid", b"initial apicid", b"core id", b"processor\t")
    return b"\n".join(line for line in block.splitlines() if not line.startswith(changing))
