"""`wasmrt config`: show, change and explain the settings of the configuration file."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import click

from wasmrt.agent.config import SETTINGS, parse_config
from wasmrt.cli.operate.config_text import read_value, value_at, with_setting, without_setting, write_config
from wasmrt.cli.shared.groups import CommandGroup
from wasmrt.cli.shared.options import json_option
from wasmrt.cli.shared.output import (
    is_interactive,
    print_message,
    show,
    show_columns,
    show_json,
    show_json_list,
    show_section,
)
from wasmrt.core.errors import ConfigFileError, ConfigurationError
from wasmrt.core.files import replace_file
from wasmrt.core.places import find_places
from wasmrt.core.setting_commands import PLACEHOLDER, format_value, set_command, write_dotted_key
from wasmrt.core.settings import Setting, find_setting, read_key
from wasmrt.core.strict_toml import find_lines
from wasmrt.egress.leaks import Direction, LeakDetector
from wasmrt.runtime.config_file import read_config_text

_VARIABLES = {"secrets.backend": "WASMRT_SECRETS_BACKEND"}
"""The environment variables that take precedence over settings."""
_USERINFO = re.compile(r"(://)[^/@\s]*@")
_HIDDEN = "(hidden)"


class Effective(NamedTuple):
    """A setting with its effective value."""

    key: str
    setting: Setting
    value: Any
    source: str
    """The file with its line, `environment VARIABLE`, or `default`."""

    @property
    def shown(self) -> Any:
        """The value without secrets, as data."""
        return _redact(self.value, hidden=self.setting.secret and self.value is not None)

    def as_dict(self) -> dict[str, Any]:
        """Return the setting as JSON data."""
        return {"key": self.key, "value": self.shown, "source": self.source}


class ConfigText(NamedTuple):
    """The configuration file, read once."""

    path: Path
    data: bytes | None
    """None if the file does not exist."""
    tree: dict[str, Any]
    lines: dict[str, int]
    """The line of each setting."""

    @property
    def text(self) -> str:
        """The text; empty if the file does not exist."""
        return (self.data or b"").decode()


def _redact(value: Any, *, hidden: bool = False) -> Any:
    """Return a value without secrets.

    SECURITY: values are shown, so passwords in URLs and text that looks like a secret are replaced.
    """
    if isinstance(value, dict):
        return {key: _redact(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_redact(each) for each in value]
    if hidden:
        return _HIDDEN
    if isinstance(value, str):
        return _make_detector().redact(_USERINFO.sub(r"\1***@", value), direction=Direction.OUTWARD)
    return value


@cache
def _make_detector() -> LeakDetector:
    return LeakDetector()


@click.group("config", cls=CommandGroup)
def config() -> None:
    """Show, change and explain settings.

    They are in the configuration file, config.toml.

    \b
    Examples:
      wasmrt config show
      wasmrt config set tools.filter.allow_external true
      wasmrt config explain limits.timeout_seconds
    """


@config.command("show")
@click.argument("prefix", default="", metavar="[SECTION]")
@json_option
def show_config(prefix: str, as_json: bool) -> None:
    """Show the effective settings with their source: a line of the file, the environment or the default.

    Secrets are hidden. SECTION selects settings, such as limits or tools.rules.

    \b
    Examples:
      wasmrt config show
      wasmrt config show limits --json
    """
    file = _read()
    rows = [each for each in _iter_effective(file) if not prefix or f"{each.key}.".startswith(f"{prefix}.")]
    if prefix and not rows and not any(f"{each.key}.".startswith(f"{prefix}.") for each in SETTINGS):
        find_setting(SETTINGS, read_key(prefix))  # raises an error with the most similar name
    if as_json:
        show_json_list(each.as_dict() for each in rows)
        return
    if file.data is None:
        print_message(f"there is no configuration file; wasmrt config set creates {file.path}")
    show_columns(("SETTING", "VALUE", "SOURCE"), [(each.key, _format_found(each), each.source) for each in rows])


@config.command("get")
@click.argument("key", metavar="KEY")
@json_option
def get(key: str, as_json: bool) -> int:
    """Print the effective value of a setting; text is printed without quotes.

    The exit code is 1 if the setting has no value.

    \b
    Examples:
      wasmrt config get limits.timeout_seconds
      wasmrt config get tools.filter.external_allow_list --json
    """
    found = _find(_read(), read_key(key))
    if as_json:
        show_json(found.as_dict())
    elif found.value is None:
        print_message(f"{found.key} is not set")
    else:
        show(found.shown if isinstance(found.shown, str) else format_value(found.shown))
    return 1 if found.value is None and not as_json else 0


@config.command("set")
@click.argument("key", metavar="KEY")
@click.argument("value", metavar="VALUE")
@click.option("--append", is_flag=True, help="Append VALUE to the list instead of replacing it.")
@json_option
def set_setting(key: str, value: str, append: bool, as_json: bool) -> None:
    """Set a setting in the configuration file, after checking the whole file. Comments and order remain.

    VALUE is a TOML value, such as true, 30, '["a", "b"]' or text. Text needs no quotes. Quote names in KEY that contain
    other characters than letters, digits, - and _.

    \b
    Examples:
      wasmrt config set tools.filter.allow_external true
      wasmrt config set 'tools.rules."files-*".permission' ask
      wasmrt config set --append presets.work.tools weather
    """
    path, file = read_key(key), _read()
    setting = find_setting(SETTINGS, path)
    given = _append_entry(setting, path, file.tree, value) if append else read_value(setting, value)
    write_config(file.path, file.data, with_setting(file.text, path, given))
    _report(_find(_read(), path), as_json=as_json)


@config.command("unset")
@click.argument("key", metavar="KEY")
@json_option
def unset(key: str, as_json: bool) -> None:
    """Remove a setting from the configuration file, so that its default applies.

    \b
    Examples:
      wasmrt config unset tools.filter.allow_external
    """
    path, file = read_key(key), _read()
    find_setting(SETTINGS, path)
    if value_at(file.tree, path) is None:
        raise ConfigurationError(f"{write_dotted_key(path)} is not set in {file.path}", code="not-set")
    write_config(file.path, file.data, without_setting(file.text, path))
    _report(_find(_read(), path), as_json=as_json)


@config.command("edit")
@json_option
def edit(as_json: bool) -> None:
    """Edit the configuration file in $VISUAL or $EDITOR. It is only replaced by a valid file.

    If the new text has errors, they are listed with their lines, and you can edit it again. A rejected text is stored
    next to the file, and the next edit continues with it.

    \b
    Examples:
      wasmrt config edit
    """
    path = find_places().config
    before = read_config_text(path)
    draft = path.with_name("config.rejected.toml")
    rejected = read_config_text(draft)
    text = ((before if rejected is None else rejected) or b"").decode(errors="replace") or _TEMPLATE
    while True:
        edited = click.edit(text, extension=".toml")
        if edited is None:
            raise ConfigurationError("nothing was changed: the editor saved nothing", code="unchanged")
        try:
            write_config(path, before, edited)
        except ConfigurationError as error:
            _keep(draft, edited)
            problems = error.problems if isinstance(error, ConfigFileError) else ()
            for key, problem in problems or (("", error.message),):
                print_message(f"{key}: {problem}" if key else problem)
            if as_json or not is_interactive() or not click.confirm("Edit it again?", default=True, err=True):
                error.hint = f"your text is in {draft}; to continue: wasmrt config edit"
                raise
            text = edited
            continue
        draft.unlink(missing_ok=True)
        break
    if as_json:
        show_json({"path": str(path), "changed": edited.encode() != (before or b"")})
    else:
        print_message(f"wrote {path}")


@config.command("explain")
@click.argument("key", metavar="KEY")
@json_option
def explain(key: str, as_json: bool) -> None:
    """Explain a setting: what it does, its type, unit, default and current value, and a command that sets it.

    \b
    Examples:
      wasmrt config explain limits.timeout_seconds
      wasmrt config explain tools.rules.NAME.permission --json
    """
    path = read_key(key)
    setting = find_setting(SETTINGS, path)
    found = _find(_read(), path)
    names = [name for part, name in zip(setting.key.split("."), path, strict=False) if PLACEHOLDER.fullmatch(part)]
    command = set_command(setting.key, setting.example, *names)
    if as_json:
        about = {"text": setting.text, "type": setting.type, "unit": setting.unit or None, "default": setting.default}
        show_json(found.as_dict() | about | {"example": setting.example, "command": command})
        return
    show(f"{found.key}: {setting.text}")
    show_section("Type", [f"{setting.type}, in {setting.unit}" if setting.unit else setting.type])
    show_section("Default", ["none" if setting.default is None else format_value(setting.default)])
    show_section("Now", [f"{_format_found(found)} ({found.source})"])
    show_section("To set it", [command])


_TEMPLATE = "# The settings of wasmrt. To list them: wasmrt config show. To explain one: wasmrt config explain KEY.\n"


def _read() -> ConfigText:
    """Read the configuration file.

    Raises:
        ConfigFileError: the file cannot be read, or is not TOML.
    """
    path = find_places().config
    data = read_config_text(path)
    try:
        text = (data or b"").decode()
        return ConfigText(path, data, tomllib.loads(text), find_lines(text))
    except (ValueError, RecursionError) as error:
        parse_config(path, data or b"")  # raises an error with the line
        raise ConfigFileError(str(path), "the file is not TOML", hint="wasmrt config edit") from error


def _iter_effective(file: ConfigText) -> Iterator[Effective]:
    """Yield all settings that the file sets, and the other settings that have a fixed name."""
    tree = file.tree
    for setting in SETTINGS:
        paths = list(_iter_paths(tree, setting.key.split(".")))
        for path in paths:
            if not isinstance(value_at(tree, path), dict) or isinstance(setting.example, dict):
                yield _find(file, path)
        if not paths and setting.key == setting.key.lower():
            yield _find(file, tuple(setting.key.split(".")))


def _iter_paths(tree: Any, parts: list[str]) -> Iterator[tuple[str, ...]]:
    """Yield the paths in parsed TOML that match the parts of a setting's key."""
    if not parts:
        yield ()
    elif isinstance(tree, dict):
        for name in tree if parts[0].isupper() else [parts[0]]:
            if name in tree:
                yield from ((name, *rest) for rest in _iter_paths(tree[name], parts[1:]))


