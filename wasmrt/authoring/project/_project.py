"""A tool's source folder: its name, its language, its files, and its package file wasmrt.toml."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

from wasmrt.authoring.project._template import (
    Template,
    WorldForm,
    fill,
    load_template,
    placeholder_values,
    template_names,
    world_text,
)
from wasmrt.catalog.package import read_package_file
from wasmrt.core.component_bytes import digest_of
from wasmrt.core.errors import BuildError, ConfigurationError, ManifestError
from wasmrt.core.files import replace_file
from wasmrt.core.limits import KIB
from wasmrt.core.names import check_project_name
from wasmrt.core.strict_toml import TomlError, read_toml

PROJECT_FILE = "wasmrt.toml"
_MAX_TEMPLATE_FILES = 64
_MAX_TEMPLATE_FILE_BYTES = 256 * KIB


@dataclass(frozen=True, slots=True)
class Project:
    """A tool's source folder, which contains a wasmrt.toml."""

    folder: Path
    name: str
    language: str

    @property
    def package_file(self) -> Path:
        """The package file, which a build completes."""
        return self.folder / PROJECT_FILE

    @property
    def build(self) -> Path:
        return self.folder / "build"

    @property
    def component(self) -> Path:
        """The path of the built component."""
        return self.build / f"{self.name}.wasm"

    @property
    def sidecar(self) -> Path:
        """The capability file, which is optional."""
        return self.folder / f"{self.name}.capabilities.json"

    @property
    def wit(self) -> Path:
        return self.folder / "wit" / "tool.wit"


def create_project(
    name: str, language: str, parent: Path, *, world: WorldForm = WorldForm.PROVIDER, minimal: bool = False
) -> Project:
    """Create a new project in the folder `name` of `parent`. If an error occurs, nothing is created.

    `minimal` replaces the weather example by the smallest tool, if `world` is the recommended world of the language.

    Raises:
        InvalidNameError: the name is not valid for a tool.
        ConfigurationError: the language or its world is unknown, the folder exists, or `parent` cannot be written.
    """
    check_project_name(name)
    template = load_template(language)
    if world not in template.worlds:
        others = [other for other in template_names() if world in load_template(other).worlds]
        raise ConfigurationError(
            f"there is no template of the world {world} for {template.language}",
            hint=f"omit --world, or choose one of these languages: {', '.join(others)}",
        )
    folder = parent / name
    if folder.exists() or folder.is_symlink():
        raise ConfigurationError(f"{name} already exists in this folder", hint="choose another name")
    try:
        draft = Path(mkdtemp(prefix=f".{name}-", dir=parent))
        try:
            _write_files(template, name, draft, world, minimal=minimal)
            draft.chmod(0o755)  # mkdtemp creates private folders
            draft.rename(folder)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
    except OSError as error:
        raise ConfigurationError(
            f"the folder {name} cannot be written ({error.strerror})",
            hint="run the command in a folder that you can write",
        ) from error
    return Project(folder, name, template.language)


