"""Install tools from a source, in two steps between which the caller asks the user.

`Installer.plan` checks a component and describes the effects of installing it, without storing anything. Then `accept`
stores the version with its grant, or `store_pending` stores it as an update that waits for a grant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from wasmrt.capabilities import Capabilities, merge
from wasmrt.capabilities.file import CapabilityFile, format_file, parse
from wasmrt.capabilities.sentences import diff, explain, explain_added
from wasmrt.catalog._catalog import Catalog
from wasmrt.catalog._model import ComponentInfo, Kept, NewInstall, NewVersion, Provenance, ToolVersion, TypedSource
from wasmrt.catalog._stored import load_tools
from wasmrt.catalog.find import described_by_sidecar
from wasmrt.catalog.granted import read_granted, request_of, select_tools, with_kept
from wasmrt.catalog.policy import InstallPolicy
from wasmrt.catalog.signing import Signer, Verified, verify
from wasmrt.catalog.sources import Fetched, Source
from wasmrt.catalog.trust import describe_origin, loosened_permissions, trust_changes
from wasmrt.catalog.validator import ValidationResult, WasmValidator, refuse_broken_schemas
from wasmrt.core.component_bytes import ComponentBytes
from wasmrt.core.errors import InvalidNameError
from wasmrt.core.names import check_installed_name
from wasmrt.sandbox.component import ToolSpec

Prepare = Callable[[str, ComponentBytes, Sequence[ToolSpec] | None], ComponentInfo]
"""Compiles a component and returns facts about it. The second argument has the tools that the package lists, if any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallPlan:
    """The effects of an install that has not been stored yet."""

    new: NewVersion
    grant: Capabilities
    """The capabilities that the tool gets if the plan is accepted."""
    previous: ToolVersion | None
    """The active version that the plan replaces, or None if the tool is not installed."""
    warnings: tuple[str, ...]
    changes: tuple[str, ...]
    """Sentences about the differences from `previous`, beginning with those that grant more access."""
    more: int
    """The number of sentences in `changes` about differences that grant more access, or reduce the trust in it."""
    problem: str = ""
    """The reason why an existing signature does not count, else empty."""
    root: str = ""
    """The trusted root that verified a keyless signature, with its age, as text for users."""

    @property
    def summary(self) -> str:
        """One line with the name, version, digest, source and signer."""
        return describe_origin(self.new, self.previous, self.problem or self.root)

    @property
    def wider(self) -> bool:
        """True if the new version would get more access than the active version, or deserves less trust."""
        return self.more > 0

    @property
    def sentences(self) -> tuple[str, ...]:
        """Sentences for the user about the tool's permissions and logins."""
        return explain(self.grant)

    @property
    def new_sentences(self) -> tuple[str, ...]:
        """The sentences on permissions that the active version does not have; empty without an active version."""
        return () if self.previous is None else explain_added(read_granted(self.previous), self.grant)

    @property
    def is_installed(self) -> bool:
        """True if this version is already installed unchanged."""
        return self.previous is not None and not self.changes

    @property
    def needs_decision(self) -> bool:
        """True if the user must agree to the plan.

        This is the case if a new tool requests something, and if an update changes the component or gets more access.
        """
        old, new = self.previous, self.new
        if old is None:
            return self.grant != Capabilities.none()
        # SECURITY: models read the names, schemas and descriptions of offered tools.
        shown = (old.schema_digest, old.description, _remove_permissions(old.package))
        now = (new.info.schema_digest, new.info.description, _remove_permissions(new.package))
        reworded = old.for_agents and shown != now
        return self.wider or new.component.digest != old.digest or reworded


def _remove_permissions(package: str | None) -> list[ToolSpec]:
    """Return a package's tools without their permissions, which `loosened_permissions` compares."""
    tools = () if package is None else load_tools(package)
    return [replace(tool, permission="", hidden=False, origins=()) for tool in tools]


