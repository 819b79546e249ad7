"""From a source to the catalog: check, ask, store. A person decides in between; nothing here does.

Two steps, so that nothing is stored before somebody saw it: `plan` says what an install would mean, `accept` stores
it with its grant, `store_pending` stores an update that waits for one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from wasmrt.capabilities import Capabilities, merge
from wasmrt.capabilities.file import format_file, parse
from wasmrt.capabilities.sentences import diff, explain
from wasmrt.catalog._catalog import Catalog
from wasmrt.catalog._model import ComponentInfo, NewVersion, ToolVersion
from wasmrt.catalog._stored import load_tools
from wasmrt.catalog.find import described_by_sidecar
from wasmrt.catalog.granted import granted_to, only_tools, request_of
from wasmrt.catalog.sources import Source
from wasmrt.catalog.validator import WasmValidator, refuse_broken_schemas
from wasmrt.core.component_bytes import ComponentBytes
from wasmrt.core.errors import InvalidNameError
from wasmrt.core.names import check_installed_name
from wasmrt.sandbox.component import ToolSpec

_STRICTER = ("", "allow", "ask", "deny")
"""Permissions that a package may want for a tool, each stricter than the one before."""
Prepare = Callable[[str, ComponentBytes, Sequence[ToolSpec] | None], ComponentInfo]
"""Compiles a component, through the cache, and reads what it says of itself, or its package says of its tools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallPlan:
    """The meaning of an install, before anything is stored."""

    new: NewVersion
    grant: Capabilities
    """The capabilities it would be given, if accepted."""
    previous: ToolVersion | None
    """The version that is active now."""
    warnings: tuple[str, ...]
    changes: tuple[str, ...]
    """For an update: the differences from the active version, in sentences."""
    more: int
    """The number of those, from the first on, that are something it would be allowed beyond the active version."""

    @property
    def wider(self) -> bool:
        """True where it would be allowed something that the active version is not."""
        return self.more > 0

    @property
    def sentences(self) -> tuple[str, ...]:
        """Sentences on what the tool would be allowed, and on its logins, for a person."""
        return explain(self.grant)

    @property
    def is_installed(self) -> bool:
        """True where everything is as it already is."""
        return self.previous is not None and not self.changes

    @property
    def needs_decision(self) -> bool:
        """True where a person has to agree: it is new and asks for something, is other code, or would be allowed more.

        The code that was agreed to with less is no question.
        """
        if self.previous is None:
            return self.grant != Capabilities.none()
        return self.wider or self.new.component.digest != self.previous.digest


class Installer:
    """Puts tools into a catalog. It reads and checks; what the person decides comes from the caller."""

    def __init__(self, catalog: Catalog, *, prepare: Prepare, validator: WasmValidator | None = None) -> None:
        self._catalog = catalog
        self._prepare = prepare
        self._validator = validator or WasmValidator()

    def plan(
        self, source: Source, *, name: str | None = None, grant: bytes | None = None, only: Sequence[str] = ()
    ) -> InstallPlan:
        """Fetch, validate, compile and read a component, and compare it with what is installed.

        `grant` is a capability file that narrows what the sidecar asks for; `only` are patterns of the names of those
        tools that are granted anything, all of them where there is none.

        Raises:
            SourceError: the source cannot be read.
            InvalidNameError: the name, given or suggested, cannot name a tool.
            ComponentError: the bytes are refused, by the validator or by the engine.
            CapabilityFileError: the sidecar or the grant is not valid.
        """
        if name is not None:
            check_installed_name(name)
        fetched = source.fetch(max_bytes=self._validator.max_bytes)
        name = _suggested(fetched.name) if name is None else name
        result = self._validator.validate(fetched.data)
        result.raise_first()
        file = None if fetched.sidecar is None else parse(fetched.sidecar)
        asked = Capabilities.none() if file is None else file.capabilities
        given = asked if grant is None else merge(asked, parse(grant).capabilities)
        if only:
            given = only_tools(given, only)
        component = ComponentBytes(fetched.data)
        sidecar = None if fetched.sidecar is None else fetched.sidecar.decode()
        packaged = None if fetched.package is None else load_tools(fetched.package)
        tools = packaged or described_by_sidecar(name, component, sidecar)
        info = self._prepare(name, component, tools)
        refuse_broken_schemas(info.schema_problems)
        new = NewVersion(
            name=name,
            component=component,
            info=info._replace(
                description=(file and file.description) or info.description,
                imports=info.imports or result.imports,
                exports=info.exports or result.exports,
            ),
            origin=fetched.origin,
            sidecar=sidecar,
            package=fetched.package,
            tools=info.tools,
        )
        previous = self._catalog.get(name) if self._catalog.has(name) else None
        changes, more = ((), 0) if previous is None else _compare(previous, new, asked, given)
        return InstallPlan(
            new=new,
            grant=given,
            previous=previous,
            warnings=(*fetched.warnings, *result.warnings, *info.problems),
            changes=changes,
            more=more,
        )

    def accept(self, plan: InstallPlan) -> ToolVersion:
        """Store what was planned, with its grant, as the active version.

        Raises:
            InstallError: the catalog cannot be written, or is no longer what the plan was compared with.
        """
        if plan.is_installed and plan.previous is not None:
            return plan.previous
        seen = 0 if plan.previous is None else plan.previous.number
        return self._catalog.add(plan.new, format_file(plan.grant), replaces=seen)

    def store_pending(self, plan: InstallPlan) -> ToolVersion:
        """Store an update without a grant: it is pending one, and the active version stays.

        Raises:
            GrantRequiredError: it is no update; then nothing is stored.
        """
        return self._catalog.add(plan.new, None)


