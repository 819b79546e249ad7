"""Read files of known services. The files are strict TOML, and all errors are reported together."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from wasmrt.capabilities.model import METHODS, PathPattern, path_pattern, read_path_pattern
from wasmrt.capabilities.services._match import Power, Service
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.strict_toml import Mistake, Place, Reader, find_lines, read_table, read_texts, read_toml

_MAX_SERVICES = 1000
_HOST = re.compile(r"(?:\*\.)?[a-z0-9-]+(?:\.(?:[a-z0-9-]+|\*))*\Z")
_ENDS = "$"
"""The end of a path without subpaths."""
_EXAMPLE = 'write [[service]], and below it name = "Desk" and hosts = ["desk.example.com"]'


@lru_cache(maxsize=1)
def known_services() -> tuple[Service, ...]:
    """Return the services that ship with wasmrt."""
    return read_services(Path(__file__).with_name("services.toml").read_bytes())


def read_services(data: bytes) -> tuple[Service, ...]:
    """Parse a TOML file of services.

    Raises:
        ConfigurationError: the file is not valid TOML, or has unknown or invalid keys; the message lists every error.
    """
    try:
        text = data.decode()
        tree = read_toml(data)
    except ValueError as error:
        raise ConfigurationError(f"the services file is not valid TOML: {error}", hint=_EXAMPLE) from None
    mistakes: list[Mistake] = []
    listed = tree.pop("service", [])
    if not isinstance(listed, list) or not all(isinstance(item, dict) for item in listed):
        mistakes.append(Mistake("service", "must be a list of sections", _EXAMPLE))
        listed = []
    mistakes += [Mistake(str(key), "is not known", _EXAMPLE) for key in tree]
    if len(listed) > _MAX_SERVICES:
        raise ConfigurationError(
            f"the services file has more than {_MAX_SERVICES} services", hint="remove some of them"
        )
    found = tuple(_read_service(item, index, mistakes) for index, item in enumerate(listed))
    if mistakes:
        lines = find_lines(text)
        told = "; ".join(f"{m.key} {m.problem}{_format_line_number(lines, m.key)}" for m in mistakes)
        raise ConfigurationError(f"invalid services file: {told}", hint=mistakes[0].hint)
    return found


def _format_line_number(lines: Mapping[str, int], key: str) -> str:
    return f" (line {lines[key]})" if key in lines else ""


def _read_service(tree: dict[str, Any], index: int, mistakes: list[Mistake]) -> Service:
    place = Place((f"service[{index}]",))
    values = read_table(tree, place, _SERVICE, mistakes, example=_EXAMPLE)
    for key in ("name", "hosts"):
        if key not in tree:
            mistakes.append(Mistake(str(place.at(key)), "is missing", _EXAMPLE))
    powers = values.pop("can", ())
    made = [
        Power(**read_table(power, place.at(f"can[{at}]"), _POWER, mistakes, example=_EXAMPLE))
        for at, power in enumerate(powers)
    ]
    return Service(**{"name": "", "hosts": ()} | values, can=tuple(made))


def _read_words(value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 200 or not value.isprintable():
        raise ConfigurationError("must be a string of up to 200 printable characters")
    return value


def _read_hosts(value: Any) -> tuple[str, ...]:
    found = read_texts(value)
    for host in found:
        if not _HOST.match(host):
            raise ConfigurationError(f"has an invalid host: {host!r}", hint='write it like "api.example.com"')
    return found


def _read_paths(value: Any) -> tuple[PathPattern, ...]:
    found = read_texts(value)
    return tuple(
        path_pattern(read_path_pattern(path.removesuffix(_ENDS)), is_exact=path.endswith(_ENDS)) for path in found
    )


def _read_methods(value: Any) -> tuple[str, ...]:
    found = read_texts(value)
    for method in found:
        if method not in METHODS:
            raise ConfigurationError(f"has an unknown method: {method!r}; use one of {', '.join(METHODS)}")
    return found


def _read_powers(value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value) or len(value) > 100:
        raise ConfigurationError("must be a list of up to 100 tables", hint='like { as_you = "read your notes" }')
    return tuple(value)


def _read_scopes(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or len(value) > 1000:
        raise ConfigurationError("must be a table of up to 1000 scopes", hint='like { "notes" = "read your notes" }')
    return {scope: _read_words(words) for scope, words in value.items()}


_SERVICE: dict[str, Reader] = {
    "name": _read_words, "hosts": _read_hosts, "can": _read_powers, "login": _read_hosts, "scopes": _read_scopes,
}  # fmt: skip
_POWER: dict[str, Reader] = {
    "methods": _read_methods, "paths": _read_paths, "as_you": _read_words, "anybody": _read_words,
}  # fmt: skip
