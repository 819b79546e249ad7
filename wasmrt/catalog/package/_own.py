"""Read and write packages with a wasmrt.toml, as folders and as archives.

An archive is a zip without compression, with sorted names and constant dates, so that equal files produce equal
bytes. The file `digests.json` in an archive contains the BLAKE3 digests of all other files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from io import BytesIO
from typing import Any, NamedTuple
from zipfile import ZIP_STORED, ZipFile, ZipInfo

from wasmrt.capabilities.file import (
    INVALID,
    CapabilityFile,
    ListOf,
    MapOf,
    ObjectSchema,
    Problems,
    Property,
    Text,
    parse,
)
from wasmrt.catalog.package._files import ArchiveFiles, FolderFiles, PackageFiles, read_archive
from wasmrt.catalog.package._manifest import make_refused_error, read_toml
from wasmrt.catalog.package._package import Package, read_prompt, read_tool_schema
from wasmrt.core.component_bytes import digest_of
from wasmrt.core.errors import InvalidNameError, PackageError
from wasmrt.core.limits import (
    COMPONENT_MAX_BYTES,
    MAX_CAPABILITY_FILE_BYTES,
    MAX_DIGESTS_BYTES,
    MAX_PACKAGE_BYTES,
    MAX_TOML_BYTES,
)
from wasmrt.core.names import check_installed_name, is_alias
from wasmrt.core.strict_json import JsonError, read_json
from wasmrt.sandbox.component import ToolSpec

PACKAGE_FILE = "wasmrt.toml"
DIGESTS = "digests.json"
_WORD = Text(max_length=256)
_PROSE = Text(max_length=16384)
_TOOL = ObjectSchema({
    "name": Property(field=Text(max_length=64), about="The tool's name in the component.", required=True),
    "id": Property(field=_WORD, about="The ID that selects the tool in the call context."),
    "description": Property(field=_PROSE, about="A description for models."),
    "input": Property(field=_WORD, about="The file with the JSON Schema of its parameters."),
    "output": Property(field=_WORD, about="The file with the JSON Schema of its result."),
    "prompt": Property(field=_WORD, about="The file with a document for models."),
})  # fmt: skip
FIELDS = ObjectSchema({
    "name": Property(field=_WORD, about="The name of the installed tool.", required=True),
    "language": Property(field=_WORD, about="The programming language of the source code."),
    "version": Property(field=_WORD, about="The version of the tool."),
    "description": Property(field=_PROSE, about="A description of the tool."),
    "license": Property(field=_WORD, about="The license, as an SPDX expression."),
    "source": Property(field=Text(max_length=2048), about="The location of the source code."),
    "component": Property(field=_WORD, about="The component file; NAME.wasm by default."),
    "capabilities": Property(field=_WORD, about="The capability file; NAME.capabilities.json by default."),
    "tools": Property(field=ListOf(item=_TOOL), about="The tools of the component, if their schemas are files."),
    "files": Property(field=ListOf(item=_WORD), about="Additional files for the archive."),
    "built": Property(
        field=ObjectSchema({
            "world": Property(field=_WORD, about="The world of the component."),
            "digests": Property(field=MapOf(item=Text(max_length=64)), about="The BLAKE3 digest of each built file."),
            "tools": Property(
                field=ListOf(
                    item=ObjectSchema({
                        "name": Property(field=Text(), about="The tool's name in the component.", required=True),
                        "description": Property(field=_PROSE, about="The start of the description."),
                    })
                ),
                about="The tools that the component reports.",
            ),
        }),
        about="The results of the last build, written by wasmrt build.",
    ),
})  # fmt: skip


class PackageFile(NamedTuple):
    """The contents of a valid wasmrt.toml."""

    name: str
    values: Mapping[str, Any]

    @property
    def component(self) -> tuple[str, ...]:
        """The paths at which the component may be, in order of precedence. A build writes it to the folder `build`."""
        given = self.values.get("component")
        return (given,) if given else (f"{self.name}.wasm", f"build/{self.name}.wasm")

    @property
    def capabilities(self) -> str:
        return str(self.values.get("capabilities", f"{self.name}.capabilities.json"))

    @property
    def named(self) -> list[str]:
        """The names of the other files that wasmrt.toml lists."""
        tools = self.values.get("tools", ())
        listed = [tool[key] for tool in tools for key in ("input", "output", "prompt") if key in tool]
        return [*listed, *self.values.get("files", ())]


def read_package_file(data: bytes) -> PackageFile:
    """Parse a wasmrt.toml.

    Raises:
        ManifestError: the file is invalid; `problems` lists every error with its key.
    """
    tree, problems = read_toml(data), Problems()
    values = FIELDS.read(tree, "", problems)
    if values is not INVALID:
        try:
            check_installed_name(values["name"])
        except InvalidNameError as error:
            problems.add("name", f"{error.message}; {error.hint}")
        names = [tool["name"] for tool in values.get("tools", ())]
        if len(set(names)) < len(names) or not all(map(is_alias, names)):
            problems.add("tools", "each tool needs a unique name of letters, digits, '_', '-' and '.'")
    if problems:
        raise make_refused_error(problems)
    return PackageFile(values["name"], values)


def read_own_package(files: PackageFiles, *, max_bytes: int = COMPONENT_MAX_BYTES) -> Package:
    """Read a package with a wasmrt.toml.

    Raises:
        ManifestError: wasmrt.toml is invalid.
        PackageError: a file is missing, is too large, or does not match its recorded digest.
        CapabilityFileError: the capability file is invalid.
    """
    check_digests(files)
    own = read_package_file(files.read(PACKAGE_FILE, max_bytes=MAX_TOML_BYTES))
    component, capabilities = _read_component(own, files, max_bytes=max_bytes), _read_capabilities(own, files)
    _check_built(own, component, capabilities)
    listed = own.values.get("tools")
    return Package(
        id=own.name,
        version=own.values.get("version", ""),
        description=own.values.get("description", ""),
        component=component,
        request=_add_descriptions(own, CapabilityFile() if capabilities is None else parse(capabilities)),
        tools=None if listed is None else tuple(_make_spec(tool, files) for tool in listed),
    )


def pack(files: FolderFiles) -> tuple[str, bytes]:
    """Pack a package's folder, and return the name and the bytes of the archive. Equal files result in equal bytes.

    Raises:
        ManifestError: wasmrt.toml is invalid.
        PackageError: a file is missing, is a link, or differs from the last build, or the result cannot be installed.
        CapabilityFileError: the capability file is invalid.
    """
    if not files.has(PACKAGE_FILE):
        raise PackageError(
            f"{files.origin} has no {PACKAGE_FILE}",
            code="package-missing", hint=f"only packages with a {PACKAGE_FILE} can be packed; wasmrt new writes one",
        )  # fmt: skip
    own = read_package_file(files.read(PACKAGE_FILE, max_bytes=MAX_TOML_BYTES))
    contents = {PACKAGE_FILE: files.read(PACKAGE_FILE, max_bytes=MAX_TOML_BYTES)}
    component, capabilities = _read_component(own, files, max_bytes=COMPONENT_MAX_BYTES), _read_capabilities(own, files)
    _check_built(own, component, capabilities)
    contents[own.component[0]] = component
    if capabilities is not None:
        contents[own.capabilities] = capabilities
    for name in own.named:
        contents[name] = files.read(name, max_bytes=MAX_PACKAGE_BYTES)
    data = write_archive(contents)
    made = read_own_package(ArchiveFiles(read_archive(data), "the archive"))  # check that it can be installed
    for tool in made.tools or ():
        if tool.schema_problem:
            raise PackageError(f"{tool.name}: {tool.schema_problem}", code="broken-schema", hint="fix the JSON Schema")
    version = own.values.get("version")
    return f"{own.name}-{version}.zip" if version else f"{own.name}.zip", data


def write_archive(contents: Mapping[str, bytes]) -> bytes:
    """Return an archive of files and their digests, for `check_digests`. Equal files result in equal bytes."""
    digests = {name: digest_of(data) for name, data in sorted(contents.items())}
    return _write_zip({**contents, DIGESTS: (json.dumps(digests, indent=2) + "\n").encode()})


def check_digests(files: PackageFiles) -> dict[str, str]:
    """Check every file of an archive against `digests.json`, and return the digests.

    Nothing is checked, and the result is empty, for a folder and for an archive without `digests.json`.

    Raises:
        PackageError: a file was changed, removed or added since the archive was packed.
    """
    if not isinstance(files, ArchiveFiles) or not files.has(DIGESTS):
        return {}
    try:
        told = read_json(files.read(DIGESTS, max_bytes=MAX_DIGESTS_BYTES), max_bytes=MAX_DIGESTS_BYTES, max_depth=1)
    except JsonError:
        told = None
    found = {name: digest_of(files.read(name, max_bytes=MAX_PACKAGE_BYTES)) for name in files.names()}
    del found[DIGESTS]
    if told != found:
        raise PackageError("the files of the archive have changed since it was packed", code="package-digest")
    return found


def _read_component(own: PackageFile, files: PackageFiles, *, max_bytes: int) -> bytes:
    name = next((name for name in own.component if files.has(name)), None)
    if name is None and "language" in own.values:
        raise PackageError(f"{own.name} has not been built", code="package-missing", hint="run: wasmrt build")
    return files.read(name or own.component[0], max_bytes=max_bytes)


def _read_capabilities(own: PackageFile, files: PackageFiles) -> bytes | None:
    has = files.has(own.capabilities)
    return files.read(own.capabilities, max_bytes=MAX_CAPABILITY_FILE_BYTES) if has else None


def _check_built(own: PackageFile, component: bytes, capabilities: bytes | None) -> None:
    """Check the component and the capability file against the digests in wasmrt.toml, written by the last build."""
    told = own.values.get("built", {}).get("digests", {})
    for name, data in ((f"{own.name}.wasm", component), (f"{own.name}.capabilities.json", capabilities)):
        if told and told.get(name) != (None if data is None else digest_of(data)):
            raise PackageError(
                f"{name} has changed since the last build", code="package-digest", hint="run: wasmrt build"
            )


def _add_descriptions(own: PackageFile, request: CapabilityFile) -> CapabilityFile:
    """Add descriptions from wasmrt.toml that the capability file does not contain."""
    said = {key: own.values[key] for key in ("license", "source") if own.values.get(key)}
    return replace(
        request,
        description=request.description or own.values.get("description") or None,
        version=request.version or own.values.get("version") or None,
        sections={**said, **request.sections},
    )


def _make_spec(tool: Mapping[str, Any], files: PackageFiles) -> ToolSpec:
    problems: list[str] = []
    schema = read_tool_schema(tool["input"], files, problems) if "input" in tool else None
    broken = problems[-1] if schema is None and "input" in tool else ""
    return ToolSpec(
        tool["name"],
        tool.get("description", ""),
        schema or {"type": "object"},
        output_schema=read_tool_schema(tool["output"], files, problems) if "output" in tool else None,
        prompt=read_prompt(tool["prompt"], files) if "prompt" in tool else "",
        capability_id=tool.get("id", ""),
        problems=tuple(problems),
        schema_problem=broken,
    )


def _write_zip(contents: Mapping[str, bytes]) -> bytes:
    out = BytesIO()
    with ZipFile(out, "w", ZIP_STORED) as archive:
        for name, data in sorted(contents.items()):
            entry = ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.create_system, entry.external_attr = 3, 0o100644 << 16
            archive.writestr(entry, data)
    return out.getvalue()
