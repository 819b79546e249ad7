from __future__ import annotations

import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiers import examples
from wasmrt.authoring.project import WorldForm, create_project, load_template, open_project, template_names
from wasmrt.capabilities.file import parse
from wasmrt.catalog.package import FolderFiles, pack, read_package_file
from wasmrt.cli import cli
from wasmrt.core.errors import ConfigurationError, InvalidNameError, PackageError
from wasmrt.core.names import check_installed_name

LANGUAGES = template_names()


def test_there_is_a_template_for_every_promised_language() -> None:
    assert set(LANGUAGES) >= {"c", "go", "js-quickjs", "js-starlingmonkey", "python", "rust"}


FORMS = [(language, world) for language in LANGUAGES for world in load_template(language).worlds]


@pytest.mark.parametrize(("language", "world"), FORMS)
def test_new_project_is_complete_without_placeholders(language: str, world: WorldForm, tmp_path: Path) -> None:
    project = create_project("word-count", language, tmp_path, world=world)

    assert open_project(project.folder).name == "word-count"
    assert (project.folder / load_template(language).edit).is_file()
    assert (project.folder / "README.md").is_file()
    assert parse(project.sidecar.read_bytes()).capabilities.http is not None
    assert "world tool" in project.wit.read_text()
    for path in project.folder.rglob("*"):
        assert not re.search(r"\{\{[a-z_]+\}\}", path.name)
        assert path.is_dir() or not re.search(r"\{\{[a-z_]+\}\}", path.read_text()), path.name


@pytest.mark.parametrize("language", LANGUAGES)
def test_new_package_file_has_all_author_fields(language: str, tmp_path: Path) -> None:
    project = create_project("word-count", language, tmp_path)
    own = read_package_file(project.package_file.read_bytes())

    assert {*own.values} == {"name", "language", "version", "description", "license", "source", "files"}
    assert own.values["files"] == ["README.md"]
    with pytest.raises(PackageError, match="has not been built") as refused:
        pack(FolderFiles(project.folder))
    assert refused.value.hint == "run: wasmrt build"


def test_new_list_shows_functions_first() -> None:
    def run(*arguments: str) -> str:
        return CliRunner().invoke(cli, ["new", *arguments], prog_name="wasmrt").stdout

    listed = json.loads(run("--list", "--json"))
    assert listed[0]["worlds"] == ["functions", "provider"]
    assert {template["language"] for template in listed} == set(LANGUAGES)
    assert run("--list").startswith("functions with types and doc comments, the recommended form of a tool:")
    assert run("--help").index("doc comment") < run("--help").index("--world provider")


def test_new_project_uses_functions_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, arguments, world in [("a", (), "functions"), ("b", ("--world", "provider"), "provider")]:
        command = ["new", name, "--lang", "python", "--example", "weather", *arguments, "--json"]
        made = json.loads(CliRunner().invoke(cli, command, prog_name="wasmrt").stdout)
        assert made["world"] == world
        assert ("wit/deps/wasmrt-tool/tool.wit" in made["files"]) == (world == "functions")
    wit = Path("a/wit/tool.wit").read_text()
    assert "/// Tells how warm it is at a place." in wit
    assert "export weather;" in wit


