"""The lock file of a project: its tools with exact references, digests and signers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from wasmrt.catalog._model import Provenance, ToolVersion
from wasmrt.catalog.signing import Signer
from wasmrt.catalog.sources import Fetched, Source, read_source
from wasmrt.catalog.trust import declared_version
from wasmrt.core.errors import ConfigurationError, SourceError
from wasmrt.core.files import replace_file
from wasmrt.core.limits import MAX_LOCK_BYTES
from wasmrt.core.strict_json import JsonError, read_json

LOCK_FILE = "wasmrt.lock"
_LAYOUT = 1
_HINT = "write it again: wasmrt install SOURCE --lock"


class LockEntry(NamedTuple):
    """One tool of a lock file."""

    name: str
    source: str
    """The source as the user typed it, like `capabilities` and `signature`."""
    capabilities: str | None
    signature: str | None
    resolved: str
    """A reference to exactly the locked content; the source of a file."""
    digest: str
    """The digest of the component, archive or manifest."""
    capabilities_digest: str
    """The digest of the capability file, unless `digest` covers it."""
    version: str
    signer: Signer | None

    @property
    def pinned_capabilities(self) -> str | None:
        """The source of the capability file, with its digest if it is a URL."""
        if self.capabilities is None or "://" not in self.capabilities:
            return self.capabilities
        return f"{self.capabilities.partition('#')[0]}#{self.capabilities_digest.replace(':', '=')}"

    def as_dict(self) -> dict[str, Any]:
        """Return the entry as JSON data."""
        return self._asdict() | {"signer": None if self.signer is None else self.signer.as_dict()}


class LockedSource(NamedTuple):
    """A source whose content must be the locked one."""

    source: Source
    entry: LockEntry

    def fetch(self, *, max_bytes: int) -> Fetched:
        """Read the source.

        Raises:
            SourceError: the source cannot be read, or its content differs from the lock file.
        """
        fetched = self.source.fetch(max_bytes=max_bytes)
        found = Provenance.of(fetched)
        if (found.digest, found.capabilities_digest) != (self.entry.digest, self.entry.capabilities_digest):
            same = " with another capability file" if found.digest == self.entry.digest else ""
            got = (found.digest or "no digest") + same
            raise SourceError(
                f"{self.entry.name} differs from {LOCK_FILE}: expected {self.entry.digest}, got {got}",
                code="locked", hint="to accept the new content: wasmrt install SOURCE --lock",
            )  # fmt: skip
        return fetched


def lock_entry(version: ToolVersion, source: str, capabilities: str | None, signature: str | None) -> LockEntry:
    """Create the entry for an installed version. The other arguments are texts as the user typed them.

    Raises:
        ConfigurationError: the source is a folder, which has no digest.
    """
    where = version.provenance
    if not where.digest:
        raise ConfigurationError(f"{version.name} comes from a folder and cannot be locked", hint="wasmrt pack DIR")
    resolved = where.resolved if "://" in where.resolved else source
    digests = (where.digest, where.capabilities_digest)
    declared = declared_version(version.sidecar)
    return LockEntry(version.name, source, capabilities, signature, resolved, *digests, declared, where.signer)


def read_lock(path: Path) -> tuple[LockEntry, ...]:
    """Read a lock file.

    Raises:
        SourceError: the file does not exist, cannot be read, or is malformed.
    """
    try:
        tree = read_json(
            read_source(path, "lock file", max_bytes=MAX_LOCK_BYTES), max_bytes=MAX_LOCK_BYTES, max_depth=8
        )
        if set(tree) != {"layout", "tools"} or tree["layout"] != _LAYOUT:
            raise ValueError(f"expected layout {_LAYOUT}")
        entries = tuple(map(_read_entry, tree["tools"]))
        if len({entry.name for entry in entries}) < len(entries):
            raise ValueError("a tool is listed twice")
    except (JsonError, ValueError, TypeError) as error:
        raise SourceError(f"{path.name} is not valid: {error}", code="lock", hint=_HINT) from None
    return entries


def write_lock(path: Path, entries: Iterable[LockEntry]) -> None:
    """Add entries to a lock file, in which they replace the entries with the same names.

    Raises:
        SourceError: the existing file is malformed, or the file cannot be written.
    """
    known = {entry.name: entry for entry in (*(read_lock(path) if path.exists() else ()), *entries)}
    tree = {"layout": _LAYOUT, "tools": [known[name].as_dict() for name in sorted(known)]}
    try:
        replace_file(path, (json.dumps(tree, indent=2) + "\n").encode(), mode=0o644)
    except OSError as error:
        raise SourceError(f"{path.name} cannot be written ({error.strerror})", hint="check its folder") from error


def _read_entry(values: Any) -> LockEntry:
    if not isinstance(values, dict) or set(values) != {*LockEntry._fields}:
        raise ValueError(f"each tool needs exactly the keys {', '.join(LockEntry._fields)}")
    signer = values["signer"]
    texts = [*(value for key, value in values.items() if key != "signer"), *(signer or {}).values()]
    if not all(isinstance(each, str) or each is None for each in texts):
        raise ValueError("expected strings")
    return LockEntry(**values | {"signer": None if signer is None else Signer(**signer)})
