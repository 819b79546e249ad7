"""The files `mcp-servers.json` and `mcp-trust.json`: the configured servers, and what users approved of each."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from wasmrt.capabilities import EndpointPattern, read_program_network
from wasmrt.core.errors import ConfigFileError, ConfigurationError, NotInstalledError
from wasmrt.core.files import UnfitFileError, read_file, replace_file
from wasmrt.core.limits import MAX_JSON_DEPTH, MAX_MCP_FILE_BYTES, MAX_MCP_SERVERS, MAX_MCP_TRUST_BYTES
from wasmrt.core.names import did_you_mean, fold_name, is_secret_name
from wasmrt.core.strict_json import JsonError, read_json
from wasmrt.core.strict_toml import (
    Mistake,
    Place,
    Reader,
    make_choice_reader,
    make_seconds_reader,
    read_boolean,
    read_table,
)
from wasmrt.interop.mcp.client._definition import Definition, read_definition
from wasmrt.interop.mcp.client._settings import McpServerConfig, OAuthConfig, Transport, Trust
from wasmrt.interop.mcp.packages import Package, Registry

SCHEMA_VERSION = 1
_MAX_CHARS = 8192


def read_servers(path: Path) -> dict[str, McpServerConfig]:
    """Return the servers in a file by name; empty if the file does not exist.

    Raises:
        ConfigFileError: the file is invalid; all mistakes are reported together.
    """
    try:
        text = read_file(path, max_bytes=MAX_MCP_FILE_BYTES, follow_link=True)
    except FileNotFoundError:
        return {}
    except UnfitFileError as error:
        raise ConfigFileError(str(path), f"it {error.reason}", hint="write a plain file") from None
    except OSError as error:
        raise ConfigFileError(
            str(path), f"it cannot be read ({error.strerror})", hint="check its permissions"
        ) from error
    try:
        tree = read_json(text, max_bytes=MAX_MCP_FILE_BYTES, max_depth=MAX_JSON_DEPTH, exact=True)
    except JsonError as error:
        raise ConfigFileError(str(path), f"it is {error}", hint='write {"servers": [], "schema_version": 1}') from error
    mistakes: list[Mistake] = []
    servers = _read_servers_list(tree, mistakes)
    if mistakes:
        listed = tuple((m.key, f"{m.problem}; {m.hint}" if m.hint else m.problem) for m in mistakes)
        every = "; ".join(f"{mistake.key} {mistake.problem}" for mistake in mistakes)
        told = every if len(mistakes) == 1 else f"{len(mistakes)} mistakes: {every}"
        raise ConfigFileError(str(path), told, problems=listed, hint=mistakes[0].hint if len(mistakes) == 1 else None)
    return servers


def write_servers(path: Path, servers: Iterable[McpServerConfig]) -> None:
    """Write the servers file atomically.

    Raises:
        ConfigFileError: the file cannot be written.
    """
    data = {"servers": [server.as_json() for server in servers], "schema_version": SCHEMA_VERSION}
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_file(path, json.dumps(data, indent=2, ensure_ascii=False).encode() + b"\n")
    except OSError as error:
        hint = "check its owner and permissions"
        raise ConfigFileError(str(path), f"it cannot be written ({error.strerror})", hint=hint) from error


def server_named(servers: Mapping[str, McpServerConfig], name: str) -> McpServerConfig:
    """Return the server with a name.

    Raises:
        NotInstalledError: there is no such server.
    """
    if name in servers:
        return servers[name]
    near = did_you_mean(name, servers)
    known = ", ".join(servers) or "none"
    raise NotInstalledError(
        f"there is no MCP server {name!r:.60}", hint=f"did you mean {near}?" if near else f"configured servers: {known}"
    )


def _read_servers_list(tree: Any, mistakes: list[Mistake]) -> dict[str, McpServerConfig]:
    if not isinstance(tree, dict):
        mistakes.append(Mistake("$", "must be an object", 'write {"servers": [...], "schema_version": 1}'))
        return {}
    for key in tree.keys() - {"servers", "schema_version"}:
        mistakes.append(Mistake(key, "is not a known key", "the keys are servers, schema_version"))
    version = tree.get("schema_version", SCHEMA_VERSION)
    if version != SCHEMA_VERSION or isinstance(version, bool):
        mistakes.append(Mistake("schema_version", f"is {version!r:.20}, expected {SCHEMA_VERSION}"))
    listed = tree.get("servers", [])
    if not isinstance(listed, list) or len(listed) > MAX_MCP_SERVERS:
        mistakes.append(Mistake("servers", f"must be a list of at most {MAX_MCP_SERVERS} servers"))
        return {}
    found: dict[str, McpServerConfig] = {}
    for index, table in enumerate(listed):
        if (server := _read_server(table, Place(("servers", str(index))), mistakes)) is None:
            continue
        if any(fold_name(server.name) == fold_name(name) for name in found):
            mistakes.append(Mistake(f"servers.{index}.name", f"is a duplicate: two servers are called {server.name}"))
        found[server.name] = server
    return found


def _read_server(table: Any, place: Place, mistakes: list[Mistake]) -> McpServerConfig | None:
    if not isinstance(table, dict):
        mistakes.append(Mistake(str(place), "must be an object"))
        return None
    before = len(mistakes)
    table = {key: value for key, value in table.items() if value is not None}  # early clients wrote null
    login, package = table.pop("oauth", None), table.pop("package", None)
    values = read_table(table, place, _SERVER, mistakes, example="")
    if login is not None:
        given = {key: value for key, value in login.items() if value is not None} if isinstance(login, dict) else login
        oauth = read_table(given, place.at("oauth"), _OAUTH, mistakes, example="")
        values["oauth"] = _build(OAuthConfig, oauth, str(place.at("oauth")), mistakes)
    if package is not None:
        values["package"] = _read_package(package, place.at("package"), mistakes)
    if "name" not in table:
        mistakes.append(Mistake(str(place), "has no name"))
    if isinstance(values.get("network"), tuple):
        values["hosts"] = values.pop("network")
    return None if len(mistakes) > before else _build(McpServerConfig, values, str(place), mistakes)


def _read_package(table: Any, place: Place, mistakes: list[Mistake]) -> Package | None:
    fields = read_table(table, place, _PACKAGE, mistakes, example="")
    if isinstance(table, dict) and (missing := sorted(_PACKAGE.keys() - table.keys())):
        mistakes.append(Mistake(str(place), f"has no {missing[0]}", "add the server again: wasmrt mcp add --replace"))
    return Package(**fields) if fields.keys() == _PACKAGE.keys() else None


def _build(kind: Callable[..., Any], values: Mapping[str, Any], where: str, mistakes: list[Mistake]) -> Any:
    try:
        return kind(**values)
    except ConfigurationError as error:
        mistakes.append(Mistake(where, error.message, error.hint))
        return None


def _read_text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > _MAX_CHARS or "\0" in value:
        raise ConfigurationError("must be a string")
    return value


def _read_texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > 1024:
        raise ConfigurationError("must be a list of strings", hint='write it like ["first", "second"]')
    return tuple(_read_text(item) for item in value)


def _read_variables(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or len(value) > 256:
        raise ConfigurationError("must be an object of strings", hint='write it like {"LOG_LEVEL": "info"}')
    return {_read_text(name): _read_text(text) for name, text in value.items()}


def _read_secret_name(value: Any) -> str:
    if not isinstance(value, str) or not is_secret_name(value):
        raise ConfigurationError("must be the name of a secret", hint="write its name, such as notion_token")
    return value


def _read_secret_variables(value: Any) -> dict[str, str]:
    return {name: _read_secret_name(secret) for name, secret in _read_variables(value).items()}


def _read_folders(value: Any) -> tuple[str, ...]:
    return tuple(_read_folder(item) for item in _read_texts(value))


def _read_folder(value: Any) -> str:
    if not Path(_read_text(value)).is_absolute():
        raise ConfigurationError("must be an absolute path")
    return str(value)


def _read_network(value: Any) -> bool | tuple[EndpointPattern, ...]:
    return read_program_network(value) if isinstance(value, list) else read_boolean(value)


_SERVER: dict[str, Reader] = {
    "name": _read_text,
    "url": _read_text,
    "command": _read_texts,
    "env": _read_variables,
    "secret_env": _read_secret_variables,
    "workspace": _read_folder,
    "read": _read_folders,
    "write": _read_folders,
    "network": _read_network,
    "transport": make_choice_reader(Transport, Transport),
    "bearer": _read_secret_name,
    "trust": make_choice_reader(Trust, Trust),
    "enabled": read_boolean,
    "description": _read_text,
    "timeout_seconds": make_seconds_reader(3600),
}
_PACKAGE: dict[str, Reader] = {
    "registry": make_choice_reader(Registry, Registry),
    "name": _read_text,
    "version": _read_text,
    "digest": _read_text,
    "runner": _read_texts,
}
_OAUTH: dict[str, Reader] = {
    "client_id": _read_text,
    "authorization_url": _read_text,
    "token_url": _read_text,
    "scopes": _read_texts,
    "use_pkce": read_boolean,
    "extra_params": _read_variables,
}


_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Trusted:
    """The approved parts of one server."""

    consent: str = ""
    """Digest of its command or address, and of its grants."""
    at_ms: int = 0
    tools: Mapping[str, Definition] = field(default_factory=dict)
    auth_hosts: tuple[str, ...] = ()
    """Origins of the authorization servers that its login may reach."""
    for_agents: bool = False
    """True if a user agreed to offer its tools to agents."""

    def covers(self, server: McpServerConfig) -> bool:
        """Return whether the server's command, address and grants are the approved ones."""
        return bool(self.consent) and self.consent == server.consent_digest


