"""A tool's source folder: its name, its language and the places of its parts."""

from __future__ import annotations

import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

from wasmrt.authoring.project._package_file import new_package_file
from wasmrt.authoring.project._placeholders import fill, names_of
from wasmrt.authoring.project._template import Template, WorldForm, load_template, template_names, world_text
from wasmrt.catalog.package import read_package_file
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import KIB
from wasmrt.core.names import check_project_name

PROJECT_FILE = "wasmrt.toml"
_MAX_TEMPLATE_FILES = 64
_MAX_TEMPLATE_FILE_BYTES = 256 * KIB


@dataclass(frozen=True, slots=True)
class Project:
    """A folder with a wasmrt.toml."""

    folder: Path
    name: str
    language: str

    @property
    def package_file(self) -> Path:
        """The file that says what the package is; a build completes it."""
        return self.folder / PROJECT_FILE

    @property
    def build(self) -> Path:
        return self.folder / "build"

    @property
    def component(self) -> Path:
        """The file that a build leaves."""
        return self.build / f"{self.name}.wasm"

    @property
    def sidecar(self) -> Path:
        """The capability file; it need not be there."""
        return self.folder / f"{self.name}.capabilities.json"

    @property
    def wit(self) -> Path:
        return self.folder / "wit" / "tool.wit"


def create_project(name: str, language: str, parent: Path, *, world: WorldForm = WorldForm.PROVIDER) -> Project:
    """Write a new project into the folder `name` below `parent`, all of it or nothing.

    Raises:
        InvalidNameError: it cannot name a tool and its folder.
        ConfigurationError: there is no such language, or it has no such world; the folder exists, or `parent` cannot be
            written.
    """
    check_project_name(name)
    template = load_template(language)
    if world not in template.worlds:
        others = [other for other in template_names() if world in load_template(other).worlds]
        raise ConfigurationError(
            f"there is no template of the world {world} for {template.language}",
            hint=f"leave --world out, or choose one of {', '.join(others)}",
        )
    folder = parent / name
    if folder.exists() or folder.is_symlink():
        raise ConfigurationError(f"there is already something called {name} here", hint="choose another name")
    try:
        draft = Path(mkdtemp(prefix=f".{name}-", dir=parent))
        try:
            _write(template, name, draft, world)
            draft.chmod(0o755)  # mkdtemp's are private
            draft.rename(folder)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
    except OSError as error:
        raise ConfigurationError(
            f"the folder {name} cannot be written ({error.strerror})", hint="run it in a folder of yours"
        ) from error
    return Project(folder, name, template.language)


def open_project(folder: Path) -> Project:
    """Return the project in a folder.

    Raises:
        ConfigurationError: it has no wasmrt.toml, or one that cannot be used.
    """
    try:
        with (folder / PROJECT_FILE).open("rb") as file:
            text = file.read(_MAX_TEMPLATE_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(
            f"this folder has no {PROJECT_FILE} ({error.strerror})",
            hint="give the folder of a tool's source, or make one: wasmrt new NAME --lang LANGUAGE",
        ) from error
    try:
        table = tomllib.loads(text[:_MAX_TEMPLATE_FILE_BYTES].decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{PROJECT_FILE} is not TOML: {error}") from None
    if not isinstance(table.get("name"), str) or table.get("language") not in template_names():
        raise ConfigurationError(
            f"{PROJECT_FILE} names no language that can be built", hint=f"there are: {', '.join(template_names())}"
        )
    check_project_name(table["name"])
    read_package_file(text)
    return Project(folder.absolute(), table["name"], table["language"])


def _write(template: Template, name: str, folder: Path, world: WorldForm) -> None:
    values = names_of(name)
    sources = _sources(template.project)
    wit = folder / "wit" / "tool.wit"
    if world is WorldForm.FUNCTIONS:
        sources |= _sources(template.functions)
        wit = folder / "wit" / "deps" / "wasmrt-tool" / "tool.wit"
    if len(sources) > _MAX_TEMPLATE_FILES:
        raise ConfigurationError(f"the template of {template.language} has over {_MAX_TEMPLATE_FILES} files")
    for path, source in sources.items():
        target = folder / fill(_renamed(path, name), values)
        target.parent.mkdir(parents=True, exist_ok=True)
        data = source.read_bytes()
        try:
            target.write_text(fill(data.decode("utf-8"), values), encoding="utf-8", newline="")
        except UnicodeDecodeError:
            target.write_bytes(data)
    wit.parent.mkdir(parents=True, exist_ok=True)
    wit.write_text(world_text(), encoding="utf-8")
    (folder / PROJECT_FILE).write_text(new_package_file(name, template.language), encoding="utf-8")


def _sources(root: Path) -> dict[str, Path]:
    """Return the files below a folder of a template by their names in it."""
    found = sorted(path for path in root.rglob("*") if path.is_file() and not _is_litter(path.relative_to(root)))
    return {path.relative_to(root).as_posix(): path for path in found}


def _renamed(path: str, name: str) -> str:
    """Return the name of a copied file: some names would act on the template's own folder."""
    if path == "tool.capabilities.json":
        return f"{name}.capabilities.json"
    head, _, last = path.rpartition("/")
    return f"{head}/.gitignore".lstrip("/") if last == "gitignore" else path


def _is_litter(path: Path) -> bool:
    """Return True for files that tools leave behind in a template's own folder."""
    return any(part in ("__pycache__", "target", "node_modules", "build") for part in path.parts)
