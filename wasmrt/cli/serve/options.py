"""The options of `wasmrt serve`, and the client settings that start it with them."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import MAX_USER_BYTES
from wasmrt.core.places import HOME_VARIABLE

TEXT_LOG, JSON_LOG = LOG_FORMATS = ("text", "json")


class ServeOptions(NamedTuple):
    """The tools to serve, and the user who calls them."""

    patterns: tuple[str, ...] = ()
    preset: str | None = None
    read_only: bool = False
    user: str = "local"
    workspace: Path | None = None
    manage: bool = False
    """True to offer the tools that manage tools and skills."""
    log_format: str = TEXT_LOG
    """The format of messages and log records on stderr, one of `LOG_FORMATS`."""
    metrics: str | None = None
    """The address of the metrics."""
    drain_seconds: float = 0.0
    """Seconds to keep serving after SIGTERM, with `/readyz` at 503."""

    def as_arguments(self) -> list[str]:
        """Return the arguments that start the command with these options from any folder."""
        arguments = [part for pattern in self.patterns for part in ("--tool", pattern)]
        arguments += ["--preset", self.preset] if self.preset is not None else []
        arguments += ["--read-only"] if self.read_only else []
        arguments += ["--manage"] if self.manage else []
        arguments += ["--log-format", self.log_format] if self.log_format != TEXT_LOG else []
        arguments += ["--user", self.user] if self.user != "local" else []
        return arguments + (["--workspace", str(self.workspace.absolute())] if self.workspace is not None else [])


def check_user(user: str, option: str) -> None:
    """Raise ConfigurationError if the name of the user is not valid."""
    if not 0 < len(user) <= MAX_USER_BYTES or not user.isprintable():
        raise ConfigurationError(
            f"a user name must have 1 to {MAX_USER_BYTES} printable characters", hint=f"write it like {option} alice"
        )


NAME = "wasmrt"


class ClientConfig(NamedTuple):
    """The settings of a client: the text to paste, and instructions where to paste it."""

    client: str
    where: str
    text: str
    command: str
    arguments: tuple[str, ...]
    environment: dict[str, str]

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as JSON data."""
        return self._asdict() | {"arguments": list(self.arguments)}


def client_config(client: str, options: Sequence[str]) -> ClientConfig:
    """Create the settings for `client`, one of `CLIENTS`. `options` are the arguments of `wasmrt serve` in them."""
    command, before = serve_command()
    arguments = (*before, "serve", *options)
    # Clients pass only a few environment variables to a server.
    home = os.environ.get(HOME_VARIABLE)
    environment = {HOME_VARIABLE: home} if home else {}
    where, write = _WRITERS[client]
    return ClientConfig(client, where, write(command, list(arguments), environment), command, arguments, environment)


def serve_command() -> tuple[str, list[str]]:
    """Return the command that starts this installation of wasmrt: an absolute path, and the first arguments."""
    script = Path(sys.executable).with_name("wasmrt")
    if script.is_file():
        return str(script), []
    found = shutil.which("wasmrt")
    return (found, []) if found else (sys.executable, ["-m", "wasmrt"])


def _write_servers(command: str, arguments: list[str], environment: dict[str, str]) -> str:
    return _to_json({"mcpServers": {NAME: _build_entry(command, arguments, environment)}})


def _write_vscode(command: str, arguments: list[str], environment: dict[str, str]) -> str:
    return _to_json({"servers": {NAME: {"type": "stdio"} | _build_entry(command, arguments, environment)}})


def _write_codex(command: str, arguments: list[str], environment: dict[str, str]) -> str:
    given = ", ".join(map(_to_toml, arguments))
    lines = [f"[mcp_servers.{NAME}]", f"command = {_to_toml(command)}", f"args = [{given}]"]
    if environment:
        pairs = ", ".join(f"{name} = {_to_toml(value)}" for name, value in environment.items())
        lines.append(f"env = {{ {pairs} }}")
    return "\n".join(lines)


def _write_claude(command: str, arguments: list[str], environment: dict[str, str]) -> str:
    given = [part for name, value in environment.items() for part in ("--env", f"{name}={value}")]
    return shlex.join(["claude", "mcp", "add", NAME, *given, "--", command, *arguments])


def _build_entry(command: str, arguments: list[str], environment: dict[str, str]) -> dict[str, Any]:
    return {"command": command, "args": arguments} | ({"env": environment} if environment else {})


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def _to_toml(text: str) -> str:
    return json.dumps(text)  # TOML's basic strings have the same escapes as JSON


_WRITERS: dict[str, tuple[str, Callable[[str, list[str], dict[str, str]], str]]] = {
    "claude": ("run this once in the folder of your project:", _write_claude),
    "claude-desktop": ("put this into claude_desktop_config.json (Settings, Developer, Edit Config):", _write_servers),
    "cursor": ("put this into .cursor/mcp.json of your project, or ~/.cursor/mcp.json:", _write_servers),
    "vscode": ("put this into .vscode/mcp.json of your project:", _write_vscode),
    "codex": ("put this into ~/.codex/config.toml:", _write_codex),
    "gemini": ("put this into .gemini/settings.json of your project, or ~/.gemini/settings.json:", _write_servers),
}
CLIENTS = tuple(_WRITERS)