def _find(file: ConfigText, path: tuple[str, ...]) -> Effective:
    """Return the effective value at a path.

    Raises:
        ConfigurationError: there is no such setting.
    """
    setting = find_setting(SETTINGS, path)
    key, value = write_dotted_key(path), value_at(file.tree, path)
    variable = _VARIABLES.get(key)
    if variable is not None and os.environ.get(variable):
        return Effective(key, setting, os.environ[variable], f"environment {variable}")
    if value is None:
        whole = path == tuple(setting.key.split(".")) or any(part.isupper() for part in setting.key.split("."))
        return Effective(key, setting, setting.default if whole else None, "default")
    line = file.lines.get(".".join(path))
    return Effective(key, setting, value, str(file.path) + ("" if line is None else f":{line}"))


def _append_entry(setting: Setting, path: tuple[str, ...], tree: dict[str, Any], entry: str) -> list[Any]:
    if not isinstance(setting.example, list):
        raise ConfigurationError(f"{write_dotted_key(path)} is not a list", code="usage", hint="omit --append")
    now = value_at(tree, path)
    if now is not None and not isinstance(now, list):
        raise ConfigurationError(f"{write_dotted_key(path)} is not a list in the file", hint="omit --append")
    entries = [*(now if now is not None else setting.default or [])]
    return entries if entry in entries else [*entries, entry]


def _keep(draft: Path, text: str) -> None:
    """Store a rejected text in a private file, so that it is not lost."""
    draft.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    replace_file(draft, text.encode())


def _report(found: Effective, *, as_json: bool) -> None:
    if as_json:
        show_json(found.as_dict())
    else:
        print_message(f"{found.key} = {_format_found(found)} ({found.source})")


def _format_found(found: Effective) -> str:
    return "(not set)" if found.value is None else format_value(found.shown)
