"""Sections of the operator's configuration file that set values: limits, rates, workspace, receipts, the shell, ..."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from wasmrt.capabilities import EndpointPattern, RateLimitConfig, read_program_network
from wasmrt.capabilities.services import read_services
from wasmrt.catalog.search import PROVIDERS, WebSearch
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.files import UnfitFileError, read_file
from wasmrt.core.limits import DEFAULT_SEGMENT_BYTES, MAX_CONFIG_FILE_BYTES, ResourceLimits
from wasmrt.core.places import find_places
from wasmrt.core.strict_toml import ValueReader, keyed, one_of, path_in, texts, whole_number
from wasmrt.egress.secrets import BACKENDS
from wasmrt.runtime.workspace import UserFolders

if TYPE_CHECKING:
    from wasmrt.runtime.memory import MemorySettings

_MAX_CONCURRENT = 10_000
_SHELL_SECONDS = 3600
_SHELL_MIB = 1024 * 1024


class AuditSettings(NamedTuple):
    """The section [audit]."""

    enabled: bool = True
    path: Path | None = None
    """The folder of the receipts; None for that of the data folder."""
    record: bool = False
    """Keep what each call was answered by the host, so that it can be replayed."""
    max_segment_bytes: int = DEFAULT_SEGMENT_BYTES

    def as_runtime_settings(self) -> dict[str, Any]:
        """Return the settings by their names in `WasmRuntimeConfig`."""
        return {
            "audit": (self.path or find_places().receipts) if self.enabled else None,
            "audit_record": self.enabled and self.record,
            "audit_segment_bytes": self.max_segment_bytes,
        }


class ShellSettings(NamedTuple):
    """The section [shell]."""

    enabled: bool = True
    """False: every command is refused."""
    unsafe_host: bool = False
    """Run commands without confinement, as this user: for an operator who has a wall of their own around it all."""
    timeout_seconds: int = 120
    """For a call that asks for no other time."""
    max_timeout_seconds: int = 600
    memory_mib: int = 2048
    """Private memory of each process of a command."""
    read: tuple[str, ...] = ()
    """Files and folders that commands read, beside the workspace and the system."""
    execute: tuple[str, ...] = ()
    """Files and folders that commands read and execute, such as a toolchain."""
    session: bool = False
    """Keep directory and variables between the commands of one conversation."""
    network: tuple[EndpointPattern, ...] = ()
    """The hosts that commands reach, through a proxy of ours; none without."""


def runtime_settings(values: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the sections of this module set of `WasmRuntimeConfig`, by its names."""
    limits, rates, workspace = (values[name] for name in ("limits", "rates", "workspace"))
    settings: dict[str, Any] = {}
    if "max_concurrent_calls" in limits:
        settings["max_concurrent_calls"] = limits["max_concurrent_calls"]
    bounds = {name: value for name, value in limits.items() if name != "max_concurrent_calls"}
    if bounds:
        settings["default_limits"] = ResourceLimits(**bounds)
    if rates:
        settings["call_rate_limit"] = RateLimitConfig(**rates)
    if values["web_search"]:
        settings["web_search"] = WebSearch(**values["web_search"])
    memory = dict(values["memory"])
    if not memory.pop("enabled", True):
        settings["memory"] = False
    elif memory:
        settings["memory"] = _memory_settings(**memory)
    if "undo" in workspace:
        settings["undo"] = workspace["undo"]
    if "path" in workspace:
        root = workspace["path"]
        settings["workspace"] = UserFolders(root) if workspace.get("per_user") else root
    return settings


