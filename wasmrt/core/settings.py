"""Settings of the operator's file: their description, and the commands that change them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from typing import Any, NamedTuple

from wasmrt.core.errors import ConfigurationError
from wasmrt.core.names import did_you_mean
from wasmrt.core.setting_commands import PLACEHOLDER, write_dotted_key

_MAX_KEY_CHARS = 512


class Setting(NamedTuple):
    """The description of one setting, for `wasmrt config explain` and the reference page.

    A test writes each default and each example to a file and reads it, so neither can differ from the reader.
    """

    key: str
    """The dotted key. A part in capital letters, such as NAME, stands for any name."""
    text: str
    """The purpose of the setting, as a sentence."""
    example: Any
    """A valid value, as TOML data."""
    default: Any = None
    """The value if the setting is missing, as TOML data; None if no value has the same effect."""
    unit: str = ""
    secret: bool = False
    """True if the value can contain a password, so that it is never shown."""

    @property
    def type(self) -> str:
        """The type of the value, in words."""
        kind = type(self.example)
        if kind is list:
            return "list of strings"
        return {bool: "true or false", int: "whole number", float: "number", str: "text", dict: "table"}[kind]

    def matches(self, path: tuple[str, ...]) -> bool:
        """Return whether a path is this setting, or is inside of it if it is a table."""
        parts = tuple(self.key.split("."))
        if len(path) < len(parts) or (len(path) > len(parts) and not isinstance(self.example, dict)):
            return False
        return all(PLACEHOLDER.fullmatch(part) or part == given for part, given in zip(parts, path, strict=False))


def find_setting(settings: Iterable[Setting], path: tuple[str, ...]) -> Setting:
    """Return the setting at a path.

    Raises:
        ConfigurationError: there is no such setting.
    """
    settings = tuple(settings)
    found = next((each for each in settings if each.matches(path)), None)
    if found is None:
        shown = write_dotted_key(path)
        near = did_you_mean(shown, [each.key for each in settings])
        hint = f"did you mean {near}?" if near else "to list the settings: wasmrt config show"
        raise ConfigurationError(f"unknown setting: {shown:.80}", code="unknown-setting", hint=hint)
    return found


def read_key(text: str) -> tuple[str, ...]:
    """Return the parts of a dotted TOML key, such as `tools.rules."files-*".permission`.

    Raises:
        ConfigurationError: the text is not one key.
    """
    path: list[str] = []
    try:
        if len(text) > _MAX_KEY_CHARS or not text.isprintable() or "=" in text:
            raise ValueError("too long, or not a key")
        tree: Any = tomllib.loads(f"{text} = 0")
        while isinstance(tree, dict):
            ((name, tree),) = tree.items()
            path.append(name)
    except ValueError as error:
        hint = "write it like tools.filter.allow_external, and quote other names: 'tools.rules.\"files-*\".permission'"
        raise ConfigurationError(f"expected the key of a setting, got {text!r:.80}", hint=hint) from error
    return tuple(path)
