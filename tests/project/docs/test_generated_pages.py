"""The generated parts of pages match their sources."""

from __future__ import annotations

from pathlib import Path

import pytest

import docs.generate.__main__ as command
from docs.generate import PARTS, pages
from tests.project.docs.pages import ROOT


def test_the_generated_parts_are_up_to_date() -> None:
    stale = [page.name for page, text in pages() if page.read_text(encoding="utf-8") != text]
    assert stale == [], "run: python -m docs.generate"


def test_every_part_is_on_a_page() -> None:
    texts = [text for _, text in pages()]
    assert [name for name in PARTS if not any(f"<!-- generated: {name} -->" in text for text in texts)] == []


def test_the_table_of_areas_lists_every_folder_of_the_package() -> None:
    table = PARTS["packages"]()
    areas = {path.parent.name for path in (ROOT / "wasmrt").glob("*/__init__.py")}
    assert len(areas) == 10
    assert {area for area in areas if f"| `{area}` |" not in table} == set()


@pytest.mark.parametrize(("argument", "code"), [("--help", 0), ("--check", 2)])
def test_with_arguments_no_page_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argument: str, code: int
) -> None:
    page = tmp_path / "page.md"
    page.write_text("old")
    monkeypatch.setattr(command, "pages", lambda: [(page, "new")])
    monkeypatch.setattr(command, "DOCS", tmp_path)
    monkeypatch.setattr("sys.argv", ["generate", argument])
    with pytest.raises(SystemExit) as caught:
        command.main()
    assert (caught.value.code, page.read_text()) == (code, "old")
    monkeypatch.setattr("sys.argv", ["generate"])
    command.main()
    assert page.read_text() == "new"
