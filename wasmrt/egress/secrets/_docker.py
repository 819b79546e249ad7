"""Logins for registries from Docker's `config.json`, which clients other than Docker also use."""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wasmrt.core.errors import SecretBackendError
from wasmrt.core.files import read_file
from wasmrt.core.limits import MAX_DOCKER_CONFIG_BYTES, SECRET_COMMAND_SECONDS
from wasmrt.core.strict_json import JsonError, read_json
from wasmrt.egress.secrets._command import read_command_output
from wasmrt.egress.secrets._types import Secret

_HELPER = re.compile(r"[A-Za-z0-9._-]{1,64}")
_IDENTITY_TOKEN = "<token>"  # noqa: S105 - the user name that marks an identity token
_MAX_DEPTH = 16
_LOG_IN = "log in again: docker login HOST"


def find_registry_login(host: str, environ: Mapping[str, str] = os.environ) -> Secret | None:
    """Return the value of the Authorization header for a registry, or None if Docker's file has no login for it.

    `host` includes the port, unless it is 443. The file is `$DOCKER_CONFIG/config.json` or `~/.docker/config.json`.

    SECURITY: a login is only returned for the host and port under which the user stored it. The name of a helper is
    checked, because it becomes the name of a program.

    Raises:
        SecretBackendError: the file or a login is invalid, or a helper failed.
    """
    folder = Path(environ["DOCKER_CONFIG"]) if environ.get("DOCKER_CONFIG") else Path.home() / ".docker"
    tree = _read(folder / "config.json")
    entries = _read_mapping(tree.get("auths"), "auths")
    entry = next((entries[key] for key in entries if key.removeprefix("https://").removesuffix("/") == host), None)
    helper = _read_mapping(tree.get("credHelpers"), "credHelpers").get(host)
    if helper is None and entry is not None:
        helper = tree.get("credsStore")  # Docker adds an empty entry for each login in this store
    if helper is not None:
        return _ask_helper(helper, host)
    return None if entry is None else _read_entry(_read_mapping(entry, f"auths.{host}"), host)


def _read(path: Path) -> dict[str, Any]:
    try:
        data = read_file(path, max_bytes=MAX_DOCKER_CONFIG_BYTES, follow_link=True)
        tree = read_json(data, max_bytes=MAX_DOCKER_CONFIG_BYTES, max_depth=_MAX_DEPTH)
    except FileNotFoundError:
        return {}
    except (OSError, JsonError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not JSON within the bounds"
        raise _make_invalid_error(
            f"the file cannot be read ({reason})"
        ) from None  # SECURITY: a JsonError may quote the file
    return _read_mapping(tree, "the file")


def _read_mapping(value: object, place: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _make_invalid_error(f"{place} must be an object")
    return value


def _read_entry(entry: Mapping[str, Any], host: str) -> Secret | None:
    if entry.get("identitytoken"):
        raise _identity_token(host)
    encoded = entry.get("auth")
    if not encoded:
        return None
    try:
        pair = base64.b64decode(encoded, validate=True).decode()
    except (TypeError, binascii.Error, UnicodeDecodeError):
        pair = ""
    user, colon, password = pair.partition(":")
    if not colon:
        raise _make_invalid_error(f"auths.{host}.auth must be base64 of USER:PASSWORD")
    return _make_basic(user, password.rstrip("\0"), host)


def _ask_helper(helper: object, host: str) -> Secret:
    if not isinstance(helper, str) or not _HELPER.fullmatch(helper):
        raise _make_invalid_error(
            "the name of a credential helper must consist of letters, digits, dots, dashes and underscores"
        )
    label = f"docker-credential-{helper}"
    output = read_command_output(
        (label, "get"),
        hint=f"install {label}, or {_LOG_IN.replace('HOST', host)}",
        timeout_seconds=SECRET_COMMAND_SECONDS,
        stdin=host.encode(),
        label=label,
    )
    try:
        found = read_json(output, max_bytes=MAX_DOCKER_CONFIG_BYTES, max_depth=_MAX_DEPTH)
    except JsonError:
        found = None
    match found:
        case {"Username": str(user), "Secret": str(password)}:
            return _make_basic(user, password, host)
    raise SecretBackendError(f"{label} printed no user name and secret", hint=f"run it yourself: {label} get")


def _make_basic(user: str, password: str, host: str) -> Secret:
    if user == _IDENTITY_TOKEN:
        raise _identity_token(host)
    return Secret("Basic " + base64.b64encode(f"{user}:{password}".encode()).decode())


def _identity_token(host: str) -> SecretBackendError:
    return SecretBackendError(
        f"the login for {host} is an identity token, which wasmrt does not support",
        hint="log in with a user name and an access token",
    )


def _make_invalid_error(problem: str) -> SecretBackendError:
    return SecretBackendError(f"Docker's config.json is invalid: {problem}", hint=_LOG_IN)
