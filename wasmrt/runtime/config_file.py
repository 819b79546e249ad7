"""The operator's configuration file: strict TOML, every mistake reported at once."""

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
from wasmrt.core.errors import ConfigFileError, ConfigurationError
from wasmrt.core.files import Unfit, UnfitFileError, read_file
from wasmrt.core.limits import MAX_CONFIG_FILE_BYTES, MIN_SEGMENT_BYTES
from wasmrt.core.places import find_places
from wasmrt.core.strict_toml import Mistake, Place, ValueReader, lines_of, path_in, read_table
from wasmrt.core.url import AddressClass, InvalidUrlError, classify_address, parse_url
from wasmrt.egress.gateway import NetworkConfig, Resolver, ResolverForUsers, SystemResolver
from wasmrt.egress.leaks import DECODE_LIMIT_RULE, Action, Direction, LeakDetector, Overrides, Rule, read_rule_file
from wasmrt.egress.rates import RateLimiter
from wasmrt.runtime.config_extensions import EXTENSION_SECTIONS, DesktopSettings, ExtensionSettings, SkillSettings
from wasmrt.runtime.config_serve import SERVE_SECTIONS, ResourceSettings, read_resource
from wasmrt.runtime.config_values import (
    VALUE_SECTIONS,
    AuditSettings,
    ShellSettings,
    check_web_search,
    check_workspace,
    runtime_settings,
    switch,
)
from wasmrt.sandbox.guest.settings import DEFAULT_ISOLATION, Isolation

if TYPE_CHECKING:
    from wasmrt.egress.secrets import SecretsStore

_SECTION = "network"
POLICY_SECTIONS = ("tools", "presets", "approvals")
"""Sections of an agent's policy, which `wasmrt.agent.config` reads."""
ReadMore = Callable[[Mapping[str, Any], Path, list[Mistake]], None]
"""Reads the sections of `POLICY_SECTIONS` from the file's tables and the file's folder; appends to the mistakes."""


class HostsResolver:
    """Answers from an operator's table first, like a hosts file; every answer is checked like any other."""

    def __init__(self, hosts: Mapping[str, Sequence[str]], rest: Resolver) -> None:
        self._hosts = {name.lower(): tuple(addresses) for name, addresses in hosts.items()}
        self._rest = rest

    def known(self, host: str) -> tuple[str, ...] | None:
        """Return the addresses that the table has for a host, or None."""
        return self._hosts.get(host)

    def for_user(self, user: str) -> Resolver:
        """Return the resolver of one user, where the one behind this shares its lookups between users."""
        if isinstance(self._rest, ResolverForUsers):
            return HostsResolver(self._hosts, self._rest.for_user(user))
        return self

    def resolve(self, host: str, port: int, *, timeout_seconds: float) -> tuple[str, ...]:
        """Return the addresses of a host: those of the table, else those of the resolver behind it."""
        known = self.known(host)
        return known if known is not None else self._rest.resolve(host, port, timeout_seconds=timeout_seconds)


_ELSEWHERE = (
    *("services", "secrets_backend", "shell", "runtime", "telemetry", "extensions", "skills", "desktop"),
    *("resource", "code_mode"),
)
"""Settings of a registry and of commands, which a runtime has not."""


