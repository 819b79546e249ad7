"""Finds what the section of one tool asks for beyond its component: every such entry is a mistake in the file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

from wasmrt.capabilities.model import (
    HttpCapability,
    SecretsCapability,
    ToolInvokeCapability,
    WorkspaceCapability,
    WorkspaceWriteCapability,
    credential_within,
    endpoint_within,
    name_within,
    prefix_within,
)
from wasmrt.capabilities.sections._json import child

T = TypeVar("T")
HTTP_NUMBERS = ("max_request_bytes", "max_response_bytes", "timeout_seconds")
WRITE_NUMBERS = ("max_file_bytes", "max_bytes", "max_files")
_RATES = ("requests_per_minute", "requests_per_hour")
_WIDER = "is wider than what the component has; a tool can have a part of it only"


class Part(Protocol):
    """The capabilities of a component, or of one tool."""

    @property
    def http(self) -> HttpCapability | None: ...
    @property
    def workspace_read(self) -> WorkspaceCapability | None: ...
    @property
    def workspace_write(self) -> WorkspaceWriteCapability | None: ...
    @property
    def secrets(self) -> SecretsCapability | None: ...
    @property
    def tool_invoke(self) -> ToolInvokeCapability | None: ...


def beyond(tool: Part, component: Part) -> Iterator[tuple[str, str]]:
    """Yield each entry of a tool's section that the component's capabilities do not cover: place and sentence."""
    if tool.http is not None:
        yield from _beyond_http(tool.http, component.http or HttpCapability())
    mine, theirs = tool.workspace_read, component.workspace_read
    yield from _entries(
        "workspace.allowed_prefixes",
        mine.allowed_prefixes if mine else (),
        theirs.allowed_prefixes if theirs else (),
        prefix_within,
    )
    if tool.workspace_write is not None:
        yield from _beyond_writing(tool.workspace_write, component.workspace_write or WorkspaceWriteCapability())
    names, known = tool.secrets, component.secrets
    yield from _entries(
        "secrets.allowed_names", names.allowed_names if names else (), known.allowed_names if known else (), name_within
    )
    if tool.tool_invoke is not None:
        granted = dict(component.tool_invoke.aliases) if component.tool_invoke else {}
        for alias, name in tool.tool_invoke.aliases:
            if granted.get(alias) != name:
                yield child("tool_invoke.aliases", alias), _WIDER


def _beyond_writing(tool: WorkspaceWriteCapability, component: WorkspaceWriteCapability) -> Iterator[tuple[str, str]]:
    yield from _entries(
        "workspace_write.allowed_prefixes", tool.allowed_prefixes, component.allowed_prefixes, prefix_within
    )
    for name in (*WRITE_NUMBERS, "remove"):
        if getattr(tool, name) > getattr(component, name):
            yield child("workspace_write", name), _WIDER


def _beyond_http(tool: HttpCapability, component: HttpCapability) -> Iterator[tuple[str, str]]:
    yield from _entries("http.allowlist", tool.allowlist, component.allowlist, endpoint_within)
    for mapping in tool.credentials:
        if not any(credential_within(mapping, other) for other in component.credentials):
            yield child("http.credentials", mapping.name), _WIDER
    for name in HTTP_NUMBERS:
        if getattr(tool, name) > getattr(component, name):
            yield child("http", name), _WIDER
    for name in _RATES:
        if getattr(tool.rate_limit, name) > getattr(component.rate_limit, name):
            yield child("http.rate_limit", name), _WIDER


def _entries(
    place: str, mine: Iterable[T], theirs: Iterable[T], within: Callable[[T, T], bool]
) -> Iterator[tuple[str, str]]:
    outer = tuple(theirs)
    for index, entry in enumerate(mine):
        if not any(within(entry, other) for other in outer):
            yield child(place, index), _WIDER
