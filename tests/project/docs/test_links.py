"""Every link of a page has a target: a file of the project, a heading in it, or an https URL."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.project.docs.pages import CHANGELOG, PAGES, ROOT, named, prose

_LINK = re.compile(r"(?<!`)!?\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(?P<title>.+?) *$", re.MULTILINE)


def _links(page: Path) -> Iterator[str]:
    return (match["target"] for match in _LINK.finditer(re.sub(r"`[^`\n]*`", "", prose(page))))


def _anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, in GitHub's form."""
    found: set[str] = set()
    for match in _HEADING.finditer(prose(page)):
        title = re.sub(r"[^\w\- ]", "", match["title"].replace("`", "").lower()).replace(" ", "-")
        same = sum(1 for anchor in found if anchor == title or re.fullmatch(rf"{re.escape(title)}-\d+", anchor))
        found.add(f"{title}-{same}" if same else title)
    return found


def _problem(page: Path, link: str) -> str | None:
    if ":" in link:
        return None if link.startswith("https://") else "not an https URL"
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists() or ROOT not in (target, *target.parents):
        return "not a file of the project"
    if anchor and anchor not in _anchors(target):
        return f"no such heading; expected one of {', '.join(sorted(_anchors(target)))}"
    return None


def test_every_link_has_a_target() -> None:
    found = ((page, link, _problem(page, link)) for page in (*PAGES, CHANGELOG) for link in _links(page))
    assert [(named(page), link, problem) for page, link, problem in found if problem is not None] == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    seen, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in seen:
            continue
        seen.add(page)
        targets = ((page.parent / link.partition("#")[0]).resolve() for link in _links(page) if ":" not in link)
        waiting += [target for target in targets if target.suffix == ".md" and target.is_file()]
    assert [named(page) for page in PAGES if page not in seen] == []


def test_a_broken_link_is_detected(tmp_path: Path) -> None:
    readme = ROOT / "README.md"
    assert _problem(readme, "docs/no-such-page.md") is not None
    assert _problem(readme, "docs/glossary.md#no-such-heading") is not None
    assert _problem(readme, "http://example.com/") is not None
    assert _problem(readme, "../README.md") is not None
    assert _problem(readme, "docs/glossary.md") is None
