"""The operator's configuration file: strict TOML, with every mistake reported at once."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from wasmrt.capabilities.services import Service
from wasmrt.catalog.policy import InstallPolicy
from wasmrt.core.errors import ConfigFileError, ConfigurationError
from wasmrt.core.files import Unfit, UnfitFileError, read_file
from wasmrt.core.limits import MAX_CONFIG_FILE_BYTES, MIN_SEGMENT_BYTES
from wasmrt.core.places import find_places
from wasmrt.core.setting_commands import set_command, unset_command
from wasmrt.core.strict_toml import Mistake, Place, ValueReader, find_lines, make_path_reader, read_table
from wasmrt.egress.gateway import NetworkConfig
from wasmrt.egress.leaks import Overrides, Rule
from wasmrt.egress.rates import RateLimiter
from wasmrt.egress.vault import VaultSecrets, VaultSettings
from wasmrt.runtime.config_database import DATABASE_SECTION, DatabaseSettings
from wasmrt.runtime.config_extensions import (
    EXTENSION_SECTIONS,
    DesktopSettings,
    ExtensionSettings,
    JobSettings,
    SkillSettings,
)
from wasmrt.runtime.config_hosts import read_hosts
from wasmrt.runtime.config_install import INSTALL_SECTION
from wasmrt.runtime.config_leaks import LEAK_SECTION
from wasmrt.runtime.config_serve import SERVE_SECTIONS, ResourceSettings, read_resource
from wasmrt.runtime.config_values import (
    VALUE_SECTIONS,
    AuditSettings,
    CacheSettings,
    ShellSettings,
    boolean_reader,
    check_web_search,
    check_workspace,
    runtime_settings,
    validated,
)
from wasmrt.sandbox.guest.settings import DEFAULT_ISOLATION, Isolation

if TYPE_CHECKING:
    from wasmrt.core.postgres import Postgres
    from wasmrt.egress.secrets import SecretsStore

_SECTION = "network"
POLICY_SECTIONS = ("tools", "presets", "approvals")
"""Sections of an agent's policy, read by `wasmrt.agent.config`."""
ReadMore = Callable[[Mapping[str, Any], Path, list[Mistake]], None]
"""Reads the sections in `POLICY_SECTIONS`, given the file's tables and folder; appends errors to the list."""
_ELSEWHERE = (
    *(
        "services",
        "secrets_backend",
        "secrets_command",
        "vault",
        "shell",
        "runtime",
        "telemetry",
        "extensions",
        "skills",
        "desktop",
        "jobs",
    ),
    *("resource", "code_mode", "cache", "database", "install"),
)
"""Settings that are used by registries and commands only, so `WasmRuntimeConfig` does not have them."""


