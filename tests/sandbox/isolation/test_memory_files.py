"""Sealed memfds; a held page, such as one in a pipe, keeps the kernel from sealing one."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator

import pytest

from tests.sandbox.isolation.conftest import needs_seccomp
from wasmrt.core.errors import InternalError
from wasmrt.sandbox.isolation.pool import memory
from wasmrt.sandbox.isolation.pool.memory import refusals

pytestmark = needs_seccomp

CODE = b"code" * 5_000


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


class HeldFile:
    """Fills memfds, and lets a pipe hold a page of the first ones."""

    def __init__(self, pipe: tuple[int, int], held: int) -> None:
        self.filled = 0
        self._pipe = pipe
        self._held = held

    def __call__(self, descriptor: int) -> None:
        self.filled += 1
        os.write(descriptor, CODE)
        if self.filled <= self._held:
            assert os.splice(descriptor, self._pipe[1], 4096, offset_src=0)


def test_if_a_page_is_held_another_memfd_is_filled_and_sealed(pipe: tuple[int, int]) -> None:
    fill = HeldFile(pipe, held=2)
    descriptor = memory.sealed_after(fill)
    try:
        assert fill.filled >= 3
        assert os.pread(descriptor, len(CODE) + 1, 0) == CODE
        with pytest.raises(PermissionError):
            os.pwrite(descriptor, b"other", 0)
        with pytest.raises(PermissionError):
            os.truncate(descriptor, 0)
    finally:
        os.close(descriptor)


def test_a_memfd_that_cannot_be_sealed_is_abandoned_and_closed(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_TRIES", 2)
    before = set(os.listdir("/proc/self/fd"))
    fill = HeldFile(pipe, held=9)
    with pytest.raises(InternalError, match=re.escape(os.strerror(errno.EBUSY))):
        memory.sealed_after(fill)
    assert fill.filled == 2
    assert set(os.listdir("/proc/self/fd")) <= before


def test_other_sealing_failures_are_not_retried() -> None:
    tries = []

    def fill(descriptor: int) -> None:
        tries.append(descriptor)
        raise OSError(errno.ENOSPC, "no memory is left")

    with pytest.raises(InternalError, match="no memory is left"):
        memory.sealed_after(fill)
    assert len(tries) == 1


@pytest.mark.parametrize(("number", "is_scarce"), [(errno.EMFILE, True), (errno.ENOMEM, True), (errno.ENOENT, False)])
def test_a_kernel_refusal_is_reported_with_reason_and_next_step(number: int, is_scarce: bool) -> None:
    with (
        pytest.raises(InternalError, match=f"no worker process can be started .{os.strerror(number)}") as caught,
        refusals(),
    ):
        raise OSError(number, os.strerror(number))
    assert ("close files" in str(caught.value.hint)) is is_scarce


def test_a_signal_handlers_exception_is_not_a_kernel_refusal() -> None:
    with pytest.raises(TimeoutError, match="too late"), refusals():
        raise TimeoutError("too late")