class Installer:
    """Installs tools into a catalog. The caller asks the user for decisions."""

    def __init__(
        self,
        catalog: Catalog,
        *,
        prepare: Prepare,
        validator: WasmValidator | None = None,
        policy: InstallPolicy | None = None,
    ) -> None:
        self._catalog = catalog
        self._prepare = prepare
        self._validator = validator or WasmValidator()
        self._policy = policy or InstallPolicy()

    def plan(
        self,
        source: Source,
        *,
        name: str | None = None,
        grant: bytes | None = None,
        only: Sequence[str] = (),
        key: Signer | None = None,
        typed: TypedSource | None = None,
        kept: tuple[Kept, ...] = (),
    ) -> InstallPlan:
        """Fetch, validate and compile a component, and compare it with the installed version.

        `grant` is a capability file that narrows the request. `only` has patterns for the tools that get access.
        The source must have the signer `key`. `typed` is stored for updates; `kept` are entries beyond the file.

        Raises:
            SourceError: the source cannot be read, its signature is invalid, or its signer is not `key` or not allowed.
            InvalidNameError: the name is invalid.
            ComponentError: the validator or the engine refuses the component.
            CapabilityFileError: the sidecar or the grant is invalid.
        """
        if name is not None:
            check_installed_name(name)
        fetched = source.fetch(max_bytes=self._validator.max_bytes)
        name = _suggest_name(fetched.name) if name is None else name
        previous = self._catalog.get(name) if self._catalog.has(name) else None
        verified = self._verify(fetched, previous, key)
        result = self._validator.validate(fetched.data)
        result.raise_first()
        file = parse(fetched.sidecar or b"{}")
        asked = with_kept(file.capabilities, kept)
        given = _narrow_request(asked, grant, only)
        component = ComponentBytes(fetched.data)
        sidecar = None if fetched.sidecar is None else fetched.sidecar.decode()
        tools = None if fetched.package is None else load_tools(fetched.package)
        info = self._prepare(name, component, tools or described_by_sidecar(name, component, sidecar))
        refuse_broken_schemas(info.schema_problems)
        new = NewVersion(
            name=name,
            component=component,
            info=_complete_info(info, file, result),
            origin=fetched.origin,
            sidecar=sidecar,
            package=fetched.package,
            tools=info.tools,
            provenance=_make_provenance(fetched, verified, typed),
            kept=kept,
        )
        changes, more = ((), 0) if previous is None else _compare(previous, new, asked, given)
        return InstallPlan(
            new=new,
            grant=given,
            previous=previous,
            warnings=(*fetched.warnings, *result.warnings, *info.problems),
            changes=changes,
            more=more,
            problem=verified.problem,
            root=verified.root,
        )

    def _verify(self, fetched: Fetched, previous: ToolVersion | None, key: Signer | None) -> Verified:
        pinned = None if previous is None else previous.provenance.signer
        required = self._policy.list_signers(fetched.resolved) if key is None else (key,)
        known = () if pinned is None else (pinned,)
        verified = verify(fetched, known, required, self._policy.trusted_root)
        self._policy.check_signer(fetched.resolved, verified.signer, verified.problem)
        return verified

    def accept(self, plan: InstallPlan, *, for_agents: bool | None = None) -> ToolVersion:
        """Store the planned version with its grant, as the active version.

        `for_agents` is the user's decision whether to offer it to agents, as for `Catalog.add`.

        Raises:
            InstallError: the catalog cannot be written, or has changed since the plan was made.
        """
        seen = _list_seen(plan)
        # The same content at another place, such as a moved tag, is stored, so that a lock file names the new place.
        where = plan.new.provenance
        is_same_place = not where.source or where in [each.provenance for each in seen]
        if plan.is_installed and is_same_place and seen == (self._catalog.get(plan.new.name),):
            return seen[0] if for_agents is None else self._catalog.offer(seen[0], for_agents=for_agents)
        return self._catalog.add(plan.new, format_file(plan.grant), replaces=seen, for_agents=for_agents)

    def accept_all(self, decisions: Iterable[tuple[InstallPlan, bool | None]]) -> tuple[ToolVersion, ...]:
        """Store several planned versions with their grants: all of them, or none. See `accept`."""
        return self._catalog.add_all(
            NewInstall(plan.new, format_file(plan.grant), _list_seen(plan), for_agents)
            for plan, for_agents in decisions
        )

    def store_pending(self, plan: InstallPlan) -> ToolVersion:
        """Store an update that waits for a grant. The active version remains active.

        Raises:
            GrantRequiredError: the tool is not installed yet; nothing is stored.
        """
        return self._catalog.add(plan.new, None)


