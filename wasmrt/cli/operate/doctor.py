"""`wasmrt doctor`: check everything that wasmrt depends on."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click

from wasmrt.cli.shared.errors import FAILED
from wasmrt.cli.shared.options import json_option
from wasmrt.cli.shared.output import format_size, show_columns, show_json
from wasmrt.core.counts import format_counted
from wasmrt.core.errors import ConfigFileError, InstallError, MissingToolchainError, WasmrtError
from wasmrt.core.setting_commands import append_command, set_command

if TYPE_CHECKING:
    from wasmrt.core.places import Places

_EARLIEST_TIME = 1_763_596_800  # November 2025; a clock before that is wrong


@dataclass(frozen=True, slots=True)
class Check:
    """The result of a check; `state` is ok, optional, warning or failed."""

    name: str
    state: str
    found: str


@click.command("doctor")
@click.option("attacking", "--attack", is_flag=True, help="Run the bundled hostile tools on this installation.")
@click.option("wall", "--wall", is_flag=True, help="With --attack: try forbidden system calls in confined processes.")
@json_option
@click.pass_context
def doctor(ctx: click.Context, attacking: bool, wall: bool, as_json: bool) -> None:
    """Check this installation: engine, isolation, files, secrets.

    With --attack, run every bundled hostile tool instead, and show what stopped it. With --attack --wall, try
    forbidden system calls in confined processes. The exit code is 1 if a check fails or an attack succeeds.

    \b
    Examples:
      wasmrt doctor
      wasmrt doctor --attack
      wasmrt doctor --attack --wall
      wasmrt doctor --json
    """
    if wall and not attacking:
        raise click.UsageError("--wall requires --attack")
    if attacking:
        from wasmrt.cli.operate.attacks import attack, attack_wall

        if not (attack_wall if wall else attack)(as_json):
            ctx.exit(FAILED)
        return
    from wasmrt.core.places import find_places

    places = find_places()
    checks = [*(_run_check(name, check, places) for name, check in _CHECKS.items()), *_check_isolation()]
    if as_json:
        show_json([asdict(check) for check in checks])
    else:
        show_columns(("CHECK", "STATE", "FOUND"), [(c.name, c.state, c.found) for c in checks])
    if any(check.state == "failed" for check in checks):
        ctx.exit(FAILED)


def _run_check(name: str, check: Callable[[Places], tuple[str, str]], places: Places) -> Check:
    try:
        return Check(name, *check(places))
    except WasmrtError as error:
        if isinstance(error, ConfigFileError) and check is not _check_configuration:  # that check reports the errors
            return Check(name, "warning", "unknown, because the configuration file cannot be used")
        return Check(name, "failed", error.message + (f"; {error.hint}" if error.hint else ""))
    except Exception as error:
        return Check(name, "failed", f"{type(error).__name__}, please report it")


def _check_isolation() -> list[Check]:
    """Check each layer that confines worker processes and programs."""
    from wasmrt.sandbox.isolation.confine import layers

    try:
        found = layers()
    except Exception as error:
        return [Check("isolation", "failed", f"{type(error).__name__}, please report it")]
    return [
        Check(f"isolation: {layer.name}", "ok" if layer.standing or layer.optional else "warning", layer.sentence)
        for layer in found
    ]


def _check_versions(_: Places) -> tuple[str, str]:
    from importlib.metadata import version

    from wasmrt.sandbox.guest.engine import VERSION

    return "ok", f"wasmrt {version('wasmrt')}, wasmtime {VERSION}, Python {platform.python_version()}"


def _check_wasm_tools(_: Places) -> tuple[str, str]:
    """Find wasm-tools, which only `wasmrt build` and `inspect --wit` need."""
    from wasmrt.authoring.project import find_wasm_tools

    try:
        found = find_wasm_tools()
    except MissingToolchainError as missing:
        return "optional", f"{missing.message}; only wasmrt build and inspect --wit need it: {missing.hint}"
    return "ok", f"{found.version_text}, {found.source}"


def _check_machine(_: Places) -> tuple[str, str]:
    return "ok", f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors"


def _check_allocator(_: Places) -> tuple[str, str]:
    from wasmrt.sandbox.guest.settings import Allocator, best_allocator

    found = best_allocator()
    if found == Allocator.POOLING:
        return "ok", "pooling"
    return "warning", "on demand: calls start slower, because this process may not reserve address space (ulimit -v)"


def _check_engine(_: Places) -> tuple[str, str]:
    from wasmrt.catalog.bundled import bundled_names
    from wasmrt.catalog.find import find_bundled
    from wasmrt.cli.shared.runtime import open_runtime

    if "echo" not in bundled_names():
        return "warning", "the bundled tools are not built; run tools/build.py in the repository"
    found = find_bundled("echo")
    start = time.perf_counter()
    with open_runtime() as runtime:
        runtime.prepare(found.name, found.component).execute({"message": "doctor"})
    return "ok", f"a call of echo took {(time.perf_counter() - start) * 1000:.0f} ms"


def _check_folders(places: Places) -> tuple[str, str]:
    """Check that the data and cache folders can be written, by writing a file into each."""
    import tempfile

    for label, folder in (("data", places.data), ("cache", places.cache)):
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.NamedTemporaryFile(dir=folder, prefix=".doctor-") as file:
                file.write(b"doctor")
        except OSError as error:
            use = "install tools and store secrets" if folder == places.data else "store compiled code"
            step = f"to {use}, fix its owner and permissions, or set WASMRT_HOME"
            return "failed", f"the {label} folder {folder} cannot be written ({error.strerror}): {step}"
    if hasattr(os, "geteuid"):
        found = places.data.stat()
        if found.st_uid != os.geteuid() or found.st_mode & 0o022:
            return "warning", f"other users can write the data folder {places.data} and could replace tools"
    return "ok", f"data: {places.data}; cache: {places.cache}"


def _check_configuration(places: Places) -> tuple[str, str]:
    """Read the configuration file; its network settings are checked by `_check_network`."""
    from wasmrt.agent.config import read_config_file

    read_config_file(places.config)
    if not places.config.exists():
        return "ok", f"{places.config} does not exist; all settings have their defaults"
    if hasattr(os, "geteuid") and places.config.stat().st_mode & 0o022:
        return "warning", f"other users can write {places.config} and could allow network access to tools"
    return "ok", str(places.config)


def _check_network(places: Places) -> tuple[str, str]:
    from wasmrt.agent.config import read_config_file
    from wasmrt.capabilities import RateLimitConfig
    from wasmrt.egress.gateway import EgressGateway
    from wasmrt.egress.rates import RateLimiter

    config = read_config_file(places.config)
    network, storage = config.network, config.rate_limit_storage
    EgressGateway(network).close()  # reads the CA file
    RateLimiter(redis_url=storage).remaining("nobody", "doctor", RateLimitConfig())  # connects to Redis if configured
    fallback = "counted per process" if config.unsafe_rate_limits_without_redis else "denied"
    counts = f"counted in Redis; if Redis fails, calls are {fallback}" if storage else "counted per command"
    found = [
        f"certificates: {f'only {network.ca_file}' if network.ca_file else 'trusted by this system'}",
        f"rate limits: {counts}",
    ]
    unscanned = (*network.unsafe_unscanned_hosts, *network.unsafe_unscanned_responses)
    if unscanned:
        found.append(f"unsafe_unscanned settings allow responses that cannot be scanned from {', '.join(unscanned)}")
    if not network.networks:
        return "warning" if unscanned else "ok", "; ".join(found)
    opened = ", ".join(map(str, network.networks))
    return "warning", "; ".join([f"unsafe_allowed_networks lets tools reach {opened}", *found])


def _check_cache(places: Places) -> tuple[str, str]:
    from wasmrt.sandbox.guest.artifacts import DiskCache

    folder = places.compiled
    cache = DiskCache(folder, places.data / "cache.key")
    if cache.problem is not None:
        return "warning", cache.problem
    if not os.access(folder, os.W_OK):
        return "warning", "the folder cannot be written, so every start compiles again"
    sizes = [entry.stat().st_size for entry in os.scandir(folder) if entry.is_file()]
    return "ok", f"{format_counted(len(sizes), 'file')}, {format_size(sum(sizes))}"


def _check_catalog(places: Places) -> tuple[str, str]:
    from wasmrt.runtime.stores import open_catalog

    catalog = open_catalog(places.data)
    tools = catalog.tools()
    findings = catalog.verify()
    broken = dict.fromkeys(finding.name for finding in findings if finding.problem)
    if broken:
        return "failed", f"changed since the install: {', '.join(broken)}; run wasmrt verify, then install them again"
    pending = sum(tool.pending is not None for tool in tools)
    waits = f"{pending} of them with an update that awaits a grant" if pending else "no update awaits a grant"
    return "ok", f"{len(tools)} installed, {waits}; valid components: {len(findings)} of {len(findings)}"


def _check_signatures(places: Places) -> tuple[str, str]:
    """Read the trusted root for keyless signatures."""
    from wasmrt.agent.config import read_config_file

    try:
        from wasmrt.catalog.signing.keyless import find_root
    except ImportError:
        return "optional", "key pairs; keyless signatures cannot be verified: pip install 'wasmrt[sigstore]'"
    return "ok", f"key pairs and keyless; {find_root(read_config_file(places.config).install.trusted_root)}"


def _check_needed_secrets(places: Places) -> tuple[str, str]:
    from wasmrt.agent.config import read_config_file
    from wasmrt.capabilities.file import parse
    from wasmrt.catalog.bundled import WEB_SEARCH
    from wasmrt.catalog.granted import read_granted
    from wasmrt.cli.shared.consent import missing_secrets
    from wasmrt.runtime.stores import open_catalog

    catalog = open_catalog(places.data)
    lacking: list[str] = []
    try:
        tools = catalog.tools()
    except InstallError:
        return "warning", "unknown, because the catalog cannot be read"
    search = read_config_file(places.config).runtime.get("web_search")
    if search is not None:
        missing = missing_secrets(parse(search.sidecar), granted=search.grant, tool=WEB_SEARCH)
        lacking += [f"{WEB_SEARCH}: {secret.problem}; {secret.hint or 'set it again'}" for secret in missing]
    for tool in tools:
        version = catalog.get(tool.name)
        if version.sidecar is not None:
            missing = missing_secrets(parse(version.sidecar), granted=read_granted(version), tool=tool.name)
            lacking += [f"{tool.name}: {secret.problem}; {secret.hint or 'set it again'}" for secret in missing]
    if lacking:
        return "warning", "; ".join(lacking[:3]) + (f"; and {len(lacking) - 3} more" if len(lacking) > 3 else "")
    return "ok", "every installed tool has the secrets that it needs"


def _check_memory(places: Places) -> tuple[str, str]:
    """Report how memory is searched."""
    from wasmrt.agent.builtin.memory import vector_problem
    from wasmrt.agent.config import read_config_file
    from wasmrt.runtime.memory import MemorySettings

    settings = read_config_file(places.config).runtime.get("memory") or MemorySettings()
    if settings.embedder is None:
        return (
            "ok",
            f"text search; semantic search needs wasmrt[embeddings] and {set_command('memory.embedder', 'wordllama')}",
        )
    if problem := vector_problem():
        return "warning", problem
    return "ok", f"text search and {settings.embedder.name}"


def _check_database(places: Places) -> tuple[str, str]:
    """Check that the database of shared stores can be opened; return the check's result and detail."""
    from wasmrt.agent.access import AccessStore
    from wasmrt.agent.approvals import ApprovalStore, ConfirmationTokens
    from wasmrt.agent.builtin.code_mode import waiting_runs
    from wasmrt.agent.builtin.memory import MemoryStore
    from wasmrt.agent.config import read_config_file
    from wasmrt.agent.jobs import JobStore
    from wasmrt.agent.routines import RoutineStore
    from wasmrt.runtime.stores import open_catalog

    file = read_config_file(places.config)
    place, key = file.store_place(places.tokens), file.database.key(places.tokens_key, file.read_secret)
    ApprovalStore(file.store_place(places.approvals)).pending()
    AccessStore(file.store_place(places.access)).pending()
    ConfirmationTokens(place, key).check()
    waiting_runs(file.store_place(places.code_runs))
    JobStore(file.store_place(places.jobs)).latest(1)
    RoutineStore(file.store_place(places.routines)).latest(1)
    open_catalog(places.data).trace()
    MemoryStore(place=file.store_place(places.memory)).entries("local")
    if isinstance(place, os.PathLike):
        return "ok", "SQLite files in the data folder, for this host alone"
    found = f"{place.describe()}, with the expected schema; key of confirmation tokens: "
    if file.database.key_secret is None:
        return "warning", f"{found}{places.tokens_key}, which other hosts need, too, or set database.key_secret"
    return "ok", f"{found}secret {file.database.key_secret}"