@dataclass(frozen=True)
class FileSettings:
    """The settings of the operator's file, without an agent's policy. The defaults apply if there is no file."""

    network: NetworkConfig
    rate_limit_storage: str | None = None
    """Of `WasmRuntimeConfig`: a redis:// URL, which may hold a password."""
    unsafe_rate_limits_without_redis: bool = False
    isolation: Isolation = DEFAULT_ISOLATION
    leak_rules: tuple[Rule, ...] = ()
    leak_overrides: Overrides = field(default_factory=lambda: MappingProxyType({}))
    audit: AuditSettings = field(default_factory=AuditSettings)
    runtime: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """Settings of `WasmRuntimeConfig` that the file sets by sections of its own: limits, rates, workspace."""
    secrets_backend: str | None = None
    """The backend that keeps secrets, unless the environment names another; None for the one that is found."""
    code_mode: bool = False
    """True where registries offer `run_code` and `search_tools`."""
    telemetry: bool = False
    """True where registries tell of their calls to the OpenTelemetry SDK of their program."""
    shell: ShellSettings = field(default_factory=ShellSettings)
    """Of the shell tool in a registry."""
    services: tuple[Service, ...] = ()
    """Services of this operator, which explanations know besides those that ship."""
    extensions: ExtensionSettings = field(default_factory=ExtensionSettings)
    skills: SkillSettings = field(default_factory=SkillSettings)
    desktop: DesktopSettings = field(default_factory=DesktopSettings)
    resource: ResourceSettings | None = None
    """Of `wasmrt serve --http` with access tokens of an authorization server."""

    def as_runtime_settings(self) -> dict[str, Any]:
        """Return the settings by their names in `WasmRuntimeConfig`."""
        names = {each.name for each in fields(FileSettings)} - set(_ELSEWHERE)
        settings = {name: getattr(self, name) for name in names}
        return settings | self.audit.as_runtime_settings() | dict(self.runtime)

    def open_secrets(self, *, later: bool = False) -> SecretsStore:
        """Open the store of credentials that the file names; the variable WASMRT_SECRETS_BACKEND wins over it.

        `later` looks for a keyring on first use alone, where none of them is named.

        Raises:
            ConfigurationError, SecretBackendError: as `open_store`.
        """
        from wasmrt.egress.secrets import (  # with keyrings and ciphers, which few commands need
            open_store,
            open_store_later,
        )

        backend = None if os.environ.get("WASMRT_SECRETS_BACKEND") else self.secrets_backend
        return (open_store_later if later else open_store)(find_places().data, backend=backend)

    def rate_limiter(self) -> RateLimiter:
        """Return a rate limiter as the file has it."""
        return RateLimiter(
            redis_url=self.rate_limit_storage, unsafe_without_redis=self.unsafe_rate_limits_without_redis
        )


def read_file_settings(path: Path, read_more: ReadMore | None = None) -> FileSettings:
    """Read `path`, a TOML file. If it does not exist, everything has its default.

    `read_more` reads the sections of an agent's policy; without it, they are passed over.

    Raises:
        ConfigFileError: the file cannot be read, a section or key in it is not known, or a value cannot be used;
            with every mistake of the file, once it is TOML.
    """
    try:
        text = read_file(path, max_bytes=MAX_CONFIG_FILE_BYTES, follow_link=True)
    except FileNotFoundError:
        return FileSettings(NetworkConfig())
    except UnfitFileError as error:
        if error.reason is not Unfit.TOO_LARGE:
            raise ConfigFileError(str(path), f"it {error.reason}", hint="write a plain file") from None
        raise ConfigFileError(
            str(path),
            f"it has more than {MAX_CONFIG_FILE_BYTES} bytes",
            hint=f"keep the [{_SECTION}] section and little else",
        ) from None
    except OSError as error:
        raise ConfigFileError(str(path), f"it cannot be read ({error.strerror})", hint="check who owns it") from error
    mistakes: list[Mistake] = []
    tree = _parsed(path, text)
    values = {name: _values(name, section, path.parent, mistakes) for name, section in _sections(tree, mistakes)}
    if problem := check_workspace(values["workspace"]):
        mistakes.append(Mistake("workspace.per_user", problem, 'write it like path = "files"'))
    if not mistakes and (refused := check_web_search(values["web_search"])) is not None:
        mistakes.append(Mistake("web_search", refused.message, refused.hint))
    resource = read_resource(values["serve"], mistakes)
    if read_more is not None:
        read_more(tree, path.parent, mistakes)
    _refuse(path, mistakes, text)
    network = values["network"]
    own = {key: network.pop(key) for key in _OWN if key in network}
    own |= values["guests"] | values["leaks"] | values["secrets"] | values["explain"]
    audited, runtime = AuditSettings(**values["audit"]), runtime_settings(values)
    told = values["telemetry"].get("enabled", False)
    extensions, skills = ExtensionSettings(**values["extensions"]), SkillSettings(**values["skills"])
    return FileSettings(
        NetworkConfig(**network),
        **own,
        audit=audited,
        runtime=runtime,
        code_mode=values["code_mode"].get("enabled", False),
        telemetry=told,
        shell=ShellSettings(**values["shell"]),
        extensions=extensions,
        skills=skills,
        desktop=DesktopSettings(**values["desktop"]),
        resource=resource,
    )


