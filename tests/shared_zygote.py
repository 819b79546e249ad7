"""One zygote for all components of a test run, instead of one for each: a start takes a tenth of a second.

Tests of process isolation start separate zygotes, as the product does: see `separate_zygotes`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from wasmrt.core.errors import RuntimeClosedError
from wasmrt.core.lifetime import Lifetime
from wasmrt.sandbox.isolation.pool.control import GoneError, unlimited_lifetime
from wasmrt.sandbox.isolation.pool.launcher import Zygote, Zygotes
from wasmrt.sandbox.isolation.wire import Kind

start_separate_zygote = Zygotes.start
_shared: list[Zygote] = []


class _Share(Zygote):
    """The children that one component has forked from the shared zygote."""

    def __init__(self) -> None:
        if not (_shared and _shared[0].is_ours):
            _shared[:] = [Zygote()]
        self._whole = _shared[0]
        self._forked: set[int] = set()
        self._is_closed = False

    def version(self, lifetime: Lifetime) -> str:
        return self._whole.version(lifetime)

    def fork(self, kind: Kind, head: dict[str, object], descriptors: list[int], lifetime: Lifetime) -> int:
        try:
            pid = self._whole.fork(kind, head, descriptors, lifetime)
        except GoneError:
            _shared.clear()  # a test killed it
            raise
        self._forked.add(pid)
        return pid

    def end(self, pid: int, lifetime: Lifetime) -> int:
        self._forked.discard(pid)
        return self._whole.end(pid, lifetime)

    @property
    def is_ours(self) -> bool:
        return not self._is_closed and self._whole.is_ours

    def close(self) -> None:
        self._is_closed = True
        while self._forked:
            self._whole.end(self._forked.pop(), unlimited_lifetime())

    def leave(self) -> None:
        self._is_closed = True


def _start_share(zygotes: Zygotes) -> Zygote:
    with zygotes._lock:
        if zygotes._closed:
            raise RuntimeClosedError("the runtime is closed")
        share = _Share()
        zygotes._started.add(share)
        return share


@pytest.fixture(scope="session", autouse=True)
def _share_zygote() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Zygotes, "start", _start_share)
        yield
    for zygote in _shared:
        zygote.close()


@contextmanager
def separate_zygotes() -> Iterator[None]:
    """Start a zygote for each component during the block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Zygotes, "start", start_separate_zygote)
        yield
