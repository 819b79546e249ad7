"""Read the MCP servers of another client's file: `claude_desktop_config.json`, or `mcp.json`, also of VS Code."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wasmrt.core.errors import ConfigFileError, ConfigurationError
from wasmrt.core.files import UnfitFileError, read_file
from wasmrt.core.limits import MAX_JSON_DEPTH, MAX_MCP_FILE_BYTES, MAX_MCP_SERVERS
from wasmrt.core.strict_json import JsonError, read_json
from wasmrt.core.terminal import to_single_line
from wasmrt.egress.leaks import Action, LeakDetector
from wasmrt.interop.mcp.client import McpServerConfig, Transport

_FORMS = ("mcpServers", "servers")
_KEYS = frozenset({
    "command", "args", "env", "cwd", "type", "transport", "url", "serverUrl", "headers", "disabled", "enabled",
})  # fmt: skip
_TRANSPORTS = {
    "stdio": Transport.AUTO, "http": Transport.AUTO, "streamable-http": Transport.STREAMABLE_HTTP,
    "streamableHttp": Transport.STREAMABLE_HTTP, "streamable_http": Transport.STREAMABLE_HTTP, "sse": Transport.SSE,
}  # fmt: skip
_SECRET_NAME = re.compile(
    r"(?:^|_)(?:(?:API|ACCESS|PRIVATE|SECRET|AUTH|ENCRYPTION)?KEY|APIKEY|TOKEN|PAT|SECRET|PASSWORD|PASSWD|PASSPHRASE|"
    r"CREDENTIALS?|AUTH|AUTHORIZATION|COOKIE|SESSION|JWT|BEARER|DSN)(?:_|$)"
)
_SECRET_OPTION = re.compile(r"^--?(?:[a-z-]+-)?(?:api-?key|access-?key|token|password|passwd|secret)$", re.IGNORECASE)
_PASSWORD_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s:@]*:[^/\s@]+@", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"<.*>|\[.*\]|\{.*\}|.*(?:your|xxxx|changeme|replace).*|\.{3,}|\*{3,}", re.IGNORECASE)
_INPUT = re.compile(r"\$\{input:([^}]{1,128})\}")
_VARIABLE = re.compile(r"\$\{[^}]{1,200}\}")
_DETECTOR = LeakDetector()


@dataclass(slots=True)
class ForeignServer:
    """One entry of another client's file."""

    name: str
    server: McpServerConfig | None = None
    """Its settings; None if it cannot be used, or is disabled there."""
    secrets: dict[str, str] = field(default_factory=dict, repr=False)
    """Values to store as secrets, by secret name."""
    inputs: dict[str, str] = field(default_factory=dict)
    """Secrets that the other client asks for when it starts: secret name to the input's ID."""
    problem: str = ""
    hint: str = ""
    notes: list[str] = field(default_factory=list)


def read_foreign_file(path: Path) -> tuple[list[ForeignServer], list[str]]:
    """Return the servers of another client's file, and notes about keys outside of its servers.

    Raises:
        ConfigFileError: the file cannot be read, or has no servers.
    """
    try:
        data = read_file(path, max_bytes=MAX_MCP_FILE_BYTES, follow_link=True).removeprefix(b"\xef\xbb\xbf")
        tree = read_json(data, max_bytes=MAX_MCP_FILE_BYTES, max_depth=MAX_JSON_DEPTH, distinct=True)
    except UnfitFileError as error:
        raise ConfigFileError(str(path), f"it {error.reason}", hint="name a plain file") from None
    except OSError as error:
        raise ConfigFileError(str(path), f"it cannot be read ({error.strerror})", hint="check its path") from error
    except JsonError as error:
        hint = "write plain JSON: without comments, trailing commas and duplicate keys"
        raise ConfigFileError(str(path), f"it is {error}", hint=hint) from error
    form = next((key for key in _FORMS if isinstance(tree, dict) and isinstance(tree.get(key), dict)), None)
    if form is None:
        hint = 'the file of a client has {"mcpServers": {NAME: {...}}}, or {"servers": {NAME: {...}}} for VS Code'
        raise ConfigFileError(str(path), 'it has no object "mcpServers" or "servers"', hint=hint)
    entries = tree[form]
    if len(entries) > MAX_MCP_SERVERS:
        raise ConfigFileError(str(path), f"it has {len(entries)} servers, expected at most {MAX_MCP_SERVERS}")
    notes = [f"the key {key!r:.60} was not imported" for key in tree if key not in (form, "inputs")]
    found = [_read_entry(str(name), entry) for name, entry in entries.items()]
    names = [each.name for each in found]
    for each in found:
        if names.count(each.name) > 1:
            each.server = None
            each.problem, each.hint = "another entry has the same name in lower case", "rename one of them in the file"
    return found, notes


def _read_entry(given: str, entry: Any) -> ForeignServer:
    name = re.sub(r"[^a-z0-9_-]+", "-", given.lower()).strip("-_")[:32].rstrip("-_")
    found = ForeignServer(name or given)
    if name != given:
        found.notes.append(f"its name in the file is {given!r:.100}")
    if not isinstance(entry, dict):
        found.problem, found.hint = "it is not an object", 'write it like {"command": "...", "args": []}'
        return found
    found.notes += [f"the key {key!r:.60} was not imported" for key in entry if key not in _KEYS]
    if entry.get("disabled") is True or entry.get("enabled") is False:
        found.notes.append("it is disabled in the file")
        return found
    try:
        found.server = _read_url(found, entry) if "command" not in entry else _read_command(found, entry)
    except ConfigurationError as error:
        found.problem, found.hint, found.secrets = error.message, error.hint or "", {}
    return found


