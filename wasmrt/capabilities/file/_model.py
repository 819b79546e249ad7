"""A capability file: the requested capabilities, the description of the tool, and the sections `auth` and `setup`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from wasmrt.capabilities._capabilities import Capabilities, ToolGrant, read_sections
from wasmrt.capabilities._fields import drop_zero_fraction
from wasmrt.capabilities.kinds._login import LoginCapability, OAuthConfig, read_oauth
from wasmrt.capabilities.sections import SECTIONS
from wasmrt.core.limits import MAX_DESCRIPTION_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationEndpoint:
    """A request that checks whether a credential works."""

    url: str
    method: str = "GET"
    success_status: int = 200
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthSection:
    """The way in which a user provides one credential."""

    secret_name: str
    display_name: str | None = None
    instructions: str | None = None
    setup_url: str | None = None
    token_hint: str | None = None
    env_var: str | None = None
    provider: str | None = None
    optional: bool = False
    oauth: OAuthConfig | None = None
    validation_endpoint: ValidationEndpoint | None = None

    @property
    def vendor(self) -> str:
        """The name for `wasmrt auth --vendor`: the provider or, without a provider, the name of the secret."""
        return self.provider or self.secret_name

    @property
    def login(self) -> LoginCapability | None:
        """The OAuth login of this section, or None if the credential is provided in another way."""
        return None if self.oauth is None else LoginCapability(self.vendor, self.secret_name, self.oauth)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupSecret:
    """A secret that the user enters before the first run."""

    name: str
    prompt: str = ""
    optional: bool = False


def build_auth(tree: dict[str, Any]) -> AuthSection:
    """Build the section from its validated JSON data."""
    plain = {key: value for key, value in tree.items() if key not in ("oauth", "validation_endpoint")}
    oauth, validation = tree.get("oauth"), tree.get("validation_endpoint")
    return AuthSection(
        **plain,
        oauth=None if oauth is None else read_oauth(oauth),
        validation_endpoint=None
        if validation is None
        else ValidationEndpoint(**validation | {"headers": _read_pairs(validation.get("headers", {}))}),
    )


def build_setup(tree: dict[str, Any]) -> tuple[SetupSecret, ...]:
    """Return the secrets in the validated JSON data of a `setup` section, required ones first."""
    asked = [(item, False) for item in tree.get("required_secrets", ())]
    asked += [(item, True) for item in tree.get("optional_secrets", ())]
    return tuple(
        SetupSecret(name=item["name"], prompt=item.get("prompt", ""), optional=item.get("optional", optional))
        for item, optional in asked
    )


def _read_pairs(tree: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(tree.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilityFile:
    """One capability file. Two files are equal if they differ only in layout or in accepted spellings of keys."""

    capabilities: Capabilities = field(default_factory=Capabilities)
    description: str | None = None
    version: str | None = None
    wit_version: str | None = None
    auth: AuthSection | None = None
    logins: tuple[AuthSection, ...] = ()
    """Logins for further vendors, each for a different secret."""
    setup_secrets: tuple[SetupSecret, ...] = ()
    """The secrets of the section `setup`, required ones first."""
    sections: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """The remaining descriptive sections (`setup`, `discovery_summary` and others) as validated JSON data."""

    def __post_init__(self) -> None:
        # A login is described in two places: as a section for the user, and as a capability.
        logins = tuple(login for section in self.every_login if (login := section.login) is not None)
        if logins != self.capabilities.logins:
            object.__setattr__(self, "capabilities", self.capabilities.with_logins(logins))

    @property
    def every_login(self) -> tuple[AuthSection, ...]:
        """The section `auth`, if there is one, and then all sections of `logins`."""
        return (*(() if self.auth is None else (self.auth,)), *self.logins)


def parse(data: str | bytes) -> CapabilityFile:
    """Read a capability file.

    Raises:
        CapabilityFileError: the file is invalid; `problems` lists every error with its JSON path.
    """
    capabilities, tree = read_sections(data)
    description = tree.get("description")
    return CapabilityFile(
        capabilities=capabilities,
        description=None if description is None else _cut(description),
        version=tree.get("version"),
        wit_version=tree.get("wit_version"),
        auth=build_auth(tree["auth"]) if "auth" in tree else None,
        logins=tuple(build_auth(login | {"provider": vendor}) for vendor, login in tree.get("logins", {}).items()),
        setup_secrets=build_setup(tree.get("setup", {})),
        sections={key: tree[key] for key in SECTIONS if key in tree},
    )


def _cut(text: str) -> str:
    return text.encode()[:MAX_DESCRIPTION_BYTES].decode(errors="ignore")


_WIDTH = 110


def format_file(file: CapabilityFile | Capabilities) -> str:
    """Return the text of a capability file, with a newline at the end. `parse` reads the text as an equal value."""
    return f"{_format(as_tree(file), 0)}\n"


def as_tree(file: CapabilityFile | Capabilities) -> dict[str, Any]:
    """Return the file as JSON data, in canonical order."""
    if isinstance(file, Capabilities):
        tree = _write_capabilities(file)
        return tree | ({"logins": {login.vendor: _write_login(login) for login in file.logins}} if file.logins else {})
    tree = {}
    if "$schema" in file.sections:
        tree["$schema"] = file.sections["$schema"]
    for key in ("description", "version", "wit_version"):
        if (value := getattr(file, key)) is not None:
            tree[key] = value
    tree |= _write_capabilities(file.capabilities)
    if file.auth is not None:
        tree["auth"] = _write_auth(file.auth)
    if file.logins:
        tree["logins"] = {login.vendor: _write_auth(replace(login, provider=None)) for login in file.logins}
    return tree | {key: value for key, value in file.sections.items() if key != "$schema"}


def _write_capabilities(capabilities: Capabilities) -> dict[str, Any]:
    tree = {part.section: part.as_json(None) for part in capabilities.parts}
    if overrides := capabilities.limits.overrides():
        tree["limits"] = {name: drop_zero_fraction(value) for name, value in overrides.items()}
    if capabilities.tools is not None:
        tree["tools"] = {tool.name: _write_tool(tool, capabilities) for tool in capabilities.tools}
    return tree


def _write_tool(tool: ToolGrant, component: Capabilities) -> dict[str, Any]:
    """Return the section of a tool as JSON data. It lists credentials of the component by name."""
    tree = {part.section: part.as_json(component.get(type(part))) for part in tool.capabilities.parts}
    theirs = () if component.http is None else component.http.credentials
    http = tool.capabilities.http
    known = [] if http is None else [mapping.name for mapping in http.credentials if mapping in theirs]
    first = {"http": tree["http"], "credentials": known} if known else {}
    return first | tree | ({} if tool.effects is None else {"effects": [str(effect) for effect in tool.effects]})


def _write_login(login: LoginCapability) -> dict[str, Any]:
    return _write_auth(AuthSection(secret_name=login.secret_name, oauth=login.oauth))


def _write_auth(auth: AuthSection) -> dict[str, Any]:
    names = [f.name for f in fields(auth) if f.name not in ("oauth", "validation_endpoint")]
    tree = _select_changed(auth, *names)
    for key in ("oauth", "validation_endpoint"):
        if (part := getattr(auth, key)) is not None:
            tree[key] = _select_changed(part, *(f.name for f in fields(part)))
    return tree


def _select_changed(owner: Any, *names: str) -> dict[str, Any]:
    """Return those of the named fields whose values differ from the defaults, as JSON data."""
    defaults = {f.name: f.default for f in fields(owner)}
    values = {name: getattr(owner, name) for name in names if getattr(owner, name) != defaults[name]}
    return {name: _as_json(name, value) for name, value in values.items()}


def _as_json(name: str, value: Any) -> Any:
    if isinstance(value, tuple):
        return dict(value) if name in ("extra_params", "headers") else list(value)
    return value


def _measure_depth(value: Any) -> int:
    if not isinstance(value, (dict, list)):
        return 0
    members = value.values() if isinstance(value, dict) else value
    return 1 + max((_measure_depth(member) for member in members), default=0)


def _format(value: Any, indent: int) -> str:
    flat = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, (dict, list)) or not value:
        return flat
    if indent > 2 and _measure_depth(value) <= 2 and indent + len(flat) < _WIDTH:
        return flat
    inner, pad = " " * (indent + 2), " " * indent
    if isinstance(value, list):
        lines = [f"{inner}{_format(item, indent + 2)}" for item in value]
        return "[\n" + ",\n".join(lines) + f"\n{pad}]"
    lines = [
        f"{inner}{json.dumps(key, ensure_ascii=False)}: {_format(item, indent + 2)}" for key, item in value.items()
    ]
    return "{\n" + ",\n".join(lines) + f"\n{pad}}}"