@dataclass(frozen=True)
class FileSettings:
    """The settings of the operator's file, without an agent's policy. If there is no file, the defaults apply."""

    network: NetworkConfig
    rate_limit_storage: str | None = None
    """A redis:// URL, which may contain a password."""
    unsafe_rate_limits_without_redis: bool = False
    isolation: Isolation = DEFAULT_ISOLATION
    leak_rules: tuple[Rule, ...] = ()
    leak_overrides: Overrides = field(default_factory=lambda: MappingProxyType({}))
    audit: AuditSettings = field(default_factory=AuditSettings)
    runtime: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """Other settings of `WasmRuntimeConfig`, from their own sections: limits, rates, workspace and more."""
    cache: CacheSettings = field(default_factory=CacheSettings)
    secrets_backend: str | None = None
    """The backend for secrets, unless the environment sets a backend; None to detect the backend."""
    secrets_command: tuple[str, ...] = ()
    vault: VaultSettings = field(default_factory=VaultSettings)
    code_mode: bool = False
    """True if registries offer `run_code` and `search_tools`."""
    telemetry: bool = False
    """True if registries report their calls to the program's OpenTelemetry SDK."""
    shell: ShellSettings = field(default_factory=ShellSettings)
    services: tuple[Service, ...] = ()
    """Services that the operator described; explanations use them in addition to the bundled services."""
    extensions: ExtensionSettings = field(default_factory=ExtensionSettings)
    skills: SkillSettings = field(default_factory=SkillSettings)
    desktop: DesktopSettings = field(default_factory=DesktopSettings)
    jobs: JobSettings = field(default_factory=JobSettings)
    install: InstallPolicy = field(default_factory=InstallPolicy)
    resource: ResourceSettings | None = None
    """Settings of `wasmrt serve --http` with access tokens from an authorization server."""
    database: DatabaseSettings = field(default_factory=DatabaseSettings)

    def as_runtime_settings(self) -> dict[str, Any]:
        """Return the settings by their names in `WasmRuntimeConfig`."""
        names = {each.name for each in fields(FileSettings)} - set(_ELSEWHERE)
        settings = {name: getattr(self, name) for name in names}
        settings["cache_max_bytes"] = self.cache.max_compiled_bytes
        return settings | self.audit.as_runtime_settings() | dict(self.runtime)

    def open_secrets(self, *, later: bool = False) -> SecretsStore:
        """Open the file's store of credentials; the variable WASMRT_SECRETS_BACKEND overrides the file.

        With `later`, if no backend is set, a keyring is detected only when the store is first used.

        Raises:
            ConfigurationError, SecretBackendError: see `open_store`, or a command is set for another backend.
        """
        from wasmrt.egress.secrets import open_store, open_store_later  # keyrings and ciphers, which few commands need

        chosen = (os.environ.get("WASMRT_SECRETS_BACKEND"), self.secrets_backend)
        if self.secrets_command and "command" not in chosen:
            hint = f"{set_command('secrets.backend', 'command')}, or {unset_command('secrets.command')}"
            raise ConfigurationError("command in [secrets] is only used by the backend 'command'", hint=hint)
        if self.vault != VaultSettings() and "vault" not in chosen:
            hint = set_command("secrets.backend", "vault")
            raise ConfigurationError("vault_... in [secrets] is only used by the backend 'vault'", hint=hint)
        return (open_store_later if later else open_store)(
            find_places().data,
            backend=chosen[0] or chosen[1],
            command=self.secrets_command,
            vault=(lambda: VaultSecrets(self.vault, self.network)) if self.vault.address else None,
        )

    def store_place(self, file: Path) -> Path | Postgres:
        """Return where a store is: in the database, or else in `file`. See `DatabaseSettings.place`."""
        return self.database.place(file, self.read_secret)

    def shared_catalog(self) -> tuple[Postgres, Callable[[], bytes]] | None:
        """Return the place and the key of the catalog that hosts share, or None. See `DatabaseSettings`."""
        return self.database.shared_catalog(self.read_secret)

    def read_secret(self, name: str) -> str:
        """Return a secret of the operator, for the section [database]."""
        from wasmrt.egress.secrets import DEFAULT_USER

        return self.open_secrets().get(DEFAULT_USER, name).reveal()

    def rate_limiter(self) -> RateLimiter:
        """Return a rate limiter with the file's settings."""
        fallback = self.unsafe_rate_limits_without_redis
        return RateLimiter(redis_url=self.rate_limit_storage, unsafe_without_redis=fallback)


def read_file_settings(path: Path, read_more: ReadMore | None = None) -> FileSettings:
    """Read a TOML file. If it does not exist, return the defaults.

    `read_more` reads the sections of an agent's policy; without it, they are ignored.

    Raises:
        ConfigFileError: the file cannot be read, or contains an unknown section, an unknown key or an invalid value. If
            the file is valid TOML, the error lists every mistake.
    """
    text = read_config_text(path)
    return FileSettings(NetworkConfig()) if text is None else parse_file_settings(path, text, read_more)


def read_config_text(path: Path) -> bytes | None:
    """Return the content of the operator's file, or None if it does not exist.

    Raises:
        ConfigFileError: the file cannot be read, or is too large.
    """
    try:
        return read_file(path, max_bytes=MAX_CONFIG_FILE_BYTES, follow_link=True)
    except FileNotFoundError:
        return None
    except UnfitFileError as error:
        if error.reason is not Unfit.TOO_LARGE:
            raise ConfigFileError(str(path), f"the file {error.reason}", hint="use a regular file") from None
        raise ConfigFileError(
            str(path),
            f"the file has more than {MAX_CONFIG_FILE_BYTES:,} bytes",
            hint="remove comments and settings that you do not need",
        ) from None
    except OSError as error:
        raise ConfigFileError(
            str(path), f"cannot read the file ({error.strerror})", hint="check its owner and permissions"
        ) from error


