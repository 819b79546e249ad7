"""The values of the catalog: facts about components, versions, list entries and results of verification."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from wasmrt.catalog.signing import Signer
from wasmrt.core.component_bytes import ComponentBytes
from wasmrt.core.model import Addition
from wasmrt.core.tool_defaults import Offer

if TYPE_CHECKING:
    from wasmrt.catalog.sources import Fetched


class ComponentInfo(NamedTuple):
    """Facts about a component, from the engine and from the component's description of itself."""

    world: str
    description: str = ""
    imports: tuple[str, ...] = ()
    """Imports in the form `interface#function`, or only `interface` if the functions are not known."""
    exports: tuple[str, ...] = ()
    schema_digest: str | None = None
    """The BLAKE3 digest of the names and schemas of the tools, or None if these could not be read."""
    tools: int = 1
    """The number of tools."""
    problems: tuple[str, ...] = ()
    """Sentences about problems with the descriptions of the tools. The component can still run."""
    schema_problems: tuple[str, ...] = ()
    """Sentences about invalid schemas. Models would get these tools without parameters."""


class Provenance(NamedTuple):
    """The place from which a version was fetched, and its signature."""

    resolved: str = ""
    """A reference to exactly the fetched content, or the absolute path of a file."""
    digest: str = ""
    """The digest of the fetched file or manifest, such as `sha256:HEX`; empty for folders."""
    capabilities_digest: str = ""
    """The digest of the capability file, unless `digest` covers it."""
    signer: Signer | None = None
    """The verified signer, or None if the version counts as unsigned."""
    bundle: str | None = None
    """The signature, as a Sigstore bundle."""
    source: str = ""
    """The source as a user typed it, with absolute paths, like `capabilities` and `signature`; empty if unknown."""
    capabilities: str | None = None
    signature: str | None = None

    @classmethod
    def of(cls, fetched: Fetched) -> Provenance:
        """Return the place of fetched content and its digests."""
        beside = fetched.signed[1:]
        return cls(fetched.resolved, fetched.digest, f"sha256:{beside[0]}" if beside else "")

    def dump(self) -> str:
        """Return the values as text for the catalog."""
        return json.dumps(self._asdict() | {"signer": self.signer and self.signer.as_dict()})

    @classmethod
    def load(cls, text: str | None) -> Provenance:
        """Return the values from the text of `dump`; None means an older catalog, which stored nothing."""
        values = {} if text is None else json.loads(text)
        signer = values.pop("signer", None)
        return cls(**values, signer=signer and Signer(**signer))


class TypedSource(NamedTuple):
    """A source as a user typed it, with absolute paths."""

    source: str
    capabilities: str | None
    signature: str | None


class NewVersion(NamedTuple):
    """A version of a tool that is not stored yet, and therefore has neither a number nor a grant."""

    name: str
    component: ComponentBytes
    info: ComponentInfo
    origin: str = ""
    """The source of the version, as text for users."""
    sidecar: str | None = None
    """The capability file of the source, which contains the request."""
    package: str | None = None
    """The tools that the package lists, as text from `dump_tools`, or None if the component is not in a package."""
    tools: int = 1
    """The number of tools."""
    provenance: Provenance = Provenance()
    kept: tuple[Kept, ...] = ()
    """Entries beyond the request, from an export."""


class NewInstall(NamedTuple):
    """A version to store, with a user's decisions about it. See `Catalog.add`."""

    new: NewVersion
    grant: str | None
    replaces: tuple[ToolVersion, ...] | None = None
    for_agents: bool | None = None


class Kept(NamedTuple):
    """An entry that a user added permanently to a version's grant after a call was denied."""

    addition: Addition
    tool: str | None
    """The tool whose section got the entry, or None if the entry belongs to the whole component."""
    by: str
    """The name of the user who added the entry."""
    at: str
    """The time at which the entry was added, in UTC (ISO 8601, to the second)."""

    def as_dict(self) -> dict[str, Any]:
        """Return the entry as JSON data."""
        return self.addition.as_dict() | {"tool": self.tool, "by": self.by, "at": self.at}


class ToolVersion(NamedTuple):
    """One version of an installed tool."""

    name: str
    number: int
    digest: str
    """The BLAKE3 digest of the component, 64 hexadecimal digits."""
    size_bytes: int
    world: str
    description: str
    origin: str
    installed_at: str
    """The time of the installation, in UTC (ISO 8601, to the second)."""
    schema_digest: str | None
    imports: tuple[str, ...]
    exports: tuple[str, ...]
    sidecar: str | None
    """The capability file of the source, which contains the request."""
    grant: str | None
    """The grant, as a capability file. None means that the version waits for a grant, and cannot run."""
    active: bool
    package: str | None = None
    """The tools that the package lists, as text from `dump_tools`, or None if the component is not in a package."""
    tools: int = 1
    """The number of tools."""
    kept: tuple[Kept, ...] = ()
    """Entries that a user granted beyond the request. Each entry is also in the grant, unless it was revoked."""
    for_agents: bool = False
    """True if a user agreed to offer this version to the agents of the installation."""
    provenance: Provenance = Provenance()

    @property
    def offer(self) -> Offer:
        """The user's decision whether to offer this version to agents."""
        return Offer(self.for_agents, f"wasmrt grant {self.name}")

    @property
    def pending(self) -> bool:
        """True if the version is waiting for a grant."""
        return self.grant is None

    def as_dict(self) -> dict[str, Any]:
        """Return the version as JSON data. Sidecar and grant remain text; package and signature are omitted."""
        values = {name: value for name, value in self._asdict().items() if name not in ("package", "provenance")}
        data = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
        signer = self.provenance.signer
        return data | {
            "kept": [each.as_dict() for each in self.kept],
            "resolved": self.provenance.resolved,
            "source_digest": self.provenance.digest,
            "signer": None if signer is None else signer.as_dict(),
        }


class Listed(NamedTuple):
    """One entry of the list of tools. It is a plain tuple because the list can have ten thousand entries."""

    name: str
    number: int
    digest: str
    size_bytes: int
    world: str
    description: str
    pending: int | None
    """The number of the update that is waiting for a grant, or None."""
    tools: int = 1
    """The number of tools."""
    for_agents: int = 0
    """1 if a user agreed to offer the active version to the agents of the installation, else 0."""


class Finding(NamedTuple):
    """The result of verifying one version. `problem` is None if the stored bytes are unchanged."""

    name: str
    number: int
    digest: str
    problem: str | None = None
