"""Change single settings in the text of the configuration file; comments and order remain."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import tomlkit

from wasmrt.agent.config import parse_config
from wasmrt.core.errors import ConfigFileError, ConfigurationError
from wasmrt.core.files import replace_file
from wasmrt.core.setting_commands import write_dotted_key
from wasmrt.core.settings import Setting
from wasmrt.runtime.config_file import read_config_text

KeyPath = tuple[str, ...]


def value_at(tree: Any, path: KeyPath) -> Any:
    """Return the value at a path of parsed TOML, or None."""
    for name in path:
        tree = tree.get(name) if isinstance(tree, dict) else None
    return tree


def read_value(setting: Setting, text: str) -> Any:
    """Parse a value of the command line as TOML. The value of a text setting may also be text without quotes."""
    if isinstance(setting.example, str) and not text.startswith(('"', "'")):
        return text
    try:
        value = tomllib.loads(f"value = {text}\n")["value"] if text.isprintable() else text
    except (ValueError, RecursionError):
        return text
    whole = isinstance(value, int) and not isinstance(value, bool)
    return float(value) if whole and isinstance(setting.example, float) else value


def with_setting(text: str, path: KeyPath, value: Any) -> str:
    """Return the text of a file with a setting replaced or added.

    Raises:
        ConfigurationError: the path leads through a value that is not a table, or the text cannot be changed safely.
    """
    expected = tomllib.loads(text)
    _set(expected, path, value)
    document = tomlkit.parse(text)
    table: Any = document
    for name in path[:-1]:
        if name not in table:
            table.add(name, tomlkit.table(is_super_table=name != path[-2]))
        table = table[name]
    table[path[-1]] = value
    return _check_text(tomlkit.dumps(document), expected, path)


def without_setting(text: str, path: KeyPath) -> str:
    """Return the text of a file without a setting.

    Raises:
        ConfigurationError: the text cannot be changed safely.
    """
    expected = tomllib.loads(text)
    del value_at(expected, path[:-1])[path[-1]]
    document = tomlkit.parse(text)
    table: Any = document
    for name in path[:-1]:
        table = table[name]
    del table[path[-1]]
    return _check_text(tomlkit.dumps(document), expected, path)


def write_config(path: Path, before: bytes | None, text: str) -> None:
    """Validate a new text, and write it to the private file at `path` if the file still has the content `before`.

    Raises:
        ConfigFileError: the text is invalid; nothing is written.
        ConfigurationError: the file has changed, or cannot be written.
    """
    parse_config(path, text.encode())
    if read_config_text(path) != before:
        raise ConfigurationError(f"{path} was changed by another process", code="changed", hint="run the command again")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_file(path.resolve(), text.encode())  # a link to the file remains
    except OSError as error:
        raise ConfigFileError(
            str(path), f"cannot write the file ({error.strerror})", hint="check its folder's owner and the free space"
        ) from error


def _set(tree: dict[str, Any], path: KeyPath, value: Any) -> None:
    for at, name in enumerate(path[:-1], 1):
        tree = tree.setdefault(name, {})
        if not isinstance(tree, dict):
            raise ConfigurationError(
                f"{write_dotted_key(path[:at])} is not a table", hint="remove it: wasmrt config edit"
            )
    tree[path[-1]] = value


def _check_text(text: str, expected: dict[str, Any], path: KeyPath) -> str:
    """Return the text if it parses to the expected data. This ensures that no other setting was changed."""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        found = {}
    if found != expected:
        hint = "change it in your editor: wasmrt config edit"
        raise ConfigurationError(f"cannot change {write_dotted_key(path)} without changing other settings", hint=hint)
    return text
