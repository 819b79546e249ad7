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
from wasmrt.sandbox.guest.artifacts import DEFAULT_CACHE_BYTES
from wasmrt.sandbox.guest.settings import DEFAULT_ISOLATION, Isolation, OptLevel

if TYPE_CHECKING:
    from wasmrt.capabilities import RateLimitConfig
    from wasmrt.catalog.search import WebSearch
    from wasmrt.egress.gateway import NetworkConfig
    from wasmrt.egress.secrets import SecretsStore
    from wasmrt.runtime.memory import MemorySettings


@dataclass(frozen=True, slots=True, kw_only=True)
class WasmRuntimeConfig:
    """Settings of a `WasmToolRuntime`: how it compiles tools, limits them and gives them access.

    Raises:
            ConfigurationError: a number is out of range, or a value has the wrong type.

    Examples:
        >>> from wasmrt import ResourceLimits, WasmRuntimeConfig
        >>> config = WasmRuntimeConfig(default_limits=ResourceLimits(timeout_seconds=5.0), max_concurrent_calls=8)
        >>> config.default_limits.timeout_seconds
        5.0
    """

    default_limits: ResourceLimits = field(default_factory=ResourceLimits)
    """Default limits of a call. The grant of a tool, or `prepare`, can set other limits."""
    fuel_config: FuelConfig = field(default_factory=FuelConfig)
    cache_compiled: bool = True
    """Cache compiled components in memory and, if a cache folder is available, on disk."""
    cache_dir: Path | None = None
    """Folder for compiled components; None for the user's cache folder."""
    cache_max_bytes: int = DEFAULT_CACHE_BYTES
    """Maximum size of the folder for compiled components; the least recently used ones are removed."""
    optimization_level: OptLevel = OptLevel.SPEED
    isolation: Isolation = DEFAULT_ISOLATION
    """The process in which guests run: a worker process or this process. On Linux, the default is a worker process."""
    max_concurrent_calls: int = 64
    """Maximum number of concurrent calls of one user; all users together may run four times as many, if the machine has
    the memory for them. Calls of `execute` need a worker each. In process, all users together may run 256."""
    max_concurrent_compiles: int = 2
    network: NetworkConfig | None = None
    """Settings of outbound connections; None to allow only public addresses, resolved by the system."""
    secrets: SecretsStore | None = None
    """The store of credentials; None to run tools without credentials."""
    workspace: Path | Callable[[str], Path] | None = None
    """The folder that contains the granted workspace prefixes, or a function that returns the folder of a user, such
    as `wasmrt.runtime.workspace.UserFolders`."""
    undo: bool = True
    """Save the content of workspace files before tools change them, so that `wasmrt undo` can restore it."""
    web_search: WebSearch | None = None
    """The provider for the tool `web_search`; without a provider, the tool is not available."""
    robots_txt: bool = False
    """Let `web_fetch` read only pages that the site's robots.txt (RFC 9309) allows."""
    memory: MemorySettings | bool = True
    """Settings of the memory tools; True for default settings, False to offer no memory tools."""
    call_rate_limit: RateLimitConfig | None = None
    """Maximum rate of calls per user and tool. The grant separately limits the rate of HTTP requests."""
    rate_limit_storage: str | None = None
    """The redis:// URL of a server where several machines count together; None to count in this process."""
    unsafe_rate_limits_without_redis: bool = False
    """If Redis is unavailable, count in this process instead; by default, requests are denied."""
    audit: Path | str | AuditSink | None = None
    """The folder of the receipt chain, or a function that receives each receipt as a dict on the call's thread."""
    audit_segment_bytes: int = DEFAULT_SEGMENT_BYTES
    """File size at which the chain continues in a new file."""
    audit_record: bool = False
    """Also record the host's answers to each call, so that the call can be replayed."""
    leak_rules: Path | tuple[Rule, ...] = ()
    """Additional leak rules, or the path of a rule file. Creating the runtime checks the rules."""
    leak_overrides: Overrides = field(default_factory=dict, hash=False)
    """Actions that replace a rule's default action, by rule name: one action, or one for each direction."""
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
            raise ConfigurationError("workspace must be a folder, or a function that returns the folder of a user")
        if not isinstance(self.memory, bool):
            self.get_memory_settings()
        if self.audit is not None and not isinstance(self.audit, Path) and not callable(self.audit):
            raise ConfigurationError("audit must be a folder, or a function that receives receipts")
        if not isinstance(self.audit_segment_bytes, int) or self.audit_segment_bytes < MIN_SEGMENT_BYTES:
            raise ConfigurationError(f"audit_segment_bytes must be a whole number, at least {MIN_SEGMENT_BYTES:,}")
        if self.audit_record and not isinstance(self.audit, Path):
            raise ConfigurationError("audit_record requires audit to be a folder", hint="set audit to a folder")

    @classmethod
    def load(cls, path: Path | None = None, **settings: Any) -> WasmRuntimeConfig:
        """Return the settings of the operator's configuration file, the file that the `wasmrt` command reads.

        `path` selects a different file. `settings` override values of the file. Unless `settings` contain `secrets`,
        credentials come from this user's secret store.

        Raises:
            ConfigFileError: the file is invalid; the error lists every mistake. The sections of an agent's policy are
                checked later, when a registry is loaded.
        """
        from wasmrt.runtime.config_file import read_file_settings  # imports the network

        file = read_file_settings(path or find_places().config)
        if "secrets" not in settings:
            settings["secrets"] = file.open_secrets(later=True)
        return cls(**{**file.as_runtime_settings(), **settings})

    def get_memory_settings(self) -> MemorySettings | None:
        """Return the settings of the memory tools, or None if no memory tools are offered.

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
        """Return settings for tests: small limits, and no optimization, caching or storage."""
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
