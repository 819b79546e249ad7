"""Templates of languages: requirements, build steps and files of a new project, from template.toml.

guest-templates/CONTRACT.md describes the format.
"""

from __future__ import annotations

import re
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
    """The form of a new tool's world."""

    FUNCTIONS = "functions"
    """A custom world: each exported function is a tool, described by its types and its doc comment."""
    PROVIDER = "provider"
    """The world wasmrt:tool@0.1.0: one function describes the tools with schemas, and one runs them."""


@dataclass(frozen=True, slots=True)
class Need:
    """A command that must be installed."""

    command: str
    hint: str
    """Instructions for installing the command."""
    probe: tuple[str, ...] = ()
    """A command that checks whether the installed toolchain can build for WebAssembly."""
    version: tuple[str, ...] = ()
    """A command that prints the version of the toolchain."""


@dataclass(frozen=True, slots=True)
class Packages:
    """Packages that are downloaded from a registry into a private folder."""

    registry: str
    install: tuple[str, ...]
    commands: tuple[str, ...]
    size: str


@dataclass(frozen=True, slots=True)
class Step:
    """A command of a build."""

    label: str
    run: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """Instructions for building a component from source in one language."""

    language: str
    aliases: tuple[str, ...]
    title: str
    edit: str
    needs: tuple[Need, ...]
    packages: tuple[Packages, ...]
    fetch: tuple[Step, ...]
    """The steps that need the network, which run first."""
    steps: tuple[Step, ...]
    homes: Mapping[str, str]
    """The default paths of the toolchain's folders in the user's home, by the variables that can change these paths."""
    toolchain: tuple[str, ...]
    """Paths in the folders of `homes` that are executed."""
    fetched: tuple[str, ...]
    """Paths in the folders of `homes` that are written while packages are fetched, and read during a build."""
    settings: tuple[str, ...]
    """Paths in the folders of `homes` that are only read."""
    component: str
    """The output of the last step, relative to the project."""
    sources: tuple[str, ...]
    """Patterns of the names of source files."""
    wrapper: tuple[Path, ...]
    """Modules that call the tool's functions and report their failures. A build fills in placeholders."""
    shared: tuple[str, ...]
    """Files in the cache that another project with the same name would also write."""
    folder: Path

    @property
    def project(self) -> Path:
        """The folder with the files of a new project."""
        return self.folder / "project"

    @property
    def functions(self) -> Path:
        """The folder with the files that differ for the world `functions`; it may not exist."""
        return self.folder / "functions"

    @property
    def minimal(self) -> tuple[Path, ...]:
        """The folders with the files of the smallest tool in the recommended world, or () if there are none."""
        own = self.folder / "minimal"
        return (self.folder.parent / "_minimal", own) if own.is_dir() else ()

    @property
    def worlds(self) -> tuple[WorldForm, ...]:
        """The supported worlds of a new project. The recommended world is first."""
        return tuple(WorldForm) if self.functions.is_dir() else (WorldForm.PROVIDER,)


def template_names() -> tuple[str, ...]:
    """Return the sorted names of the languages that have a template."""
    return tuple(
        sorted(path.parent.name for path in _find_folder("_templates", "guest-templates").glob("*/template.toml"))
    )


def world_text() -> str:
    """Return the WIT of the world that all templates use."""
    return (_find_folder("_wit", "wit") / "wasmrt-tool" / "tool.wit").read_text(encoding="utf-8")


def load_template(language: str) -> Template:
    """Return the template of a language, by its name or an alias.

    Raises:
        ConfigurationError: there is no template for this language.
    """
    names = template_names()
    if language in names:
        return _load(language)
    for name in names:
        if language in (template := _load(name)).aliases:
            return template
    near = did_you_mean(language, names)
    hint = f"did you mean {near}? " if near else ""
    raise ConfigurationError(f"there is no template for {language!r:.60}", hint=f"{hint}languages: {', '.join(names)}")


def _load(language: str) -> Template:
    folder = _find_folder("_templates", "guest-templates") / language
    try:
        return _parse_template(language, folder, tomllib.loads((folder / "template.toml").read_text(encoding="utf-8")))
    except (KeyError, TypeError, ValueError) as error:
        raise InternalError(f"the template of {language} is invalid: {type(error).__name__} {error}") from error


def _find_folder(packaged: str, in_repository: str) -> Path:
    inside = _PACKAGE / packaged
    return inside if inside.is_dir() else _PACKAGE.parent / in_repository


def _parse_template(language: str, folder: Path, table: dict[str, Any]) -> Template:
    template = Template(
        language=language,
        aliases=_check_words(table.pop("aliases", ())),
        title=_check_text(table.pop("title")),
        edit=_check_text(table.pop("edit")),
        needs=tuple(_parse_need(entry) for entry in table.pop("needs", ())),
        packages=tuple(_parse_packages(entry) for entry in table.pop("packages", ())),
        fetch=tuple(_parse_step(entry) for entry in table.pop("fetch", ())),
        steps=tuple(_parse_step(entry) for entry in table.pop("step")),
        homes={name: _check_text(usual) for name, usual in table.pop("homes", {}).items()},
        toolchain=_check_words(table.pop("toolchain", ())),
        fetched=_check_words(table.pop("fetched", ())),
        settings=_check_words(table.pop("settings", ())),
        component=_check_text(table.pop("component")),
        sources=_check_words(table.pop("sources")),
        wrapper=tuple(folder / path for path in _check_words(table.pop("wrapper", ()))),
        shared=_check_words(table.pop("shared", ())),
        folder=folder,
    )
    if table:
        raise ValueError(f"unknown key {next(iter(table))!r}")
    return template


def _parse_need(entry: dict[str, Any]) -> Need:
    probe, version = (_check_words(entry.pop(name, ())) for name in ("probe", "version"))
    return Need(probe=probe, version=version, **{name: _check_text(value) for name, value in entry.items()})


def _parse_packages(entry: dict[str, Any]) -> Packages:
    packages = Packages(
        _check_text(entry.pop("registry")),
        _check_words(entry.pop("install")),
        _check_words(entry.pop("commands", ())),
        _check_text(entry.pop("size")),
    )
    if entry or packages.registry not in _REGISTRIES:
        raise ValueError(f"packages of {packages.registry!r}")
    return packages


def _parse_step(entry: dict[str, Any]) -> Step:
    env = {name: _check_text(value) for name, value in entry.pop("env", {}).items()}
    step = Step(_check_text(entry.pop("label")), _check_words(entry.pop("run")), env)
    if entry or not step.run:
        raise ValueError(f"step {step.label!r}")
    return step


def _check_text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


def _check_words(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        raise TypeError(f"{value!r} is not a list")
    return tuple(_check_text(word) for word in value)


_PLACEHOLDER = re.compile(r"\{\{([a-z_]+)\}\}")


def fill(text: str, values: Mapping[str, str]) -> str:
    """Return `text` with its `{{name}}` placeholders replaced.

    Raises:
        InternalError: the template has a placeholder that is not in `values`.
    """

    def value(found: re.Match[str]) -> str:
        if found[1] not in values:
            raise InternalError(f"a template contains the unknown placeholder {found[0]}")
        return values[found[1]]

    return _PLACEHOLDER.sub(value, text)


def placeholder_values(name: str) -> dict[str, str]:
    """Return the values of the placeholders for a tool's name."""
    return {"name": name, "name_snake": name.replace("-", "_")}
