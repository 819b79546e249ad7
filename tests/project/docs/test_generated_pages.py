"""What is generated into a page is what its source says today."""

from __future__ import annotations

from docs.generate import PARTS, pages


def test_the_generated_parts_are_up_to_date() -> None:
    stale = [page.name for page, text in pages() if page.read_text(encoding="utf-8") != text]
    assert stale == [], "run: python -m docs.generate"


def test_every_part_is_on_a_page() -> None:
    texts = [text for _, text in pages()]
    assert [name for name in PARTS if not any(f"<!-- generated: {name} -->" in text for text in texts)] == []


def test_the_drawing_shows_every_package() -> None:
    import wasmrt

    drawn = PARTS["packages"]()
    from pathlib import Path

    folder = Path(wasmrt.__file__).parent
    names = {path.parent.name for path in folder.glob("*/__init__.py")}
    assert {name for name in names if f"  {name} " not in drawn} == set()
