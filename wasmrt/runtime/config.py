"""An operator's settings of a runtime. A capability file can set none of them."""

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
    """Settings with which a `WasmToolRuntime` compiles, bounds and connects the tools it runs.

    Raises:
        ConfigurationError: a number is out of its range.

    Example:
        >>> from wasmrt import ResourceLimits, WasmRuntimeConfig
        >>> config = WasmRuntimeConfig(default_limits=ResourceLimits(timeout_seconds=5.0), max_concurrent_calls=8)
        >>> config.default_limits.timeout_seconds
        5.0
    """

    default_limits: ResourceLimits = field(default_factory=ResourceLimits)
    """For tools that come with none of their own."""
    fuel_config: FuelConfig = field(default_factory=FuelConfig)
    cache_compiled: bool = True
    """Keep compiled components in memory and, where a folder can be used, on disk."""
    cache_dir: Path | None = None
    """None for the user's cache folder."""
    optimization_level: OptLevel = OptLevel.SPEED
    isolation: Isolation = DEFAULT_ISOLATION
    """The place where guests live: on Linux worker processes, unless told otherwise."""
    max_concurrent_calls: int = 64
    """Of one user; all users together may have four times as many."""
    max_concurrent_compiles: int = 2
    network: NetworkConfig | None = None
    """None for public addresses only, resolved by the system."""
    secrets: SecretsStore | None = None
    """The store of credentials; None for a runtime that holds none."""
    workspace: Path | Callable[[str], Path] | None = None
    """The folder that granted workspace prefixes are below, or a function from a user to that user's folder
    (`wasmrt.runtime.workspace.UserFolders` is one)."""
    undo: bool = True
    """Keep what tools change in the workspace as it was before, in the data folder, for `wasmrt undo`."""
    web_search: WebSearch | None = None
    """The provider that the tool `web_search` asks; without one there is no such tool."""
    memory: MemorySettings | bool = True
    """Settings of the tools that remember; True for those that ship, False for an agent without a memory."""
    call_rate_limit: RateLimitConfig | None = None
    """Calls for one user and one tool; requests have limits of their own in the grant."""
    rate_limit_storage: str | None = None
    """A redis:// URL when several machines share one budget; None counts in this process."""
    unsafe_rate_limits_without_redis: bool = False
    """Go on while that Redis does not answer, with a count in this process; else requests are refused meanwhile."""
    audit: Path | str | AuditSink | None = None
    """The folder of the chain of receipts, or a function that gets each as a dict, on the call's thread."""
    audit_segment_bytes: int = DEFAULT_SEGMENT_BYTES
    """Size at which the chain goes on in another file."""
    audit_record: bool = False
    """Keep beside the receipts what each call was answered by the host, so that it can be replayed."""
    leak_rules: Path | tuple[Rule, ...] = ()
    """Leak rules beside those that ship: a rule file, or rules. Checked when the runtime is made."""
    leak_overrides: Overrides = field(default_factory=dict, hash=False)
    """The action of a leak rule, or of a rule in one direction, by its name. Checked when the runtime is made."""
    deterministic: bool = False
    """A logical clock and seeded randomness, so that a call can be replayed."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "isolation", _isolation(self.isolation))
        for name in ("max_concurrent_calls", "max_concurrent_compiles"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ConfigurationError(f"{name} must be a positive whole number, not {value!r}")
        if isinstance(self.audit, str):
            object.__setattr__(self, "audit", Path(self.audit))
        if not (self.workspace is None or isinstance(self.workspace, (str, Path)) or callable(self.workspace)):
            raise ConfigurationError("workspace must be a folder, or a function from a user to one")
        if not isinstance(self.memory, bool):
            self.memory_settings()
        if self.audit is not None and not isinstance(self.audit, Path) and not callable(self.audit):
            raise ConfigurationError("audit must be a folder or a function")
        if not isinstance(self.audit_segment_bytes, int) or self.audit_segment_bytes < MIN_SEGMENT_BYTES:
            raise ConfigurationError(f"audit_segment_bytes must be a whole number, at least {MIN_SEGMENT_BYTES:,}")
        if self.audit_record and not isinstance(self.audit, Path):
            raise ConfigurationError("audit_record needs a folder", hint="set audit to the folder of the receipts")

    @classmethod
    def load(cls, path: Path | None = None, **settings: Any) -> WasmRuntimeConfig:
        """Return the settings of the operator's configuration file, the one that the command reads.

        `path` is another file; `settings` are those that the program sets itself. Credentials are in the store of this
        user, where the program gives no other.

        Raises:
            ConfigFileError: the file cannot be used; the error lists every mistake. Sections of an agent's policy
                are checked when a registry is loaded.
        """
        from wasmrt.runtime.config_file import read_file_settings  # loads the network

        file = read_file_settings(path or find_places().config)
        if "secrets" not in settings:
            settings["secrets"] = file.open_secrets(later=True)
        return cls(**{**file.as_runtime_settings(), **settings})

    def memory_settings(self) -> MemorySettings | None:
        """Return the settings of the memory; None for an agent without one.

        Raises:
            ConfigurationError: they are none.
        """
        from wasmrt.runtime.memory import MemorySettings

        settings = MemorySettings() if self.memory is True else self.memory
        if settings is not False and not isinstance(settings, MemorySettings):
            raise ConfigurationError("memory must be MemorySettings, True or False", hint="see wasmrt.MemorySettings")
        return settings or None

    @classmethod
    def for_testing(cls) -> WasmRuntimeConfig:
        """Small limits, no optimisation, nothing kept."""
        return cls(
            default_limits=ResourceLimits(memory_bytes=1024 * 1024, fuel=100_000, timeout_seconds=5.0),
            cache_compiled=False,
            optimization_level=OptLevel.NONE,
        )


def _isolation(value: str) -> Isolation:
    try:
        return Isolation(value)
    except ValueError as error:
        known = ", ".join(Isolation)
        raise ConfigurationError(f"isolation must be one of {known}, not {value!r}") from error