NOTHING = Trusted()


def trust_server(server: McpServerConfig, tools: Iterable[Definition], before: Trusted = NOTHING) -> Trusted:
    """Return the approval of a server's current configuration.

    Logins, and whether its tools are offered, stay as in `before`.
    """
    return replace(
        before,
        consent=server.consent_digest,
        at_ms=time.time_ns() // 1_000_000,
        tools={tool.name: tool for tool in tools},
    )


def read_trusted(path: Path) -> dict[str, Trusted]:
    """Return the approvals by server; empty if the file does not exist.

    Raises:
        ConfigFileError: the file is invalid, or other users could have written it.
    """
    hint = "remove it, and review each server again: wasmrt mcp trust NAME"
    try:
        # SECURITY: anyone who can write this file can approve servers.
        text = read_file(path, max_bytes=MAX_MCP_TRUST_BYTES, follow_link=False, private=True)
        tree = read_json(text, max_bytes=MAX_MCP_TRUST_BYTES, max_depth=MAX_JSON_DEPTH + 8, exact=True)
        return {name: _read_entry(entry) for name, entry in _read_entries(tree).items()}
    except FileNotFoundError:
        return {}
    except UnfitFileError as error:
        raise ConfigFileError(str(path), f"it {error.reason}", hint=hint) from None
    except OSError as error:
        raise ConfigFileError(
            str(path), f"it cannot be read ({error.strerror})", hint="check its permissions"
        ) from error
    except (JsonError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise ConfigFileError(str(path), "it was not written by wasmrt", hint=hint) from error


def write_trusted(path: Path, trusted: Mapping[str, Trusted]) -> None:
    """Write the approvals atomically.

    Raises:
        ConfigFileError: the file cannot be written.
    """
    servers = {
        name: {
            "consent": entry.consent,
            "at_ms": entry.at_ms,
            "auth_hosts": list(entry.auth_hosts),
            "for_agents": entry.for_agents,
            "tools": [tool._asdict() for tool in entry.tools.values()],
        }
        for name, entry in sorted(trusted.items())
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_file(path, json.dumps({"schema_version": _VERSION, "servers": servers}, indent=1).encode() + b"\n")
    except OSError as error:
        hint = "check its owner and permissions"
        raise ConfigFileError(str(path), f"it cannot be written ({error.strerror})", hint=hint) from error


def _read_entries(tree: Any) -> dict[str, Any]:
    if tree["schema_version"] != _VERSION:
        raise ValueError("another version")
    servers: dict[str, Any] = tree["servers"]
    return servers


def _read_entry(entry: dict[str, Any]) -> Trusted:
    tools = (
        read_definition(
            each["name"], each["title"], each["description"], (each["input_schema"], each["output_schema"]),
            each["annotations"],
        )
        for each in entry["tools"]
    )  # fmt: skip
    return Trusted(
        consent=str(entry["consent"]),
        at_ms=int(entry["at_ms"]),
        tools={tool.name: tool for tool in tools},
        auth_hosts=tuple(map(str, entry["auth_hosts"])),
        # SECURITY: no user agreed to offer the tools of entries that have no decision.
        for_agents=entry.get("for_agents") is True,
    )
