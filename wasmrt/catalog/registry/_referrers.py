"""Signatures in registries: manifests that refer to the manifest of a tool, as the OCI specifications 1.1 describe."""

from __future__ import annotations

import json
from typing import Any

from wasmrt.catalog.registry._artifact import (
    EMPTY,
    EMPTY_CONFIG,
    Descriptor,
    invalid_artifact,
    read_descriptor,
    read_tree,
)
from wasmrt.catalog.registry._client import INDEX_TYPE, MANIFEST_TYPE, Registry, digest_of
from wasmrt.catalog.signing import BUNDLE_TYPE, PREDICATE
from wasmrt.core.errors import SourceError
from wasmrt.core.limits import MAX_BUNDLE_BYTES, MAX_BUNDLES, MAX_MANIFEST_BYTES, MAX_REFERRER_BYTES

_BUNDLE_TYPES = "application/vnd.dev.sigstore.bundle"
"""The beginning of the types of bundles."""
_PREDICATE_TYPE = "dev.sigstore.bundle.predicateType"
"""The annotation with which cosign distinguishes signatures from other statements, such as the provenance."""


def fetch_bundles(registry: Registry, digest: str) -> tuple[bytes, ...]:
    """Return the signatures of the manifest with a digest, in the order of the registry.

    Raises:
        SourceError: more manifests may be signatures than `MAX_BUNDLES`, one is malformed or too large, or the
            download failed.
    """
    found = []
    for each in _list_candidates(_find_index(registry, digest)[0]):
        if each.size > MAX_REFERRER_BYTES:
            raise invalid_artifact(
                f"a signature's manifest has {each.size:,} bytes, the limit is {MAX_REFERRER_BYTES:,}"
            )
        layer = _find_layer(registry.get_referrer(each.digest, each.size), digest)
        if layer is not None:
            found.append(registry.get_blob(layer.digest, layer.size))
    return tuple(found)


def attach_bundle(registry: Registry, manifest: bytes, bundle: bytes) -> None:
    """Store a signature of a manifest. A registry without an API of referrers gets an index under a tag.

    Raises:
        SourceError: the manifest has too many signatures, or the registry refused the upload.
    """
    digest = digest_of(manifest)
    index, has_api = _find_index(registry, digest)
    layer = Descriptor(BUNDLE_TYPE, digest_of(bundle), len(bundle))
    head: dict[str, Any] = {"schemaVersion": 2, "mediaType": MANIFEST_TYPE, "artifactType": BUNDLE_TYPE}
    referrer = json.dumps(head | {
        "config": EMPTY_CONFIG.as_dict(), "layers": [layer.as_dict()],
        "subject": Descriptor(MANIFEST_TYPE, digest, len(manifest)).as_dict(),
        "annotations": {_PREDICATE_TYPE: PREDICATE},
    }, separators=(",", ":")).encode()  # fmt: skip
    entry = Descriptor(MANIFEST_TYPE, digest_of(referrer), len(referrer)).as_dict() | {"artifactType": BUNDLE_TYPE}
    index["manifests"] = [*(each for each in _list_manifests(index) if each.get("digest") != entry["digest"]), entry]
    _list_candidates(index)
    registry.put_blob(EMPTY)
    registry.put_blob(bundle)
    registry.put_manifest(referrer, digest_of(referrer))
    if not has_api:
        data = json.dumps(index, separators=(",", ":")).encode()
        registry.put_manifest(data, _get_fallback_tag(digest), INDEX_TYPE)


def _find_index(registry: Registry, digest: str) -> tuple[dict[str, Any], bool]:
    """Return the index of the manifests that refer to a digest, and whether it comes from the API of referrers."""
    data, is_cut = registry.find_index(f"referrers/{digest}")
    has_api = data is not None
    if data is None:
        data, is_cut = registry.find_index(f"manifests/{_get_fallback_tag(digest)}")
    if is_cut:
        raise _make_flood_error()
    if data is None:
        return {"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": []}, has_api
    return read_tree(data, MAX_MANIFEST_BYTES, "the list of signatures"), has_api


def _get_fallback_tag(digest: str) -> str:
    return digest.replace(":", "-")


def _list_manifests(index: dict[str, Any]) -> list[dict[str, Any]]:
    listed = index.get("manifests")
    if listed is None:  # registries in Go send null instead of an empty list
        return []
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise invalid_artifact("the list of signatures must have a list of manifests")
    return listed


def _list_candidates(index: dict[str, Any]) -> list[Descriptor]:
    """Return the manifests in an index that may be signatures, also those that are listed with their config's type."""
    found = [
        read_descriptor(each)
        for each in _list_manifests(index)
        if str(each.get("artifactType", EMPTY_CONFIG.media_type)).startswith((_BUNDLE_TYPES, EMPTY_CONFIG.media_type))
    ]
    if len(found) > MAX_BUNDLES:
        raise _make_flood_error()
    return found


def _find_layer(data: bytes, digest: str) -> Descriptor | None:
    """Return the bundle in a manifest, or None if the manifest is not a signature of the digest."""
    tree = read_tree(data, MAX_REFERRER_BYTES, "a signature's manifest")
    match tree:
        case {"subject": {"digest": subject}, "layers": [layer]} if subject == digest:
            found = read_descriptor(layer)
        case _:
            return None
    notes = tree.get("annotations")
    predicate = notes.get(_PREDICATE_TYPE, PREDICATE) if isinstance(notes, dict) else PREDICATE
    if predicate != PREDICATE or not found.media_type.startswith(_BUNDLE_TYPES):
        return None
    if found.size > MAX_BUNDLE_BYTES:
        raise invalid_artifact(f"a signature has {found.size:,} bytes, the limit is {MAX_BUNDLE_BYTES:,}")
    return found


def _make_flood_error() -> SourceError:
    return SourceError(
        f"the registry lists more than {MAX_BUNDLES} signatures of the tool",
        code="referrers", hint="pass the publisher's signature with --signature FILE",
    )  # fmt: skip
