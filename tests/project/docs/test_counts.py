"""Counts that a page gives are those of the project as it is now."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from wasmrt.testing.attacks import ATTACKS

from tests.project.docs.pages import PAGES, named


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_a_page_that_counts_the_attacks_counts_all_of_them(page: Path) -> None:
    counts = re.findall(r"\b(\d[\d,]*) (?:hostile )?attacks\b", page.read_text())
    assert set(counts) <= {str(len(ATTACKS))}
