"""Names in a grant: tool aliases, tool names and patterns of secret names."""

from __future__ import annotations

from wasmrt.capabilities.model._credential import read_secret_name
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.names import is_alias, is_invoked_name


def glob_covers(pattern: str, name: str) -> bool:
    """Return whether `pattern`, a name or a prefix that ends in `*`, covers `name`."""
    if pattern.endswith("*"):
        return name.startswith(pattern[:-1])
    return pattern == name


def read_alias(text: object) -> str:
    """Return `text` unchanged if it is a valid alias.

    Raises:
        ConfigurationError: the alias contains characters other than letters, digits, `_`, `-` and `.`.
    """
    if not isinstance(text, str) or not is_alias(text):
        raise ConfigurationError(f"alias {text!r} must contain only letters, digits, '_', '-' and '.'")
    return text


def read_tool_name(text: object) -> str:
    """Return `text` unchanged if it is a valid name of a tool that an alias can mean.

    Raises:
        ConfigurationError: the name is empty, too long or contains invisible characters.
    """
    if not isinstance(text, str) or not is_invoked_name(text):
        raise ConfigurationError(f"{text!r} is not a valid name of a tool")
    return text


def read_secret_glob(text: str) -> str:
    """Return a secret's name, or a prefix of names that ends in `*`, in lower case.

    Raises:
        ConfigurationError: the text is neither a name nor a prefix followed by `*`.
    """
    stem, star = text.removesuffix("*"), text.endswith("*")
    if not star:
        return read_secret_name(text)
    if "*" in stem:
        raise ConfigurationError(f"secret name {text!r} must contain '*' only at the end")
    # A prefix may end in a character that a complete name must not end in: `openai-*`.
    return f"{read_secret_name(stem + 'x')[:-1]}*" if stem else "*"
