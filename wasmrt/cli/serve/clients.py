"""The settings by which a client of the Model Context Protocol finds `wasmrt serve`: what to paste, and where."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from wasmrt.core.places import HOME_VARIABLE

NAME = "wasmrt"


class ClientConfig(NamedTuple):
    """The text to paste, and in words the place for it."""

    client: str
    where: str
    text: str
    command: str
    arguments: tuple[str, ...]
    environment: dict[str, str]

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return self._asdict() | {"arguments": list(self.arguments)}


def client_config(client: str, options: Sequence[str]) -> ClientConfig:
    """Return the settings of a client, one of `CLIENTS`; `options` are those of `wasmrt serve`."""
    command, before = serve_command()
    arguments = (*before, "serve", *options)
    # A client passes little of its environment on.
    home = os.environ.get(HOME_VARIABLE)
    environment = {HOME_VARIABLE: home} if home else {}
    where, write = _WRITERS[client]
    return ClientConfig(client, where, write(command, list(arguments), environment), command, arguments, environment)


def serve_command() -> tuple[str, list[str]]:
    """Return the program, by its whole path, and its first arguments, that run this very wasmrt."""
    beside = Path(sys.executable).with_name("wasmrt")
    if beside.is_file():
        return str(beside), []
    found = shutil.which("wasmrt")
    return (found, []) if found else (sys.executable, ["-m", "wasmrt"])


def _mcp_servers(command: str, arguments: list[str], environment: dict[str, str]) -> str:
    return _json({"mcpServers": {NAME: _entry(command, arguments, environment)}})


def _vscode(command: str, arguments: list[str], environment: dict[str, str]) -> str:
    return _json({"servers": {NAME: {"type": "stdio"} | _entry(command, arguments, environment)}})


def _codex(command: str, arguments: list[str], environment: dict[str, str]) -> str:
    lines = [f"[mcp_servers.{NAME}]", f"command = {_toml(command)}", f"args = [{', '.join(map(_toml, arguments))}]"]
    if environment:
        pairs = ", ".join(f"{name} = {_toml(value)}" for name, value in environment.items())
        lines.append(f"env = {{ {pairs} }}")
    return "\n".join(lines)


def _claude(command: str, arguments: list[str], environment: dict[str, str]) -> str:
    given = [part for name, value in environment.items() for part in ("--env", f"{name}={value}")]
    return shlex.join(["claude", "mcp", "add", NAME, *given, "--", command, *arguments])


def _entry(command: str, arguments: list[str], environment: dict[str, str]) -> dict[str, Any]:
    return {"command": command, "args": arguments} | ({"env": environment} if environment else {})


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def _toml(text: str) -> str:
    return json.dumps(text)  # a basic string of TOML takes JSON's escapes


_WRITERS: dict[str, tuple[str, Callable[[str, list[str], dict[str, str]], str]]] = {
    "claude": ("run this once, in the folder of your project:", _claude),
    "claude-desktop": ("put this into claude_desktop_config.json (Settings, Developer, Edit Config):", _mcp_servers),
    "cursor": ("put this into .cursor/mcp.json of your project, or ~/.cursor/mcp.json:", _mcp_servers),
    "vscode": ("put this into .vscode/mcp.json of your project:", _vscode),
    "codex": ("put this into ~/.codex/config.toml:", _codex),
    "gemini": ("put this into .gemini/settings.json of your project, or ~/.gemini/settings.json:", _mcp_servers),
}
CLIENTS = tuple(_WRITERS)
