"""Archives that move installed tools, with their grants, from one installation to another.

An archive contains the active version of each tool and no secret: neither values of secrets nor settings, receipts or
paths of this machine. `export.json` lists the tools, `digests.json` the digest of every file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from wasmrt.capabilities import find_kind
from wasmrt.catalog._catalog import Catalog
from wasmrt.catalog._exported_tools import read_tools
from wasmrt.catalog._model import Kept, ToolVersion, TypedSource
from wasmrt.catalog._stored import dump_tools
from wasmrt.catalog.installer import Installer, InstallPlan
from wasmrt.catalog.package import DIGESTS, ArchiveFiles, check_digests, read_archive, write_archive
from wasmrt.catalog.policy import InstallPolicy
from wasmrt.catalog.signing import Signer
from wasmrt.catalog.sources import Fetched, digests_to_sign
from wasmrt.core.errors import PackageError
from wasmrt.core.limits import (
    COMPONENT_MAX_BYTES,
    MAX_BUNDLE_BYTES,
    MAX_CAPABILITY_FILE_BYTES,
    MAX_EXPORT_INDEX_BYTES,
    MAX_EXPORTED_TOOLS_BYTES,
    MAX_PACKAGE_ENTRIES,
)
from wasmrt.core.model import Addition
from wasmrt.core.names import check_installed_name
from wasmrt.core.strict_json import JsonError, read_json

_INDEX = "export.json"
_LAYOUT = 1
_COMPONENT = "component.wasm"
_TEXTS = {
    "capabilities": MAX_CAPABILITY_FILE_BYTES,
    "grant": MAX_CAPABILITY_FILE_BYTES,
    "tools": MAX_EXPORTED_TOOLS_BYTES,
    "signature": MAX_BUNDLE_BYTES,
}
"""The other files of a tool, without the suffix .json, and the maximum size of each in bytes."""
_MAX_TEXT_CHARS = 4096
_UNVERIFIED = "the export names this signer; the signature was not checked"
_KEYS = {"name", "for_agents", "source", "signer", "kept"}


class ExportedTool(NamedTuple):
    """A tool of an archive. Only the digests of its files are verified."""

    name: str
    component: bytes
    texts: dict[str, bytes]
    """The files of `_TEXTS` that the tool has."""
    for_agents: bool
    """True if the tool was offered to agents."""
    source: str
    """The URL from which the tool was installed, or an empty string."""
    signer: Signer | None
    kept: tuple[Kept, ...]

    @property
    def is_verifiable(self) -> bool:
        """True if the archive contains everything that the signer signed."""
        return self.signer is not None and "signature" in self.texts


class _ArchivedSource(NamedTuple):
    """A tool of an archive as a source for the installer."""

    tool: ExportedTool
    archive: Path

    def fetch(self, *, max_bytes: int) -> Fetched:
        """Return the tool.

        Raises:
            PackageError: the component has more than `max_bytes`, or the descriptions of the tools are invalid.
        """
        tool, texts = self.tool, self.tool.texts
        if len(tool.component) > max_bytes:
            raise PackageError(f"the component of {tool.name} has more than {max_bytes:,} bytes")
        signed = digests_to_sign(tool.component, texts.get("capabilities"))
        return Fetched(
            data=tool.component,
            name=tool.name,
            origin=f"export {self.archive.name}" + (f" of {tool.source}" if tool.source else ""),
            sidecar=texts.get("capabilities"),
            package=dump_tools(read_tools(texts["tools"])) if "tools" in texts else None,
            # SECURITY: the operator's policy decides by the place of the archive, not by a source that it claims.
            resolved=str(self.archive.absolute()),
            digest=f"sha256:{signed[0]}",
            bundles=(texts["signature"],) if tool.is_verifiable else (),
            signed=signed,
        )


def write_export(catalog: Catalog, names: Iterable[str]) -> bytes:
    """Return the archive of the active versions of tools. The same tools result in the same bytes.

    Raises:
        NotInstalledError: a tool is not installed.
        IntegrityError: a stored component differs from the installed one.
        PackageError: the tools exceed a bound of archives.
    """
    contents: dict[str, bytes] = {}
    rows = []
    for name in sorted(names):
        version = catalog.get(name)
        component, where = catalog.read(version).data, version.provenance
        # A signature of a package or of a manifest in a registry covers content that the catalog does not store.
        is_file = where.digest == f"sha256:{digests_to_sign(component)[0]}"
        texts = {
            "capabilities": version.sidecar, "grant": version.grant, "tools": version.package,
            "signature": where.bundle if is_file else None,
        }  # fmt: skip
        contents |= {f"{name}/{each}.json": text.encode() for each, text in texts.items() if text is not None}
        contents[f"{name}/{_COMPONENT}"] = component
        rows.append(_make_row(version))
    contents[_INDEX] = (json.dumps({"layout": _LAYOUT, "tools": rows}, indent=1) + "\n").encode()
    data = write_archive(contents)
    read_export(data)  # check that it can be imported
    return data


def _make_row(version: ToolVersion) -> dict[str, Any]:
    where = version.provenance
    # SECURITY: paths are of this machine, and the query of a URL may contain a login.
    has_url = "://" in where.source and "?" not in where.source and where.capabilities is None
    return {
        "name": version.name,
        "for_agents": version.for_agents,
        "source": where.source if has_url and where.signature is None else "",
        "signer": None if where.signer is None else where.signer.as_dict(),
        "kept": [[str(each.addition.to), each.addition.entry, each.tool, each.by, each.at] for each in version.kept],
    }


def read_export(data: bytes) -> tuple[ExportedTool, ...]:
    """Read an archive, and check the digest of every file.

    Raises:
        PackageError: the archive is damaged, exceeds a bound, or its files are not exactly those that it lists.
    """
    files = ArchiveFiles(read_archive(data), "the export")
    if not files.has(DIGESTS) or not files.has(_INDEX):
        raise PackageError("the archive is not an export", hint="create one: wasmrt export FILE")
    check_digests(files)
    try:
        tree = read_json(files.read(_INDEX, max_bytes=MAX_EXPORT_INDEX_BYTES), max_bytes=MAX_EXPORT_INDEX_BYTES,
                         max_depth=8, distinct=True)  # fmt: skip
        if not isinstance(tree, dict) or set(tree) != {"layout", "tools"} or tree["layout"] != _LAYOUT:
            raise ValueError(f"expected layout {_LAYOUT}")
        if not isinstance(tree["tools"], list) or len(tree["tools"]) > MAX_PACKAGE_ENTRIES:
            raise ValueError("expected a list of tools")
        tools = tuple(_read_tool(row, files) for row in tree["tools"])
        listed = [name for tool in tools for name in _iter_names(tool)]
        if len(set(listed)) < len(listed) or {*listed, _INDEX, DIGESTS} != {*files.names()}:
            raise ValueError("expected exactly the files of the listed tools, and each tool only once")
    except (JsonError, ValueError, TypeError) as error:
        raise PackageError(f"the export is not valid: {error}", code="export") from None
    return tools


def _iter_names(tool: ExportedTool) -> Iterator[str]:
    yield f"{tool.name}/{_COMPONENT}"
    for each in tool.texts:
        yield f"{tool.name}/{each}.json"


def _read_tool(row: Any, files: ArchiveFiles) -> ExportedTool:
    if not isinstance(row, dict) or set(row) != _KEYS:
        raise ValueError(f"each tool needs exactly the keys {', '.join(sorted(_KEYS))}")
    name, source, signer = _read_text(row["name"]), _read_text(row["source"]), row["signer"]
    check_installed_name(name)
    if not isinstance(row["for_agents"], bool) or not isinstance(row["kept"], list):
        raise ValueError("`for_agents` must be true or false, and `kept` a list")
    texts = {each: files.read(f"{name}/{each}.json", max_bytes=most) for each, most in _TEXTS.items()
             if files.has(f"{name}/{each}.json")}  # fmt: skip
    if "grant" not in texts:
        raise ValueError(f"{name} has no grant")
    component = files.read(f"{name}/{_COMPONENT}", max_bytes=COMPONENT_MAX_BYTES)
    return ExportedTool(
        name,
        component,
        texts,
        row["for_agents"],
        source,
        None if signer is None else _read_signer(signer),
        tuple(map(_read_kept, row["kept"])),
    )


def _read_signer(values: Any) -> Signer:
    signer = Signer(**{key: _read_text(value) for key, value in dict(values).items()})
    str(signer)  # raises ValueError if the key is not base64
    return signer


def _read_kept(row: Any) -> Kept:
    to, entry, tool, by, at = row
    return Kept(
        Addition(find_kind(_read_text(to)).grant_list, _read_text(entry)),
        None if tool is None else _read_text(tool),
        _read_text(by),
        _read_text(at),
    )


def _read_text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > _MAX_TEXT_CHARS or not value.isprintable():
        raise ValueError(f"expected printable text of at most {_MAX_TEXT_CHARS} characters")
    return value


def plan_import(installer: Installer, tool: ExportedTool, archive: Path, policy: InstallPolicy) -> InstallPlan:
    """Plan to install a tool of an archive. The new grant never exceeds the tool's request or the grant in the archive.

    Raises:
        WasmrtError: as for `Installer.plan`, and if the operator does not allow the host of the source.
    """
    typed = None
    if tool.source:
        policy.check_source(tool.source)
        typed = TypedSource(tool.source, None, None)
    plan = installer.plan(
        _ArchivedSource(tool, archive),
        name=tool.name,
        grant=tool.texts["grant"],
        key=tool.signer if tool.is_verifiable else None,
        typed=typed,
        kept=tool.kept,
    )
    if tool.signer is None or tool.is_verifiable or plan.previous is not None:
        return plan
    # SECURITY: an unverified signer is only pinned for a new tool. It satisfies neither a pin nor the policy.
    where = plan.new.provenance._replace(signer=tool.signer)
    return replace(plan, new=plan.new._replace(provenance=where), problem=_UNVERIFIED)
