"""Sections of the operator's configuration file with plain values: limits, rates, workspace, receipts, shell, ..."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from wasmrt.capabilities import EndpointPattern, RateLimitConfig, read_program_network
from wasmrt.capabilities.services import read_services
from wasmrt.catalog.search import PROVIDERS, WebSearch
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.files import UnfitFileError, read_file
from wasmrt.core.limits import (
    DEFAULT_BUILD_CACHE_BYTES,
    DEFAULT_SEGMENT_BYTES,
    MAX_CACHE_BYTES,
    MAX_CONFIG_FILE_BYTES,
    MIN_CACHE_BYTES,
    ResourceLimits,
)
from wasmrt.core.places import find_places
from wasmrt.core.setting_commands import set_command
from wasmrt.core.strict_toml import (
    ValueReader,
    make_choice_reader,
    make_keyed_reader,
    make_number_reader,
    make_path_reader,
    read_texts,
)
from wasmrt.egress.secrets import BACKENDS
from wasmrt.egress.vault import VaultSettings
from wasmrt.runtime.workspace import UserFolders
from wasmrt.sandbox.guest.artifacts import DEFAULT_CACHE_BYTES

if TYPE_CHECKING:
    from wasmrt.runtime.memory import MemorySettings

_MAX_CONCURRENT = 10_000
_SHELL_SECONDS = 3600
MAX_PROGRAM_MIB = 1024 * 1024
"""Largest memory that can be set for a confined program."""


class AuditSettings(NamedTuple):
    """The section [audit]."""

    enabled: bool = True
    path: Path | None = None
    """The folder of the receipts; None for the default in the data folder."""
    record: bool = False
    """Record the host's answers to each call, so that the call can be replayed."""
    max_segment_bytes: int = DEFAULT_SEGMENT_BYTES

    def as_runtime_settings(self) -> dict[str, Any]:
        """Return the settings by their names in `WasmRuntimeConfig`."""
        return {
            "audit": (self.path or find_places().receipts) if self.enabled else None,
            "audit_record": self.enabled and self.record,
            "audit_segment_bytes": self.max_segment_bytes,
        }


class CacheSettings(NamedTuple):
    """The section [cache]."""

    max_compiled_bytes: int = DEFAULT_CACHE_BYTES
    max_build_bytes: int = DEFAULT_BUILD_CACHE_BYTES


class ShellSettings(NamedTuple):
    """The section [shell]."""

    enabled: bool = True
    """True if commands may run; if False, every command is denied."""
    unsafe_host: bool = False
    """Run commands without confinement, as this user. Only for operators who isolate the program in another way."""
    unsafe_write_git: bool = False
    """Keep hooks and settings of git that a command writes, which may make git run programs without confinement."""
    timeout_seconds: int = 120
    """Timeout of a command whose call sets no timeout."""
    max_timeout_seconds: int = 600
    memory_mib: int = 2048
    """Maximum private memory of each process of a command."""
    read: tuple[str, ...] = ()
    """Files and folders that commands may read, in addition to the workspace and the system."""
    execute: tuple[str, ...] = ()
    """Files and folders that commands may read and execute, such as a toolchain."""
    session: bool = False
    """Keep the working directory and variables between the commands of one conversation."""
    network: tuple[EndpointPattern, ...] = ()
    """Hosts that commands may access through wasmrt's proxy."""
    programs: tuple[str, ...] = ()
    """Names of programs that a rule may allow, in addition to the ones known to be harmless."""