def _refuse(path: Path, mistakes: Sequence[Mistake], text: bytes) -> None:
    """Raise every mistake of the file, in its order; nothing where there is none."""
    if not mistakes:
        return
    lines = lines_of(text.decode())
    mistakes = [_with_line(mistake, lines) for mistake in mistakes]
    listed = tuple((m.key, f"{m.problem}; {m.hint}" if m.hint else m.problem) for m in mistakes)
    if len(mistakes) == 1:
        only = mistakes[0]
        raise ConfigFileError(str(path), f"{only.key} {only.problem}", problems=listed, hint=only.hint)
    every = "; ".join(f"{mistake.key} {mistake.problem}" for mistake in mistakes)
    raise ConfigFileError(str(path), f"{len(mistakes)} mistakes: {every}", problems=listed)


def _with_line(mistake: Mistake, lines: Mapping[str, int]) -> Mistake:
    line = lines.get(mistake.key.strip("[]"))
    return mistake if line is None else mistake._replace(problem=f"{mistake.problem} (line {line})")


def _parsed(path: Path, text: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(text.decode())
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise ConfigFileError(str(path), f"line {line} is not UTF-8", hint="save the file as UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        what, _, place = str(error).removesuffix(")").rpartition(" (at ")
        last = text.count(b"\n") + 1
        where = place if place.startswith("line") else f"line {last}, the last,"
        raise ConfigFileError(
            str(path),
            f"{where} is not TOML ({what[:1].lower()}{what[1:]})",
            hint='write [network], and below it lines like ca_file = "/etc/my-ca.pem"',
        ) from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, brackets in brackets
        hint = f"keep to the keys that are known: {', '.join(_READERS)}"
        raise ConfigFileError(str(path), "a value is nested too deeply or too long", hint=hint) from error


def _sections(tree: dict[str, Any], mistakes: list[Mistake]) -> list[tuple[str, dict[str, Any]]]:
    """Return each table that is known, empty where it is absent; whatever else the file holds is a mistake."""
    sections = {name: tree[name] if isinstance(tree.get(name), dict) else {} for name in _SECTIONS}
    known = ", ".join(f"[{name}]" for name in (*_SECTIONS, *POLICY_SECTIONS))
    for name, value in tree.items():
        if name in POLICY_SECTIONS:
            continue
        home = next((section for section, readers in _SECTIONS.items() if name in readers), None)
        if name in _SECTIONS and not isinstance(value, dict):
            mistakes.append(
                Mistake(name, "must be a section", f"write [{name}] in a line of its own, and its keys below")
            )
        elif home is not None and name not in _SECTIONS:
            mistakes.append(Mistake(name, "stands outside of its section", f"move it below a line that says [{home}]"))
        elif name not in _SECTIONS:
            shown = f"[{name}]" if isinstance(value, dict) else name
            mistakes.append(Mistake(shown, "is not known", f"all that the file may hold is a section {known}"))
    return list(sections.items())


def _values(name: str, section: dict[str, Any], folder: Path, mistakes: list[Mistake]) -> dict[str, Any]:
    """Read every value by itself, so that each mistake is found."""
    readers = {key: partial(_read_in, folder, read) for key, read in _SECTIONS[name].items()}
    found = read_table(section, Place((name,)), readers, mistakes, example="")
    return {key: value for values in found.values() for key, value in values.items()}


def _read_in(folder: Path, read: ValueReader, value: Any) -> dict[str, Any]:
    return read(value, folder)


def _network_setting(key: str) -> ValueReader:
    def read(value: Any, _: Path) -> dict[str, Any]:
        given = {key: value}
        NetworkConfig(**given)  # raises for this one alone
        return given

    return read


def _ca_file(value: Any, folder: Path) -> dict[str, Any]:
    if not isinstance(value, str):
        raise ConfigurationError("ca_file must be a path", hint='write it like ca_file = "/etc/my-ca.pem"')
    # SECURITY: a relative path counts from the file that holds it, not from where the command happens to be started.
    return _network_setting("ca_file")(folder / value, folder)


def _hosts(value: Any, _: Path) -> dict[str, Any]:
    hint = 'write it like hosts = { "api.internal" = ["10.0.0.5"] }'
    if not isinstance(value, dict):
        raise ConfigurationError("hosts must be a table of names and their addresses", hint=hint)
    for name, addresses in value.items():
        if not _is_host(name):
            raise ConfigurationError(f"hosts has {name!r:.80}, which is not the name of a host", hint=hint)
        if not isinstance(addresses, list) or not addresses or not all(map(_is_address, addresses)):
            raise ConfigurationError(f"hosts must give {name!r:.80} a list of IP addresses", hint=hint)
    return {"resolver": HostsResolver(value, SystemResolver())}


def _is_host(name: str) -> bool:
    try:
        return parse_url(f"https://{name}/").host == name.lower()
    except InvalidUrlError:
        return False


def _is_address(text: object) -> bool:
    return isinstance(text, str) and classify_address(text) is not AddressClass.UNREADABLE


def _rate_limit_storage(value: Any, _: Path) -> dict[str, Any]:
    if not isinstance(value, str) or not value.startswith(("redis://", "rediss://")):
        # It may hold a password and stays out of the message.
        raise ConfigurationError(
            "rate_limit_storage must be a URL of Redis",
            hint='write it like "redis://127.0.0.1:6379/0", or rediss:// for TLS',
        )
    return {"rate_limit_storage": value}


def _without_redis(value: Any, _: Path) -> dict[str, Any]:
    if not isinstance(value, bool):
        raise ConfigurationError("unsafe_rate_limits_without_redis must be true or false")
    return {"unsafe_rate_limits_without_redis": value}


def _isolation(value: Any, _: Path) -> dict[str, Any]:
    try:
        return {"isolation": Isolation(value)}
    except ValueError:
        known = ", ".join(f'"{each}"' for each in Isolation)
        raise ConfigurationError(f"isolation must be one of {known}", hint='write it like "required"') from None


def _leak_rules(value: Any, folder: Path) -> dict[str, Any]:
    if not isinstance(value, str):
        raise ConfigurationError("rules must be a path", hint='write it like rules = "leak-rules.toml"')
    rules = read_rule_file(folder / value)
    LeakDetector(rules=rules)  # refuses a name that is taken
    return {"leak_rules": rules}


def _leak_actions(value: Any, _: Path) -> dict[str, Any]:
    hint = 'write it like actions = { "jwt" = "warn", "gitlab-pat" = { inward = "block" } }'
    if not isinstance(value, dict):
        raise ConfigurationError("actions must be a table of rules and their actions", hint=hint)
    overrides: dict[str, Action | dict[Direction, Action]] = {}
    for rule, chosen in value.items():
        try:
            if isinstance(chosen, dict):
                overrides[rule] = {Direction(way): Action(action) for way, action in chosen.items()}
            else:
                overrides[rule] = Action(chosen)
        except ValueError:
            raise ConfigurationError(
                f"actions has {rule!r:.80} with something else than an action of {', '.join(Action)}", hint=hint
            ) from None
        # SECURITY: what could not be looked at is withheld. That is loosened for a host, under a name that says so.
        if rule == DECODE_LIMIT_RULE and chosen != Action.BLOCK:
            raise ConfigurationError(
                f"actions may not loosen {rule}", hint="name the host in network.unsafe_unscanned_hosts"
            )
    return {"leak_overrides": overrides}


def _audit_segment_bytes(value: Any, _: Path) -> dict[str, Any]:
    if not isinstance(value, int) or isinstance(value, bool) or value < MIN_SEGMENT_BYTES:
        raise ConfigurationError(
            f"max_segment_bytes must be a whole number, at least {MIN_SEGMENT_BYTES:,}",
            hint="write it like max_segment_bytes = 16_777_216",
        )
    return {"max_segment_bytes": value}


_READERS: dict[str, ValueReader] = {
    "unsafe_allowed_networks": _network_setting("unsafe_allowed_networks"),
    "ca_file": _ca_file,
    "hosts": _hosts,
    "max_connections": _network_setting("max_connections"),
    "connect_timeout_seconds": _network_setting("connect_timeout_seconds"),
    "unsafe_unscanned_hosts": _network_setting("unsafe_unscanned_hosts"),
    "rate_limit_storage": _rate_limit_storage,
    "unsafe_rate_limits_without_redis": _without_redis,
}
_OWN = ("rate_limit_storage", "unsafe_rate_limits_without_redis")
"""Keys of [network] that are not of `NetworkConfig`."""
_SECTIONS: dict[str, dict[str, ValueReader]] = {
    _SECTION: _READERS,
    "guests": {"isolation": _isolation},
    "leaks": {"rules": _leak_rules, "actions": _leak_actions},
    "audit": {
        "enabled": switch("enabled"),
        "path": path_in("path", "folder", "/var/lib/wasmrt/receipts"),
        "record": switch("record"),
        "max_segment_bytes": _audit_segment_bytes,
    },
    "code_mode": {"enabled": switch("enabled")},
    "telemetry": {"enabled": switch("enabled")},
    **VALUE_SECTIONS,
    **EXTENSION_SECTIONS,
    **SERVE_SECTIONS,
}
