"""Lists of tools that an operator names: index files, registries, and domains with wkg's well-known file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from wasmrt.catalog.policy import INDEX_SUFFIXES
from wasmrt.catalog.registry._client import CATALOG, DIGEST, SCHEME, Reference, Registry, parse_reference
from wasmrt.catalog.registry._oci import Access
from wasmrt.catalog.registry._url import Download, UrlSource, check_url
from wasmrt.catalog.sources import read_source
from wasmrt.catalog.trust import version_order
from wasmrt.core.errors import ComponentTooLargeError, SourceError
from wasmrt.core.limits import MAX_MANIFEST_BYTES
from wasmrt.core.strict_json import JsonError, read_json
from wasmrt.core.strict_toml import TomlError, read_toml

WELL_KNOWN = "/.well-known/wasm-pkg/registry.json"
_MAX_NAME_CHARS = 128
_MAX_DESCRIPTION_CHARS = 500
_MAX_REFERENCE_CHARS = 2048
_SIGNATURES = re.compile(r"sha256-[0-9a-f]{64}.*")
"""Tags that list the signatures of a manifest, which are not tools."""


class Listed(NamedTuple):
    """A tool in a list. All texts are untrusted, but `reference` is valid."""

    name: str
    description: str
    reference: str
    """The source for `wasmrt install`, with the digest if the list names one; without a tag if a registry listed it."""
    source: str
    """The list."""


class Listing(NamedTuple):
    """The tools in a list, and sentences about entries that could not be read."""

    tools: tuple[Listed, ...]
    problems: tuple[str, ...] = ()


def list_tools(source: str, access: Access, download: Download) -> Listing:
    """Read a list: the path or https URL of an index file, `oci://HOST/PREFIX`, or a domain as `https://HOST`.

    Raises:
        SourceError: the list cannot be read, or the registry does not list its repositories.
    """
    if source.startswith(SCHEME):
        host, _, prefix = source.removeprefix(SCHEME).partition("/")
        return _list_registry(host, prefix, source, access)
    if not source.endswith(INDEX_SUFFIXES):
        host, prefix = _read_well_known(download(source.rstrip("/") + WELL_KNOWN, MAX_MANIFEST_BYTES))
        return _list_registry(host, prefix, source, access)
    if "://" in source:
        return _read_index(download(source, MAX_MANIFEST_BYTES), source)
    try:
        return _read_index(read_source(Path(source), "index", max_bytes=MAX_MANIFEST_BYTES), source)
    except ComponentTooLargeError:
        raise _make_unreadable_error(f"it has more than {MAX_MANIFEST_BYTES:,} bytes") from None


def with_tag(tool: Listed, access: Access) -> Listed | None:
    """Add the tag of the highest version to a tool's reference. Return None if the registry has no tag for the tool.

    If no tag is a version (Semantic Versioning), the tag `latest` is used or, without it, the last tag in the list.

    Raises:
        SourceError: the registry does not list the tags.
    """
    if not tool.reference.startswith(SCHEME) or _is_complete(tool.reference):
        return tool
    host, _, name = tool.reference.removeprefix(SCHEME).partition("/")
    reference = Reference(host, name, "")
    with access.connect(reference) as send:
        listed, _ = Registry(reference, send, access.find_login).list_names("/tags/list", "tags")
    tags = [tag for tag in listed if not _SIGNATURES.fullmatch(tag) and _is_complete(f"{tool.reference}:{tag}")]
    versions = [(order, tag) for tag in tags if (order := version_order(tag)) is not None]
    if not tags:
        return None
    best = max(versions)[1] if versions else "latest" if "latest" in tags else tags[-1]
    return tool._replace(reference=f"{tool.reference}:{best}")


def _list_registry(host: str, prefix: str, source: str, access: Access) -> Listing:
    """List the repositories of a registry whose names begin with a prefix of whole segments."""
    reference = replace(parse_reference(f"{SCHEME}{host}/catalog:all"), name=CATALOG, version="")
    with access.connect(reference) as send:
        names, is_cut = Registry(reference, send, access.find_login).list_names("?n=1000", "repositories")
    inside = f"{prefix.strip('/')}/".lstrip("/")
    found = (name for name in names if name.startswith(inside) and _is_complete(f"{reference.of(name)}:a"))
    tools = (Listed(name.removeprefix(inside), "", reference.of(name), source) for name in found)
    return Listing(tuple(tools), ("only the first repositories of the registry were read",) if is_cut else ())


def _read_well_known(data: bytes) -> tuple[str, str]:
    """Return the registry's host and the prefix of names from wkg's file, in its current or its older format."""
    tree = _read(data, ".json")
    nested = tree.get("oci")
    match (nested, tree):
        case ({"registry": str(host), **others}, _):
            prefix = others.get("namespacePrefix")
        case (_, {"ociRegistry": str(host), **others}):
            prefix = others.get("ociNamespacePrefix")
        case _:
            raise _make_unreadable_error(f"{WELL_KNOWN} names no OCI registry")
    if prefix is not None and not isinstance(prefix, str):
        raise _make_unreadable_error(f"{WELL_KNOWN} has a prefix that is not text")
    return host, prefix or ""


def _read_index(data: bytes, source: str) -> Listing:
    entries = _read(data, source[-5:]).get("tools")
    if not isinstance(entries, list):
        raise _make_unreadable_error('it has no list "tools"')
    problems: list[str] = []
    tools = tuple(_read_entries(entries, source, problems))
    others = f"; {len(problems) - 1} other entries are invalid, too" if len(problems) > 1 else ""
    return Listing(tools, (problems[0] + others,) if problems else ())


def _read_entries(entries: list[object], source: str, problems: list[str]) -> Iterator[Listed]:
    for at, entry in enumerate(entries, start=1):
        try:
            match entry:
                case {"name": str(name), "reference": str(reference), **others} if (
                    0 < len(name) <= _MAX_NAME_CHARS and len(reference) <= _MAX_REFERENCE_CHARS
                ):
                    words = others.get("description", "")
                    description = words[:_MAX_DESCRIPTION_CHARS] if isinstance(words, str) else ""
                    yield Listed(name, description, _pin(reference, others.get("digest")), source)
                case _:
                    raise _make_unreadable_error("expected texts as name and reference")
        except SourceError as error:
            problems.append(f"entry {at} is invalid: {error.message}")


def _pin(text: str, digest: object) -> str:
    """Add the digest of an entry to its reference. Without a digest, the reference stays unchanged.

    Raises:
        SourceError: the reference or the digest is invalid, or the reference pins another digest.
    """
    if digest is not None and not (isinstance(digest, str) and DIGEST.fullmatch(digest)):
        raise _make_unreadable_error("the digest must be sha256: and 64 hexadecimal digits in lower case")
    if text.startswith(SCHEME):
        reference = parse_reference(text)
        pinned, version = reference.version if reference.is_pinned else None, digest or reference.version
        resolved = str(replace(reference, version=version))
    else:
        UrlSource(text, lambda _url, _most: b"")  # checks the URL
        address, pin = check_url(text)
        pinned = pin and f"sha256:{pin}"
        resolved = f"{address}#sha256={digest.removeprefix('sha256:')}" if digest else text
    if digest and pinned not in (None, digest):
        raise _make_unreadable_error("its reference pins another digest than its digest")
    return resolved


def _read(data: bytes, suffix: str) -> dict[str, Any]:
    try:
        if suffix == ".toml":
            return read_toml(data)
        tree = read_json(data, max_bytes=MAX_MANIFEST_BYTES, max_depth=16, max_parts=10_000, distinct=True)
    except (JsonError, TomlError) as error:
        raise _make_unreadable_error(f"it is {error}" if suffix != ".toml" else f"it is not TOML: {error}") from None
    if not isinstance(tree, dict):
        raise _make_unreadable_error("it is not a JSON object")
    return tree


def _is_complete(reference: str) -> bool:
    try:
        parse_reference(reference)
    except SourceError:
        return False
    return True


def _make_unreadable_error(problem: str) -> SourceError:
    return SourceError(problem, code="index", hint="ask the publisher of the index")
