"""The sections [extensions], [skills], [desktop] and [jobs] of the operator's configuration file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from wasmrt.catalog.bundled import DESKTOP_NAMES
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.names import did_you_mean
from wasmrt.core.strict_toml import ValueReader, make_keyed_reader, make_number_reader, make_path_reader
from wasmrt.egress.gateway import read_host
from wasmrt.runtime.config_values import MAX_PROGRAM_MIB, ShellSettings, boolean_reader, paths_reader

_MAX_ENTRIES = 64
_MAX_PARALLEL_JOBS = 1000
_APPLICATION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


class ExtensionSettings(NamedTuple):
    """The section [extensions]."""

    sources: tuple[Path, ...] = ()
    """Folders of packages that models may request."""
    hosts: tuple[str, ...] = ()
    """Hosts from which a model may request packages or MCP servers by URL."""
    serve: bool = False
    """True to offer the tools that manage tools to the clients of `wasmrt serve`."""


class SkillSettings(NamedTuple):
    """The section [skills]."""

    folders: tuple[Path, ...] = ()
    """Folders of the user's own skills, which are trusted."""
    sources: tuple[Path, ...] = ()
    """Folders of skills that models may request."""
    hosts: tuple[str, ...] = ()
    """Hosts from which a model may request skills by URL."""
    serve: bool = False
    """True to offer the tools for skills to the clients of `wasmrt serve`."""


class DesktopSettings(NamedTuple):
    """The section [desktop]. Without it, no desktop tool is available."""

    tools: tuple[str, ...] = ()
    """The enabled tools."""
    applications: tuple[str, ...] = ()
    """IDs of desktop entries that `apps.open` may open."""
    hosts: tuple[str, ...] = ()
    """Hosts that `browser.open_url` may access; if empty, it may access every public host."""
    browser: Path | None = None
    """Path of a headless Chromium; None to search for a Chromium."""


class JobSettings(NamedTuple):
    """The section [jobs]. Without a command, jobs are available only to programs that set a runner."""

    command: tuple[str, ...] = ()
    """The program, with its arguments, that works on the jobs of the mode `sandbox`."""
    max_parallel: int = 5
    """Active jobs of all users."""
    memory_mib: int = 2048
    """Maximum private memory of each process of a job."""
    read: tuple[str, ...] = ()
    """Files and folders that a job may read, in addition to its project folder and the system."""
    execute: tuple[str, ...] = ()
    """Paths that jobs may read and execute."""

    def as_shell_settings(self, shell: ShellSettings) -> ShellSettings:
        """Return the confinement of the command, which is the shell's with these settings."""
        return shell._replace(memory_mib=self.memory_mib, read=self.read, execute=self.execute)


def _read_command(value: Any, _: Path) -> dict[str, Any]:
    command = _read_texts(value, 'write it like command = ["/usr/bin/my-agent"]')
    if command and not command[0].startswith("/"):
        raise ConfigurationError(f"command must begin with an absolute path, got {command[0]!r:.80}")
    return {"command": command}


def _make_folders_reader(key: str) -> ValueReader:
    def read(value: Any, folder: Path) -> dict[str, Any]:
        return {key: tuple(folder / text for text in _read_texts(value, f'write it like {key} = ["/srv/{key}"]'))}

    return read


def _read_hosts(value: Any, _: Path) -> dict[str, Any]:
    hint = 'write it like hosts = ["raw.githubusercontent.com"]'
    texts = _read_texts(value, hint)
    for host in texts:
        try:
            read_host(host)
        except ConfigurationError as error:
            message = f"hosts must contain only host names, got {host!r:.80}: {error.message}"
            raise ConfigurationError(message, hint=hint) from None
    return {"hosts": texts}


def _read_texts(value: Any, hint: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) and each and "\0" not in each for each in value):
        raise ConfigurationError("must be a list of non-empty strings", hint=hint)
    if len(value) > _MAX_ENTRIES:
        raise ConfigurationError(f"must have at most {_MAX_ENTRIES} entries")
    return tuple(value)


def _read_desktop_tools(value: Any, _: Path) -> dict[str, Any]:
    hint = 'write it like tools = ["notify.send"]'
    names = _read_texts(value, hint)
    for name in names:
        if name not in DESKTOP_NAMES:
            near = did_you_mean(name, DESKTOP_NAMES)
            known = f"did you mean {near}?" if near else f"the tools are {', '.join(DESKTOP_NAMES)}"
            raise ConfigurationError(f"tools must contain only desktop tools, got {name!r:.80}", hint=known)
    return {"tools": names}


def _read_applications(value: Any, _: Path) -> dict[str, Any]:
    hint = 'write it like applications = ["org.gnome.Calculator"], the names of desktop entries'
    names = _read_texts(value, hint)
    for name in names:
        if not _APPLICATION.fullmatch(name):
            message = f"applications must contain only application IDs, got {name!r:.80}"
            raise ConfigurationError(message, hint=hint)
    return {"applications": tuple(name.removesuffix(".desktop") for name in names)}


EXTENSION_SECTIONS: dict[str, dict[str, ValueReader]] = {
    "extensions": {"sources": _make_folders_reader("sources"), "hosts": _read_hosts, "serve": boolean_reader("serve")},
    "desktop": {
        "tools": _read_desktop_tools,
        "applications": _read_applications,
        "hosts": _read_hosts,
        "browser": make_path_reader("browser", "path", "/opt/chromium/shell"),
    },
    "jobs": {
        "command": _read_command,
        "max_parallel": make_keyed_reader("max_parallel", make_number_reader(1, _MAX_PARALLEL_JOBS)),
        "memory_mib": make_keyed_reader("memory_mib", make_number_reader(16, MAX_PROGRAM_MIB)),
        "read": paths_reader("read"),
        "execute": paths_reader("execute"),
    },
    "skills": {
        "folders": _make_folders_reader("folders"),
        "sources": _make_folders_reader("sources"),
        "hosts": _read_hosts,
        "serve": boolean_reader("serve"),
    },
}