def parse_file_settings(path: Path, text: bytes, read_more: ReadMore | None = None) -> FileSettings:
    """Return the settings of a text that is, or will be, the file at `path`.

    Raises:
        ConfigFileError: see `read_file_settings`.
    """
    mistakes: list[Mistake] = []
    tree = _parse_toml(path, text)
    values = {
        name: _read_values(name, section, path.parent, mistakes) for name, section in _split_sections(tree, mistakes)
    }
    if problem := check_workspace(values["workspace"]):
        mistakes.append(Mistake("workspace.per_user", problem, 'write it like path = "files"'))
    if not mistakes and (refused := check_web_search(values["web_search"])) is not None:
        mistakes.append(Mistake("web_search", refused.message, refused.hint))
    resource = read_resource(values["serve"], mistakes)
    if read_more is not None:
        read_more(tree, path.parent, mistakes)
    _raise_mistakes(path, mistakes, text)
    network = values["network"]
    own = {key: network.pop(key) for key in _OWN if key in network}
    secrets = values["secrets"]
    vault = {key.removeprefix("vault_"): secrets.pop(key) for key in tuple(secrets) if key.startswith("vault_")}
    own |= values["guests"] | values["leaks"] | secrets | values["explain"]
    audited, runtime = AuditSettings(**values["audit"]), runtime_settings(values)
    extensions, skills = ExtensionSettings(**values["extensions"]), SkillSettings(**values["skills"])
    return FileSettings(
        NetworkConfig(**network),
        **own,
        audit=audited,
        vault=VaultSettings(**vault),
        cache=CacheSettings(**values["cache"]),
        runtime=runtime,
        code_mode=values["code_mode"].get("enabled", False),
        telemetry=values["telemetry"].get("enabled", False),
        shell=ShellSettings(**values["shell"]),
        extensions=extensions,
        skills=skills,
        desktop=DesktopSettings(**values["desktop"]),
        jobs=JobSettings(**values["jobs"]),
        install=InstallPolicy(**values["install"]),
        resource=resource,
        database=DatabaseSettings(**values["database"]),
    )


def _raise_mistakes(path: Path, mistakes: Sequence[Mistake], text: bytes) -> None:
    """Raise an error that lists every mistake in order; do nothing if there are no mistakes."""
    if not mistakes:
        return
    lines = find_lines(text.decode())
    mistakes = [_add_line(mistake, lines) for mistake in mistakes]
    listed = tuple((m.key, f"{m.problem}; {m.hint}" if m.hint else m.problem) for m in mistakes)
    if len(mistakes) == 1:
        only = mistakes[0]
        raise ConfigFileError(str(path), f"{only.key} {only.problem}", problems=listed, hint=only.hint)
    every = "; ".join(f"{mistake.key} {mistake.problem}" for mistake in mistakes)
    raise ConfigFileError(str(path), f"{len(mistakes)} mistakes: {every}", problems=listed)


def _add_line(mistake: Mistake, lines: Mapping[str, int]) -> Mistake:
    line = lines.get(mistake.key.strip("[]"))
    return mistake if line is None else mistake._replace(problem=f"{mistake.problem} (line {line})")


