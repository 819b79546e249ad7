"""Generate the parts of pages that are made from code: `python -m docs.generate` in the project's folder.

A page has each part between `<!-- generated: NAME -->` and `<!-- end -->`; the rest of the page is written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from docs.generate.capability_file import sections
from docs.generate.packages import areas, guest_imports
from docs.generate.settings import settings
from docs.generate.telemetry import names

DOCS = Path(__file__).resolve().parents[1]
PARTS: dict[str, Callable[[], str]] = {
    "packages": areas,
    "guest-imports": guest_imports,
    "capability-file": sections,
    "telemetry": names,
    "settings": settings,
}
_PART = re.compile(r"(<!-- generated: (?P<name>[\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def pages() -> Iterator[tuple[Path, str]]:
    """Yield every page with a generated part, and its text with the parts generated again."""
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        if _PART.search(text):
            yield page, _PART.sub(_generate, text)


def _generate(part: re.Match[str]) -> str:
    return f"{part[1]}\n{PARTS[part['name']]().strip()}\n\n{part[3]}"
