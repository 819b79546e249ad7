"""The file of what a person agreed to, `mcp-trust.json`: commands and addresses, and the definitions of tools."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wasmrt.core.errors import ConfigFileError
from wasmrt.core.files import UnfitFileError, read_file, replace_file
from wasmrt.core.limits import MAX_JSON_DEPTH, MAX_MCP_TRUST_BYTES
from wasmrt.core.strict_json import JsonError, read_json
from wasmrt.interop.mcp.client._definition import Definition, read_definition
from wasmrt.interop.mcp.client._settings import McpServerConfig

_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Trusted:
    """The parts of one server that a person agreed to."""

    consent: str = ""
    """The digest of its command or address, and of what it was given."""
    at_ms: int = 0
    tools: Mapping[str, Definition] = field(default_factory=dict)
    auth_hosts: tuple[str, ...] = ()
    """Origins of the authorization servers that its login may reach."""

    def covers(self, server: McpServerConfig) -> bool:
        """Tell whether the command, the address and the grants are those that a person saw."""
        return bool(self.consent) and self.consent == server.consent_digest


NOTHING = Trusted()


def trust_server(server: McpServerConfig, tools: Iterable[Definition], auth_hosts: tuple[str, ...] = ()) -> Trusted:
    """Return what is agreed to when a person agrees to a server as it is now."""
    return Trusted(
        consent=server.consent_digest,
        at_ms=time.time_ns() // 1_000_000,
        tools={tool.name: tool for tool in tools},
        auth_hosts=auth_hosts,
    )


def read_trusted(path: Path) -> dict[str, Trusted]:
    """Return what was agreed to, by server; nothing where there is no file.

    Raises:
        ConfigFileError: it cannot be used, or others could have written it.
    """
    hint = "remove it, and look at each server again: wasmrt mcp trust NAME"
    try:
        # SECURITY: who can write it decides what is trusted.
        text = read_file(path, max_bytes=MAX_MCP_TRUST_BYTES, follow_link=False, private=True)
        tree = read_json(text, max_bytes=MAX_MCP_TRUST_BYTES, max_depth=MAX_JSON_DEPTH + 8, exact=True)
        return {name: _trusted(entry) for name, entry in _entries(tree).items()}
    except FileNotFoundError:
        return {}
    except UnfitFileError as error:
        raise ConfigFileError(str(path), f"it {error.reason}", hint=hint) from None
    except OSError as error:
        raise ConfigFileError(str(path), f"it cannot be read ({error.strerror})", hint="check who owns it") from error
    except (JsonError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise ConfigFileError(str(path), "it is not what wasmrt wrote", hint=hint) from error


def write_trusted(path: Path, trusted: Mapping[str, Trusted]) -> None:
    """Write what was agreed to, in one step.

    Raises:
        ConfigFileError: it cannot be written.
    """
    servers = {
        name: {
            "consent": entry.consent,
            "at_ms": entry.at_ms,
            "auth_hosts": list(entry.auth_hosts),
            "tools": [tool._asdict() for tool in entry.tools.values()],
        }
        for name, entry in sorted(trusted.items())
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_file(path, json.dumps({"schema_version": _VERSION, "servers": servers}, indent=1).encode() + b"\n")
    except OSError as error:
        hint = "check who owns it"
        raise ConfigFileError(str(path), f"it cannot be written ({error.strerror})", hint=hint) from error


def _entries(tree: Any) -> dict[str, Any]:
    if tree["schema_version"] != _VERSION:
        raise ValueError("another version")
    servers: dict[str, Any] = tree["servers"]
    return servers


def _trusted(entry: dict[str, Any]) -> Trusted:
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
    )
