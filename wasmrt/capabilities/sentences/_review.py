"""Reads a valid capability file as a careful colleague would, and warns of what deserves a second look."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from wasmrt.capabilities._capabilities import CAPABILITY_SECTIONS, Capabilities
from wasmrt.capabilities._imports import capabilities_of, import_example, uses_section
from wasmrt.capabilities.decide import internal_host
from wasmrt.capabilities.file import CapabilityFile
from wasmrt.capabilities.model import ANY_HOST, EndpointPattern, HttpCapability, common_hosts
from wasmrt.capabilities.sections import SECTIONS, child
from wasmrt.capabilities.sentences._phrases import join_words
from wasmrt.capabilities.sentences._reach import paths_meet

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_READ_SECTIONS = frozenset({"setup", "$schema", "discovery_summary", "license", "source"})


@dataclass(frozen=True, slots=True)
class FileWarning:
    """One thing worth a look; the file is usable all the same."""

    path: str
    message: str

    def as_dict(self) -> dict[str, str]:
        """Return path and message as JSON data."""
        return {"path": self.path, "message": self.message}


def review(file: CapabilityFile, imports: Iterable[str] | None = None) -> tuple[FileWarning, ...]:
    """Return warnings about a file, and with a component's imports about how the two fit.

    An import is named as the component does, `wasmrt:tool/http@0.1.0`, or with a function, `...#http-request`.
    """
    warnings = [*_on_capabilities(file.capabilities), *_on_sections(file)]
    if imports is not None:
        warnings += _on_imports(file.capabilities, imports)
    return tuple(warnings)


def _on_capabilities(capabilities: Capabilities) -> Iterator[FileWarning]:
    if capabilities.http is not None:
        yield from _on_http(capabilities.http)
        yield from _on_credentials(capabilities.http)
    if (workspace := capabilities.workspace_read) is not None:
        if not workspace.allowed_prefixes:
            yield FileWarning(
                "workspace.allowed_prefixes", "an empty list allows nothing; true allows the whole workspace"
            )
        if "" in workspace.allowed_prefixes:
            yield FileWarning("workspace", "every file of the workspace may be read")
    if (writing := capabilities.workspace_write) is not None:
        if not writing.allowed_prefixes:
            yield FileWarning(
                "workspace_write.allowed_prefixes", "an empty list allows nothing; true allows the whole workspace"
            )
        if "" in writing.allowed_prefixes:
            yield FileWarning("workspace_write", "every file of the workspace may be written, but for protected ones")
        if writing.remove:
            yield FileWarning("workspace_write.remove", "files may be removed that the tool has not made")
    if (secrets := capabilities.secrets) is not None and "*" in secrets.allowed_names:
        yield FileWarning("secrets.allowed_names", "'*' lets the tool find out which secrets exist at all")


def _on_http(http: HttpCapability) -> Iterator[FileWarning]:
    if not http.allowlist:
        yield FileWarning("http.allowlist", "an empty list allows no request")
    for index, entry in enumerate(http.allowlist):
        at = child("http.allowlist", index)
        if entry.host_pattern == ANY_HOST:
            yield FileWarning(
                child(at, "any_public_host"), "every public site can be told what the tool is given and reads"
            )
        if entry.host_pattern.startswith("*."):
            yield FileWarning(child(at, "host"), f"'{entry.host_pattern}' covers every name below, at any depth")
        if "http" in entry.schemes:
            yield FileWarning(child(at, "scheme"), "requests over http can be read and changed on the way")
        if (problem := internal_host(entry.host_pattern)) is not None:
            yield FileWarning(
                child(at, "host"),
                f"{problem}: no request uses this entry unless an operator exempts its address"
                " (unsafe_allowed_networks)",
            )
        if entry.path is None and entry.path_prefix in (None, "/"):
            yield from _on_every_path(at, entry)


def _on_every_path(at: str, entry: EndpointPattern) -> Iterator[FileWarning]:
    # Reading everywhere is what most files ask for; RFC 9110 9.2.1 names the methods that only read.
    changing = [method for method in entry.methods if method not in _SAFE]
    if not entry.methods:
        yield FileWarning(at, "every path and method of the host is allowed")
    elif changing:
        yield FileWarning(at, f"{join_words(changing)} may go to every path of the host: no path_prefix narrows it")


def _on_credentials(http: HttpCapability) -> Iterator[FileWarning]:
    for mapping in http.credentials:
        at = child("http.credentials", mapping.name)
        if not mapping.path_patterns:
            yield FileWarning(at, "without path_patterns the secret goes with every request to its hosts")
        if any(pattern.startswith("*.") for pattern in mapping.host_patterns):
            yield FileWarning(child(at, "host_patterns"), "a wildcard sends the secret to every name below the domain")
        entries = [
            entry
            for entry in http.allowlist
            if common_hosts(mapping.host_patterns, (entry.host_pattern,)) and paths_meet(mapping, entry)
        ]
        if not entries:
            yield FileWarning(at, "no entry of http.allowlist covers a request that would get this secret")
        elif not any("https" in entry.schemes for entry in entries):
            yield FileWarning(at, "a secret goes over https only, and its hosts are allowed over http only")


def _on_sections(file: CapabilityFile) -> Iterator[FileWarning]:
    places = {"auth": file.auth} | {child("logins", login.vendor): login for login in file.logins}
    for at, login in places.items():
        if login and login.oauth and login.oauth.client_secret:
            yield FileWarning(
                f"{at}.oauth.client_secret", "a client secret in a file is public; name client_secret_env instead"
            )
    for name in file.sections:
        if name not in _READ_SECTIONS:
            yield FileWarning(name, f"wasmrt does not act on this section: {SECTIONS[name].about}")


def _on_imports(capabilities: Capabilities, imports: Iterable[str]) -> Iterator[FileWarning]:
    imports = tuple(imports)
    needed = capabilities_of(imports)
    writes = capabilities.workspace_write is not None and uses_section("workspace_write", imports)
    for name in CAPABILITY_SECTIONS:
        capability = capabilities.section(name)
        if name in needed and capability is None and not (name == "workspace" and writes):
            yield FileWarning(
                name, f"the component imports {needed[name]}, which no section here allows: it will be refused"
            )
        if capability is not None and not uses_section(name, imports):
            yield FileWarning(name, f"the component imports nothing that uses it (such as {import_example(name)})")
    if needed.get("sockets"):
        yield FileWarning(
            "$", f"the component imports {needed['sockets']}: sockets are always refused, requests go over http"
        )
