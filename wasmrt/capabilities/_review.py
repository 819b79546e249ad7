"""Reads a sound capability file as a careful colleague would, and says what deserves a second look."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from wasmrt.capabilities._allowlist import internal_host
from wasmrt.capabilities._cover import common_hosts, common_paths
from wasmrt.capabilities._endpoint import EndpointPattern
from wasmrt.capabilities._imports import imports_of, powers_of
from wasmrt.capabilities._json import child
from wasmrt.capabilities._model import Capabilities
from wasmrt.capabilities._powers import HttpCapability
from wasmrt.capabilities._words import join
from wasmrt.capabilities.file._docs import SECTIONS
from wasmrt.capabilities.file._model import CapabilityFile

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_READ_SECTIONS = frozenset({"setup", "$schema", "discovery_summary"})


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing worth a look; the file is usable all the same."""

    path: str
    sentence: str

    def as_dict(self) -> dict[str, str]:
        return {"path": self.path, "message": self.sentence}


def review(file: CapabilityFile, imports: Iterable[str] | None = None) -> tuple[Remark, ...]:
    """Return remarks on a file, and with a component's imports on how the two fit.

    An import is named as the component does, `wasmrt:tool/http@0.1.0`, or with a function, `...#http-request`.
    """
    remarks = [*_on_powers(file.capabilities), *_on_sections(file)]
    if imports is not None:
        remarks += _on_imports(file.capabilities, imports)
    return tuple(remarks)


def _on_powers(capabilities: Capabilities) -> Iterator[Remark]:
    if capabilities.http is not None:
        yield from _on_http(capabilities.http)
        yield from _on_credentials(capabilities.http)
    if (workspace := capabilities.workspace_read) is not None:
        if not workspace.allowed_prefixes:
            yield Remark("workspace.allowed_prefixes", "an empty list allows nothing; true allows the whole workspace")
        if "" in workspace.allowed_prefixes:
            yield Remark("workspace", "every file of the workspace may be read")
    if (secrets := capabilities.secrets) is not None and "*" in secrets.allowed_names:
        yield Remark("secrets.allowed_names", "'*' lets the tool find out which secrets exist at all")


def _on_http(http: HttpCapability) -> Iterator[Remark]:
    if not http.allowlist:
        yield Remark("http.allowlist", "an empty list allows no request")
    for index, entry in enumerate(http.allowlist):
        at = child("http.allowlist", index)
        if entry.host_pattern.startswith("*."):
            yield Remark(child(at, "host"), f"'{entry.host_pattern}' covers every name below, at any depth")
        if "http" in entry.schemes:
            yield Remark(child(at, "scheme"), "requests over http can be read and changed on the way")
        if (problem := internal_host(entry.host_pattern)) is not None:
            yield Remark(
                child(at, "host"),
                f"{problem}: no request uses this entry unless an operator exempts its address"
                " (unsafe_allowed_networks)",
            )
        if entry.path_prefix in (None, "/"):
            yield from _on_every_path(at, entry)


def _on_every_path(at: str, entry: EndpointPattern) -> Iterator[Remark]:
    # Reading everywhere is what most files ask for; RFC 9110 9.2.1 names the methods that only read.
    changing = [method for method in entry.methods if method not in _SAFE]
    if not entry.methods:
        yield Remark(at, "every path and method of the host is allowed")
    elif changing:
        yield Remark(at, f"{join(changing)} may go to every path of the host: no path_prefix narrows it")


def _on_credentials(http: HttpCapability) -> Iterator[Remark]:
    for mapping in http.credentials:
        at = child("http.credentials", mapping.name)
        if not mapping.path_patterns:
            yield Remark(at, "without path_patterns the secret goes with every request to its hosts")
        if any(pattern.startswith("*.") for pattern in mapping.host_patterns):
            yield Remark(child(at, "host_patterns"), "a wildcard sends the secret to every name below the domain")
        entries = [
            entry
            for entry in http.allowlist
            if common_hosts(mapping.host_patterns, (entry.host_pattern,))
            and common_paths(mapping.path_patterns, (entry.path_prefix,) if entry.path_prefix else ()) is not None
        ]
        if not entries:
            yield Remark(at, "no entry of http.allowlist covers a request that would get this secret")
        elif not any("https" in entry.schemes for entry in entries):
            yield Remark(at, "a secret goes over https only, and its hosts are allowed over http only")


def _on_sections(file: CapabilityFile) -> Iterator[Remark]:
    if file.auth and file.auth.oauth and file.auth.oauth.client_secret:
        yield Remark("auth.oauth.client_secret", "a client secret in a file is public; name client_secret_env instead")
    for name in file.sections:
        if name not in _READ_SECTIONS:
            yield Remark(name, f"wasmrt does not act on this section: {SECTIONS[name].about}")


def _on_imports(capabilities: Capabilities, imports: Iterable[str]) -> Iterator[Remark]:
    needed = powers_of(imports)
    asked = {
        "http": capabilities.http,
        "workspace": capabilities.workspace_read,
        "secrets": capabilities.secrets,
        "tool_invoke": capabilities.tool_invoke,
    }
    for power, capability in asked.items():
        if power in needed and capability is None:
            yield Remark(
                power, f"the component imports {needed[power]}, which no section here allows: it will be refused"
            )
        if power not in needed and capability is not None:
            yield Remark(power, f"the component imports nothing that uses it (such as {imports_of(power)})")
    if needed.get("sockets"):
        yield Remark(
            "$", f"the component imports {needed['sockets']}: sockets are always refused, requests go over http"
        )