def _read_command(found: ForeignServer, entry: Mapping[str, Any]) -> McpServerConfig:
    for key in ("url", "serverUrl", "headers"):
        if key in entry:
            raise ConfigurationError(f"it has both command and {key}", hint="remove one of them from the file")
    _read_transport(entry)
    args, cwd = entry.get("args", []), entry.get("cwd", "")
    if not isinstance(args, list):
        raise ConfigurationError("args must be a list of strings", hint='write it like ["--flag", "value"]')
    command = [_read_text(entry["command"], "command"), *(_read_text(each, "args") for each in args)]
    for before, part in zip(["", *command], command, strict=False):
        option, mark, value = part.partition("=")
        is_named = mark and value and _SECRET_OPTION.search(option)
        if is_named or (_SECRET_OPTION.search(before) and not part.startswith("-")) or _is_secret("", part):
            # SECURITY: arguments are stored, shown and visible to other processes.
            raise ConfigurationError(
                "an argument contains a secret",
                hint=f"store it as a secret NAME, and add the server with --secret-env VARIABLE=NAME; "
                f"example: wasmrt mcp add {found.name} --secret-env VARIABLE=NAME -- {to_single_line(command[0])} ...",
            )
    env, secret_env = {}, {}
    given = entry.get("env") or {}
    if not isinstance(given, dict):
        raise ConfigurationError("env must be an object of strings", hint='write it like {"LOG_LEVEL": "info"}')
    for variable, value in given.items():
        value = str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
        if secret := _keep_secret(found, variable, value, f"env.{variable}"):
            secret_env[variable] = secret
        else:
            env[variable] = _read_text(value, f"env.{variable}")
    workspace = str(Path(_read_text(cwd, "cwd")).expanduser().absolute()) if cwd else ""
    return McpServerConfig(name=found.name, command=tuple(command), env=env, secret_env=secret_env, workspace=workspace)


def _read_url(found: ForeignServer, entry: Mapping[str, Any]) -> McpServerConfig:
    url = entry.get("url", entry.get("serverUrl"))
    if url is None:
        raise ConfigurationError(
            "the server has neither command nor url", hint="add one of them to its entry in the file"
        )
    for key in ("args", "env", "cwd"):
        if entry.get(key):
            raise ConfigurationError(f"{key} is only for servers with a command", hint="remove it from the file")
    bearer, headers = "", entry.get("headers") or {}
    if not isinstance(headers, dict):
        raise ConfigurationError("headers must be an object of strings", hint="remove it from the file")
    for header, value in headers.items():
        scheme, _, token = (value if isinstance(value, str) else "").partition(" ")
        if header.lower() != "authorization" or scheme.lower() != "bearer" or not token:
            raise ConfigurationError(
                f"wasmrt cannot send the header {header!r:.60}",
                hint="only a bearer token in Authorization can be sent; use the server's login: "
                f"wasmrt mcp add {found.name} URL",
            )
        bearer = _keep_secret(found, "AUTH_TOKEN", token.strip(), f"headers.{header}")
    return McpServerConfig(name=found.name, url=_read_text(url, "url"), transport=_read_transport(entry), bearer=bearer)


def _read_transport(entry: Mapping[str, Any]) -> Transport:
    kind = entry.get("type", entry.get("transport", "stdio"))
    if not isinstance(kind, str) or kind not in _TRANSPORTS:
        raise ConfigurationError(f"type is {kind!r:.40}, expected {', '.join(_TRANSPORTS)}", hint="correct the file")
    return _TRANSPORTS[kind]


def _read_text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise ConfigurationError(f"{where:.100} must be a string", hint="correct the file")
    if (variable := _VARIABLE.search(value)) is not None:
        raise ConfigurationError(
            f"{where:.100} contains the variable {variable[0]}, which only the other client knows",
            hint="write its value in a copy of the file, and import that",
        )
    return value


def _keep_secret(found: ForeignServer, variable: str, value: Any, where: str) -> str:
    """Return the name of the secret that replaces a value; an empty string if the value is not a secret."""
    secret = f"mcp_{found.name}_{variable}".lower()
    if not isinstance(value, str):
        return ""
    if (asked := _INPUT.fullmatch(value)) is not None:
        found.inputs[secret] = asked[1]
        return secret
    if not value or not _is_secret(variable, value):
        return ""
    if _PLACEHOLDER.fullmatch(value) is not None:
        raise ConfigurationError(
            f"{where:.100} is a placeholder", hint="write its value in the file, and import it again"
        )
    found.secrets[secret] = _read_text(value, where)
    return secret


def _is_secret(variable: str, value: str) -> bool:
    """Return whether a value looks like a secret, by its variable's name or by its form."""
    if _SECRET_NAME.search(variable.upper().replace("-", "_")) or _PASSWORD_URL.search(value):
        return True
    return any(match.action is not Action.WARN for match in _DETECTOR.scan(value).matches)
