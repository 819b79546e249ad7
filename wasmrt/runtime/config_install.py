"""The section [install] of the operator's configuration file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wasmrt.catalog.policy import InstallPolicy, RequiredSigner, check_list
from wasmrt.catalog.signing import without_tag
from wasmrt.core.errors import ConfigurationError, SourceError
from wasmrt.core.strict_toml import ValueReader, read_texts
from wasmrt.egress.gateway import read_host
from wasmrt.runtime.config_values import boolean_reader

_MAX_SIGNERS = 256
_EXAMPLE = (
    'write it like acme = { source = "https://example.com/acme/", key = "acme.pub" }, or with identity and issuer '
    'instead of key: { source = "oci://example.com/", identity = "ann@example.com", issuer = "https://example.com" }'
)
_KEY_FIELDS = {"source", "key"}
_IDENTITY_FIELDS = {"source", "identity", "issuer"}


def _read_hosts(value: Any, _: Path) -> dict[str, Any]:
    hosts = read_texts(value)
    for host in hosts:
        if "*" in host:
            raise ConfigurationError(f"hosts must not contain a pattern, got {host!r:.80}")
        read_host(host)
    return {"hosts": tuple(host.lower() for host in hosts)}


def _read_signers(value: Any, folder: Path) -> dict[str, Any]:
    if not isinstance(value, dict) or len(value) > _MAX_SIGNERS:
        raise ConfigurationError(f"signers must be a section of at most {_MAX_SIGNERS} tables", hint=_EXAMPLE)
    return {"signers": tuple(_read_signer(name, each, folder) for name, each in value.items())}


def _read_signer(name: str, value: Any, folder: Path) -> RequiredSigner:
    if (
        not isinstance(value, dict)
        or {*value} - {"repository"} not in (_KEY_FIELDS, _IDENTITY_FIELDS)
        or {"key", "repository"} <= {*value}
        or not all(isinstance(each, str) and each for each in value.values())
    ):
        message = f"{name!r:.80} must have a source, and either a key, or an identity and its issuer"
        raise ConfigurationError(message, hint=_EXAMPLE)
    source = value["source"]
    if not source.startswith(("https://", "oci://", "/")):
        raise ConfigurationError(f"source must be a URL or an absolute folder, got {source!r:.80}", hint=_EXAMPLE)
    try:
        InstallPolicy().list_signers(source)
    except (SourceError, ValueError) as error:
        raise ConfigurationError(f"source of {name!r:.80} is not valid: {error}", hint=_EXAMPLE) from None
    if (identity := value.get("identity", "")) != without_tag(identity):
        hint = f"write {without_tag(identity)!r}"
        raise ConfigurationError(
            f"identity of {name!r:.80} must not name one tag, since each release has its own", hint=hint
        )
    # SECURITY: a relative path is relative to the configuration file, not to the working directory.
    return RequiredSigner(**value | ({"key": folder / value["key"]} if "key" in value else {}))


def _read_search(value: Any, folder: Path) -> dict[str, Any]:
    return {"search": tuple(_read_list(text, folder) for text in read_texts(value))}


def _read_list(text: str, folder: Path) -> str:
    try:
        check_list(text)
    except SourceError as error:
        raise ConfigurationError(f"search: {error.message}") from None
    return text if "://" in text else str(folder / text)


def _read_root(value: Any, folder: Path) -> dict[str, Any]:
    if not isinstance(value, str) or not value:
        raise ConfigurationError(f"trusted_root must be the path of a file, got {value!r:.80}")
    return {"trusted_root": folder / value}


INSTALL_SECTION: dict[str, dict[str, ValueReader]] = {
    "install": {
        "hosts": _read_hosts,
        "require_signatures": boolean_reader("require_signatures"),
        "search": _read_search,
        "signers": _read_signers,
        "trusted_root": _read_root,
    }
}
