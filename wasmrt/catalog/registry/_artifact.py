"""The layout of tools in registries: CNCF's Wasm OCI artifact, with the capability file in the config blob.

One digest and one signature therefore cover the component and its capability file.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

from wasmrt.catalog.registry._client import DIGEST, MANIFEST_TYPE, digest_of
from wasmrt.core.errors import SourceError
from wasmrt.core.limits import MAX_CAPABILITY_FILE_BYTES, MAX_MANIFEST_BYTES, MAX_WASM_CONFIG_BYTES
from wasmrt.core.strict_json import JsonError, read_json

COMPONENT_TYPE = "application/wasm"
CONFIG_TYPE = "application/vnd.wasm.config.v0+json"
PACKAGE_TYPE = "application/vnd.wasmrt.package.v1"
POLICY_TYPE = "application/vnd.wasm.policy.v1+yaml"
"""Wassette's policy of a component, in a second layer."""
_CAPABILITIES_TYPE = "application/vnd.wasmrt.capabilities.v1+json"
_CREATED = "1970-01-01T00:00:00Z"
"""A fixed time, so that the same files have the same digest."""
_MAX_LAYERS = 16
_MAX_BLOB_BYTES = 2**53
_TYPE = re.compile(r"[!-~]{1,255}")


class Descriptor(NamedTuple):
    """The type, digest and size of a blob."""

    media_type: str
    digest: str
    size: int

    def as_dict(self) -> dict[str, Any]:
        """Return the descriptor as it is written in a manifest."""
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size}


EMPTY = b"{}"
EMPTY_CONFIG = Descriptor("application/vnd.oci.empty.v1+json", digest_of(EMPTY), len(EMPTY))


@dataclass(frozen=True, slots=True)
class Artifact:
    """The blobs of a tool: a component or the archive of a package, and where its request is."""

    content: Descriptor
    config: Descriptor | None
    """The config blob of a component, which may contain a capability file."""
    policy: Descriptor | None
    """Wassette's policy."""

    @property
    def is_package(self) -> bool:
        """True if the content is an archive."""
        return self.content.media_type == PACKAGE_TYPE


def read_manifest(data: bytes) -> Artifact:
    """Read a manifest. It must have one component, or one archive of a package, and no layer of an unknown type.

    Raises:
        SourceError: the manifest is malformed, or is not the manifest of a tool.
    """
    tree = read_tree(data, MAX_MANIFEST_BYTES, "the manifest")
    if tree.get("schemaVersion") != 2 or tree.get("mediaType", MANIFEST_TYPE) != MANIFEST_TYPE:
        raise invalid_artifact(f"expected an OCI image manifest, got {tree.get('mediaType')!r:.100}")
    listed = tree.get("layers")
    if not isinstance(listed, list) or len(listed) > _MAX_LAYERS:
        raise invalid_artifact(f"it must have a list of at most {_MAX_LAYERS} layers")
    config, *layers = (read_descriptor(value) for value in (tree.get("config"), *listed))
    contents = [layer for layer in layers if layer.media_type in (COMPONENT_TYPE, PACKAGE_TYPE)]
    policies = [layer for layer in layers if layer.media_type == POLICY_TYPE]
    if len(contents) != 1 or len(policies) > 1 or len(layers) != len(contents) + len(policies):
        types = ", ".join(layer.media_type for layer in layers) or "none"
        raise invalid_artifact(f"expected one layer {COMPONENT_TYPE} or {PACKAGE_TYPE}, got layers: {types[:300]}")
    if policies and contents[0].media_type == PACKAGE_TYPE:
        raise invalid_artifact("a package must not have a policy layer")
    has_config = contents[0].media_type == COMPONENT_TYPE and config.media_type == CONFIG_TYPE
    return Artifact(contents[0], config if has_config else None, policies[0] if policies else None)


def read_config(data: bytes) -> bytes | None:
    """Return the capability file in a config blob, or None if the blob has none.

    Raises:
        SourceError: the blob is malformed.
    """
    entry = read_tree(data, MAX_WASM_CONFIG_BYTES, "the config").get("wasmrt")
    if entry is None:
        return None
    match entry:
        case {"mediaType": mediatype, "digest": digest, "data": str(text), **others} if not others:
            content = text.encode("utf-8", "replace")
            is_intact = digest == digest_of(content) and len(content) <= MAX_CAPABILITY_FILE_BYTES
            if mediatype == _CAPABILITIES_TYPE and is_intact:
                return content
    raise invalid_artifact("the capability file in its config is malformed, too large, or of another version")


def write_component(
    component: bytes, sidecar: bytes | None, *, imports: tuple[str, ...], exports: tuple[str, ...]
) -> tuple[bytes, bytes]:
    """Return the config blob and the manifest of a component and its capability file, which must be UTF-8."""
    layer = Descriptor(COMPONENT_TYPE, digest_of(component), len(component))
    tree: dict[str, Any] = {
        "created": _CREATED, "architecture": "wasm", "os": "wasip2", "layerDigests": [layer.digest],
        "component": {"imports": [*imports], "exports": [*exports], "target": None},
    }  # fmt: skip
    if sidecar is not None:
        capabilities = {"mediaType": _CAPABILITIES_TYPE, "digest": digest_of(sidecar), "data": sidecar.decode()}
        tree["wasmrt"] = capabilities
    config = json.dumps(tree, ensure_ascii=False, separators=(",", ":")).encode()
    return config, _write_manifest(Descriptor(CONFIG_TYPE, digest_of(config), len(config)), layer)


def write_package(archive: bytes) -> tuple[bytes, bytes]:
    """Return the config blob and the manifest of a package's archive."""
    return EMPTY, _write_manifest(EMPTY_CONFIG, Descriptor(PACKAGE_TYPE, digest_of(archive), len(archive)))


def _write_manifest(config: Descriptor, layer: Descriptor) -> bytes:
    kind = {"artifactType": PACKAGE_TYPE} if layer.media_type == PACKAGE_TYPE else {}
    head: dict[str, Any] = {"schemaVersion": 2, "mediaType": MANIFEST_TYPE, **kind}
    return json.dumps(head | {"config": config.as_dict(), "layers": [layer.as_dict()]}, separators=(",", ":")).encode()


def read_tree(data: bytes, max_bytes: int, label: str) -> dict[str, Any]:
    """Return the JSON object in a manifest or config; errors call it `label`.

    Raises:
        SourceError: the JSON is malformed, or not an object.
    """
    try:
        tree = read_json(data, max_bytes=max_bytes, max_depth=16, max_parts=10_000, distinct=True)
    except JsonError as error:
        raise invalid_artifact(f"{label} is {error}") from None
    if not isinstance(tree, dict):
        raise invalid_artifact(f"{label} is not a JSON object")
    return tree


def read_descriptor(value: object) -> Descriptor:
    """Return a descriptor of a manifest or index.

    Raises:
        SourceError: the descriptor is malformed.
    """
    match value:
        case {"mediaType": str(kind), "digest": str(digest), "size": int(size)} if (
            _TYPE.fullmatch(kind) and DIGEST.fullmatch(digest) and 0 <= size < _MAX_BLOB_BYTES and size is not True
        ):
            return Descriptor(kind, digest, size)
    raise invalid_artifact("a descriptor must have a mediaType, a sha256 digest and a size")


def invalid_artifact(problem: str) -> SourceError:
    return SourceError(
        f"the reference is not a tool: {problem}", code="artifact", hint="check the reference, or ask the publisher"
    )
