"""A site for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.pages.site import Person, Site
from tests.interop.pages.site import site as served_site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with served_site(tmp_path) as found:
        yield found


@pytest.fixture
def ann(site: Site) -> Person:
    return site.person()
