"""The section [install] of the operator's configuration file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wasmrt.catalog.policy import InstallPolicy, RequiredSigner
from wasmrt.core.errors import ConfigurationError, SourceError
from wasmrt.core.strict_toml import ValueReader, texts
from wasmrt.egress.gateway import read_host
from wasmrt.runtime.config_values import boolean_reader

_MAX_SIGNERS = 256
_EXAMPLE = 'write it like acme = { source = "https://example.com/acme/", key = "acme.pub" }'
_KEYS = RequiredSigner._fields


def _read_hosts(value: Any, _: Path) -> dict[str, Any]:
    hosts = texts(value)
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
        or set(value) != {*_KEYS}
        or not all(isinstance(each, str) for each in value.values())
    ):
        raise ConfigurationError(f"{name!r:.80} must have exactly the keys {', '.join(_KEYS)}", hint=_EXAMPLE)
    source = value["source"]
    if not source.startswith(("https://", "oci://", "/")):
        raise ConfigurationError(f"source must be a URL or an absolute folder, got {source!r:.80}", hint=_EXAMPLE)
    try:
        InstallPolicy().signers_for(source)
    except (SourceError, ValueError) as error:
        raise ConfigurationError(f"source of {name!r:.80} is not valid: {error}", hint=_EXAMPLE) from None
    # SECURITY: a relative path is relative to the configuration file, not to the working directory.
    return RequiredSigner(source, folder / value["key"])


INSTALL_SECTION: dict[str, dict[str, ValueReader]] = {
    "install": {
        "hosts": _read_hosts,
        "require_signatures": boolean_reader("require_signatures"),
        "signers": _read_signers,
    }
}
