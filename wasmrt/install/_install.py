"""From a source to the catalog: check, ask, store. A person decides in between; this room never does.

Two steps, so that nothing is stored before somebody saw it: `propose` says what an install would mean, `accept`
stores it with its grant, `hold` stores an update that waits for one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from wasmrt.capabilities import Capabilities, merge
from wasmrt.capabilities.file import format_file, parse
from wasmrt.capabilities.sentences import diff, explain
from wasmrt.errors import InvalidNameError
from wasmrt.install._catalog import Catalog
from wasmrt.install._components import digest_of
from wasmrt.install._granted import granted_to, request_of
from wasmrt.install._model import Draft, ToolVersion
from wasmrt.install._sources import Source
from wasmrt.install._validator import WasmValidator
from wasmrt.names import check_installed_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What the engine and the component itself say, in a sandbox without any power."""

    world: str
    description: str = ""
    imports: tuple[str, ...] = ()
    """`interface#function`."""
    exports: tuple[str, ...] = ()
    schema_digest: str | None = None
    problems: tuple[str, ...] = ()


Prepare = Callable[[str, bytes], Reading]
"""Compiles a component, through the cache, and reads what it says of itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What an install would mean, before anything is stored."""

    draft: Draft
    data: bytes = field(repr=False)
    grant: Capabilities
    """What it would be given, if accepted."""
    previous: ToolVersion | None
    """The version that is active now."""
    warnings: tuple[str, ...]
    changes: tuple[str, ...]
    """For an update: what differs from the active version, in sentences."""
    wider: bool
    """It would be allowed something that the active version is not."""

    @property
    def powers(self) -> tuple[str, ...]:
        """What the tool would be allowed, in sentences."""
        return explain(self.grant)

    @property
    def is_installed(self) -> bool:
        """Everything is as it already is."""
        return self.previous is not None and not self.changes

    @property
    def needs_decision(self) -> bool:
        """A person has to agree: the tool is new and asks for something, is other code, or would be allowed more.

        The code that was agreed to with less power is no question.
        """
        if self.previous is None:
            return self.grant != Capabilities.none()
        return self.wider or self.draft.digest != self.previous.digest


class Installer:
    """Puts tools into a catalog. It reads and checks; what the person says comes from the caller."""

    def __init__(self, catalog: Catalog, *, prepare: Prepare, validator: WasmValidator | None = None) -> None:
        self._catalog = catalog
        self._prepare = prepare
        self._validator = validator or WasmValidator()

    def propose(self, source: Source, *, name: str | None = None, grant: bytes | None = None) -> Proposal:
        """Fetch, validate, compile and read a component, and compare it with what is installed.

        `grant` is a capability file that narrows what the sidecar asks for.

        Raises:
            SourceError: the source cannot be read.
            InvalidNameError: the name, given or suggested, cannot name a tool.
            ComponentError: the bytes are refused, by the validator or by the engine.
            CapabilityFileError: the sidecar or the grant is not sound.
        """
        if name is not None:
            check_installed_name(name)
        fetched = source.fetch(max_bytes=self._validator.max_bytes)
        name = _suggested(fetched.name) if name is None else name
        result = self._validator.validate(fetched.data)
        result.raise_first()
        asked = Capabilities.none() if fetched.sidecar is None else parse(fetched.sidecar).capabilities
        given = asked if grant is None else merge(asked, parse(grant).capabilities)
        reading = self._prepare(name, fetched.data)
        draft = Draft(
            name=name,
            digest=digest_of(fetched.data),
            size_bytes=len(fetched.data),
            world=reading.world,
            origin=fetched.origin,
            description=reading.description,
            imports=reading.imports or result.imports,
            exports=reading.exports or result.exports,
            schema_digest=reading.schema_digest,
            sidecar=None if fetched.sidecar is None else fetched.sidecar.decode(),
        )
        previous = self._catalog.get(name) if self._catalog.has(name) else None
        changes, wider = ((), False) if previous is None else _compare(previous, draft, asked, given)
        return Proposal(
            draft=draft,
            data=fetched.data,
            grant=given,
            previous=previous,
            warnings=(*fetched.warnings, *result.warnings, *reading.problems),
            changes=changes,
            wider=wider,
        )

    def accept(self, proposal: Proposal) -> ToolVersion:
        """Store what was proposed, with its grant, as the active version.

        Raises:
            InstallError: the catalog cannot be written, or is no longer what the proposal was compared with.
        """
        if proposal.is_installed and proposal.previous is not None:
            return proposal.previous
        seen = 0 if proposal.previous is None else proposal.previous.number
        return self._catalog.add(proposal.draft, proposal.data, format_file(proposal.grant), replaces=seen)

    def hold(self, proposal: Proposal) -> ToolVersion:
        """Store an update without a grant: it waits, and the active version stays.

        Raises:
            GrantRequiredError: it is no update; then nothing is stored.
        """
        return self._catalog.add(proposal.draft, proposal.data, grant=None)


def _compare(old: ToolVersion, new: Draft, asked: Capabilities, given: Capabilities) -> tuple[tuple[str, ...], bool]:
    """What differs, in sentences, and whether it is allowed more."""
    said = []
    if new.digest != old.digest:
        said.append(
            f"other bytes: {old.digest[:12]}, {old.size_bytes} bytes, became {new.digest[:12]}, {new.size_bytes}"
        )
    if new.world != old.world:
        said.append(f"another world: {old.world} became {new.world}")
    said += [f"imports {name}, which it did not" for name in sorted({*new.imports} - {*old.imports})]
    said += [f"no longer imports {name}" for name in sorted({*old.imports} - {*new.imports})]
    if new.schema_digest != old.schema_digest:
        said.append("another schema: its params are no longer the same")
    requested = diff(request_of(old), asked)
    said += [f"asks for more: {change.sentence}" for change in requested.widened]
    said += [f"no longer asks: {change.sentence}" for change in requested.narrowed]
    if not requested and new.sidecar != old.sidecar:
        said.append("another capability file, with the same powers")
    granted = diff(granted_to(old), given)
    if granted and not requested:
        said += [f"would be granted: {change.sentence}" for change in granted.widened]
        said += [f"would no longer be granted: {change.sentence}" for change in granted.narrowed]
    return tuple(said), bool(granted.widened)


def _suggested(text: str) -> str:
    try:
        return check_installed_name(text)
    except InvalidNameError as error:
        raise InvalidNameError(
            f"the file's name does not make a tool's name: {error.message}",
            hint=f"choose one with --name; {error.hint}",
        ) from error
