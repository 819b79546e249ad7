"""Generates the parts of the pages that would go stale by hand: `python -m docs.generate` from the project's folder.

A page holds each part between `<!-- generated: NAME -->` and `<!-- end -->`; the text around is written by people.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from docs.generate.border import services
from docs.generate.capability_file import sections
from docs.generate.packages import border, drawing, external_rules
from docs.generate.telemetry import names
from docs.generate.threats import threats

DOCS = Path(__file__).resolve().parents[1]
PARTS: dict[str, Callable[[], str]] = {
    "packages": drawing,
    "border": border,
    "external-rules": external_rules,
    "host-services": services,
    "threats": threats,
    "capability-file": sections,
    "telemetry": names,
}
_PART = re.compile(r"(<!-- generated: (?P<name>[\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def pages() -> Iterator[tuple[Path, str]]:
    """Yield every page that holds a generated part, with its text as it should be."""
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        if _PART.search(text):
            yield page, _PART.sub(_generate, text)


def _generate(part: re.Match[str]) -> str:
    return f"{part[1]}\n{PARTS[part['name']]().strip()}\n\n{part[3]}"
