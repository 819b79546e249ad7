"""Application directories: per user, or all under WASMRT_HOME."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from wasmrt.core.errors import ConfigurationError

HOME_VARIABLE = "WASMRT_HOME"


class _DataPath:
    """A path in the data directory."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, places: Places, owner: object = None) -> Path:
        return places.data / self._name


class _Directories(NamedTuple):
    data: Path
    """The catalog, approvals, receipts, the undo journal, the secrets file, keys, the operator's configuration."""
    cache: Path
    """Compiled code, toolchains and home directories of MCP servers; can be deleted while no wasmrt runs."""


class Places(_Directories):
    """The data and the cache directory. Neither they nor the paths in them need to exist."""

    __slots__ = ()

    catalog = _DataPath("catalog.sqlite3")
    """The catalog's index. If it does not exist, no tool is installed."""
    receipts = _DataPath("receipts")
    """The chain of receipts, unless the configuration file sets another directory."""
    receipts_key = _DataPath("receipts.key")
    """The key for all receipt chains of this user."""
    approvals = _DataPath("approvals.sqlite3")
    """Pending approval requests, and remembered answers."""
    pages = _DataPath("pages.address")
    """The address of the approval pages while they are served."""
    access = _DataPath("access.sqlite3")
    """Requests for additional grant entries, and their answers."""
    tokens = _DataPath("tokens.sqlite3")
    """Used confirmation tokens."""
    tokens_key = _DataPath("tokens.key")
    """The key that signs confirmation tokens."""
    undo = _DataPath("undo")
    """Previous content of files that tools changed, by call."""
    memory = _DataPath("memory")
    """The memory of agents, one database per user."""
    jobs = _DataPath("jobs.sqlite3")
    """Background jobs of agents, with their events and prompts."""
    projects = _DataPath("projects")
    """The folders of jobs that run commands, by user."""
    routines = _DataPath("routines.sqlite3")
    """The routines of all users, their runs and used triggers."""
    code_runs = _DataPath("code-runs")
    """Suspended code mode programs, with the results of their calls."""
    mcp_tokens = _DataPath("mcp-tokens.json")
    """Digests of the tokens that identify users of `wasmrt serve --http`."""
    mcp_servers = _DataPath("mcp-servers.json")
    """The configured MCP servers; read by `wasmrt.interop.mcp.client`."""
    mcp_trust = _DataPath("mcp-trust.json")
    """The approved commands of MCP servers and definitions of their tools."""
    mcp_packages = _DataPath("mcp-packages")
    """The installed packages of MCP servers, in a directory for each server."""
    skills = _DataPath("skills")
    """Skills that the user created, one directory each."""
    installed_skills = _DataPath("skills-installed")
    """Installed skills, and the records of their approval."""
    declarations = _DataPath("declarations")
    """The operator's declarations of third-party tools, which replace wasmrt's: `wasmrt.agent.flows`."""
    config = _DataPath("config.toml")
    """The operator's configuration file; read by `wasmrt.runtime.config_file`."""

    @property
    def compiled(self) -> Path:
        """Machine code of components."""
        return self.cache / "compiled"

    @property
    def builds(self) -> Path:
        """Records of builds, which show whether a project has changed."""
        return self.cache / "builds"

    @property
    def mcp_homes(self) -> Path:
        """The home directories of MCP server programs, one for each user of a server."""
        return self.cache / "mcp"


def find_places(environ: Mapping[str, str] | None = None) -> Places:
    """Find this user's directories; WASMRT_HOME puts both under one directory.

    Raises:
        ConfigurationError: WASMRT_HOME is set to a relative path.
    """
    home = (os.environ if environ is None else environ).get(HOME_VARIABLE)
    if home:
        root = Path(home)
        if not root.is_absolute():
            raise ConfigurationError(
                f"{HOME_VARIABLE} must be an absolute path", hint=f"export {HOME_VARIABLE}=$PWD/the-folder"
            )
        return Places(root / "data", root / "cache")
    import platformdirs  # slow to import, and not needed with WASMRT_HOME

    return Places(
        platformdirs.user_data_path("wasmrt", appauthor=False), platformdirs.user_cache_path("wasmrt", appauthor=False)
    )