def _parse_toml(path: Path, text: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(text.decode())
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise ConfigFileError(str(path), f"line {line} is not UTF-8", hint="save the file as UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        message, _, place = str(error).removesuffix(")").rpartition(" (at ")
        last = text.count(b"\n") + 1
        where = place if place.startswith("line") else f"the last line ({last})"
        raise ConfigFileError(
            str(path),
            f"{where} is not valid TOML ({message[:1].lower()}{message[1:]})",
            hint='write [network], followed by lines such as ca_file = "/etc/my-ca.pem"',
        ) from error
    except (ValueError, RecursionError) as error:  # a number with thousands of digits, or deeply nested brackets
        hint = f"the known keys of [network] are {', '.join(_READERS)}"
        raise ConfigFileError(str(path), "a value is nested too deeply or too long", hint=hint) from error


def _split_sections(tree: dict[str, Any], mistakes: list[Mistake]) -> list[tuple[str, dict[str, Any]]]:
    """Return every known section, with an empty dict for a missing one. Report all other content as mistakes."""
    sections = {name: tree[name] if isinstance(tree.get(name), dict) else {} for name in _SECTIONS}
    known = ", ".join(f"[{name}]" for name in (*_SECTIONS, *POLICY_SECTIONS))
    for name, value in tree.items():
        if name in POLICY_SECTIONS:
            continue
        home = next((section for section, readers in _SECTIONS.items() if name in readers), None)
        if name in _SECTIONS and not isinstance(value, dict):
            mistakes.append(Mistake(name, "must be a section", f"write [{name}] on a line, followed by its keys"))
        elif home is not None and name not in _SECTIONS:
            mistakes.append(Mistake(name, "is outside of its section", f"move it below the line [{home}]"))
        elif name not in _SECTIONS:
            shown = f"[{name}]" if isinstance(value, dict) else name
            mistakes.append(Mistake(shown, "is not known", f"the known sections are {known}"))
    return list(sections.items())


def _read_values(name: str, section: dict[str, Any], folder: Path, mistakes: list[Mistake]) -> dict[str, Any]:
    """Read every value separately, so that every mistake is found."""
    readers = {key: partial(_read_in, folder, read) for key, read in _SECTIONS[name].items()}
    found = read_table(section, Place((name,)), readers, mistakes, example="")
    return {key: value for values in found.values() for key, value in values.items()}


def _read_in(folder: Path, read: ValueReader, value: Any) -> dict[str, Any]:
    return read(value, folder)


def _read_ca_file(value: Any, folder: Path) -> dict[str, Any]:
    if not isinstance(value, str):
        raise ConfigurationError("ca_file must be a path", hint='write it like ca_file = "/etc/my-ca.pem"')
    # SECURITY: a relative path is relative to the configuration file, not to the working directory.
    return validated("ca_file", NetworkConfig)(folder / value, folder)


def _read_rate_limit_storage(value: Any, _: Path) -> dict[str, Any]:
    if not isinstance(value, str) or not value.startswith(("redis://", "rediss://")):
        # The value may contain a password, so it is not part of the message.
        raise ConfigurationError(
            "rate_limit_storage must be a Redis URL",
            hint='write it like "redis://127.0.0.1:6379/0", or rediss:// for TLS',
        )
    return {"rate_limit_storage": value}


def _read_isolation(value: Any, _: Path) -> dict[str, Any]:
    try:
        return {"isolation": Isolation(value)}
    except ValueError:
        known = ", ".join(f'"{each}"' for each in Isolation)
        raise ConfigurationError(f"isolation must be one of {known}", hint='write it like "required"') from None


def _read_max_segment_bytes(value: Any, _: Path) -> dict[str, Any]:
    if not isinstance(value, int) or isinstance(value, bool) or value < MIN_SEGMENT_BYTES:
        raise ConfigurationError(
            f"max_segment_bytes must be a whole number, at least {MIN_SEGMENT_BYTES:,}",
            hint="write it like max_segment_bytes = 16_777_216",
        )
    return {"max_segment_bytes": value}


_READERS: dict[str, ValueReader] = {
    "unsafe_allowed_networks": validated("unsafe_allowed_networks", NetworkConfig),
    "ca_file": _read_ca_file,
    "hosts": read_hosts,
    "max_connections": validated("max_connections", NetworkConfig),
    "connect_timeout_seconds": validated("connect_timeout_seconds", NetworkConfig),
    "unsafe_unscanned_hosts": validated("unsafe_unscanned_hosts", NetworkConfig),
    "unsafe_unscanned_responses": validated("unsafe_unscanned_responses", NetworkConfig),
    "rate_limit_storage": _read_rate_limit_storage,
    "unsafe_rate_limits_without_redis": boolean_reader("unsafe_rate_limits_without_redis"),
}
_OWN = ("rate_limit_storage", "unsafe_rate_limits_without_redis")
"""Keys of [network] that do not belong to `NetworkConfig`."""
_SECTIONS: dict[str, dict[str, ValueReader]] = {
    _SECTION: _READERS,
    "guests": {"isolation": _read_isolation},
    "audit": {
        "enabled": boolean_reader("enabled"),
        "path": make_path_reader("path", "folder", "/var/lib/wasmrt/receipts"),
        "record": boolean_reader("record"),
        "max_segment_bytes": _read_max_segment_bytes,
    },
    "code_mode": {"enabled": boolean_reader("enabled")},
    "telemetry": {"enabled": boolean_reader("enabled")},
    **LEAK_SECTION,
    **VALUE_SECTIONS,
    **EXTENSION_SECTIONS,
    **SERVE_SECTIONS,
    **DATABASE_SECTION,
    **INSTALL_SECTION,
}
