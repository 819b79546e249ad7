"""Templates: a language's needs, its build steps and the files of a new project, from template.toml.

guest-templates/CONTRACT.md describes the file.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from wasmrt.core.errors import ConfigurationError, InternalError
from wasmrt.core.names import did_you_mean

_PACKAGE = Path(__file__).parents[2]
_REGISTRIES = ("pypi", "npm")


class WorldForm(StrEnum):
    """Form of the world of a new tool."""

    FUNCTIONS = "functions"
    """A world of its own: each function that it exports is a tool, described by its types and its doc comment."""
    PROVIDER = "provider"
    """The world wasmrt:tool@0.1.0: one function that describes the tools with schemas, and one that runs them."""


@dataclass(frozen=True, slots=True)
class Need:
    """A command that must be on the machine, and perhaps its version, a probe of its abilities, a way to mend them."""

    command: str
    hint: str
    """The way to get it, in words."""
    probe: tuple[str, ...] = ()
    fix: tuple[str, ...] = ()
    size: str = ""
    """Of what `fix` fetches, roughly."""
    version: tuple[str, ...] = ()
    """The command that tells which release of the toolchain would build."""


@dataclass(frozen=True, slots=True)
class Packages:
    """Packages that are fetched from a registry into a private folder."""

    registry: str
    install: tuple[str, ...]
    commands: tuple[str, ...]
    size: str


@dataclass(frozen=True, slots=True)
class Step:
    """One command of a build."""

    label: str
    run: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """One language's way from source to component."""

    language: str
    aliases: tuple[str, ...]
    """Other names of the language."""
    title: str
    edit: str
    needs: tuple[Need, ...]
    packages: tuple[Packages, ...]
    fetch: tuple[Step, ...]
    """Those that need the network, before the others."""
    steps: tuple[Step, ...]
    homes: Mapping[str, str]
    """The toolchain's folders in the user's home: the variable that names each, and its usual place."""
    toolchain: tuple[str, ...]
    """Paths below them that are executed."""
    fetched: tuple[str, ...]
    """Paths below them that fetching writes and building reads."""
    settings: tuple[str, ...]
    """Paths below them that are read."""
    component: str
    """The file that the last step leaves, below the project."""
    sources: tuple[str, ...]
    """Patterns of the names of files that are compiled."""
    shared: tuple[str, ...]
    """Files in the cache that another project of the same name would write as well."""
    folder: Path

    @property
    def project(self) -> Path:
        """The files that a new project starts with."""
        return self.folder / "project"

    @property
    def functions(self) -> Path:
        """The files that a new project of plain functions has in place of some of those; it need not be there."""
        return self.folder / "functions"

    @property
    def worlds(self) -> tuple[WorldForm, ...]:
        """Worlds that a new project can start with, the best first."""
        return tuple(WorldForm) if self.functions.is_dir() else (WorldForm.PROVIDER,)


def template_names() -> tuple[str, ...]:
    """Return the languages there are templates for, sorted."""
    return tuple(sorted(path.parent.name for path in _place("_templates", "guest-templates").glob("*/template.toml")))


def world_text() -> str:
    """Return the WIT of the world that every template is built against."""
    return (_place("_wit", "wit") / "wasmrt-tool" / "tool.wit").read_text(encoding="utf-8")


def load_template(language: str) -> Template:
    """Return the template of a language, by its name or an alias.

    Raises:
        ConfigurationError: there is none.
    """
    names = template_names()
    if language in names:
        return _load(language)
    for name in names:
        if language in (template := _load(name)).aliases:
            return template
    near = did_you_mean(language, names)
    hint = f"did you mean {near}? " if near else ""
    raise ConfigurationError(f"there is no template for {language!r:.60}", hint=f"{hint}there are: {', '.join(names)}")


def _load(language: str) -> Template:
    folder = _place("_templates", "guest-templates") / language
    try:
        return _read(language, folder, tomllib.loads((folder / "template.toml").read_text(encoding="utf-8")))
    except (KeyError, TypeError, ValueError) as error:
        raise InternalError(f"the template of {language} is broken: {type(error).__name__} {error}") from error


def _place(packaged: str, in_repository: str) -> Path:
    inside = _PACKAGE / packaged
    return inside if inside.is_dir() else _PACKAGE.parent / in_repository


def _read(language: str, folder: Path, table: dict[str, Any]) -> Template:
    template = Template(
        language=language,
        aliases=_words(table.pop("aliases", ())),
        title=_text(table.pop("title")),
        edit=_text(table.pop("edit")),
        needs=tuple(_need(entry) for entry in table.pop("needs", ())),
        packages=tuple(_packages(entry) for entry in table.pop("packages", ())),
        fetch=tuple(_step(entry) for entry in table.pop("fetch", ())),
        steps=tuple(_step(entry) for entry in table.pop("step")),
        homes={name: _text(usual) for name, usual in table.pop("homes", {}).items()},
        toolchain=_words(table.pop("toolchain", ())),
        fetched=_words(table.pop("fetched", ())),
        settings=_words(table.pop("settings", ())),
        component=_text(table.pop("component")),
        sources=_words(table.pop("sources")),
        shared=_words(table.pop("shared", ())),
        folder=folder,
    )
    if table:
        raise ValueError(f"unknown key {next(iter(table))!r}")
    return template


def _need(entry: dict[str, Any]) -> Need:
    probe, fix, version = (_words(entry.pop(name, ())) for name in ("probe", "fix", "version"))
    return Need(probe=probe, fix=fix, version=version, **{name: _text(value) for name, value in entry.items()})


def _packages(entry: dict[str, Any]) -> Packages:
    packages = Packages(
        _text(entry.pop("registry")),
        _words(entry.pop("install")),
        _words(entry.pop("commands", ())),
        _text(entry.pop("size")),
    )
    if entry or packages.registry not in _REGISTRIES:
        raise ValueError(f"packages of {packages.registry!r}")
    return packages


def _step(entry: dict[str, Any]) -> Step:
    env = {name: _text(value) for name, value in entry.pop("env", {}).items()}
    step = Step(_text(entry.pop("label")), _words(entry.pop("run")), env)
    if entry or not step.run:
        raise ValueError(f"step {step.label!r}")
    return step


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


def _words(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        raise TypeError(f"{value!r} is not a list")
    return tuple(_text(word) for word in value)
