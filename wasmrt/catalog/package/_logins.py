"""Read the logins of a package from its manifest, and the operator's settings for the logins' clients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from wasmrt.capabilities.file import AuthSection, OAuthConfig
from wasmrt.catalog.package._manifest import Manifest
from wasmrt.core.names import setting_secret_name


class Logins(NamedTuple):
    """The logins of a package, in the order of the manifest."""

    sections: tuple[AuthSection, ...]
    instead: Mapping[str, str]
    """For vendors with several secrets: maps their names to the name of the secret that the login sets."""
    left: tuple[str, ...]
    """Sentences about parts of the manifest that were omitted."""


def read_logins(manifest: Manifest) -> Logins:
    """Return the login of each vendor that provides a credential.

    SECURITY: a login sets one secret, which all credentials of its vendor use. `read_manifest` has already refused
    manifests in which two vendors share a secret.
    """
    handles: dict[str, dict[str, None]] = {}
    scopes: dict[str, dict[str, None]] = {}
    for tool in manifest.tools:
        for credential in tool.get("credentials", ()):
            handles.setdefault(credential["vendor"], {})[credential["handle"]] = None
            scopes.setdefault(credential["vendor"], {}).update(dict.fromkeys(credential.get("scopes", ())))
    sections: list[AuthSection] = []
    left: list[str] = []
    instead: dict[str, str] = {}
    for vendor, login in manifest.logins.items():
        if vendor not in handles:
            left.append(f"[auth.{vendor}] was omitted: no tool uses its credential")
            continue
        first, *others = handles[vendor]
        section = _make_section(vendor, first, login, tuple(scopes[vendor]))
        sections.append(section)
        left += [f"[auth.{vendor}] {what}" for what in _not_followed(login)]
        if section.oauth is not None:
            instead |= dict.fromkeys(others, first)
            left += [f"[auth.{vendor}] sets {first}, which also replaces {other}" for other in others]
    return Logins(tuple(sections), instead, tuple(left))


def settings_of(manifest: Manifest) -> dict[str, Any]:
    """Return the settings that the operator enters, as a section `setup` of a capability file.

    The name of a setting for the client of a login begins with the package's name, so that other packages cannot use
    the client.
    """
    clients = {handle for login in manifest.logins.values() for handle in login.get("client_credentials", {}).values()}
    asked: dict[str, list[dict[str, str]]] = {"required_secrets": [], "optional_secrets": []}
    for item in manifest.settings:
        told = ": ".join(filter(None, (item.get("label"), item.get("description"))))
        kind = "required_secrets" if item.get("required", False) else "optional_secrets"
        name = setting_secret_name(manifest.id, item["handle"]) if item["handle"] in clients else item["handle"]
        asked[kind].append({"name": name} | ({"prompt": told} if told else {}))
    listed = {kind: items for kind, items in asked.items() if items}
    return {"setup": listed} if listed else {}


def _make_section(vendor: str, handle: str, login: Mapping[str, Any], scopes: tuple[str, ...]) -> AuthSection:
    return AuthSection(
        secret_name=handle,
        display_name=login.get("display_name"),
        instructions=login.get("instructions"),
        setup_url=login.get("setup_url"),
        provider=vendor,
        oauth=_make_oauth(login, scopes) if _is_by_browser(login) else None,
    )


def _make_oauth(login: Mapping[str, Any], scopes: tuple[str, ...]) -> OAuthConfig:
    client = login.get("client_credentials", {})
    scopes = tuple(login.get("scopes", scopes))
    extra = dict(login.get("extra_authorize_params", {}))
    if (parameter := login.get("scope_param", "scope")) != "scope":
        extra[parameter], scopes = " ".join(scopes), ()
    token = login.get("token_response", {}).get("access_token", "/access_token")
    return OAuthConfig(
        authorization_url=login["authorization_endpoint"],
        token_url=login["token_endpoint"],
        client_id_env=_get_variable(client.get("client_id_handle")),
        client_secret_env=_get_variable(client.get("client_secret_handle")),
        scopes=scopes,
        extra_params=tuple(sorted(extra.items())),
        access_token_field=str(token).lstrip("/").replace("/", "."),
    )


def _is_by_browser(login: Mapping[str, Any]) -> bool:
    """Return whether a login of a manifest is an OAuth login in the browser, which `wasmrt auth` supports."""
    return login.get("method") == "oauth2_code" and {"authorization_endpoint", "token_endpoint"} <= login.keys()


def _get_variable(handle: str | None) -> str | None:
    """Return the name of the environment variable for a setting: the setting's name in upper case, with underscores."""
    return None if handle is None else handle.upper().replace("-", "_").replace(".", "_")


def _not_followed(login: Mapping[str, Any]) -> Iterator[str]:
    if login["method"] not in ("oauth2_code", "api_key"):
        yield f"has the unknown login method {login['method']!r}; set the secret directly"
    for key in ("validation", "revocation", "token_exchange"):
        if key in login:
            yield f"{key} is ignored"
