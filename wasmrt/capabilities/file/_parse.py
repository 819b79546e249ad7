"""Reads a capability file as a whole."""

from __future__ import annotations

from wasmrt.capabilities._capabilities import Capabilities
from wasmrt.capabilities.file._auth import build_auth, build_setup
from wasmrt.capabilities.file._model import CapabilityFile
from wasmrt.capabilities.sections import SECTIONS, read_sections
from wasmrt.core.limits import MAX_DESCRIPTION_BYTES


def parse(data: str | bytes) -> CapabilityFile:
    """Read a capability file's text.

    Raises:
        CapabilityFileError: with every mistake, each at its JSON path.
    """
    asked, tree = read_sections(data)
    description = tree.get("description")
    return CapabilityFile(
        capabilities=Capabilities.of(asked),
        description=None if description is None else _cut(description),
        version=tree.get("version"),
        wit_version=tree.get("wit_version"),
        auth=build_auth(tree["auth"]) if "auth" in tree else None,
        logins=tuple(build_auth(login | {"provider": vendor}) for vendor, login in tree.get("logins", {}).items()),
        setup_secrets=build_setup(tree.get("setup", {})),
        sections={key: tree[key] for key in SECTIONS if key in tree},
    )


def _cut(text: str) -> str:
    return text.encode()[:MAX_DESCRIPTION_BYTES].decode(errors="ignore")