@pytest.mark.parametrize("language", [each for each in LANGUAGES if load_template(each).minimal])
def test_new_project_is_minimal_without_an_example(
    language: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(cli, ["new", "words", "--lang", language], prog_name="wasmrt").exit_code == 0
    files = {path.relative_to(tmp_path / "words").as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert {"README.md", "wit/tool.wit", "tests/words.json", load_template(language).edit} <= files
    for file in files:
        text = (tmp_path / "words" / file).read_text()
        assert file.startswith("wit/deps/") or not re.search(r"\{\{[a-z_]+\}\}|open-meteo", text), file
    assert parse((tmp_path / "words" / "words.capabilities.json").read_bytes()).capabilities.http is None


def test_unsupported_world_error_lists_languages(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no template of the world functions for c") as refused:
        create_project("weather", "c", tmp_path, world=WorldForm.FUNCTIONS)
    assert "python" in (refused.value.hint or "")


@pytest.mark.parametrize(("language", "world"), FORMS)
def test_a_readme_is_one_screen_long(language: str, world: WorldForm) -> None:
    template = load_template(language)
    folder = template.functions if world is WorldForm.FUNCTIONS else template.project
    lines = (folder / "README.md").read_text().splitlines()
    assert 5 < len(lines) <= 60


@pytest.mark.parametrize("name", ["a/b", "../b", "/b", "a\\b"])
def test_name_with_a_separator_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidNameError, match="separator"):
        create_project(name, "c", tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", ".", "..", "-x", "x-", "a--b", "A", "ä", "1a", "a_b", "a b", "a\n", "x" * 41])
def test_a_name_that_cannot_be_a_tool_and_a_folder_is_refused_with_the_rule(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidNameError) as refused:
        create_project(name, "c", tmp_path)
    assert "a-z" in (refused.value.hint or "")
    assert list(tmp_path.iterdir()) == []


@given(name=st.from_regex(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", fullmatch=True) | st.text(max_size=50))
@settings(max_examples=examples(60), deadline=None)
def test_every_name_that_a_project_can_have_can_be_installed(name: str) -> None:
    with TemporaryDirectory() as folder:
        try:
            project = create_project(name, "c", Path(folder))
        except InvalidNameError:
            assert list(Path(folder).iterdir()) == []
            return
        assert [path.name for path in Path(folder).iterdir()] == [name]
        assert check_installed_name(open_project(project.folder).name) == name


@pytest.mark.parametrize("kind", ["folder", "file", "dangling link"])
def test_existing_folder_is_not_changed(kind: str, tmp_path: Path) -> None:
    place = tmp_path / "weather"
    if kind == "folder":
        place.mkdir()
    elif kind == "file":
        place.write_text("mine")
    else:
        place.symlink_to(tmp_path / "nowhere")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ConfigurationError, match="already"):
        create_project("weather", "c", tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(("asked", "near"), [("pyhton", "python"), ("../rust", "rust"), ("cobol", "languages: c,")])
def test_unknown_language_error_lists_the_languages(asked: str, near: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no template") as refused:
        create_project("weather", asked, tmp_path)
    assert near in (refused.value.hint or "")


@pytest.mark.parametrize(("word", "language"), [("js", "js-quickjs"), ("py", "python"), ("golang", "go")])
def test_a_language_is_also_known_by_its_short_name(word: str, language: str, tmp_path: Path) -> None:
    project = create_project("weather", word, tmp_path)
    assert project.language == open_project(project.folder).language == language


def test_language_aliases_are_unique() -> None:
    words = [word for language in LANGUAGES for word in (language, *load_template(language).aliases)]
    assert len(words) == len(set(words))


def test_a_folder_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be written"):
        create_project("weather", "c", tmp_path / "missing")
    assert list(tmp_path.iterdir()) == []


def test_new_command_lists_creates_and_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str]:
        result = CliRunner().invoke(cli, ["new", *arguments], prog_name="wasmrt")
        return result.exit_code, result.output

    assert run("--list")[0] == 0
    code, said = run("weather", "--lang", "c")
    assert code == 0
    assert "edit weather/tool.c" in said
    assert run("weather", "--lang", "c")[0] == 2
    assert run("a/b", "--lang", "c")[0] == 2
    code, said = run("other")
    assert code == 2
    assert "--lang" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["weather"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "no wasmrt.toml"),
        ("name = ", "not TOML"),
        ('name = "weather"\n', 'must set "name" and a known "language"'),
        ('name = "weather"\nlanguage = "c"\nrun = "rm"\n', "unknown key"),
        ('name = "weather"\nlanguage = "cobol"\n', 'must set "name" and a known "language"'),
        ('name = "weather"\nlanguage = ["c"]\n', 'must set "name" and a known "language"'),
        ('name = "../weather"\nlanguage = "c"\n', "separator"),
        (b"\xff", "not TOML"),
    ],
)
def test_invalid_project_file_is_an_error(text: str | bytes | None, said: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "wasmrt.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises((ConfigurationError, InvalidNameError), match=said):
        open_project(tmp_path)
