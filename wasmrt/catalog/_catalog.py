"""The catalog: the installed tools and their versions, each with a component, a request and a grant.

A component is stored before the row that refers to it, and removed after that row. An interruption therefore leaves
either the old or the new catalog. Writers exclude each other; readers never wait for writers.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wasmrt.catalog._components import ComponentFolder
from wasmrt.catalog._index import Index
from wasmrt.catalog._model import Finding, Kept, Listed, NewInstall, NewVersion, ToolVersion
from wasmrt.catalog._rows import (
    activate,
    kept_text,
    read_digests,
    read_versions,
    set_provenance,
    store,
)
from wasmrt.core.component_bytes import ComponentBytes
from wasmrt.core.errors import GrantRequiredError, InstallError, IntegrityError, NotInstalledError
from wasmrt.core.names import did_you_mean

if TYPE_CHECKING:
    from wasmrt.catalog._shared import SharedIndex
    from wasmrt.core.postgres import Postgres


class Catalog:
    """The installed tools of one data directory. Creating an instance does not access the disk.

    With `shared`, the tools are in a database that several hosts share, and `data` has copies of their components.
    """

    def __init__(self, data: Path, shared: tuple[Postgres, Callable[[], bytes]] | None = None) -> None:
        self._index: Index | SharedIndex = Index(data)
        self._components = ComponentFolder(data)
        self.is_shared = shared is not None
        if shared is not None:
            from wasmrt.catalog._shared import SharedComponents, SharedIndex

            self._index = SharedIndex(*shared)
            self._components = SharedComponents(data, shared[0])

    def trace(self) -> tuple[Any, ...]:
        """Return numbers that differ after every change of the catalog.

        Raises:
            InstallError: the database that hosts share cannot be read.
        """
        return self._index.trace()

    def tools(self) -> tuple[Listed, ...]:
        """Return the active version of every tool, sorted by name."""
        if not self._index.exists:
            return ()
        with self._index.reading() as db:
            rows = db.execute(
                "SELECT v.name, v.number, v.digest, v.size_bytes, v.world, v.description, t.pending, v.tools, "
                "v.for_agents FROM tool t JOIN version v ON v.name = t.name AND v.number = t.active ORDER BY t.name"
            ).fetchall()
        return tuple(map(Listed._make, rows))

    def has(self, name: str) -> bool:
        """Return whether a tool with this name is installed."""
        if not self._index.exists:
            return False
        with self._index.reading() as db:
            return db.execute("SELECT 1 FROM tool WHERE name = ?", (name,)).fetchone() is not None

    def get(self, name: str, number: int | None = None) -> ToolVersion:
        """Return one version of a tool, by default the active one.

        Raises:
            NotInstalledError: the tool or the version does not exist.
        """
        versions = self.versions(name)
        for version in versions:
            if version.active if number is None else version.number == number:
                return version
        known = ", ".join(str(v.number) for v in versions)
        raise NotInstalledError(f"{name} has no version {number}", hint=f"its versions are {known}")

    def pending(self, name: str) -> ToolVersion | None:
        """Return the update of `name` that is waiting for a grant, or None."""
        return next((version for version in reversed(self.versions(name)) if version.pending), None)

    def versions(self, name: str) -> tuple[ToolVersion, ...]:
        """Return every version of a tool, oldest first.

        Raises:
            NotInstalledError: the tool does not exist.
        """
        versions: tuple[ToolVersion, ...] = ()
        if self._index.exists:
            with self._index.reading() as db:
                versions = read_versions(db, name)
        if not versions:
            near = did_you_mean(name, [tool.name for tool in self.tools()])
            hint = f"did you mean {near}?" if near else "wasmrt list shows what is installed"
            raise NotInstalledError(f"no tool named {name!r} is installed", hint=hint)
        return versions

    def read(self, version: ToolVersion) -> ComponentBytes:
        """Return the component of a version, after checking the component against its digest.

        Raises:
            IntegrityError: the stored bytes differ from the installed ones.
        """
        return self._components.read(version.digest, version.name, size_bytes=version.size_bytes)

    def add(
        self,
        new: NewVersion,
        grant: str | None,
        *,
        replaces: tuple[ToolVersion, ...] | None = None,
        for_agents: bool | None = None,
    ) -> ToolVersion:
        """Store a new version. With a grant it becomes the active version; without one it waits for a grant.

        If a tool has more than 16 versions, the oldest ones are deleted. A version that is already stored with the same
        bytes, signer and grant is returned unchanged. `replaces` has the active version that the user saw; it is empty
        if the tool was not installed, and None if nothing is compared. `for_agents` is the user's decision whether to
        offer the version to agents; if it is None, the decision about the active version remains, and a new tool is not
        offered.

        SECURITY: a number does not identify a version, since its grant can be narrowed and numbers are reused after a
        removal. Otherwise an update without more access than the user saw could bring back access that was removed.

        Raises:
            GrantRequiredError: the tool is not installed yet, and `grant` is None.
            InstallError: the catalog cannot be written, or the active version is no longer as in `replaces`.
        """
        return self.add_all([NewInstall(new, grant, replaces, for_agents)])[0]

    def add_all(self, installs: Iterable[NewInstall]) -> tuple[ToolVersion, ...]:
        """Store several new versions in one transaction: all of them, or none. See `add`.

        Raises:
            GrantRequiredError, InstallError: see `add`; nothing is stored.
        """
        added, unused = [], set()
        with self._index.writing() as db:
            self._components.prepare()
            self._components.clear_incoming()
            for install in installs:
                before = read_versions(db, install.new.name)
                added.append(self._add(db, install, before))
                unused |= {v.digest for v in before} - {v.digest for v in read_versions(db, install.new.name)}
        self._forget(unused)
        return tuple(added)

    def _add(self, db: sqlite3.Connection, install: NewInstall, before: tuple[ToolVersion, ...]) -> ToolVersion:
        new, grant, replaces, for_agents = install
        if not before and grant is None:
            raise GrantRequiredError(
                f"{new.name} is not installed: its request was not granted",
                hint="confirm the installation in a terminal, or pass --yes",
            )
        same = [v for v in before if _is_same(v, new)]
        stored = next((v for v in same if v.grant == grant and (v.active or v.pending)), None)
        if stored is None and replaces is not None and replaces != tuple(v for v in before if v.active):
            raise InstallError(
                f"{new.name} was updated by another process", code="changed", hint="run the command again"
            )
        self._components.write(new.component)  # also replaces a damaged file of the same component
        if for_agents is None:
            for_agents = any(v.active and v.for_agents for v in before)
        if stored is not None:
            set_provenance(db, new.name, stored.number, new.provenance)  # the same content from another source
            if stored.active:
                _set_for_agents(db, new.name, stored.number, for_agents=for_agents)
            return stored._replace(for_agents=stored.active and for_agents, provenance=new.provenance)
        # A pending update keeps its number when it is granted.
        pending = next((v.number for v in same if v.pending), None)
        # SECURITY: a pending version is not offered; `grant` decides about it.
        offered = for_agents and grant is not None
        store(db, new, pending or max((v.number for v in before), default=0) + 1, grant, for_agents=offered)
        return read_versions(db, new.name)[-1]

    def grant(self, name: str, number: int, grant: str, *, digest: str) -> ToolVersion:
        """Grant a pending version and make it the active one. It is offered to agents if the active version was.

        SECURITY: `digest` is the digest that the user saw. Since then, a different update may have got this number.

        Raises:
            NotInstalledError: the version does not exist.
            InstallError: the version is not pending, or has a different digest.
            IntegrityError: the stored bytes of the version have changed since the update was fetched.
        """
        self.read(self.get(name, number))
        with self._index.writing() as db:
            changed = db.execute(
                "UPDATE version SET granted = ? WHERE name = ? AND number = ? AND digest = ? AND granted IS NULL",
                (grant, name, number, digest),
            ).rowcount
            if changed:
                offered = any(v.active and v.for_agents for v in read_versions(db, name))
                _set_for_agents(db, name, number, for_agents=offered)
                activate(db, name, number)
        if not changed:
            raise InstallError(
                f"version {number} of {name} is not waiting for a grant, or has changed since it was shown",
                hint="list the pending versions: wasmrt grant",
            )
        return self.get(name)

    def regrant(self, version: ToolVersion, grant: str, kept: tuple[Kept, ...] | None = None) -> ToolVersion:
        """Replace the grant of a stored version and, if `kept` is given, the list of its entries beyond the request.

        SECURITY: `version` is the version that the user saw. If its grant has changed since then, nothing is replaced.

        Raises:
            NotInstalledError: the tool no longer exists.
            InstallError: the grant has changed since `version` was read, or the version has no grant.
        """
        text = kept_text(version.kept if kept is None else kept)
        with self._index.writing() as db:
            changed = db.execute(
                "UPDATE version SET granted = ?, kept = ? WHERE name = ? AND number = ? AND digest = ? AND granted = ?"
                " AND coalesce(kept, '[]') = ?",
                (grant, text, version.name, version.number, version.digest, version.grant, kept_text(version.kept)),
            ).rowcount
        if not changed:
            raise InstallError(
                f"the grant of {version.name} was changed by another process",
                code="changed",
                hint="run the command again",
            )
        return self.get(version.name, version.number)

    def offer(self, version: ToolVersion, *, for_agents: bool) -> ToolVersion:
        """Store the user's decision whether to offer a version to the agents of the installation.

        SECURITY: the decision is part of the version's row, so it applies only to the component and the grant that the
        user saw. If the grant has changed since then, nothing is stored. The model cannot write the catalog.

        Raises:
            NotInstalledError: the tool no longer exists.
            InstallError: the version or its grant has changed since `version` was read.
        """
        with self._index.writing() as db:
            unchanged = any(
                (v.digest, v.grant, v.active) == (version.digest, version.grant, version.active)
                for v in read_versions(db, version.name)
                if v.number == version.number
            )
            if unchanged:
                _set_for_agents(db, version.name, version.number, for_agents=for_agents)
        if not unchanged:
            raise InstallError(
                f"{version.name} was changed by another process", code="changed", hint="run the command again"
            )
        return self.get(version.name, version.number)

    def rollback(self, name: str, number: int | None = None) -> ToolVersion:
        """Make an older version active, by default the one before the active version.

        SECURITY: the older version is offered to agents only if both it and the replaced version were. So a user's last
        decision not to offer the tool remains, and a version is never offered without a decision about it.

        Raises:
            NotInstalledError: the tool or the version does not exist.
            GrantRequiredError: the version was never granted.
            IntegrityError: the stored bytes of the version differ from the installed bytes.
        """
        target = self.get(name, number) if number is not None else self._find_previous(name)
        if target.grant is None:
            raise GrantRequiredError(
                f"version {target.number} of {name} was never granted", hint=f"wasmrt grant {name}"
            )
        self.read(target)
        with self._index.writing() as db:
            known = db.execute("SELECT 1 FROM version WHERE name = ? AND number = ?", (name, target.number))
            if known.fetchone() is None:
                raise NotInstalledError(f"{name} was removed by another process", hint="install it again")
            if not any(v.active and v.for_agents for v in read_versions(db, name)):
                _set_for_agents(db, name, target.number, for_agents=False)
            db.execute("UPDATE tool SET active = ? WHERE name = ?", (target.number, name))
        return self.get(name)

    def remove(self, name: str) -> tuple[ToolVersion, ...]:
        """Remove a tool with all its versions, and return the versions.

        Raises:
            NotInstalledError: the tool does not exist.
        """
        versions = self.versions(name)
        with self._index.writing() as db:
            db.execute("DELETE FROM tool WHERE name = ?", (name,))
            db.execute("DELETE FROM version WHERE name = ?", (name,))
        self._forget(v.digest for v in versions)
        return versions

    def verify(self, name: str | None = None) -> tuple[Finding, ...]:
        """Check the stored bytes of all versions of the tool `name`, or of every tool if `name` is None.

        Raises:
            NotInstalledError: the tool does not exist.
        """
        if name is not None:
            return tuple(self._check(v.name, v.number, v.digest, v.size_bytes) for v in self.versions(name))
        if not self._index.exists:
            return ()
        with self._index.reading() as db:
            rows = db.execute("SELECT name, number, digest, size_bytes FROM version ORDER BY name, number").fetchall()
        return tuple(self._check(*row) for row in rows)

    def sweep(self) -> int:
        """Delete components that belong to no version, and return their number. Interrupted installs leave them."""
        if not self._index.exists:
            return 0
        with self._index.reading() as db:
            known = read_digests(db)
        if not self._components.strays(known) and not self._components.has_incoming():
            return 0  # nothing to delete, so a read-only folder is not an error
        with self._index.writing() as db:
            self._components.prepare()
            self._components.clear_incoming()
            # Search again inside the transaction, because another process may have installed one of them since.
            strays = self._components.strays(read_digests(db))
            for digest in strays:
                self._components.remove(digest)
        return len(strays)

    def _check(self, name: str, number: int, digest: str, size_bytes: int) -> Finding:
        try:
            self._components.read(digest, name, size_bytes=size_bytes)
        except (IntegrityError, InstallError) as problem:
            return Finding(name, number, digest, problem.message)
        return Finding(name, number, digest)

    def _find_previous(self, name: str) -> ToolVersion:
        versions = self.versions(name)
        active = _find_active_number(versions)
        older = [v for v in versions if v.number < active and v.grant is not None]
        if not older:
            raise NotInstalledError(
                f"{name} has no granted version before {active}", hint=f"list the versions: wasmrt inspect {name}"
            )
        return older[-1]

    def _forget(self, unused: Iterable[str]) -> None:
        """Delete those components in `unused` that belong to no version. Their rows must have been deleted before."""
        candidates = set(unused)
        if not candidates:
            return
        with self._index.writing() as db:
            for digest in candidates:
                if db.execute("SELECT 1 FROM version WHERE digest = ?", (digest,)).fetchone() is None:
                    self._components.remove(digest)


def _is_same(stored: ToolVersion, new: NewVersion) -> bool:
    contents = (stored.digest, stored.sidecar, stored.package, stored.provenance.signer)
    return contents == (new.component.digest, new.sidecar, new.package, new.provenance.signer)


def _find_active_number(versions: Iterable[ToolVersion]) -> int:
    """Return the number of the active version, or 0 if no version is active."""
    return next((version.number for version in versions if version.active), 0)


def _set_for_agents(db: sqlite3.Connection, name: str, number: int, *, for_agents: bool) -> None:
    db.execute("UPDATE version SET for_agents = ? WHERE name = ? AND number = ?", (for_agents, name, number))
