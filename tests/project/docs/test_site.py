"""The documentation site: its menu has every page, and it is built without a warning."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import wasmrt
from docs.site import ROOT, build, linked_files, reference

NAV = yaml.safe_load((ROOT / "docs/mkdocs.yml").read_text())["nav"]


def pages(entry: Any) -> Iterator[str]:
    """Yield the pages of a part of the menu."""
    match entry:
        case str():
            yield entry
        case dict() | list():
            for each in entry.values() if isinstance(entry, dict) else entry:
                yield from pages(each)


def test_menu_has_every_page_that_the_readme_reaches_and_no_other() -> None:
    linked = {str(file.relative_to(ROOT)) for file in linked_files(ROOT / "README.md") if file.suffix == ".md"}
    records = {name for name in linked if name.startswith("docs/adr/0")}
    assert sorted(pages(NAV)) == sorted(linked - records | {"docs/python.md"})


def test_every_page_of_the_repository_is_linked() -> None:
    linked = set(linked_files(ROOT / "README.md"))
    assert {page.name for page in (ROOT / "docs").rglob("*.md")} <= {page.name for page in linked}


def test_reference_has_every_public_name() -> None:
    assert reference().count("::: wasmrt.") == len(wasmrt.__all__)


@pytest.mark.ci("slow")
def test_site_is_built_with_working_links_and_loads_nothing_from_other_hosts(tmp_path: Path) -> None:
    build(tmp_path)
    assert "Runs untrusted tools in a sandbox" in (tmp_path / "docs/python/index.html").read_text("utf-8")
    texts = [page.read_text("utf-8") for page in tmp_path.rglob("*.html")]
    assert [host for host in ("fonts.g", "cdn", "unpkg") for text in texts if f'src="https://{host}' in text] == []
    assert (tmp_path / "search/search_index.json").is_file()
