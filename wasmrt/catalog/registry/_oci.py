"""Tools in registries as sources from which they are installed, and publishing them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from wasmrt.capabilities.file import format_file, parse
from wasmrt.capabilities.foreign import import_policy
from wasmrt.catalog.package import fetch_archive
from wasmrt.catalog.registry._artifact import (
    Artifact,
    Descriptor,
    read_config,
    read_manifest,
    write_component,
    write_package,
)
from wasmrt.catalog.registry._client import FindLogin, Reference, Registry, Send, digest_of, parse_reference
from wasmrt.catalog.registry._referrers import attach_bundle, fetch_bundles
from wasmrt.catalog.sources import Fetched, digests_to_sign
from wasmrt.core.errors import ComponentTooLargeError, SourceError
from wasmrt.core.limits import MAX_ARCHIVE_BYTES, MAX_CAPABILITY_FILE_BYTES, MAX_WASM_CONFIG_BYTES


class Access(NamedTuple):
    """The functions with which the client of a registry reaches it."""

    connect: Callable[[Reference], AbstractContextManager[Send]]
    """Opens the connections for one reference."""
    find_login: FindLogin


Sign = Callable[[str], bytes]
"""Returns the signature of the manifest with a SHA-256 digest, in hexadecimal."""


@dataclass(frozen=True, slots=True)
class OciSource:
    """A tool in a registry.

    Attributes:
        url: `oci://HOST/NAME:TAG` or `oci://HOST/NAME@sha256:HEX`.
        access: How the registry is reached.
        sidecar: A capability file for a component that was published without one.
        finds_signatures: Whether signatures in the registry are fetched.
    """

    url: str
    access: Access = field(repr=False)
    sidecar: bytes | None = field(default=None, repr=False)
    finds_signatures: bool = True

    def fetch(self, *, max_bytes: int) -> Fetched:
        """Download the tool. A tag is resolved once, and everything else is fetched and compared by its digest.

        Raises:
            SourceError: the reference is invalid or not a tool, the download failed, or content has another digest.
            ComponentTooLargeError: the component has more than `max_bytes`.
            PackageError, ManifestError, CapabilityFileError: the package, capability file or policy is invalid.
        """
        reference = parse_reference(self.url)
        with self.access.connect(reference) as send:
            registry = Registry(reference, send, self.access.find_login)
            manifest, digest = registry.get_manifest()
            artifact = read_manifest(manifest)
            bundles = fetch_bundles(registry, digest) if self.finds_signatures else ()
            sidecar, warnings = _fetch_request(registry, artifact)
            data = registry.get_blob(*_check_size(artifact, max_bytes))
        if self.sidecar is not None and (sidecar is not None or artifact.is_package):
            raise SourceError(
                "the tool contains its capability file, so a separate one cannot be used",
                hint="to grant less, use --grant FILE",
            )
        if artifact.is_package:
            fetched = fetch_archive(data, str(reference), max_bytes=max_bytes)
        else:
            name = reference.name.rpartition("/")[2]
            file = self.sidecar if sidecar is None else sidecar
            fetched = Fetched(data=data, name=name, origin=str(reference), sidecar=file, warnings=warnings)
        resolved, signed = replace(reference, version=digest), digests_to_sign(manifest, self.sidecar)
        return replace(fetched, resolved=str(resolved), digest=digest, bundles=bundles, signed=signed)


def push_component(
    url: str,
    access: Access,
    fetched: Fetched,
    *,
    imports: tuple[str, ...],
    exports: tuple[str, ...],
    sign: Sign | None = None,
) -> str:
    """Publish a component with its capability file and signature, and return the reference with the digest.

    Raises:
        SourceError: the reference has no tag, or `sign` or the registry refused.
        CapabilityFileError: the capability file is invalid.
    """
    if fetched.sidecar is not None:
        parse(fetched.sidecar)
    config, manifest = write_component(fetched.data, fetched.sidecar, imports=imports, exports=exports)
    return _push(url, access, fetched.data, (config, manifest), sign)


def push_package(url: str, access: Access, archive: bytes, *, sign: Sign | None = None) -> str:
    """Publish the archive of a package with its signature, and return the reference with the digest.

    Raises:
        SourceError: the reference has no tag, or `sign` or the registry refused.
    """
    return _push(url, access, archive, write_package(archive), sign)


def _push(url: str, access: Access, content: bytes, written: tuple[bytes, bytes], sign: Sign | None) -> str:
    reference = parse_reference(url)
    if reference.is_pinned:
        raise SourceError("expected a tag to publish the tool under, got a digest", hint="write oci://HOST/NAME:TAG")
    config, manifest = written
    (digest,) = digests_to_sign(manifest)
    bundle = None if sign is None else sign(digest)
    with access.connect(reference) as send:
        registry = Registry(reference, send, access.find_login, actions="pull,push")
        registry.put_blob(config)
        registry.put_blob(content)
        if bundle is not None:  # first, so that the tag never names a tool whose signature is missing
            registry.put_manifest(manifest, digest_of(manifest))
            attach_bundle(registry, manifest, bundle)
        return str(replace(reference, version=registry.put_manifest(manifest)))


def _check_size(artifact: Artifact, max_bytes: int) -> tuple[str, int]:
    """Return the digest and the size of the content, which is refused before the download if it is too large."""
    most = MAX_ARCHIVE_BYTES if artifact.is_package else max_bytes
    if artifact.content.size > most:
        raise ComponentTooLargeError(
            f"the tool has {artifact.content.size:,} bytes, the limit is {most:,}",
            hint="raise the limit: wasmrt install --max-bytes N",
        )
    return artifact.content.digest, artifact.content.size


def _fetch_request(registry: Registry, artifact: Artifact) -> tuple[bytes | None, tuple[str, ...]]:
    """Return the capability file of a component, from its config or its policy, and the warnings about it."""
    sidecar = None
    if artifact.config is not None:
        sidecar = read_config(_fetch_small(registry, artifact.config, MAX_WASM_CONFIG_BYTES))
    if artifact.policy is None:
        return sidecar, ()
    if sidecar is not None:
        raise SourceError(
            "the tool has both a capability file and a policy", code="artifact", hint="ask the publisher to remove one"
        )
    policy = _fetch_small(registry, artifact.policy, MAX_CAPABILITY_FILE_BYTES)
    imported = import_policy(policy.decode("utf-8", "replace"))
    return format_file(imported.file).encode(), tuple(f"not converted: {line}" for line in imported.left)


def _fetch_small(registry: Registry, blob: Descriptor, most: int) -> bytes:
    if blob.size > most:
        raise SourceError(
            f"a blob of the tool has {blob.size:,} bytes, the limit is {most:,}",
            code="artifact", hint="ask the publisher for a smaller one",
        )  # fmt: skip
    return registry.get_blob(blob.digest, blob.size)