def _check_shell(places: Places) -> tuple[str, str]:
    """Report which back end runs the shell's commands, or why none can."""
    from wasmrt.agent.builtin.shell import ShellSettings, choose_backend
    from wasmrt.agent.config import read_config_file

    settings = read_config_file(places.config).shell
    backend, problem = choose_backend(settings)
    if problem:
        is_optional = settings == ShellSettings() or not settings.enabled
        return "optional" if is_optional else "warning", f"commands cannot run: {problem}"
    if settings.unsafe_host:
        return "warning", "unsafe_host runs commands without confinement"
    return "ok", f"commands run confined; back end: {backend}"


def _check_desktop(places: Places) -> tuple[str, str]:
    """Report which desktop tools are on, and what they lack."""
    from wasmrt.agent.builtin.desktop import desktop_problem
    from wasmrt.agent.config import read_config_file

    file = read_config_file(places.config)
    settings = file.desktop
    if not settings.tools and not file.policy.notify:
        return "ok", f"off; to enable one: {append_command('desktop.tools', 'NAME')}"
    found = {name: desktop_problem(name, settings) for name in settings.tools}
    if file.policy.notify:
        found["approvals.notify"] = desktop_problem("notify.send", settings)
    lacking = [f"{name}: {problem}" for name, problem in found.items() if problem]
    return ("warning", "; ".join(lacking)) if lacking else ("ok", f"on: {', '.join(found)}")