def _list_seen(plan: InstallPlan) -> tuple[ToolVersion, ...]:
    return () if plan.previous is None else (plan.previous,)


def _make_provenance(fetched: Fetched, verified: Verified, typed: TypedSource | None) -> Provenance:
    found = Provenance.of(fetched)._replace(signer=verified.signer, bundle=verified.bundle)
    return found if typed is None else found._replace(**typed._asdict())


def _narrow_request(asked: Capabilities, grant: bytes | None, only: Sequence[str]) -> Capabilities:
    given = asked if grant is None else merge(asked, parse(grant).capabilities)
    return select_tools(given, only) if only else given


def _complete_info(info: ComponentInfo, file: CapabilityFile, result: ValidationResult) -> ComponentInfo:
    return info._replace(
        description=file.description or info.description,
        imports=info.imports or result.imports,
        exports=info.exports or result.exports,
    )


def _compare(
    old: ToolVersion, new: NewVersion, asked: Capabilities, given: Capabilities
) -> tuple[tuple[str, ...], int]:
    """Return sentences about the differences, and how many of the first ones mean less trust or more access."""
    requested, granted = diff(request_of(old), asked), diff(read_granted(old), given)
    known = set(requested.widened)
    # SECURITY: a login determines where a client secret is sent, so it is compared like any other permission.
    wider = trust_changes(old, new)
    wider += [f"asks for more: {change.sentence}" for change in granted.widened if change in known]
    wider += [f"would be granted: {change.sentence}" for change in granted.widened if change not in known]
    wider += [] if new.package == old.package else loosened_permissions(old.package, new.package)
    found = [f"no longer asks: {change.sentence}" for change in requested.narrowed]
    gone = set(requested.narrowed)
    found += [f"would no longer be granted: {change.sentence}" for change in granted.narrowed if change not in gone]
    asks = [change for change in requested.widened if change not in granted.widened]
    found += [f"asks for more, which is not granted: {change.sentence}" for change in asks]
    found += _list_other_differences(old, new)
    if not requested and new.sidecar != old.sidecar:
        found.append("a different capability file with the same capabilities")
    return (*wider, *found), len(wider)


def _list_other_differences(old: ToolVersion, new: NewVersion) -> list[str]:
    """Return sentences about differences that are not capabilities: bytes, world, imports, tools and schema."""
    component, info = new.component, new.info
    found = []
    if component.digest != old.digest:
        before, after = f"{old.digest[:12]}, {old.size_bytes} bytes", f"{component.digest[:12]}, {len(component.data)}"
        found.append(f"different component: {before} became {after} bytes")
    if new.provenance.source and new.provenance.source != old.provenance.source:
        found.append(f"different source: {old.provenance.source or 'unknown'} became {new.provenance.source}")
    if old.provenance.signer is None and new.provenance.signer is not None:
        found.append(f"now signed by {new.provenance.signer}; later versions must be, too")
    if info.world != old.world:
        found.append(f"different world: {old.world} became {info.world}")
    found += [f"newly imports {name}" for name in sorted({*info.imports} - {*old.imports})]
    found += [f"no longer imports {name}" for name in sorted({*old.imports} - {*info.imports})]
    if new.package != old.package:
        count = f"different number of tools: {old.tools} became {new.tools}"
        found.append(count if new.tools != old.tools else "different descriptions of the tools in the package")
    if info.schema_digest != old.schema_digest:
        found.append("different schema: the parameters have changed")
    return found


def _suggest_name(text: str) -> str:
    try:
        return check_installed_name(text)
    except InvalidNameError as error:
        raise InvalidNameError(
            f"the file name is not a valid tool name: {error.message}",
            hint=f"choose a name with --name; {error.hint}",
        ) from error
