"""Compare the signer, version and permissions of an update with the installed version, and describe them for users."""

from __future__ import annotations

import re

from wasmrt.capabilities.file import parse
from wasmrt.catalog._model import NewVersion, ToolVersion
from wasmrt.catalog._stored import load_tools

_SHOWN_DIGITS = 12
_STRICTER = ("", "allow", "ask", "deny")
"""Permissions that a package can set for a tool, from least to most strict."""
_VERSION = re.compile(r"v?(\d{1,9}(?:\.\d{1,9}){0,3})(?:-([0-9A-Za-z.-]{1,64}))?(?:\+[0-9A-Za-z.-]{1,64})?")


def trust_changes(old: ToolVersion, new: NewVersion | ToolVersion) -> list[str]:
    """Return sentences about a different signer, a missing signature and a lower version, which need a decision."""
    before, after = old.provenance.signer, new.provenance.signer
    found = []
    if before is not None and before != after:
        now = "not signed" if after is None else f"signed by another signer, {after}"
        found.append(f"{now}; version {old.number} is signed by {before}")
    was, now = declared_version(old.sidecar), declared_version(new.sidecar)
    if was and was != now:
        order, new_order = version_order(was), version_order(now)
        if order is None or new_order is None:
            found.append(f"the versions cannot be compared: {was} became {now or 'none'}")
        elif new_order < order:
            found.append(f"lower version: {was} became {now}")
    return found


def loosened_permissions(old: str | None, new: str | None) -> list[str]:
    """Return a sentence for each tool that the old package restricts more than the new package."""
    before = {} if old is None else {tool.name: tool for tool in load_tools(old)}
    after = () if new is None else load_tools(new)
    sentences = []
    for tool in after:
        was = before.get(tool.name)
        if was is None:
            continue
        if _STRICTER.index(was.permission) > _STRICTER.index(tool.permission):
            sentences.append(
                f"{tool.name}: the package's permission was {was.permission!r} and is now {tool.permission!r}"
            )
        if was.hidden and not tool.hidden:
            sentences.append(f"{tool.name} was hidden from models and is now offered to them")
    gone = [tool.name for tool in before.values() if tool.permission in _STRICTER[2:]] if new is None else []
    return sentences + [f"{name}: the package no longer restricts its calls" for name in gone]


def describe_origin(new: NewVersion | ToolVersion, old: ToolVersion | None, note: str = "") -> str:
    """Describe in one line what is installed: name, version, digest, source and signer.

    `note` is the reason why an existing signature does not count, or the trusted root that verified it.
    """
    where = new.provenance
    named = f"{new.name} {declared_version(new.sidecar)}".rstrip()
    kind, _, digits = where.digest.partition(":")
    digest = f"{kind}:{digits[:_SHOWN_DIGITS]}, " if digits else ""
    return f"{named}, {digest}from {new.origin}, {describe_signer(new, old)}" + (f" ({note})" if note else "")


def describe_signer(new: NewVersion | ToolVersion, old: ToolVersion | None) -> str:
    """Describe the signer of a version that would replace `old`."""
    signer = new.provenance.signer
    if signer is None:
        return "not signed"
    first = old is None or old.provenance.signer is None
    return f"signed by {signer}" + (" (first use: the signer will be pinned)" if first else "")


def declared_version(sidecar: str | None) -> str:
    """Return the version that a capability file declares, or an empty string."""
    return "" if sidecar is None else parse(sidecar).version or ""


def version_order(version: str) -> tuple[object, ...] | None:
    """Return a key that orders versions as Semantic Versioning does, or None for another format."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return None
    numbers = [int(part) for part in match[1].split(".")]
    numbers += [0] * (4 - len(numbers))
    if match[2] is None:
        return (numbers, 1)
    return (numbers, 0, [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in match[2].split(".")])