def open_project(folder: Path) -> Project:
    """Return the project in a folder.

    Raises:
        ConfigurationError: the folder has no wasmrt.toml, or the file cannot be used.
    """
    try:
        with (folder / PROJECT_FILE).open("rb") as file:
            text = file.read(_MAX_TEMPLATE_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(
            f"this folder has no {PROJECT_FILE} ({error.strerror})",
            hint="pass the folder of a tool's source, or create one: wasmrt new NAME --lang LANGUAGE",
        ) from error
    try:
        table = read_toml(text[:_MAX_TEMPLATE_FILE_BYTES])
    except TomlError as error:
        raise ConfigurationError(f"{PROJECT_FILE} is not TOML: {error}") from None
    if not isinstance(table.get("name"), str) or table.get("language") not in template_names():
        raise ConfigurationError(
            f'{PROJECT_FILE} must set "name" and a known "language"', hint=f"languages: {', '.join(template_names())}"
        )
    check_project_name(table["name"])
    read_package_file(text)
    return Project(folder.absolute(), table["name"], table["language"])


def _write_files(template: Template, name: str, folder: Path, world: WorldForm, *, minimal: bool) -> None:
    values = placeholder_values(name) | {"edit": template.edit}
    description = _WEATHER
    sources = _list_template_files(template.project)
    wit = folder / "wit" / "tool.wit"
    if world is WorldForm.FUNCTIONS:
        sources |= _list_template_files(template.functions)
        wit = folder / "wit" / "deps" / "wasmrt-tool" / "tool.wit"
    if minimal and world is template.worlds[0] and template.minimal:
        sources = {path: source for path, source in sources.items() if not path.startswith("tests/")}
        for root in template.minimal:
            sources |= _list_template_files(root)
        description = _WORDS
    if len(sources) > _MAX_TEMPLATE_FILES:
        raise ConfigurationError(f"the template of {template.language} has more than {_MAX_TEMPLATE_FILES} files")
    for path, source in sources.items():
        target = folder / fill(_get_target_name(path, name), values)
        target.parent.mkdir(parents=True, exist_ok=True)
        data = source.read_bytes()
        try:
            target.write_text(fill(data.decode("utf-8"), values), encoding="utf-8", newline="")
        except UnicodeDecodeError:
            target.write_bytes(data)
    wit.parent.mkdir(parents=True, exist_ok=True)
    wit.write_text(world_text(), encoding="utf-8")
    (folder / PROJECT_FILE).write_text(new_package_file(name, template.language, description), encoding="utf-8")


def _list_template_files(root: Path) -> dict[str, Path]:
    """Return the files in a template's folder by their relative paths."""
    found = sorted(path for path in root.rglob("*") if path.is_file() and not _is_output(path.relative_to(root)))
    return {path.relative_to(root).as_posix(): path for path in found}


def _get_target_name(path: str, name: str) -> str:
    """Return the path of a copied file; some files are named differently in the template's folder."""
    if path == "tool.capabilities.json":
        return f"{name}.capabilities.json"
    head, _, last = path.rpartition("/")
    return f"{head}/.gitignore".lstrip("/") if last == "gitignore" else path


def _is_output(path: Path) -> bool:
    return any(part in ("__pycache__", "target", "node_modules", "build") for part in path.parts)


_LINE = "# Written by wasmrt build: leave this line and all below it to the next build."
_NEW = """\
# The package: wasmrt build completes this file, wasmrt pack makes an archive of it.
name = {name}
language = {language}       # the language that wasmrt build compiles
version = "0.1.0"
description = {description}
license = ""            # an SPDX expression, such as "MIT OR Apache-2.0"
source = ""             # URL of its source
files = ["README.md"]   # more files for the archive
"""
_WEATHER = "Tells how warm it is at a place."
_WORDS = "Counts the words of a text."
_MAX_DESCRIPTION_CHARS = 200


class BuiltTool(NamedTuple):
    """A tool of a built component."""

    name: str
    description: str


def new_package_file(name: str, language: str, description: str = _WEATHER) -> str:
    """Return the package file of a new project."""
    return _NEW.format(name=json.dumps(name), language=json.dumps(language), description=json.dumps(description))


def authored_part(text: str) -> str:
    """Return the part of a package file above the line that starts the section of the build."""
    return text.partition(_LINE)[0].rstrip()


def complete_package_file(path: Path, world: str, tools: Iterable[BuiltTool], files: Mapping[str, bytes]) -> None:
    """Write the results of a build into a package file: the world, the tools, and the digest of each file.

    The section `[built]` is written below a marker line; the text above it is not changed.

    Raises:
        BuildError: the file cannot be read or written, or its author has written a section `[built]`.
    """
    try:
        before = path.read_bytes().decode()
        text = f"{authored_part(before)}\n\n{_format_built(world, tools, files)}"
        read_package_file(text.encode())
        if text != before:
            replace_file(path, text.encode(), mode=None, durable=False)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise BuildError(f"cannot add the section [built] to {path.name} ({reason})", hint="check the file") from None
    except ManifestError as error:
        raise BuildError(
            f"cannot add the section [built] to {path.name}: {error.message}",
            hint="only wasmrt build may write a section [built]",
        ) from None


def _format_built(world: str, tools: Iterable[BuiltTool], files: Mapping[str, bytes]) -> str:
    lines = [_LINE, "[built]", f"world = {_format_toml_string(world)}"]
    lines += ["", "[built.digests]         # BLAKE3"]
    lines += [
        f"{_format_toml_string(name)} = {_format_toml_string(digest_of(data))}" for name, data in sorted(files.items())
    ]
    for tool in tools:
        description = " ".join(tool.description.split())[:_MAX_DESCRIPTION_CHARS]
        lines += [
            "",
            "[[built.tools]]",
            f"name = {_format_toml_string(tool.name)}",
            f"description = {_format_toml_string(description)}",
        ]
    return "\n".join(lines) + "\n"


def _format_toml_string(text: str) -> str:
    """Return `text` as a TOML basic string (TOML 1.0), which is a JSON string with DEL escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
