"""Open the parts of a runtime that depend on its configuration."""

from __future__ import annotations

from pathlib import Path

from wasmrt.core.errors import ConfigurationError
from wasmrt.core.places import find_places
from wasmrt.core.setting_commands import set_command
from wasmrt.egress.leaks import LeakDetector, check_rule, read_rule_file
from wasmrt.runtime.audit import ReceiptWriter
from wasmrt.runtime.config import WasmRuntimeConfig
from wasmrt.sandbox.guest.artifacts import DiskCache
from wasmrt.sandbox.guest.runner import GuestHome
from wasmrt.sandbox.guest.settings import HAS_WORKERS, EngineConfig, Isolation


def may_block(config: WasmRuntimeConfig) -> bool:
    """Return whether every call may block its thread: by running the guest, the program's code, or a Redis client."""
    network = config.network
    has_own_code = callable(config.audit) or (
        network is not None and (network.resolver is not None or network.transport is not None)
    )
    return config.isolation is Isolation.IN_PROCESS or has_own_code or config.rate_limit_storage is not None


def open_receipt_writer(config: WasmRuntimeConfig) -> ReceiptWriter | None:
    """Return the writer of the receipts of a folder, or None if the configuration names no folder."""
    if not isinstance(config.audit, Path):
        return None
    return ReceiptWriter(config.audit, find_places().receipts_key, max_segment_bytes=config.audit_segment_bytes)


def open_guest_home(config: WasmRuntimeConfig) -> GuestHome:
    """Return the home of guests for the configured isolation.

    Raises:
        ConfigurationError: this machine cannot run workers.
    """
    engine = EngineConfig(optimization_level=config.optimization_level, consume_fuel=config.fuel_config.enabled)
    disk = None
    if config.cache_compiled:
        places = find_places()
        disk = DiskCache(
            config.cache_dir or places.compiled, places.data / "cache.key", max_bytes=config.cache_max_bytes
        )
    compiles = config.max_concurrent_compiles
    # Imported only if needed: loading the engine takes half of the start-up time of a short program.
    if config.isolation is Isolation.IN_PROCESS:
        from wasmrt.sandbox.guest.component import InProcessHome

        return InProcessHome(engine, keep=config.cache_compiled, disk=disk, max_compiles=compiles)
    if not HAS_WORKERS:  # SECURITY: guests never run without the isolation that the operator set
        hint = f"run without process isolation: {set_command('guests.isolation', str(Isolation.IN_PROCESS))}"
        raise ConfigurationError("worker processes need Linux", hint=hint)
    from wasmrt.sandbox.isolation.pool.home import WorkerHome

    required = config.isolation is Isolation.REQUIRED
    return WorkerHome(engine, disk=disk, max_compiles=compiles, required=required)


def make_leak_detector(config: WasmRuntimeConfig) -> LeakDetector:
    """Return a leak detector with the configured rules.

    Raises:
        ConfigurationError: a rule is invalid, or an override names an unknown rule.
    """
    rules = config.leak_rules if isinstance(config.leak_rules, tuple) else read_rule_file(Path(config.leak_rules))
    for rule in rules:
        check_rule(rule)
    return LeakDetector(rules=rules, overrides=config.leak_overrides)
