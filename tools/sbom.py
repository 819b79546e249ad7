"""List the contents of a wheel of wasmrt as CycloneDX 1.6 (https://cyclonedx.org/docs/1.6/json).

The list has the components (`.wasm`) of the wheel with their digests and source folders, the crates in their
Cargo.lock, and the Python packages that the wheel requires. It has no time and no random number: a wheel has exactly
one list. Crates that only other targets use are included, as in Cargo.lock.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from packaging.metadata import Metadata

TOOLS = Path(__file__).resolve().parent
_SHIPPED = "wasmrt/catalog/shipped/"
_MANIFEST = f"{_SHIPPED}manifest.json"
Part = dict[str, Any]


def bill_of_materials(wheel: Path) -> Part:
    """Return the CycloneDX document of a wheel.

    Raises:
        ValueError: a `.wasm` file of the wheel is not the component that its manifest describes.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        manifest = json.loads(archive.read(_MANIFEST))
        (metadata_path,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = Metadata.from_email(archive.read(metadata_path), validate=False)
        wasm = {name: hashlib.sha256(archive.read(name)).hexdigest() for name in names if name.endswith(".wasm")}
    expected = {f"{_SHIPPED}{tool}.wasm": entry["component_sha256"] for tool, entry in manifest.items()}
    # SECURITY: a component of unknown origin must not be published, so both must be equal.
    if wasm != expected:
        differ = sorted(name for name in {*wasm, *expected} if wasm.get(name) != expected.get(name))
        raise ValueError(f"expected the components of {_MANIFEST}, got other ones: {', '.join(differ)}")
    packages = _python_packages(metadata)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    root = _library("wasmrt", str(metadata.version), f"pkg:pypi/wasmrt@{metadata.version}", digest)
    root["licenses"] = [{"license": {"id": str(metadata.license_expression)}}]
    components, edges = list(packages), {root["bom-ref"]: [part["bom-ref"] for part in packages]}
    for tool, entry in manifest.items():
        path = f"{_SHIPPED}{tool}.wasm"
        part = _library(f"{tool}.wasm", str(metadata.version), f"wasm:{tool}", entry["component_sha256"])
        part["properties"] = [
            {"name": "wasmrt:path", "value": path},
            {"name": "wasmrt:source", "value": f"tools/{tool}"},
            {"name": "wasmrt:source-sha256", "value": entry["source_sha256"]},
        ]
        crates, crate_edges, direct = _crates(tool)
        components += [part, *crates]
        edges[root["bom-ref"]].append(part["bom-ref"])
        edges[part["bom-ref"]] = direct
        for ref, refs in crate_edges.items():  # two lock files may list different features of a crate
            edges[ref] = [*edges.get(ref, []), *refs]
    unique = {part["bom-ref"]: part for part in components}
    refs = sorted({*unique, root["bom-ref"]})
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid5(NAMESPACE_URL, f'urn:sha256:{digest}')}",
        "version": 1,
        "metadata": {"component": root},
        "components": [unique[ref] for ref in sorted(unique)],
        "dependencies": [
            {"ref": ref, "dependsOn": sorted(set(edges.get(ref, [])))} for ref in sorted({*unique, *edges})
        ],
    }


def _python_packages(metadata: Metadata) -> list[Part]:
    """Return one part for each required package, with its version range; those of extras are optional."""
    found: dict[str, Part] = {}
    for wanted in metadata.requires_dist or []:
        is_optional = wanted.marker is not None and "extra" in str(wanted.marker)
        part = _library(wanted.name, None, f"pkg:pypi/{wanted.name}", None)
        part["scope"] = "optional" if is_optional else "required"
        part["properties"] = [{"name": "wasmrt:requirement", "value": str(wanted)}]
        if not is_optional or wanted.name not in found:
            found[wanted.name] = part
    return list(found.values())


def _crates(tool: str) -> tuple[list[Part], Mapping[str, list[str]], list[str]]:
    """Return the registry's crates below a tool, their dependencies, and the direct dependencies of the tool."""
    lock = TOOLS / tool / "Cargo.lock"
    packages = tomllib.loads((lock if lock.is_file() else TOOLS / "Cargo.lock").read_text())["package"]
    by_key = {key: each for each in packages for key in (each["name"], f"{each['name']} {each['version']}")}
    crates: dict[str, Part] = {}
    edges: dict[str, list[str]] = {}

    def visit(dependencies: Iterable[str]) -> list[str]:
        refs: list[str] = []
        for package in (by_key[name] for name in dependencies):
            ref = f"pkg:cargo/{package['name']}@{package['version']}"
            if "source" not in package:  # `kit`, a folder of the same workspace, is a part of the tool
                refs += visit(package.get("dependencies", []))
                continue
            refs.append(ref)
            if ref not in crates:
                crates[ref] = _library(package["name"], package["version"], ref, package["checksum"])
                edges[ref] = sorted(set(visit(package.get("dependencies", []))))
        return refs

    direct = sorted(set(visit(by_key[tool].get("dependencies", []))))
    return list(crates.values()), edges, direct


def _library(name: str, version: str | None, ref: str, sha256: str | None) -> Part:
    part: Part = {"type": "library", "bom-ref": ref, "name": name}
    if version is not None:
        part["version"] = version
    if ref.startswith("pkg:"):
        part["purl"] = ref
    if sha256 is not None:
        part["hashes"] = [{"alg": "SHA-256", "content": sha256}]
    return part