def runtime_settings(values: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the settings that this module's sections set, by their names in `WasmRuntimeConfig`."""
    limits, rates, workspace = (values[name] for name in ("limits", "rates", "workspace"))
    settings: dict[str, Any] = {}
    if "max_concurrent_calls" in limits:
        settings["max_concurrent_calls"] = limits["max_concurrent_calls"]
    bounds = {name: value for name, value in limits.items() if name != "max_concurrent_calls"}
    if bounds:
        settings["default_limits"] = ResourceLimits(**bounds)
    if rates:
        settings["call_rate_limit"] = RateLimitConfig(**rates)
    settings |= values["web_fetch"]
    if values["web_search"]:
        settings["web_search"] = WebSearch(**values["web_search"])
    memory = dict(values["memory"])
    if not memory.pop("enabled", True):
        settings["memory"] = False
    elif memory:
        settings["memory"] = _make_memory_settings(**memory)
    if "undo" in workspace:
        settings["undo"] = workspace["undo"]
    if "path" in workspace:
        root = workspace["path"]
        settings["workspace"] = UserFolders(root) if workspace.get("per_user") else root
    return settings


def check_workspace(workspace: Mapping[str, Any]) -> str | None:
    """Return the problem if the keys of [workspace] do not fit together, else None."""
    return "requires the key path" if "per_user" in workspace and "path" not in workspace else None


def check_web_search(search: Mapping[str, Any]) -> ConfigurationError | None:
    """Return the error if the keys of [web_search] do not fit together, else None."""
    try:
        if search:
            WebSearch(**{"provider": "", **search})
    except ConfigurationError as error:
        return error
    return None


def boolean_reader(key: str) -> ValueReader:
    """Return a reader for a Boolean key."""

    def read(value: Any, _: Path) -> dict[str, Any]:
        if not isinstance(value, bool):
            raise ConfigurationError(f"{key} must be true or false", hint=f"write it like {key} = true")
        return {key: value}

    return read


def validated(name: str, build: Callable[..., object]) -> ValueReader:
    """Return a reader for the setting `name`. `build` checks the value, and raises an error if it is invalid."""

    def read(value: Any, _: Path) -> dict[str, Any]:
        build(**{name: value})
        return {name: value}

    return read


def _make_memory_settings(**given: Any) -> MemorySettings:
    from wasmrt.runtime.memory import MemorySettings  # imports the database, which a call of a component does not need

    return MemorySettings(**given)


def _read_embedder(value: Any, _: Path) -> dict[str, Any]:
    if value != "wordllama":
        hint = set_command("memory.embedder", "wordllama")
        raise ConfigurationError('embedder must be "wordllama"', hint=hint)
    from wasmrt.runtime.memory import WordLlamaEmbedder

    return {"embedder": WordLlamaEmbedder()}


def paths_reader(key: str) -> ValueReader:
    """Return a reader for a list of paths, which are relative to the folder of the file."""

    def read(value: Any, folder: Path) -> dict[str, Any]:
        paths = read_texts(value)
        if any(not path or "\0" in path for path in paths):
            raise ConfigurationError(f"{key} must be a list of paths", hint=f'write it like {key} = ["/opt/tools"]')
        return {key: tuple(str(folder / path) for path in paths)}

    return read


def _read_services_path(value: Any, folder: Path) -> dict[str, Any]:
    hint = 'write it like services = "services.toml"'
    if not isinstance(value, str) or not value or "\0" in value:
        raise ConfigurationError("services must be a path", hint=hint)
    try:
        return {"services": read_services(read_file(folder / value, max_bytes=MAX_CONFIG_FILE_BYTES, follow_link=True))}
    except UnfitFileError as error:
        raise ConfigurationError(f"services refers to {value!r:.80}, which {error.reason}", hint=hint) from None
    except OSError as error:
        message = f"services refers to {value!r:.80}, which cannot be read ({error.strerror})"
        raise ConfigurationError(message) from None


def _make_vault_reader(key: str) -> ValueReader:
    def read(value: Any, _: Path) -> dict[str, Any]:
        if not isinstance(value, str):
            raise ConfigurationError(f"vault_{key} must be text", hint="write it in quotes")
        replace(VaultSettings(), **{key: value})  # type: ignore[arg-type]  # only keys with text
        return {f"vault_{key}": value}

    return read


def _read_address(value: Any) -> str:
    if not isinstance(value, str):
        raise ConfigurationError("must be a URL", hint='write it like url = "https://search.example.com/"')
    return value


def _read_price(value: Any) -> Decimal:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise ConfigurationError("must be a number", hint="write it like 0.005")
    return Decimal(str(value))


_FOLDER = make_path_reader("path", "folder", "/srv/agent/files")
VALUE_SECTIONS: dict[str, dict[str, ValueReader]] = {
    "limits": {
        **{key: validated(key, ResourceLimits) for key in ResourceLimits.__dataclass_fields__},
        "max_concurrent_calls": make_keyed_reader("max_concurrent_calls", make_number_reader(1, _MAX_CONCURRENT)),
    },
    "cache": {
        key: make_keyed_reader(key, make_number_reader(MIN_CACHE_BYTES, MAX_CACHE_BYTES))
        for key in CacheSettings._fields
    },
    "rates": {
        "calls_per_minute": validated("requests_per_minute", RateLimitConfig),
        "calls_per_hour": validated("requests_per_hour", RateLimitConfig),
    },
    "workspace": {"path": _FOLDER, "per_user": boolean_reader("per_user"), "undo": boolean_reader("undo")},
    "memory": {
        "enabled": boolean_reader("enabled"),
        "path": _FOLDER,
        "max_document_bytes": validated("max_document_bytes", _make_memory_settings),
        "max_user_bytes": validated("max_user_bytes", _make_memory_settings),
        "max_versions": validated("max_versions", _make_memory_settings),
        "embedder": _read_embedder,
    },
    "shell": {
        "enabled": boolean_reader("enabled"),
        "unsafe_host": boolean_reader("unsafe_host"),
        "unsafe_write_git": boolean_reader("unsafe_write_git"),
        "timeout_seconds": make_keyed_reader("timeout_seconds", make_number_reader(1, _SHELL_SECONDS)),
        "max_timeout_seconds": make_keyed_reader("max_timeout_seconds", make_number_reader(1, _SHELL_SECONDS)),
        "memory_mib": make_keyed_reader("memory_mib", make_number_reader(16, MAX_PROGRAM_MIB)),
        "read": paths_reader("read"),
        "execute": paths_reader("execute"),
        "session": boolean_reader("session"),
        "network": make_keyed_reader("network", read_program_network),
        "programs": make_keyed_reader("programs", read_texts),
    },
    "secrets": {
        "backend": make_keyed_reader("secrets_backend", make_choice_reader(str, BACKENDS)),
        "command": make_keyed_reader("secrets_command", read_texts),
        **{f"vault_{key}": _make_vault_reader(key) for key in ("address", "mount", "path", "field", "namespace")},
        "vault_token_file": make_path_reader("vault_token_file", "file", "/etc/wasmrt/vault-token"),
        "vault_token_command": make_keyed_reader("vault_token_command", read_texts),
    },
    "web_fetch": {"robots_txt": boolean_reader("robots_txt")},
    "web_search": {
        "provider": make_keyed_reader("provider", make_choice_reader(str, PROVIDERS)),
        "url": make_keyed_reader("url", _read_address),
        "cost_per_search": make_keyed_reader("cost_per_search", _read_price),
    },
    "explain": {"services": _read_services_path},
}
