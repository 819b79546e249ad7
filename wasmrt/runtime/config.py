"""The operator's settings of a runtime. A capability file cannot change them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import DEFAULT_SEGMENT_BYTES, MIN_SEGMENT_BYTES, FuelConfig, ResourceLimits
from wasmrt.core.places import find_places
from wasmrt.egress.leaks import Overrides, Rule
from wasmrt.runtime.audit import AuditSink
from wasmrt.sandbox.guest.settings import DEFAULT_ISOLATION, Isolation, OptLevel

if TYPE_CHECKING:
    from wasmrt.capabilities import RateLimitConfig
    from wasmrt.catalog.search import WebSearch
    from wasmrt.egress.gateway import NetworkConfig
    from wasmrt.egress.secrets import SecretsStore
    from wasmrt.runtime.memory import MemorySettings


@dataclass(frozen=True, slots=True, kw_only=True)
class WasmRuntimeConfig:
    """Settings with which a `WasmToolRuntime` compiles, limits and connects its tools.

    Raises:
            ConfigurationError: a number is out of range, or a value has the wrong type.

    Example:
        >>> from wasmrt import ResourceLimits, WasmRuntimeConfig
        >>> config = WasmRuntimeConfig(default_limits=ResourceLimits(timeout_seconds=5.0), max_concurrent_calls=8)
        >>> config.default_limits.timeout_seconds
        5.0
    """

    default_limits: ResourceLimits = field(default_factory=ResourceLimits)
    """Limits of tools that have none of their own."""
    fuel_config: FuelConfig = field(default_factory=FuelConfig)
    cache_compiled: bool = True
    """Cache compiled components in memory and, if a cache folder is available, on disk."""
    cache_dir: Path | None = None
    """None for the user's cache folder."""
    optimization_level: OptLevel = OptLevel.SPEED
    isolation: Isolation = DEFAULT_ISOLATION
    """The place where guests run; by default in worker processes on Linux."""
    max_concurrent_calls: int = 64
    """Limit per user; all users together may have four times as many."""
    max_concurrent_compiles: int = 2
    network: NetworkConfig | None = None
    """None to allow public addresses only, resolved by the system."""
    secrets: SecretsStore | None = None
    """The store of credentials; None if the runtime has none."""
    workspace: Path | Callable[[str], Path] | None = None
    """The folder that contains the granted workspace prefixes, or a function that returns each user's folder, such as
    `wasmrt.runtime.workspace.UserFolders`."""
    undo: bool = True
    """Save files that tools change in the workspace to the data folder first, for `wasmrt undo`."""
    web_search: WebSearch | None = None
    """The provider for the tool `web_search`; without a provider, the tool is not available."""
    memory: MemorySettings | bool = True
    """Settings of the memory tools; True for the bundled ones with default settings, False for no memory."""
    call_rate_limit: RateLimitConfig | None = None
    """Limit of calls per user and tool; requests have separate limits in the grant."""
    rate_limit_storage: str | None = None
    """A redis:// URL if several machines share one budget; None to count in this process."""
    unsafe_rate_limits_without_redis: bool = False
    """If Redis is unavailable, count in this process instead; by default, requests are denied."""
    audit: Path | str | AuditSink | None = None
    """The folder of the receipt chain, or a function that receives each receipt as a dict on the call's thread."""
    audit_segment_bytes: int = DEFAULT_SEGMENT_BYTES
    """Size at which the chain continues in a new file."""
    audit_record: bool = False
    """Also record the host's answers to each call, so that the call can be replayed."""
    leak_rules: Path | tuple[Rule, ...] = ()
    """Additional leak rules: a rule file, or rules. They are checked when the runtime is created."""
    leak_overrides: Overrides = field(default_factory=dict, hash=False)
    """Actions of leak rules by name, in general or per direction. They are checked when the runtime is created."""
    deterministic: bool = False
    """Use a logical clock and seeded randomness, so that calls can be replayed."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "isolation", _parse_isolation(self.isolation))
        for name in ("max_concurrent_calls", "max_concurrent_compiles"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ConfigurationError(f"{name} must be a positive whole number, got {value!r}")
        if isinstance(self.audit, str):
            object.__setattr__(self, "audit", Path(self.audit))
        if not (self.workspace is None or isinstance(self.workspace, (str, Path)) or callable(self.workspace)):
            raise ConfigurationError("workspace must be a folder, or a function that returns a user's folder")
        if not isinstance(self.memory, bool):
            self.memory_settings()
        if self.audit is not None and not isinstance(self.audit, Path) and not callable(self.audit):
            raise ConfigurationError("audit must be a folder or a function")
        if not isinstance(self.audit_segment_bytes, int) or self.audit_segment_bytes < MIN_SEGMENT_BYTES:
            raise ConfigurationError(f"audit_segment_bytes must be a whole number, at least {MIN_SEGMENT_BYTES:,}")
        if self.audit_record and not isinstance(self.audit, Path):
            raise ConfigurationError("audit_record needs a folder", hint="set audit to the folder for receipts")

    @classmethod
    def load(cls, path: Path | None = None, **settings: Any) -> WasmRuntimeConfig:
        """Return the settings of the operator's configuration file, which the command reads too.

        `path` is a different file; `settings` override the file. Unless `secrets` is given, credentials come from this
        user's store.

        Raises:
            ConfigFileError: the file is invalid; the error lists every mistake. Sections of an agent's policy are
                checked when a registry is loaded.
        """
        from wasmrt.runtime.config_file import read_file_settings  # imports the network

        file = read_file_settings(path or find_places().config)
        if "secrets" not in settings:
            settings["secrets"] = file.open_secrets(later=True)
        return cls(**{**file.as_runtime_settings(), **settings})

    def memory_settings(self) -> MemorySettings | None:
        """Return the settings of the memory, or None if the agent has no memory.

        Raises:
            ConfigurationError: `memory` has the wrong type.
        """
        from wasmrt.runtime.memory import MemorySettings

        settings = MemorySettings() if self.memory is True else self.memory
        if settings is not False and not isinstance(settings, MemorySettings):
            raise ConfigurationError("memory must be MemorySettings, True or False", hint="see wasmrt.MemorySettings")
        return settings or None

    @classmethod
    def for_testing(cls) -> WasmRuntimeConfig:
        """Return settings with small limits, without optimization, caching or storage."""
        return cls(
            default_limits=ResourceLimits(memory_bytes=1024 * 1024, fuel=100_000, timeout_seconds=5.0),
            cache_compiled=False,
            optimization_level=OptLevel.NONE,
        )


def _parse_isolation(value: str) -> Isolation:
    try:
        return Isolation(value)
    except ValueError as error:
        known = ", ".join(Isolation)
        raise ConfigurationError(f"isolation must be one of {known}, got {value!r}") from error
