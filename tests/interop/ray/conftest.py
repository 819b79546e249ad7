"""Fixtures with Ray clusters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.ray.cluster import Cluster, run_cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster of four nodes."""
    yield from run_cluster(nodes=4)


@pytest.fixture
def open_cluster() -> Iterator[Cluster]:
    """A head without token authentication."""
    yield from run_cluster(nodes=0, tokens=False)
