"""Application directories: per-user folders, or everything under WASMRT_HOME."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from wasmrt.core.errors import ConfigurationError

HOME_VARIABLE = "WASMRT_HOME"


class Places(NamedTuple):
    """The data and the cache folder; neither has to exist yet."""

    data: Path
    """The catalog, approvals, receipts, the journal of changes, secrets file, keys, the operator's configuration."""
    cache: Path
    """Compiled code: may be deleted at any time."""

    @property
    def catalog(self) -> Path:
        """The catalog's index: where it does not exist, nothing is installed."""
        return self.data / "catalog.sqlite3"

    @property
    def receipts(self) -> Path:
        """The chain of receipts, unless the configuration file names another folder."""
        return self.data / "receipts"

    @property
    def receipts_key(self) -> Path:
        """The key of every chain of receipts of this user."""
        return self.data / "receipts.key"

    @property
    def approvals(self) -> Path:
        """The requests that wait for a person, and the answers that are remembered; there is none before the first."""
        return self.data / "approvals.sqlite3"

    @property
    def pages(self) -> Path:
        """The address of the pages of approvals, while they are served."""
        return self.data / "pages.address"

    @property
    def access(self) -> Path:
        """The requests for one entry more of a grant, and their answers; there is none before the first."""
        return self.data / "access.sqlite3"

    @property
    def tokens(self) -> Path:
        """The confirmation tokens that were used."""
        return self.data / "tokens.sqlite3"

    @property
    def tokens_key(self) -> Path:
        """The key that confirmation tokens are signed with."""
        return self.data / "tokens.key"

    @property
    def undo(self) -> Path:
        """The previous content of files that tools changed, by call."""
        return self.data / "undo"

    @property
    def memory(self) -> Path:
        """The memory of agents, a database for each user; there is none before the first write."""
        return self.data / "memory"

    @property
    def code_runs(self) -> Path:
        """The programs that wait for a person, with what their calls were answered; there are none before the first."""
        return self.data / "code-runs"

    @property
    def mcp_tokens(self) -> Path:
        """The digests of the tokens by which the users of `wasmrt serve --http` are known."""
        return self.data / "mcp-tokens.json"

    @property
    def mcp_servers(self) -> Path:
        """The MCP servers that are used, which need not exist: `wasmrt.interop.mcp.client` reads it."""
        return self.data / "mcp-servers.json"

    @property
    def mcp_trust(self) -> Path:
        """The commands of MCP servers, and the definitions of their tools, that a person agreed to."""
        return self.data / "mcp-trust.json"

    @property
    def mcp_homes(self) -> Path:
        """The folders that programs of MCP servers have as their homes, one for each user of each."""
        return self.cache / "mcp"

    @property
    def skills(self) -> Path:
        """The skills that a person put there: a folder for each."""
        return self.data / "skills"

    @property
    def installed_skills(self) -> Path:
        """The skills that were installed, and the records of what a person agreed to."""
        return self.data / "skills-installed"

    @property
    def fetched_packages(self) -> Path:
        """Packages of tools that were fetched from an address, while they are being installed."""
        return self.cache / "fetched"

    @property
    def config(self) -> Path:
        """The operator's configuration file, which need not exist: `wasmrt.runtime.config_file` reads it."""
        return self.data / "config.toml"


def find_places(environ: Mapping[str, str] | None = None) -> Places:
    """Find this user's folders; WASMRT_HOME puts both under one folder.

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
    import platformdirs  # costs more than the rest of this module, and WASMRT_HOME does without

    return Places(
        platformdirs.user_data_path("wasmrt", appauthor=False), platformdirs.user_cache_path("wasmrt", appauthor=False)
    )