def _check_secrets(places: Places) -> tuple[str, str]:
    from wasmrt.agent.config import read_config_file
    from wasmrt.egress.secrets import DEFAULT_USER, EntryStore, name_backend

    store = read_config_file(places.config).open_secrets()
    if isinstance(store, EntryStore) and not store.lists_names:
        return "ok", f"backend {name_backend(store)}, which cannot list secrets"
    return "ok", f"backend {name_backend(store)}, {len(store.list(DEFAULT_USER))} of {DEFAULT_USER}"


def _check_clock(_: Places) -> tuple[str, str]:
    if time.time() < _EARLIEST_TIME:
        return "failed", "the clock is years behind, so certificates and expiry dates cannot be checked"
    step = time.get_clock_info("monotonic").resolution
    return "ok", f"monotonic steps of {step * 1e9:.0f} ns"


_CHECKS: dict[str, Callable[[Places], tuple[str, str]]] = {
    "versions": _check_versions,
    "wasm-tools": _check_wasm_tools,
    "machine": _check_machine,
    "allocator": _check_allocator,
    "engine": _check_engine,
    "folders": _check_folders,
    "configuration": _check_configuration,
    "network": _check_network,
    "cache": _check_cache,
    "catalog": _check_catalog,
    "signatures": _check_signatures,
    "secrets": _check_secrets,
    "needed secrets": _check_needed_secrets,
    "database": _check_database,
    "memory": _check_memory,
    "shell": _check_shell,
    "desktop": _check_desktop,
    "clock": _check_clock,
}