def check_workspace(workspace: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the section [workspace] as a whole, or None."""
    return "needs a path beside it" if "per_user" in workspace and "path" not in workspace else None


def check_web_search(search: Mapping[str, Any]) -> ConfigurationError | None:
    """Return what is wrong with the section [web_search] as a whole, or None."""
    try:
        if search:
            WebSearch(**{"provider": "", **search})
    except ConfigurationError as error:
        return error
    return None


def switch(key: str) -> ValueReader:
    """Return the reader of a key that is true or false."""

    def read(value: Any, _: Path) -> dict[str, Any]:
        if not isinstance(value, bool):
            raise ConfigurationError(f"{key} must be true or false", hint=f"write it like {key} = true")
        return {key: value}

    return read


def _limit(key: str) -> ValueReader:
    def read(value: Any, _: Path) -> dict[str, Any]:
        ResourceLimits(**{key: value})  # raises for this one alone
        return {key: value}

    return read


def _rate(key: str, name: str) -> ValueReader:
    def read(value: Any, _: Path) -> dict[str, Any]:
        RateLimitConfig(**{name: value})
        return {name: value}

    return read


def _memory(key: str) -> ValueReader:
    def read(value: Any, _: Path) -> dict[str, Any]:
        _memory_settings(**{key: value})  # raises for this one alone
        return {key: value}

    return read


def _memory_settings(**given: Any) -> MemorySettings:
    from wasmrt.runtime.memory import MemorySettings  # with the database, which a call of a component needs not

    return MemorySettings(**given)


def _embedder(value: Any, _: Path) -> dict[str, Any]:
    if value != "wordllama":
        hint = 'write embedder = "wordllama"; in Python any object is one: MemorySettings(embedder=...)'
        raise ConfigurationError("embedder must be one that comes with wasmrt", hint=hint)
    from wasmrt.runtime.memory import WordLlamaEmbedder

    return {"embedder": WordLlamaEmbedder()}


def _paths(key: str) -> ValueReader:
    def read(value: Any, folder: Path) -> dict[str, Any]:
        paths = texts(value)
        if any(not path or "\0" in path for path in paths):
            raise ConfigurationError(f"{key} must be a list of paths", hint=f'write it like {key} = ["/opt/tools"]')
        return {key: tuple(str(folder / path) for path in paths)}

    return read


def _services(value: Any, folder: Path) -> dict[str, Any]:
    hint = 'write it like services = "services.toml"'
    if not isinstance(value, str) or not value or "\0" in value:
        raise ConfigurationError("services must be a path", hint=hint)
    try:
        return {"services": read_services(read_file(folder / value, max_bytes=MAX_CONFIG_FILE_BYTES, follow_link=True))}
    except UnfitFileError as error:
        raise ConfigurationError(f"services names {value!r:.80}, which {error.reason}", hint=hint) from None
    except OSError as error:
        raise ConfigurationError(f"services names {value!r:.80}, which cannot be read ({error.strerror})") from None


def _address(value: Any) -> str:
    if not isinstance(value, str):
        raise ConfigurationError("must be a URL", hint='write it like url = "https://search.example.com/"')
    return value


def _price(value: Any) -> Decimal:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise ConfigurationError("must be a price", hint="write it like 0.005")
    return Decimal(str(value))


_FOLDER = path_in("path", "folder", "/srv/agent/files")
VALUE_SECTIONS: dict[str, dict[str, ValueReader]] = {
    "limits": {
        **{key: _limit(key) for key in ResourceLimits.__dataclass_fields__},
        "max_concurrent_calls": keyed("max_concurrent_calls", whole_number(1, _MAX_CONCURRENT)),
    },
    "rates": {
        "calls_per_minute": _rate("calls_per_minute", "requests_per_minute"),
        "calls_per_hour": _rate("calls_per_hour", "requests_per_hour"),
    },
    "workspace": {"path": _FOLDER, "per_user": switch("per_user"), "undo": switch("undo")},
    "memory": {
        "enabled": switch("enabled"),
        "path": _FOLDER,
        "max_document_bytes": _memory("max_document_bytes"),
        "max_user_bytes": _memory("max_user_bytes"),
        "max_versions": _memory("max_versions"),
        "embedder": _embedder,
    },
    "shell": {
        "enabled": switch("enabled"),
        "unsafe_host": switch("unsafe_host"),
        "timeout_seconds": keyed("timeout_seconds", whole_number(1, _SHELL_SECONDS)),
        "max_timeout_seconds": keyed("max_timeout_seconds", whole_number(1, _SHELL_SECONDS)),
        "memory_mib": keyed("memory_mib", whole_number(16, _SHELL_MIB)),
        "read": _paths("read"),
        "execute": _paths("execute"),
        "session": switch("session"),
        "network": keyed("network", read_program_network),
    },
    "secrets": {"backend": keyed("secrets_backend", one_of(str, BACKENDS))},
    "web_search": {
        "provider": keyed("provider", one_of(str, PROVIDERS)),
        "url": keyed("url", _address),
        "cost_per_search": keyed("cost_per_search", _price),
    },
    "explain": {"services": _services},
}
