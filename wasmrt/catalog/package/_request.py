"""Convert the requests in a manifest to capabilities, with a section for each tool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from wasmrt.capabilities import (
    READ_METHODS,
    Capabilities,
    CredentialLocation,
    CredentialMapping,
    EndpointPattern,
    HttpCapability,
    ToolGrant,
)
from wasmrt.capabilities.model import USUAL_PORTS, endpoint_within, remove_covered
from wasmrt.catalog.package._fields import EFFECTS
from wasmrt.core.effects import READING, Effect
from wasmrt.core.limits import DEFAULT_MAX_REQUEST_BYTES


def request_of_tools(tools: Iterable[Mapping[str, Any]], instead: Mapping[str, str]) -> Capabilities:
    """Return the capabilities that the tools of a manifest request.

    A tool requests its network targets and the audiences of its credentials, with all methods, or only with GET and
    HEAD if no effect of the tool is a write. `instead` maps names of secrets to the names that replace them.

    Raises:
        ConfigurationError: a capability file cannot contain a host or credential of the manifest.
    """
    sections = []
    known: dict[CredentialMapping, str] = {}
    for tool in tools:
        effects = effects_of(tool)
        credentials = tuple(_set_name(_build_credential(item, instead), known) for item in tool.get("credentials", ()))
        http = _build_http(tool, effects, credentials)
        sections.append(ToolGrant(tool["id"].partition(".")[2], Capabilities(http=http), tuple(effects)))
    return Capabilities(http=_unite_sections(sections), tools=tuple(sections))


def effects_of(tool: Mapping[str, Any]) -> frozenset[Effect]:
    """Return the effects of a tool: the declared ones, and those that its network targets and credentials imply."""
    effects = {EFFECTS[name] for name in tool.get("effects", ())}
    if tool.get("credentials"):
        effects |= {Effect.USE_SECRET, Effect.NETWORK}
    if tool.get("network_targets"):
        effects |= {Effect.NETWORK}
    return frozenset(effects)


def _build_http(
    tool: Mapping[str, Any], effects: frozenset[Effect], credentials: tuple[CredentialMapping, ...]
) -> HttpCapability | None:
    if Effect.NETWORK not in effects:
        return None
    methods = READ_METHODS if effects <= READING else ()
    places = [*tool.get("network_targets", ()), *(item["audience"] for item in tool.get("credentials", ()))]
    entries = [_build_endpoint(place, methods) for place in places]
    size = tool.get("max_egress_bytes", DEFAULT_MAX_REQUEST_BYTES)
    return HttpCapability(tuple(remove_covered(entries, endpoint_within)), credentials, max_request_bytes=size)


def _build_endpoint(place: Mapping[str, Any], methods: tuple[str, ...]) -> EndpointPattern:
    ports = (place["port"],) if "port" in place else ()
    return EndpointPattern(place["host"], None, methods, ports, (place.get("scheme", "https"),))


def _build_credential(item: Mapping[str, Any], instead: Mapping[str, str]) -> CredentialMapping:
    injection = item["injection"]
    match injection["type"]:
        case "query_param":
            location = CredentialLocation.query_param(injection["name"])
        case "basic":
            location = CredentialLocation.basic(injection["username"])
        case "path_placeholder":
            location = CredentialLocation.url_path(injection["placeholder"])
        case _:
            location = _build_header(injection["name"], injection.get("prefix", ""))
    return CredentialMapping(
        secret_name=instead.get(item["handle"], item["handle"]),
        location=location,
        host_patterns=(item["audience"]["host"],),
        ports=(item["audience"].get("port", USUAL_PORTS[0]),),
        optional=not item.get("required", True),
    )


def _build_header(name: str, prefix: str) -> CredentialLocation:
    is_bearer = name.lower() == "authorization" and prefix == "Bearer "
    return CredentialLocation.bearer() if is_bearer else CredentialLocation.header(name, prefix)


def _set_name(mapping: CredentialMapping, known: dict[CredentialMapping, str]) -> CredentialMapping:
    """Set the name of a credential. Equal credentials get equal names, and different credentials different names."""
    if mapping not in known:
        count = sum(other.secret_name == mapping.secret_name for other in known)
        known[mapping] = mapping.secret_name if count == 0 else f"{mapping.secret_name}-{count + 1}"
    return replace(mapping, name=known[mapping])


def _unite_sections(sections: Iterable[ToolGrant]) -> HttpCapability | None:
    parts = [section.capabilities.http for section in sections if section.capabilities.http is not None]
    if not parts:
        return None
    entries = remove_covered((entry for part in parts for entry in part.allowlist), endpoint_within)
    credentials = dict.fromkeys(mapping for part in parts for mapping in part.credentials)
    return HttpCapability(
        tuple(entries), tuple(credentials), max_request_bytes=max(part.max_request_bytes for part in parts)
    )