def _compare(
    old: ToolVersion, new: NewVersion, asked: Capabilities, given: Capabilities
) -> tuple[tuple[str, ...], int]:
    """Return the differences, in sentences, and how many of them, from the first on, allow the new version more."""
    requested, granted = diff(request_of(old), asked), diff(granted_to(old), given)
    known = set(requested.widened)
    # SECURITY: a login names the place that a client's secret is sent to; it is a part of the grant like any other.
    wider = [f"asks for more: {change.sentence}" for change in granted.widened if change in known]
    wider += [f"would be granted: {change.sentence}" for change in granted.widened if change not in known]
    wider += [] if new.package == old.package else _loosened(old.package, new.package)
    found = [f"no longer asks: {change.sentence}" for change in requested.narrowed]
    gone = set(requested.narrowed)
    found += [f"would no longer be granted: {change.sentence}" for change in granted.narrowed if change not in gone]
    asks = [change for change in requested.widened if change not in granted.widened]
    found += [f"asks for more, and is not granted it: {change.sentence}" for change in asks]
    found += _other_differences(old, new)
    if not requested and new.sidecar != old.sidecar:
        found.append("another capability file, with the same capabilities")
    return (*wider, *found), len(wider)


def _other_differences(old: ToolVersion, new: NewVersion) -> list[str]:
    """Return the differences between two components and packages, in sentences."""
    component, info = new.component, new.info
    found = []
    if component.digest != old.digest:
        before, after = f"{old.digest[:12]}, {old.size_bytes} bytes", f"{component.digest[:12]}, {len(component.data)}"
        found.append(f"other bytes: {before}, became {after}")
    if info.world != old.world:
        found.append(f"another world: {old.world} became {info.world}")
    found += [f"imports {name}, which it did not" for name in sorted({*info.imports} - {*old.imports})]
    found += [f"no longer imports {name}" for name in sorted({*old.imports} - {*info.imports})]
    if new.package != old.package:
        found.append(f"other tools: {old.tools} became {new.tools}" if new.tools != old.tools else "other tools")
    if info.schema_digest != old.schema_digest:
        found.append("another schema: its params are no longer the same")
    return found


def _loosened(old: str | None, new: str | None) -> list[str]:
    """Return a sentence for each tool that its package held back more before."""
    before = {} if old is None else {tool.name: tool for tool in load_tools(old)}
    after = () if new is None else load_tools(new)
    sentences = []
    for tool in after:
        was = before.get(tool.name)
        if was is None:
            continue
        if _STRICTER.index(was.permission) > _STRICTER.index(tool.permission):
            sentences.append(f"{tool.name}: its package said {was.permission!r}, and says {tool.permission!r} now")
        if was.hidden and not tool.hidden:
            sentences.append(f"{tool.name} was hidden from models, and is offered to them now")
    gone = [tool.name for tool in before.values() if tool.permission in _STRICTER[2:]] if new is None else []
    return sentences + [f"{name}: its package no longer says how it may be called" for name in gone]


def _suggested(text: str) -> str:
    try:
        return check_installed_name(text)
    except InvalidNameError as error:
        raise InvalidNameError(
            f"the file's name does not make a tool's name: {error.message}",
            hint=f"choose one with --name; {error.hint}",
        ) from error
